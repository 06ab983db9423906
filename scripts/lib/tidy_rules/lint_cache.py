"""Remembers the files without findings of clang-tidy, by the contents of all its inputs.

The folder lies next to ccache's. A file is not checked again if its text, headers, compile command,
rules and linter are the same as in an earlier check without findings.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pathlib
import time

from tidy_rules.tree import run_tool

UNUSED_DAYS_MAX = 30


def default_folder() -> pathlib.Path:
    """Returns a folder next to ccache's, or in the user's cache folder if there is no ccache."""
    try:
        found = run_tool("ccache", "--get-config", "cache_dir").stdout.strip()
    except FileNotFoundError:
        found = ""
    return pathlib.Path(found or pathlib.Path.home() / ".cache/ccache").parent / "nearfield-lint"


def read_deps(build: pathlib.Path) -> dict[str, list[str]]:
    """Returns the files from which each object was made, as recorded by ninja, as absolute
    paths."""
    try:
        ran = run_tool("ninja", "-C", str(build), "-t", "deps")
    except FileNotFoundError:
        return {}
    deps: dict[str, list[str]] = {}
    current: list[str] = []
    for line in ran.stdout.splitlines():
        if line.startswith("    "):
            current.append(os.path.normpath(os.path.join(build, line.strip())))
        elif ": #deps " in line:
            current = deps.setdefault(line.split(": #deps ")[0], [])
    return deps


class LintCache:
    """The cache of checks without findings. Thread safety: several threads may call the methods."""

    def __init__(self, folder: pathlib.Path, root: pathlib.Path, tool: str) -> None:
        self.folder = folder
        self.root = root
        version = run_tool(tool, "--version").stdout
        self.rules = version + (root / ".clang-tidy").read_text(encoding="utf-8")
        self.folder.mkdir(parents=True, exist_ok=True)
        for entry in self.folder.iterdir():
            if entry.stat().st_mtime < time.time() - UNUSED_DAYS_MAX * 86400:
                entry.unlink(missing_ok=True)

    @functools.cache
    def content(self, path: str) -> str:
        """Identifies a file of the tree by its text, any other file by its size and time."""
        known = pathlib.Path(path)
        if known.is_relative_to(self.root):
            return f"{known.relative_to(self.root)} {hashlib.sha256(known.read_bytes()).hexdigest()}"
        state = known.stat()
        return f"{path} {state.st_size} {state.st_mtime_ns}"

    def key(self, command: str, deps: list[str]) -> str:
        """Returns a name for the check of one file; empty if its includes are not known."""
        if not deps:
            return ""
        parts = [self.rules, command.replace(str(self.root), ".")]
        try:
            parts += sorted(self.content(path) for path in deps)
        except OSError:
            return ""
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def is_clean(self, key: str) -> bool:
        entry = self.folder / key
        if not key or not entry.exists():
            return False
        entry.touch()
        return True

    def add_clean(self, key: str) -> None:
        if key:
            (self.folder / key).touch()
