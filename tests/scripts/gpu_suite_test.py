"""Tests of the suite of the GPU with programs that only print: every failure shows, and a receipt keeps the rows of other
runs."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PASSED = "random seed 7 (repeat with --seed=7)\\n[  PASSED  ] 5 tests.\\n"
FAILED = "[  PASSED  ] 4 tests.\\n[  FAILED  ] 1 test, listed below:\\n"


class Suite(unittest.TestCase):
    def setUp(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.folder = pathlib.Path(self._folder.name)
        self.program("gpu_test", PASSED)
        self.program("gpu_faults_test", PASSED)

    def program(self, name: str, text: str, code: int = 0) -> None:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\nprintf '{text}'\nexit {code}\n", encoding="utf-8")
        path.chmod(0o755)

    def run_suite(self, *options: str) -> tuple[int, str, list[dict[str, object]]]:
        """Returns the exit code, the output and the rows of the receipt."""
        out = self.folder / "suite.json"
        command = [sys.executable, str(ROOT / "scripts/gpu_suite"), "--bin", str(self.folder), "--out", str(out), "--commit", "abc", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        rows = json.loads(out.read_text(encoding="utf-8"))["rows"] if out.exists() else []
        return done.returncode, done.stdout + done.stderr, rows

    def test_a_row_has_the_counts_the_seed_and_the_commit(self) -> None:
        code, _, rows = self.run_suite("--only", "gpu_test:*Smoke*", "--only", "gpu_faults_test")
        self.assertEqual(code, 0)
        first = {"test": "gpu_test", "commit": "abc", "command": "./gpu_test --gtest_filter='*Smoke*'", "exit": 0, "passed": 5, "failed": 0,
                 "skipped": 0, "seed": 7}  # fmt: skip
        self.assertEqual({name: value for name, value in rows[0].items() if name != "seconds"}, first)
        self.assertEqual(rows[1]["command"], "./gpu_faults_test")

    def test_a_failure_a_lack_of_tests_and_a_missing_program_show(self) -> None:
        self.program("gpu_test", FAILED, 1)
        self.program("gpu_faults_test", "[  PASSED  ] 0 tests.\\n[  SKIPPED ] 3 tests, listed below:\\n")
        code, output, rows = self.run_suite("--only", "gpu_test", "--only", "gpu_faults_test", "--only", "property_test")
        self.assertEqual(code, 1)
        self.assertEqual([(row["passed"], row["failed"], row["skipped"]) for row in rows], [(4, 1, 0), (0, 0, 3), (0, 0, 0)])
        self.assertEqual(output.count("FAILED  "), 3)

    def test_a_check_that_did_not_run_is_no_success(self) -> None:
        code, output, rows = self.run_suite("--only", "gpu_test", "--seconds", "0")
        self.assertEqual((code, rows), (1, []))
        self.assertIn("not run gpu_test", output)

    def test_a_row_takes_the_place_of_that_of_the_same_command(self) -> None:
        self.run_suite("--only", "gpu_test", "--only", "gpu_faults_test")
        self.program("gpu_test", FAILED, 1)
        _, _, rows = self.run_suite("--only", "gpu_test", "--only", "gpu_test:*Terms*")
        self.assertEqual(sorted((row["command"], row["failed"]) for row in rows), [
            ("./gpu_faults_test", 0), ("./gpu_test --gtest_filter='*Terms*'", 1), ("./gpu_test --gtest_filter='-*Large*:*GreatBatches*'", 1)])

    def test_a_check_that_is_not_known_is_refused(self) -> None:
        code, output, _ = self.run_suite("--only", "nonsense")
        self.assertEqual(code, 1)
        self.assertIn("no check 'nonsense'; one of gpu_test", output)


if __name__ == "__main__":
    unittest.main()
