"""Places of errors: the row of the data, counted from 0, or the line of a file; and the file."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from nearfield._errors import Error

T = TypeVar("T")

#: Names a row of a batch by its number in the batch: "row 70001", or "rows.jsonl:70002".
Place: TypeAlias = Callable[[int], str]


def rows_from(first: int) -> Place:
    """Returns the places of a batch whose first row is row `first` of the data."""
    return lambda row: f"row {first + row}"


def with_id(place: Place, id_of: Callable[[int], Any]) -> Place:
    """Returns places with the ids of the rows: row 7 (id "x")."""

    def named(row: int) -> str:
        found = id_of(row)
        shown = found.item() if isinstance(found, np.generic) else found
        return f"{place(row)} (id {json.dumps(shown, ensure_ascii=False, default=repr)})"

    return named


def located(pack: Callable[[int], T], rows: int, place: Place) -> T:
    """Returns pack(rows): something made of the first `rows` rows of a batch. If that fails, finds
    the first row with which it fails, and raises the error with its place. Cost: after an error,
    about as much as packing the batch some more times."""
    try:
        return pack(rows)
    except (TypeError, ValueError) as error:
        if rows == 0:
            raise
        found = error
    good, bad = 0, rows
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            pack(middle)
            good = middle
        except (TypeError, ValueError) as error:
            bad, found = middle, error
    raise placed(found, place(bad - 1)) from None


def placed(error: Exception, place: str) -> Exception:
    """Returns the error with the place before its text."""
    if isinstance(error, Error):
        error.message = f"{place}: {error.message}"
        return error
    text = f"{place}: {error}"
    return TypeError(text) if isinstance(error, TypeError) else ValueError(text)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Adds the name of a file to errors that do not have it."""
    try:
        yield
    except (TypeError, ValueError, EOFError, OSError, zlib.error) as error:
        if str(path) in str(error) or getattr(error, "filename", None) is not None:
            raise
        raise placed(error, str(path)) from None
