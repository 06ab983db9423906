"""Checks the table of faults (tests/fault/README.md): every row has a promise and a test, and every
test exists."""

from __future__ import annotations

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "tests/fault/README.md"
NAMED = re.compile(r"`([^`]+)`")
GTEST = re.compile(r"^TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)", re.MULTILINE)


def existing() -> set[str]:
    """Returns the names of all tests, in the forms that the table uses."""
    names = set()
    for path in (ROOT / "tests").rglob("*_test.c[cu]"):
        names |= {f"{suite}.{case}" for suite, case in GTEST.findall(path.read_text(encoding="utf-8"))}
    for path in (ROOT / "tests").rglob("test_*.py"):
        found = re.findall(r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
        names |= {f"{path.name}::{name}" for name in found}
    entries = re.findall(r"nearfield_command_test\((\w+) ", (ROOT / "tests/fault/CMakeLists.txt").read_text(encoding="utf-8"))
    return names | {f"fault.{entry}" for entry in entries}


def problems(text: str, tests: set[str]) -> list[str]:
    """Returns what is wrong with the tables of a document."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("| ") or line.startswith(("| Fault |", "| --- |")):
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 3 or not all(cells):
            found.append(f"line {number}: fault, promise and test are needed")
            continue
        named = NAMED.findall(cells[2])
        if not named:
            found.append(f"line {number}: no test")
        found += [f"line {number}: no test {name}" for name in named if name not in tests and not (ROOT / name).is_file()]
    return found


class FaultTable(unittest.TestCase):
    def test_every_row_has_tests_that_exist(self) -> None:
        text = TABLE.read_text(encoding="utf-8")
        self.assertGreater(text.count("\n| "), 40)
        self.assertEqual(problems(text, existing()), [])

    def test_open_rows_and_missing_tests_are_found(self) -> None:
        tests = {"Suite.Case", "test_a.py::test_b"}
        self.assertEqual(problems("| a fault | a promise | `Suite.Case` `test_a.py::test_b` |", tests), [])
        for row, problem in (
            ("| a fault | a promise | |", "fault, promise and test are needed"),
            ("| a fault |  | `Suite.Case` |", "fault, promise and test are needed"),
            ("| a fault | a promise | to be written |", "no test"),
            ("| a fault | a promise | `Suite.Other` |", "no test Suite.Other"),
            ("| a fault | a promise | `tests/fuzz/none.cc` |", "no test tests/fuzz/none.cc"),
        ):
            self.assertEqual(problems(row, tests), [f"line 1: {problem}"], row)


if __name__ == "__main__":
    unittest.main()
