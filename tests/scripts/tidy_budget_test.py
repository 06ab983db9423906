"""Tests the rule of scripts/tidy about lines of production code, with planted folders."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from tidy_test import PlantedTree  # noqa: E402
from tidy_rules import budget, tree  # noqa: E402


class Budget(PlantedTree):
    def folders(self, *budgets: str) -> tree.Tree:
        """Plants 3 lines in engine, 2 lines below it, 4 lines of tests, and these budgets."""
        files = {"engine/a.cc": "1\n2\n", "engine/b.h": "1\n", "engine/DESIGN.md": "no code\n" * 9,
                 "engine/below/c.cu": "1\n2\n", "tests/d.cc": "1\n" * 4}  # fmt: skip
        return self.plant(files | {budget.BUDGETS: "".join(line + "\n" for line in budgets)})

    def test_a_folder_may_reach_its_budget(self) -> None:
        self.assert_finds(budget.check(self.folders("engine 3", "engine/below 2")))

    def test_a_folder_above_its_budget_is_found(self) -> None:
        findings = budget.check(self.folders("engine 2", "engine/below 1"))
        self.assert_finds(findings, "engine:1: 3 lines of production code; at most 2", "engine/below:1: 2 lines")

    def test_a_folder_without_a_budget_is_found(self) -> None:
        self.assert_finds(budget.check(self.folders("engine 3")), "engine/below:1: 2 lines without a budget")

    def test_a_budget_without_a_folder_is_found(self) -> None:
        planted = self.folders("engine 3", "engine/below 2", "engine/gone 50")
        self.assert_finds(budget.check(planted), f"{budget.BUDGETS}:3: engine/gone has no production code")

    def test_written_budgets_are_the_next_fifty_and_accepted(self) -> None:
        planted = self.plant({"engine/a.cc": "1\n" * 49, "server/b.cc": "1\n" * 50, budget.BUDGETS: ""})
        budget.write(planted)
        written = tree.Tree(self.root)
        self.assertEqual(budget.read(written), {"engine": 50, "server": 100})
        self.assert_finds(budget.check(written))
        self.assertIn("all production code                      99 lines, at most    150", budget.table(written))
