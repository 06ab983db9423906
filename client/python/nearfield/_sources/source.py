"""A source of batches, and what every source needs to know about the upload."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfield._attributes import Attribute
from nearfield._blocks import Batch
from nearfield._records import CollectionInfo
from nearfield._values import Ids, encode, to_ids

# Rows that a source reads and packs together. Independent of the size of blocks.
BATCH_ROWS = 8192


@dataclass(frozen=True)
class Source:
    """Rows to upload, which can be read repeatedly.

    rows           maximum number of rows
    payload_bytes  maximum size of all payloads
    batches        begins to read from the first row
    close          releases files
    """

    rows: int
    payload_bytes: int
    batches: Callable[[], Iterator[Batch]]
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Spec:
    """The collection, and the arguments of upload() that describe the data."""

    info: CollectionInfo
    ids: Any = None
    vectors: Any = None
    attributes: Any = None
    payloads: Any = None

    def checked_ids(self, ids: Any) -> Ids:
        """Returns ids of the collection's type. Raises TypeError for the other."""
        found = to_ids(ids)
        texts = isinstance(found, list)
        if len(found) and texts != (self.info.id_type == "string"):
            raise TypeError(
                f"ids: {'texts' if texts else 'numbers'}; the collection"
                f" {self.info.name!r} has ids of type {self.info.id_type}"
            )
        return found

    def encoded(self, vectors: NDArray[Any]) -> NDArray[Any]:
        """Returns vectors [n, D] in the wire type. Raises ValueError for another dimension."""
        if vectors.ndim != 2 or vectors.shape[1] != self.info.dim:
            raise ValueError(
                f"vectors: shape {list(vectors.shape)}; the collection {self.info.name!r} needs"
                f" [rows, {self.info.dim}]"
            )
        return encode(vectors, self.info.dtype)

    def known(self) -> str:
        return ", ".join(f"{each.name}:{each.text}" for each in self.info.attributes) or "none"

    def attribute(self, name: str) -> Attribute:
        declared = self.info.declared
        if name not in declared:
            raise ValueError(
                f"attributes[{name!r}]: the collection {self.info.name!r} declares {self.known()}"
            )
        return declared[name]


def name_of_column(argument: str, given: Any, default: str) -> str:
    if given is not None and not isinstance(given, str):
        raise TypeError(f"{argument}: {type(given).__name__}; with a table, the name of its column")
    return default if given is None else given


def payload_bytes(value: Any) -> bytes:
    """Returns one payload: bytes as they are, a text as UTF-8, None as nothing, anything else as
    compact JSON."""
    if value is None:
        return b""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, str):
        return value.encode()
    return compact_json(value)


_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=lambda value: _plain(value)
)


def compact_json(value: Any) -> bytes:
    return _ENCODER.encode(value).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"payload: {value!r} has no form in JSON")
