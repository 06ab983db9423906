"""Checks that every test file is named in a CMakeLists.txt of its folder or of a parent folder."""

from __future__ import annotations

import pathlib
import re

from tidy_rules.tree import Finding, Tree


def check(tree: Tree) -> list[Finding]:
    findings = []
    lists = {
        path: tree.text(path) for path in tree.files if path.startswith("tests/") and path.endswith("CMakeLists.txt")
    }
    for path in tree.files:
        if not (path.startswith("tests/") and path.endswith(("_test.cc", "_test.cu"))):
            continue
        here = pathlib.PurePosixPath(path)
        above = [(folder / "CMakeLists.txt").as_posix() for folder in here.parents]
        named = re.compile(r"(?<![\w-])" + re.escape(here.name) + r"\b")
        if not any(named.search(lists.get(candidate, "")) for candidate in above):
            findings.append(Finding(path, 1, "registration", "named in no CMakeLists.txt, so it would never run"))
    return findings
