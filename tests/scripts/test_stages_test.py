"""Tests of the stages of scripts/test: which ones its options select, and when one is not run again."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))

import result_cache  # noqa: E402
import stages  # noqa: E402

DEFAULT = ["tidy", "scripts", "dev"]


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(ROOT / "scripts" / "test"), *options, "--list"], check=False, capture_output=True, text=True
    )


class Stages(unittest.TestCase):
    def chosen(self, *options: str) -> list[str]:
        listed = run(*options)
        self.assertEqual(listed.returncode, 0, listed.stderr)
        return listed.stdout.splitlines()

    def test_without_options_the_quick_stages_run(self) -> None:
        self.assertEqual(self.chosen(), DEFAULT)

    def test_all_adds_sanitizers_lint_packages_and_container_but_no_campaign(self) -> None:
        as_root = ["packages", "container"] if os.geteuid() == 0 else []
        self.assertEqual(self.chosen("--all"), [*DEFAULT, "ray", "deploy", "asan", "tsan", "fuzz", "lint", *as_root])

    def test_campaigns_run_only_when_asked_for(self) -> None:
        campaigns = self.chosen("--campaigns")
        self.assertEqual(campaigns[:2], ["mutations", "crash"])
        self.assertFalse(set(campaigns) & set(self.chosen("--all")))

    def test_only_names_stages(self) -> None:
        self.assertEqual(self.chosen("--only", "lint,tidy"), ["lint", "tidy"])
        unknown = run("--only", "lnit")
        self.assertEqual(unknown.returncode, 2)
        self.assertIn("no stage 'lnit'; the stages are: tidy", unknown.stderr)

    def test_every_stage_has_a_budget(self) -> None:
        self.assertLessEqual(set(self.chosen("--all")), set(stages.STAGES))

    def test_every_change_runs_all_stages(self) -> None:
        self.assertIn('scripts/test --all "$@"', (ROOT / ".ci" / "run").read_text(encoding="utf-8"))


class Inputs(unittest.TestCase):
    """The stages whose files a change touches run again."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        subprocess.run(["git", "clone", "--quiet", "--local", str(ROOT), str(self.root / "checkout")], check=True)
        for name, value in (("ROOT", self.root / "checkout"), ("cache", lambda: result_cache.ResultCache(self.root / "cache"))):
            patch = mock.patch.object(stages, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def changed_by(self, file: str) -> set[str]:
        """Returns the stages with files whose keys a change of one file changes."""
        with_files = [name for name, stage in stages.STAGES.items() if stage.files]
        before = {name: stages.key(name) for name in with_files}
        path = self.root / "checkout" / file
        text = path.read_bytes()
        path.write_bytes(text + b"\n")
        try:
            return {name for name in with_files if stages.key(name) != before[name]}
        finally:
            path.write_bytes(text)

    def test_a_change_without_cpp_skips_the_stages_of_cpp(self) -> None:
        sanitized = {"asan", "tsan", "fuzz", "lint"}
        shipped = {"packages", "container"}
        for file, expected in (
            ("client/python/nearfield/__init__.py", {"packages"}),
            ("tests/conftest.py", set()),
            ("tests/environment/run", set()),
            ("README.md", shipped),
            ("tests/container/image_test.py", {"container"}),
            ("engine/base/check.h", sanitized | shipped),
            ("tests/server/tls_test.cc", sanitized),
            ("server/DESIGN.md", {"packages"}),
            (".clang-tidy", {"lint"}),
        ):
            self.assertEqual(self.changed_by(file), expected, file)

    def test_a_stage_that_passed_is_found_until_its_files_change(self) -> None:
        results = self.root / "results"
        results.mkdir()

        def find(*options: str) -> int:
            with mock.patch.object(sys, "argv", ["stages.py", "find", "asan", str(results), *options]):
                return stages.main()

        self.assertEqual(find(), 1)
        stages.remember("asan", results, stages.Known(7, ["a"]))
        self.assertEqual(find("--no-result-cache"), 1)
        self.assertEqual(find(), 0)
        self.assertEqual(stages.Known.read(results / "asan.known"), stages.Known(7, ["a"]))
        (self.root / "checkout/engine/new.cc").write_text("int a;\n", encoding="utf-8")
        self.assertEqual(find(), 1)

    def test_a_stage_without_files_always_runs(self) -> None:
        stages.remember("dev", self.root, stages.Known(7))
        with mock.patch.object(sys, "argv", ["stages.py", "find", "dev", str(self.root)]):
            self.assertEqual(stages.main(), 1)


if __name__ == "__main__":
    unittest.main()
