"""Checks the files of a configured build with clang-tidy, the pinned version.

Every run checks the locks of all production files (-Wthread-safety, from .clang-tidy).
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
from concurrent import futures

from tidy_rules import lint_cache
from tidy_rules.tree import Finding, Tree, run_tool

TOOL = "clang-tidy-14"
COMPLAINT = re.compile(r"^(.+?):(\d+):\d+: (?:warning|error): (.*)$", re.MULTILINE)
FILE_SECONDS_MAX = 600
# The checks of .clang-tidy, and those of a file that is checked for its locks alone. clang-tidy does
# not run without a check of its own, so the second list has one that costs nothing.
ALL_CHECKS = ""
LOCK_CHECKS = "-*,clang-diagnostic-thread-safety*,google-global-names-in-headers"


def compile_commands(tree: Tree, build: pathlib.Path) -> dict[str, str]:
    """Returns the C++ sources of the tree that this build compiles, with their commands."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if path.suffix == ".cc" and path.is_relative_to(tree.root):
            commands[path.relative_to(tree.root).as_posix()] = entry["command"]
    return {path: command for path, command in commands.items() if path in tree.files}


def object_of(command: str) -> str:
    output = re.search(r"\s-o\s+(\S+)", command)
    return output.group(1) if output else ""


def checks_of(path: str, deps: list[str]) -> str | None:
    """Returns the checks of a file in a run without --all; None if it is not checked then. All checks
    take 20 s and more per file with the headers of GoogleTest or gRPC."""
    if path.startswith("tests/"):
        return None
    return LOCK_CHECKS if any("/google/protobuf/" in dep or "/grpcpp/" in dep for dep in deps) else ALL_CHECKS


def lint_file(tree: Tree, build: pathlib.Path, path: str, checks: str = ALL_CHECKS) -> list[Finding]:
    try:
        ran = run_tool(TOOL, "--quiet", f"--checks={checks}", "-p", str(build), str(tree.root / path),
                       cwd=tree.root, timeout=FILE_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return [Finding(path, 1, "lint", f"{TOOL} took more than {FILE_SECONDS_MAX} s")]
    findings = []
    for file, line, message in COMPLAINT.findall(ran.stdout):
        shown = os.path.relpath(file, tree.root) if os.path.isabs(file) else file
        findings.append(Finding(shown, int(line), "lint", message))
    if ran.returncode != 0 and not findings:
        findings.append(Finding(path, 1, "lint", f"{TOOL} failed: {(ran.stderr.strip().splitlines() or ['?'])[-1]}"))
    return findings


def check(tree: Tree, build: pathlib.Path, everything: bool, cache_folder: pathlib.Path | None = None) -> list[Finding]:
    if shutil.which(TOOL) is None:
        return [Finding(".clang-tidy", 1, "lint", f"{TOOL} is not installed: run scripts/setup --test")]
    if not (build / "compile_commands.json").exists():
        return [Finding(".clang-tidy", 1, "lint", f"{build} is not configured: cmake --preset dev")]
    commands = compile_commands(tree, build)
    all_deps = lint_cache.read_deps(build.resolve())
    deps = {path: all_deps.get(object_of(command), []) for path, command in commands.items()}
    cache = lint_cache.LintCache(cache_folder or lint_cache.default_folder(), tree.root, TOOL)
    checks = {path: ALL_CHECKS if everything else checks_of(path, deps[path]) for path in commands}
    keys = {
        path: cache.key(checks[path] + command, deps[path]) for path, command in commands.items() if checks[path] is not None
    }
    chosen = sorted(path for path, key in keys.items() if not cache.is_clean(key))
    print(f"tidy: {TOOL} on {len(chosen)} files; {len(keys) - len(chosen)} have not changed since they passed", flush=True)
    if not everything:
        print(
            f"tidy: without --all, {len(commands) - len(keys)} tests are not checked, and "
            f"{list(checks.values()).count(LOCK_CHECKS)} files that include gRPC only for their locks",
            flush=True,
        )

    def lint(path: str) -> list[Finding]:
        findings = lint_file(tree, build, path, checks[path])
        if not findings:
            cache.add_clean(keys[path])
        return findings

    with futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return sorted({finding for findings in pool.map(lint, chosen) for finding in findings}, key=str)
