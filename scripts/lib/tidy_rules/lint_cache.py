"""Remembers the sources without findings of clang-tidy, by the contents of all their inputs.

The folder lies next to ccache's. A source is not checked again if its text, headers, compile command,
rules and linter are the same as in an earlier check without findings.
"""

from __future__ import annotations

import functools
import hashlib
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


def read_deps(command: list[str], build: pathlib.Path) -> list[str]:
    """Returns the paths of the files that a compile command reads; none if its compiler reports an
    error."""
    words = [word for word in command if word != "ccache" and not word.endswith("/ccache")]
    if "-o" in words:
        del words[words.index("-o"):words.index("-o") + 2]
    ran = run_tool(*words, "-M", cwd=build)
    if ran.returncode != 0:
        return []
    return ran.stdout.replace("\\\n", " ").split(": ", 1)[1].split()


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
        """Identifies a file of the checkout by its text, any other file by its size and time."""
        known = pathlib.Path(path)
        if known.is_relative_to(self.root):
            text = known.read_bytes().replace(bytes(self.root), b".")
            return f"{known.relative_to(self.root)} {hashlib.sha256(text).hexdigest()}"
        state = known.stat()
        return f"{path} {state.st_size} {state.st_mtime_ns}"

    def key(self, command: list[str], build: pathlib.Path) -> str:
        """Returns a name for the check of one source; empty if its includes are not known."""
        deps = read_deps(command, build)
        if not deps:
            return ""
        parts = [self.rules, " ".join(command).replace(str(self.root), ".")]
        parts += sorted(self.content(str((build / path).resolve())) for path in deps)
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
