"""Checks that the production code of each folder stays within its committed number of lines.

budgets.txt holds a line per folder: the folder and its maximum. `scripts/tidy --write-budgets`
rewrites it from the present counts.
"""

from __future__ import annotations

import collections
import posixpath

from tidy_rules.tree import Finding, Tree

BUDGETS = "scripts/lib/tidy_rules/budgets.txt"
PRODUCTION = ("proto/", "engine/", "server/", "client/")
STEP = 50  # a new budget is the next multiple above the present count


def count(tree: Tree) -> dict[str, int]:
    """Returns the lines of code in each production folder, without those of its subfolders."""
    lines: collections.Counter[str] = collections.Counter()
    for path in tree.code:
        if path.startswith(PRODUCTION):
            lines[posixpath.dirname(path)] += len(tree.lines(path))
    return dict(sorted(lines.items()))


def read(tree: Tree) -> dict[str, int]:
    if BUDGETS not in tree.files:
        return {}
    return {folder: int(most) for folder, most in (line.split() for line in tree.lines(BUDGETS))}


def write(tree: Tree) -> None:
    budgets = {folder: (lines // STEP + 1) * STEP for folder, lines in count(tree).items()}
    text = "".join(f"{folder} {most}\n" for folder, most in budgets.items())
    (tree.root / BUDGETS).write_text(text, encoding="utf-8")


def table(tree: Tree) -> str:
    """Formats the lines and the budget of each folder."""
    counts, budgets = count(tree), read(tree)
    rows = [(folder, lines, budgets.get(folder, 0)) for folder, lines in counts.items()]
    rows.append(("all production code", sum(counts.values()), sum(budgets.values())))
    return "\n".join(f"{folder:<36} {lines:>6} lines, at most {most:>6}" for folder, lines, most in rows)


def check(tree: Tree) -> list[Finding]:
    counts, budgets = count(tree), read(tree)
    findings = []
    for folder, lines in counts.items():
        if folder not in budgets:
            findings.append(Finding(folder, 1, "budget", f"{lines} lines without a budget in {BUDGETS}"))
        elif lines > budgets[folder]:
            findings.append(Finding(folder, 1, "budget", f"{lines} lines of production code; at most {budgets[folder]}"))
    for number, folder in enumerate(budgets, 1):
        if folder not in counts:
            findings.append(Finding(BUDGETS, number, "budget", f"{folder} has no production code"))
    return findings
