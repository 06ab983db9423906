"""Tests of the final count of scripts/test: it includes every test that failed, crashed or was
skipped."""

from __future__ import annotations

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))

import test_report  # noqa: E402

GTEST = """[==========] Running 4 tests from 1 test suite.
[       OK ] Law.Holds (0 ms)
tests/x_test.cc:3: Skipped
no NVIDIA GPU on this machine
[  SKIPPED ] Law.OnTheGpu (0 ms)
[  SKIPPED ] Law/All.OnTheGpu/3 (0 ms)
[==========] 4 tests from 1 test suite ran. (1 ms total)
[  PASSED  ] 1 test.
[  SKIPPED ] 2 tests, listed below:
[  SKIPPED ] Law.OnTheGpu
[  SKIPPED ] Law/All.OnTheGpu/3
"""
GTEST_FAILED = (
    GTEST + "[  FAILED  ] 1 test, listed below:\n[  FAILED  ] Law.Breaks, where GetParam() = 3\n\n 1 FAILED TEST\n"
)
PYTEST = "collected 7 items\n........\n=========== 4 passed, 1 skipped, 2 failed in 3.21s ===========\n"


def junit(*cases: tuple[str, str, str]) -> str:
    rows = "".join(
        f'<testcase name="{name}" status="{status}"><system-out>{out}</system-out></testcase>'
        for name, status, out in cases
    )
    return f'<?xml version="1.0"?><testsuite name="x">{rows}</testsuite>'


class Entry(unittest.TestCase):
    def test_cases_of_googletest_are_counted_one_by_one(self) -> None:
        tally = test_report.entry_tally("dev/x", "run", GTEST)
        self.assertEqual((tally.passed, tally.failed), (1, []))
        self.assertEqual(tally.skipped, ["dev/x: Law.OnTheGpu", "dev/x: Law/All.OnTheGpu/3"])

    def test_a_failed_case_is_named(self) -> None:
        tally = test_report.entry_tally("dev/x", "fail", GTEST_FAILED)
        self.assertEqual((tally.passed, tally.failed), (1, ["dev/x: Law.Breaks"]))

    def test_an_entry_that_is_a_case_is_named_once(self) -> None:
        skipped = "[  PASSED  ] 0 tests.\n[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] Law/All.OnTheGpu/3\n"
        tally = test_report.entry_tally("dev/engine.x_test.Law/All.OnTheGpu/3", "notrun", skipped)
        self.assertEqual(tally, test_report.Tally(skipped=["dev/engine.x_test.Law/All.OnTheGpu/3"]))
        tally = test_report.entry_tally("dev/engine.x_test.Law.Breaks", "fail", GTEST_FAILED)
        self.assertEqual(tally.failed, ["dev/engine.x_test.Law.Breaks"])

    def test_an_entry_whose_case_is_gone_failed(self) -> None:
        tally = test_report.entry_tally("dev/engine.x_test.Law.Gone", "run", "[  PASSED  ] 0 tests.\n")
        self.assertEqual((tally.passed, tally.failed), (0, ["dev/engine.x_test.Law.Gone: ran no case"]))

    def test_a_program_that_crashes_counts_as_failed(self) -> None:
        for output in ("[ RUN      ] Law.Holds\n", "", GTEST):
            self.assertEqual(len(test_report.entry_tally("dev/x", "fail", output).failed), 1)

    def test_cases_of_pytest_are_counted(self) -> None:
        tally = test_report.entry_tally("dev/e2e", "fail", PYTEST)
        self.assertEqual((tally.passed, len(tally.failed), len(tally.skipped)), (4, 2, 1))

    def test_any_other_program_is_one_test(self) -> None:
        self.assertEqual(test_report.entry_tally("dev/bench", "run", "12 us"), test_report.Tally(passed=1))
        self.assertEqual(test_report.entry_tally("dev/bench", "notrun", ""), test_report.Tally(skipped=["dev/bench"]))


