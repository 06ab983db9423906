"""The files of a checkout, read once, and the rule about entries in its root."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import re
import subprocess

TOP_LEVEL = frozenset(
    "proto server engine client deploy tests scripts CMakeLists.txt Dockerfile README.md CMakePresets.json CHANGELOG.md "
    "LICENSE .clang-format .clang-tidy .gitignore .dockerignore .gitattributes .editorconfig .ci".split()
)
FILE_BYTES_MAX = 6_000_000
CXX_SUFFIXES = frozenset([".h", ".cc", ".cu", ".cuh"])
CODE_SUFFIXES = CXX_SUFFIXES | {".py", ".sh", ".cmake", ".proto"}
ALLOWED = re.compile(r"tidy: allow\(([\w-]+)\): \S")


@dataclasses.dataclass(frozen=True)
class Finding:
    """One broken rule, printed in the form of compilers: path:line: message."""

    path: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message} [{self.rule}]"


def run_tool(*command: str, cwd: pathlib.Path | None = None, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a tool whose exit code its caller checks; keeps its output."""
    return subprocess.run(command, cwd=cwd, timeout=timeout, check=False, capture_output=True, text=True)


class Tree:
    """A checkout: the files that git tracks or would track, as paths relative to its root."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        command = ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        listed = subprocess.run(command, check=True, capture_output=True).stdout.decode().split("\0")
        self.files = sorted({path for path in listed if path and (root / path).is_file()})

    @functools.cached_property
    def cxx(self) -> list[str]:
        return [path for path in self.files if pathlib.PurePath(path).suffix in CXX_SUFFIXES]

    @functools.cached_property
    def code(self) -> list[str]:
        """All files of code, including scripts without a suffix."""
        return [
            path
            for path in self.files
            if pathlib.PurePath(path).suffix in CODE_SUFFIXES
            or pathlib.PurePath(path).name in ("CMakeLists.txt", "Dockerfile")
            or self.shebang(path)
        ]

    def shebang(self, path: str) -> str:
        """Returns the first line of a file without a suffix if it names an interpreter, else an
        empty string."""
        if pathlib.PurePath(path).suffix:
            return ""
        with open(self.root / path, "rb") as opened:
            first = opened.readline(200)
        return first.decode(errors="replace").strip() if first.startswith(b"#!") else ""

    @functools.cache
    def text(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8", errors="replace")

    def lines(self, path: str) -> list[str]:
        return self.text(path).splitlines()


def allowed(line: str, rule: str) -> bool:
    """Returns True if the line states that it breaks this rule, and why."""
    return any(name == rule for name in ALLOWED.findall(line))


def check_layout(tree: Tree) -> list[Finding]:
    """Checks that the top-level entries are fixed and that no large file is tracked."""
    findings = []
    for entry in sorted({path.split("/")[0] for path in tree.files} - TOP_LEVEL):
        findings.append(Finding(entry, 1, "layout", "top-level entry outside the fixed layout"))
    for path in tree.files:
        size = (tree.root / path).stat().st_size
        if size > FILE_BYTES_MAX:
            findings.append(Finding(path, 1, "layout", f"{size} bytes; at most {FILE_BYTES_MAX} are tracked in one file"))
    return findings
