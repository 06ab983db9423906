"""Checks the files of a configured build with clang-tidy, the pinned version."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
from concurrent import futures

from tidy_rules import lint_cache
from tidy_rules.tree import Finding, Tree

TOOL = "clang-tidy-14"
COMPLAINT = re.compile(r"^(.+?):(\d+):\d+: (?:warning|error): (.*)$", re.MULTILINE)
FILE_SECONDS_MAX = 600


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


def is_quick(path: str, deps: list[str]) -> bool:
    """Returns True for files that every run checks: the headers of GoogleTest and of gRPC take
    20 s and more per file."""
    return not path.startswith("tests/") and not any("/google/protobuf/" in dep or "/grpcpp/" in dep for dep in deps)


def lint_file(tree: Tree, build: pathlib.Path, path: str) -> list[Finding]:
    try:
        ran = subprocess.run(
            [TOOL, "--quiet", "-p", str(build), str(tree.root / path)],
            cwd=tree.root,
            check=False,
            capture_output=True,
            text=True,
            timeout=FILE_SECONDS_MAX,
        )
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
    wanted = [path for path in commands if everything or is_quick(path, deps[path])]
    keys = {path: cache.key(commands[path], deps[path]) for path in wanted}
    chosen = sorted(path for path, key in keys.items() if not cache.is_clean(key))
    print(f"tidy: {TOOL} on {len(chosen)} files; {len(wanted) - len(chosen)} have not changed since they passed", flush=True)
    if len(wanted) < len(commands):
        print(f"tidy: {len(commands) - len(wanted)} tests and files that include gRPC are checked only with --all", flush=True)

    def lint(path: str) -> list[Finding]:
        findings = lint_file(tree, build, path)
        if not findings:
            cache.add_clean(keys[path])
        return findings

    with futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return sorted({finding for findings in pool.map(lint, chosen) for finding in findings}, key=str)
