"""Remembers the sources without findings of clang-tidy, by the contents of all their inputs.

A source is not checked again if its text, headers, compile command, rules and linter are the same as
in an earlier check without findings.
"""

from __future__ import annotations

import pathlib

from result_cache import Contents, ResultCache, key_of
from tidy_rules.tree import run_tool


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
        self.root = root
        self.results = ResultCache(folder)
        self.contents = Contents(root)
        version = run_tool(tool, "--version").stdout
        self.rules = version + (root / ".clang-tidy").read_text(encoding="utf-8")

    def key(self, command: list[str], build: pathlib.Path) -> str:
        """Returns a name for the check of one source; empty if its includes are not known."""
        deps = read_deps(command, build)
        if not deps:
            return ""
        parts = [self.rules, " ".join(command).replace(str(self.root), ".")]
        parts += sorted(self.contents.file((build / path).resolve()) for path in deps)
        return key_of(parts)

    def is_clean(self, key: str) -> bool:
        return self.results.find(key) is not None

    def add_clean(self, key: str) -> None:
        self.results.add(key)
