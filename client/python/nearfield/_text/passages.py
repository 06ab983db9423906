"""Files and their passages: text and Markdown are cut at paragraphs, JSONL at records."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearfield._text import TextError

MARKDOWN = (".md", ".markdown")
SUFFIXES = (".txt", *MARKDOWN, ".jsonl")
# A longer line is an error, because a line is read into memory.
LINE_BYTES_MAX = 8 << 20
READ_BYTES = 1 << 20
BYTE_ORDER_MARK = "\ufeff"
_HEADING = re.compile(r"#{1,6}\s")
_FENCE = re.compile(r"\s{0,3}(```|~~~)")


@dataclass(frozen=True)
class Passage:
    """A part of a file. position: the number of its first line, from 1."""

    text: str
    position: int


@dataclass(frozen=True)
class Cut:
    """How files are cut.

    chars_max  characters of a passage
    fields     members of a JSONL record whose texts are joined
    """

    chars_max: int = 1000
    fields: Sequence[str] = ("text",)


def find_files(folder: Path) -> list[str]:
    """Returns the files in a folder that hold text, as sorted paths below it. Skips names that
    begin with a dot, and does not follow links to folders."""
    found = []
    for at, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES:
                found.append((Path(at) / name).relative_to(folder).as_posix())
    for path in found:
        try:
            path.encode()
        except UnicodeEncodeError as error:
            raise TextError(f"{folder}: the name {path!a} is not UTF-8") from error
    return sorted(found)


def _refuse(error: OSError) -> None:
    raise TextError(f"{error.filename}: {error.strerror}")


def digest_of(path: Path, *context: str) -> str:
    """Returns a digest of a file's bytes and of the texts that also determine its passages."""
    digest = hashlib.sha256(json.dumps(context).encode())
    try:
        with path.open("rb") as file:
            while part := file.read(READ_BYTES):
                digest.update(part)
    except OSError as error:
        raise TextError(f"{path}: {error.strerror}") from error
    return digest.hexdigest()[:32]


def read_passages(path: Path, cut: Cut) -> Iterator[Passage]:
    """Yields the passages of a file in order. Raises TextError. Cost: one line and one passage of
    memory."""
    suffix = path.suffix.lower()
    if suffix == ".jsonl":
        for number, line in read_lines(path):
            if line.strip():
                for part in _parts(_record_text(path, number, line, cut.fields), cut.chars_max):
                    yield Passage(part, number)
        return
    yield from _split(read_lines(path), suffix in MARKDOWN, cut.chars_max)


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yields (number, line) of a UTF-8 file, from 1, without line ends."""
    begin = 0
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(LINE_BYTES_MAX + 1):
                number += 1
                if len(line) > LINE_BYTES_MAX:
                    raise TextError(f"{path}:{number}: a line of more than {LINE_BYTES_MAX} bytes")
                try:
                    text = line.decode()
                except UnicodeDecodeError as error:
                    raise TextError(
                        f"{path}:{number}: not UTF-8: byte 0x{line[error.start]:02x} at"
                        f" {begin + error.start} of the file"
                    ) from error
                begin += len(line)
                yield number, text.removeprefix(BYTE_ORDER_MARK if number == 1 else "").rstrip()
    except OSError as error:
        raise TextError(f"{path}: {error.strerror}") from error


def _record_text(path: Path, number: int, line: str, fields: Sequence[str]) -> str:
    try:
        record: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TextError(f"{path}:{number}: not JSON: {error}") from error
    if not isinstance(record, dict):
        raise TextError(f"{path}:{number}: not a JSON object")
    texts = []
    for name in fields:
        if not isinstance(record.get(name), str):
            known = ", ".join(key for key, value in record.items() if isinstance(value, str))
            raise TextError(
                f"{path}:{number}: no text in the member {name!r}; texts are in"
                f" {known or 'no member'}: choose with --field"
            )
        texts.append(record[name])
    return "\n".join(texts)


def _parts(text: str, chars_max: int) -> Iterator[str]:
    """Cuts a text that is too long: after a sentence, else after a word, else anywhere."""
    text = text.strip()
    while len(text) > chars_max:
        at = max(text.rfind(end, 0, chars_max) + 1 for end in (". ", "! ", "? ", "\n"))
        if at <= chars_max // 2:
            at = text.rfind(" ", chars_max // 2, chars_max + 1)
        if at <= 0:
            at = chars_max
        yield text[:at].rstrip()
        text = text[at:].lstrip()
    if text:
        yield text


@dataclass
class _Held:
    """Lines that will be a passage. At most chars_max characters."""

    lines: list[tuple[int, str]]
    size: int = 0

    def add(self, number: int, text: str) -> None:
        self.lines.append((number, text))
        self.size += len(text) + 1

    def paragraph_end(self) -> int:
        """Returns the number of lines before the last paragraph, if they are half of the text; else
        of all lines."""
        size = self.size
        for at in range(len(self.lines) - 1, 0, -1):
            size -= len(self.lines[at][1]) + 1
            if size < self.size // 2:
                break
            if not self.lines[at - 1][1]:
                return at
        return len(self.lines)

    def take(self, count: int) -> Iterator[Passage]:
        """Removes the first lines; yields their passage unless they are blank."""
        taken, self.lines = self.lines[:count], self.lines[count:]
        self.size = sum(len(text) + 1 for _, text in self.lines)
        full = [number for number, text in taken if text.strip()]
        if full:
            yield Passage("\n".join(text for _, text in taken).strip(), full[0])


def _split(lines: Iterator[tuple[int, str]], markdown: bool, chars_max: int) -> Iterator[Passage]:
    """Packs lines into passages: at most chars_max characters, ended at a paragraph if possible.
    In Markdown a heading begins a passage."""
    held = _Held([])
    fenced = False
    for number, line in lines:
        if markdown and _FENCE.match(line):
            fenced = not fenced
        if markdown and not fenced and _HEADING.match(line) and not _only_headings(held):
            yield from held.take(len(held.lines))
        if not line.strip():
            if held.lines and held.lines[-1][1]:
                held.add(number, "")
            continue
        for part in [line] if len(line) <= chars_max else _parts(line, chars_max):
            while held.lines and held.size + len(part) > chars_max:
                yield from held.take(held.paragraph_end())
            held.add(number, part)
    yield from held.take(len(held.lines))


def _only_headings(held: _Held) -> bool:
    return all(not text or _HEADING.match(text) for _, text in held.lines)
