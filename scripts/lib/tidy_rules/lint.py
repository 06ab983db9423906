"""Checks the sources of a configured build with clang-tidy, the pinned version.

The preset lint configures such a build: it joins up to 32 files to one source, because clang-tidy
spends most of its time on the headers of libraries.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
from concurrent import futures

from result_cache import default_folder
from tidy_rules import lint_cache
from tidy_rules.tree import Finding, Tree, run_tool

TOOL = "clang-tidy-14"
COMPLAINT = re.compile(r"^(.+?):(\d+):\d+: (?:warning|error): (.*)$", re.MULTILINE)
JOINED_FILE = re.compile(r'^#include "(.+)"$', re.MULTILINE)
FILE_SECONDS_MAX = 600


def joined_files(path: pathlib.Path) -> list[str]:
    """Returns the files that a source joins, or itself."""
    return JOINED_FILE.findall(path.read_text(encoding="utf-8")) if path.suffix == ".cxx" else [str(path)]


def compile_commands(tree: Tree, build: pathlib.Path) -> dict[pathlib.Path, list[str]]:
    """Returns the C++ sources of this build, by path, that are files of the tree or join some, with
    their commands."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if path.suffix != ".cu" and any(os.path.relpath(file, tree.root) in tree.files for file in joined_files(path)):
            commands[path] = entry["command"].split()
    return commands


def lint_file(tree: Tree, build: pathlib.Path, path: pathlib.Path) -> list[Finding]:
    shown = os.path.relpath(path, tree.root)
    try:
        ran = run_tool(TOOL, "--quiet", "-p", str(build), str(path), cwd=tree.root, timeout=FILE_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return [Finding(shown, 1, "lint", f"{TOOL} took more than {FILE_SECONDS_MAX} s")]
    findings = []
    for file, line, message in COMPLAINT.findall(ran.stdout):
        complained = os.path.relpath(file, tree.root) if os.path.isabs(file) else file
        findings.append(Finding(complained, int(line), "lint", message))
    if ran.returncode != 0 and not findings:
        findings.append(Finding(shown, 1, "lint", f"{TOOL} failed: {(ran.stderr.strip().splitlines() or ['?'])[-1]}"))
    return findings


def check(tree: Tree, build: pathlib.Path, cache_folder: pathlib.Path | None = None) -> list[Finding]:
    if shutil.which(TOOL) is None:
        return [Finding(".clang-tidy", 1, "lint", f"{TOOL} is not installed: run scripts/setup --test")]
    if not (build / "compile_commands.json").exists():
        return [Finding(".clang-tidy", 1, "lint", f"{build} is not configured: cmake --preset lint")]
    build = build.resolve()
    commands = compile_commands(tree, build)
    cache = lint_cache.LintCache(cache_folder or default_folder("nearfield-lint"), tree.root, TOOL)
    with futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        keys = dict(zip(commands, pool.map(lambda command: cache.key(command, build), commands.values())))
        # The longest first: all cores are busy to the end.
        chosen = sorted((path for path, key in keys.items() if not cache.is_clean(key)), key=lambda path: len(joined_files(path)), reverse=True)
        print(f"tidy: {TOOL} on {len(chosen)} sources; {len(keys) - len(chosen)} have not changed since they passed",
              flush=True)

        def lint(path: pathlib.Path) -> list[Finding]:
            findings = lint_file(tree, build, path)
            if not findings:
                cache.add_clean(keys[path])
            return findings

        return sorted({finding for findings in pool.map(lint, chosen) for finding in findings}, key=str)
