"""Tests of the stages that the options of scripts/test select."""

from __future__ import annotations

import os
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
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
        self.assertEqual(self.chosen("--all"), [*DEFAULT, "asan-ubsan", "tsan", "fuzz", "lint", *as_root])

    def test_campaigns_run_only_when_asked_for(self) -> None:
        campaigns = self.chosen("--campaigns")
        self.assertEqual(campaigns[:2], ["mutations", "crash"])
        self.assertFalse(set(campaigns) & set(self.chosen("--all")))

    def test_only_names_stages(self) -> None:
        self.assertEqual(self.chosen("--only", "lint,tidy"), ["lint", "tidy"])
        unknown = run("--only", "lnit")
        self.assertEqual(unknown.returncode, 2)
        self.assertIn("no stage 'lnit'; the stages are: tidy", unknown.stderr)

    def test_every_change_runs_all_stages(self) -> None:
        self.assertIn('scripts/test --all "$@"', (ROOT / ".ci" / "run").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
