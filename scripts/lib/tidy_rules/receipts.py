"""Checks that receipts of measurements name commits of the history, so that a reader finds the code
that was measured; and that no stage of scripts/test takes far longer than its budget."""

from __future__ import annotations

import json
import re

from stages import STAGES
from tidy_rules.tree import Finding, Tree, run_tool

FOLDER = "tests/bench/receipts/"
STAGE_TIMES = FOLDER + "test_stages_2_cores.json"
OVER_BUDGET_MAX = 1.5
NAMED = re.compile(r'"commit": "([^"]*)"')
COMMIT = re.compile(r"\b[0-9a-f]{7,40}\b")


def in_history(tree: Tree, commit: str) -> bool:
    return run_tool("git", "-C", str(tree.root), "merge-base", "--is-ancestor", commit, "HEAD").returncode == 0


def check_stage_times(tree: Tree) -> list[Finding]:
    """Finds stages that took more than their budget and half of it with cold caches."""
    if STAGE_TIMES not in tree.files:
        return []
    seconds = json.loads("\n".join(tree.lines(STAGE_TIMES))).get("cold", {}).get("seconds", {})
    return [
        Finding(STAGE_TIMES, 1, "receipts", f"stage {stage} took {took / 60:.1f} minutes; its budget is {STAGES[stage].minutes:g}")
        for stage, took in seconds.items()
        if stage in STAGES and took > 60 * OVER_BUDGET_MAX * STAGES[stage].minutes
    ]


def check(tree: Tree) -> list[Finding]:
    """Finds receipts whose commit is missing; in a shallow clone, only those that name no commit."""
    shallow = run_tool("git", "-C", str(tree.root), "rev-parse", "--is-shallow-repository").stdout.strip() == "true"
    findings = check_stage_times(tree)
    for path in tree.files:
        if not path.startswith(FOLDER):
            continue
        for number, line in enumerate(tree.lines(path), 1):
            for text in NAMED.findall(line):
                commits = COMMIT.findall(text)
                if not commits:
                    findings.append(Finding(path, number, "receipts", f"'{text}' names no commit"))
                findings += [
                    Finding(path, number, "receipts", f"commit {commit} is not in the history: measure again")
                    for commit in commits
                    if not shallow and not in_history(tree, commit)
                ]
    return findings
