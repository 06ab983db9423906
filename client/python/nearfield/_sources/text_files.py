"""Files of text: UTF-8, with or without a byte order mark, perhaps compressed."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

_MARK = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the lines of a file, with their ends, and their numbers from 1. A file whose name
    ends in .gz is decompressed."""
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if number == 1 and line.startswith(_UTF16):
                raise ValueError(f"{path}:1: the text is UTF-16; write it as UTF-8")
            if number == 1:
                line = line.removeprefix(_MARK)
            try:
                yield number, line.decode()
            except UnicodeDecodeError as error:
                raise ValueError(f"{path}:{number}: byte {error.start + 1} is not UTF-8") from None
