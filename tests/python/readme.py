"""The code of a README: its fenced blocks of Python, and the indented lines of shell between them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

INDENT = "    "


@dataclass(frozen=True)
class Step:
    """kind: `shell`, or the words after the fence, such as `python agent`. line: where it begins."""

    kind: str
    line: int
    text: str


def steps(path: Path) -> list[Step]:
    """Returns the blocks and the lines of shell in the order of the page."""
    found: list[Step] = []
    fence: str | None = None
    begin, block = 0, ""
    for number, line in enumerate(path.read_text("utf-8").splitlines(keepends=True), 1):
        if fence is not None:
            if line.startswith("```"):
                found.append(Step(fence, begin, block))
                fence = None
            else:
                block += line
        elif line.startswith("```"):
            fence, begin, block = line[3:].strip(), number + 1, ""
        elif line.startswith(INDENT):
            previous = found[-1] if found else None
            if previous and previous.kind == "shell" and previous.text.endswith("\\\n"):
                found[-1] = Step("shell", previous.line, previous.text + line)
            else:
                found.append(Step("shell", number, line[len(INDENT):]))
    return found


def block(path: Path, kind: str) -> str:
    """Returns the text of the only block of a kind."""
    (only,) = [step.text for step in steps(path) if step.kind == kind]
    return only


def has_python(path: Path) -> bool:
    return re.search(r"^```python", path.read_text("utf-8"), re.MULTILINE) is not None