class Report(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.receipt = pathlib.Path(folder.name) / "receipt.json"
        patch = mock.patch.object(test_report, "RECEIPT", self.receipt)
        patch.start()
        self.addCleanup(patch.stop)

    def report(self, stages: str, files: dict[str, str], *options: str) -> tuple[int, str]:
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder)
            (results / "stages").write_text(stages, encoding="utf-8")
            for name, content in files.items():
                (results / name).write_text(content, encoding="utf-8")
            output = io.StringIO()
            with contextlib.redirect_stdout(output), mock.patch.object(sys, "argv", ["test_report", folder, *options]):
                code = test_report.main()
            return code, output.getvalue()

    def test_the_last_line_is_the_plain_count(self) -> None:
        code, output = self.report("tidy 0 2\ndev 0 9\n", {"dev.xml": junit(("a", "run", GTEST), ("b", "run", ""))})
        self.assertEqual(code, 0)
        self.assertEqual(output.splitlines()[-1], "3 passed, 0 failed, 2 skipped")

    def test_the_minutes_of_each_stage_are_printed_with_the_last_ones_and_the_budget(self) -> None:
        self.report("tidy 0 60\nlint 0 120\n", {}, "--receipt", "cold")
        self.report("tidy 0 6\n", {}, "--receipt", "warm")
        _, output = self.report("tidy 0 30\nlint 0 90\n", {})
        rows = {line.split()[0]: line.split()[-4:] for line in output.splitlines() if line.startswith(("tidy", "lint", "all"))}
        budgets = [test_report.stages.STAGES[name].minutes for name in ("tidy", "lint")]
        self.assertEqual(rows, {"tidy": ["0.5", "1.0", "0.1", f"{budgets[0]:.1f}"], "lint": ["1.5", "2.0", "-", f"{budgets[1]:.1f}"],
                                "all": ["2.0", "3.0", "-", f"{sum(budgets):.1f}"]})

    def test_a_run_with_failures_writes_no_receipt(self) -> None:
        self.report("tidy 1 60\n", {}, "--receipt", "cold")
        self.assertFalse(self.receipt.exists())

    def test_what_passed_before_counts_as_passed(self) -> None:
        known = '{"passed": 5, "skipped": ["asan/b"]}'
        code, output = self.report("dev 0 9\nasan 0 0\n", {"dev.xml": junit(("a", "run", "")), "dev.known": known, "asan.known": known})
        self.assertEqual((code, output.splitlines()[-1]), (0, "11 passed, 0 failed, 2 skipped"))
        self.assertRegex(output, r"(?m)^dev +passed +6 +5 +0 +1 ")

    def test_a_stage_that_breaks_before_its_tests_fails(self) -> None:
        code, output = self.report("dev 2 9\n", {})
        self.assertEqual(code, 1)
        self.assertIn("stage dev: exit status 2", output)
        self.assertEqual(output.splitlines()[-1], "0 passed, 1 failed, 0 skipped")

    def test_a_bad_exit_is_not_hidden_by_passing_cases(self) -> None:
        code, output = self.report("dev 8 9\n", {"dev.xml": junit(("a", "run", GTEST))})
        self.assertEqual((code, output.splitlines()[-1]), (1, "1 passed, 1 failed, 2 skipped"))

    def test_what_failed_shows_the_end_of_its_output(self) -> None:
        long = "".join(f"line {i}\n" for i in range(100))
        _, output = self.report(
            "dev 8 9\nlint 1 3\ntidy 0 1\n",
            {"dev.xml": junit(("a", "fail", long + GTEST_FAILED)), "dev.log": "not this", "lint.log": long + "x.cc:3: bad\n",
             "tidy.log": "fine"},
        )
        self.assertIn("the end of dev/a:\n", output)
        self.assertIn("1 FAILED TEST", output)
        self.assertIn("line 99\nx.cc:3: bad\n", output)
        for absent in ("line 60\n", "not this", "fine"):
            self.assertNotIn(absent, output)

    def test_unittest_output_is_counted(self) -> None:
        text = "....\nRan 9 tests in 0.1s\n\nFAILED (failures=1, errors=1, skipped=2)\n"
        code, output = self.report("scripts 1 1\n", {"scripts.unittest": text})
        self.assertEqual((code, output.splitlines()[-1]), (1, "5 passed, 2 failed, 2 skipped"))

    def test_no_test_at_all_is_a_failure(self) -> None:
        code, output = self.report("", {})
        self.assertEqual((code, output.splitlines()[-1]), (1, "0 passed, 0 failed, 0 skipped"))


if __name__ == "__main__":
    unittest.main()
