"""Tests of README.md: its tables are those of the receipts, its links lead somewhere, it is short, and
it names the two commands."""

from __future__ import annotations

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))

import readme_tables  # noqa: E402

LINES_MAX = 120
LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def anchors(text: str) -> set[str]:
    """Returns the anchors that GitHub makes of the headings."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


class ReadmeTest(unittest.TestCase):
    def test_the_tables_are_those_of_the_receipts(self) -> None:
        self.assertEqual(readme_tables.expected(README), README, "run scripts/readme_tables --write")

    def test_a_changed_figure_is_found(self) -> None:
        changed = README.replace(" us, p99", " us; p99").replace(" ms | ", " s | ")
        self.assertNotEqual(changed, README)
        self.assertEqual(readme_tables.expected(changed), README)

    def test_a_share_is_never_rounded_to_all_or_none(self) -> None:
        self.assertEqual([readme_tables.percent(share) for share in (0, 0.0001, 0.5, 0.99999, 1)], ["0%", "0.1%", "50.0%", "99.9%", "100%"])

    def test_it_is_short_and_names_the_two_commands(self) -> None:
        self.assertLessEqual(len(README.splitlines()), LINES_MAX)
        for command in ("    scripts/demo ", "    scripts/test "):
            self.assertIn(f"\n{command}", README)

    def test_its_links_lead_somewhere(self) -> None:
        links = LINK.findall(README)
        self.assertGreater(len(links), 10)
        for path, anchor in links:
            target = ROOT / (path or "README.md")
            self.assertTrue(target.exists(), path)
            if anchor:
                self.assertIn(anchor, anchors(target.read_text(encoding="utf-8")), path)


if __name__ == "__main__":
    unittest.main()
