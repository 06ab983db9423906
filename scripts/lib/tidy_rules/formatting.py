"""Checks every C++ and CUDA file with clang-format, the pinned version."""

from __future__ import annotations

import os
import re
import shutil
from concurrent import futures

from tidy_rules.tree import Finding, Tree, run_tool

TOOL = "clang-format-14"
FILES_PER_CALL = 20
COMPLAINT = re.compile(r"^(.+?):(\d+):\d+: error: code should be clang-formatted", re.MULTILINE)


def check(tree: Tree) -> list[Finding]:
    if not tree.cxx:
        return []
    if shutil.which(TOOL) is None:
        return [Finding(".clang-format", 1, "format", f"{TOOL} is not installed: run scripts/setup --test")]

    def run(paths: list[str]) -> str:
        return run_tool(TOOL, "--dry-run", "-Werror", *paths, cwd=tree.root).stderr

    groups = [tree.cxx[i : i + FILES_PER_CALL] for i in range(0, len(tree.cxx), FILES_PER_CALL)]
    with futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = "".join(pool.map(run, groups))
    first: dict[str, int] = {}
    for path, line in COMPLAINT.findall(complaints):
        first.setdefault(path, int(line))
    return [
        Finding(path, line, "format", f"not as {TOOL} formats it: {TOOL} -i {path}") for path, line in first.items()
    ]
