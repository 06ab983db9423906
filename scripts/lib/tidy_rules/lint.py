"""clang-tidy, the pinned version, over the files of a configured build."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
from concurrent import futures

from tidy_rules.tree import Finding, Tree

TOOL = "clang-tidy-14"
COMPLAINT = re.compile(r"^(.+?):(\d+):\d+: (?:warning|error): (.*)$", re.MULTILINE)
FILE_SECONDS_MAX = 600


def compile_commands(tree: Tree, build: pathlib.Path) -> dict[str, str]:
    """The C++ sources of the tree that this build compiles, with their commands."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if path.suffix == ".cc" and path.is_relative_to(tree.root):
            commands[path.relative_to(tree.root).as_posix()] = entry["command"]
    return {path: command for path, command in commands.items() if path in tree.files}


def includes_grpc(build: pathlib.Path, command: str) -> bool:
    """Whether the file's last compilation read gRPC's or protobuf's headers (from the depfile beside its object)."""
    output = re.search(r"\s-o\s+(\S+)", command)
    if output is None:
        return False
    known = subprocess.run(
        ["ninja", "-C", str(build), "-t", "deps", output.group(1)], check=False, capture_output=True, text=True
    ).stdout
    return "/google/protobuf/" in known or "/grpcpp/" in known


def is_quick(build: pathlib.Path, path: str, command: str) -> bool:
    """What every run can afford: the headers of GoogleTest and of gRPC take 20 s and more a file."""
    return not path.startswith("tests/") and not includes_grpc(build, command)


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
        return [Finding(path, 1, "lint", f"{TOOL} took over {FILE_SECONDS_MAX} s")]
    findings = []
    for file, line, message in COMPLAINT.findall(ran.stdout):
        shown = os.path.relpath(file, tree.root) if os.path.isabs(file) else file
        findings.append(Finding(shown, int(line), "lint", message))
    if ran.returncode != 0 and not findings:
        findings.append(Finding(path, 1, "lint", f"{TOOL} failed: {(ran.stderr.strip().splitlines() or ['?'])[-1]}"))
    return findings


def check(tree: Tree, build: pathlib.Path, everything: bool) -> list[Finding]:
    if shutil.which(TOOL) is None:
        return [Finding(".clang-tidy", 1, "lint", f"{TOOL} is not installed: run scripts/setup --test")]
    if not (build / "compile_commands.json").exists():
        return [Finding(".clang-tidy", 1, "lint", f"{build} is not configured: cmake --preset dev")]
    commands = compile_commands(tree, build)
    chosen = sorted(path for path, command in commands.items() if everything or is_quick(build, path, command))
    left = len(commands) - len(chosen)
    print(
        f"tidy: {TOOL} on {len(chosen)} files" + (f"; {left} tests and users of gRPC only with --all" if left else ""),
        flush=True,
    )
    with futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(lambda path: lint_file(tree, build, path), chosen)
        return sorted({finding for findings in found for finding in findings}, key=str)
