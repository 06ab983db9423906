"""A collection that was found in another store, or in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from nearfield._values import Ids


class ImportRefused(ValueError):
    """A source that cannot be imported; the message names the file, the field and the value."""


@dataclass(frozen=True)
class Part:
    """Some rows, in the order of the source.

    ids       numbers or texts, perhaps mixed; None: the rows have none, so they are numbered
    vectors   [n, dim] float32 or float16
    fields    the metadata of each row: what attributes are made of
    payloads  an object of JSON for each row; None: no row has one
    """

    ids: list[Any] | None
    vectors: NDArray[Any]
    fields: list[dict[str, Any]] | None = None
    payloads: list[Any] | None = None


@dataclass(frozen=True)
class Found:
    """name    of the collection in its store, or of the file
    dim     of its vectors
    metric  dot, cosine or l2; empty: the source does not say
    dtype   of the collection that holds the vectors bit for bit
    parts   begins to read from the first row; the order is the same each time
    array   instead of parts: vectors [rows, dim] in a file, sliceable
    ids     of the array; None: they are numbered
    """

    name: str
    dim: int
    metric: str = ""
    dtype: str = "float32"
    parts: Callable[[], Iterator[Part]] | None = None
    array: Any = None
    ids: Ids | None = None


@dataclass(frozen=True)
class Choice:
    """The choices of the command line for a source that holds several things. Empty: not given.

    collection  of the store
    vector      the name of the vectors, or of their column
    ids         the column of the ids
    """

    collection: str = ""
    vector: str = ""
    ids: str = ""


def chosen(path: Path, what: str, option: str, given: str, names: Sequence[str]) -> str:
    """Returns the name that is given, or the only one. Raises ImportRefused, with all names."""
    listed = ", ".join(map(repr, sorted(names))) or "none"
    if given and given not in names:
        raise ImportRefused(f"{path}: no {what} {given!r}; it has {listed}")
    if given:
        return given
    if len(names) != 1:
        raise ImportRefused(f"{path}: name one {what} with {option}; it has {listed}")
    return names[0]
