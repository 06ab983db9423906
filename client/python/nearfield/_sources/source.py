"""A source of batches, and what every source needs to know about the upload."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfield._attributes import Attribute
from nearfield._blocks import Batch
from nearfield._columns import Column
from nearfield._errors import InvalidArgument
from nearfield._records import CollectionInfo, Limits
from nearfield._sources.places import Place, located, placed, with_id
from nearfield._values import Ids, check_texts, encode, to_ids

# Rows that a source reads and packs together. Independent of the size of blocks.
BATCH_ROWS = 8192


@dataclass(frozen=True)
class Source:
    """Rows to upload, which can be read repeatedly.

    rows           maximum number of rows
    payload_bytes  maximum size of all payloads
    batches        begins to read from the first row
    close          releases files
    numbered       no ids were given, so they are 0, 1, ...
    """

    rows: int
    payload_bytes: int
    batches: Callable[[], Iterator[Batch]]
    close: Callable[[], None] = lambda: None
    numbered: bool = False


@dataclass(frozen=True)
class Parts:
    """The parts of the rows of one batch: functions that pack the first n rows. The functions of
    columns return None if no row has a value."""

    ids: Callable[[int], Ids]
    vectors: Callable[[int], NDArray[Any]]
    payloads: Callable[[int], list[bytes]] | None = None
    columns: list[Callable[[int], Column | None]] = field(default_factory=list)


@dataclass(frozen=True)
class Spec:
    """The collection, and the arguments of upload() that describe the data. limits: those of the
    server, which then are checked before the rows are sent."""

    info: CollectionInfo
    ids: Any = None
    vectors: Any = None
    attributes: Any = None
    payloads: Any = None
    limits: Limits | None = None

    def batch(self, rows: int, place: Place, parts: Parts) -> Batch:
        """Packs `rows` rows. Errors name the first bad row by its place and its id."""
        ids = located(parts.ids, rows, place)
        place = with_id(place, ids.__getitem__)
        vectors = located(parts.vectors, rows, place)
        payloads = None if parts.payloads is None else located(parts.payloads, rows, place)
        columns = [located(pack, rows, place) for pack in parts.columns]
        return Batch(ids, vectors, payloads, [each for each in columns if each is not None])

    def checked_ids(self, ids: Any) -> Ids:
        """Returns ids of the collection's type. Raises TypeError for the other."""
        found = to_ids(ids, "id", numbered=False)
        texts = isinstance(found, list)
        if len(found) and texts != (self.info.id_type == "string"):
            raise TypeError(
                f"id: {'texts' if texts else 'numbers'}; the collection {self.info.name!r} has ids"
                f" of type {self.info.id_type}"
            )
        if isinstance(found, list):
            if "" in found:
                raise ValueError("id: an empty text")
            self._check_sizes("id", map(len, map(str.encode, found)), "bytes", "id_bytes_max")
        return found

    def encoded(self, vectors: NDArray[Any]) -> NDArray[Any]:
        """Returns vectors [n, D] in the wire type. Raises ValueError for another dimension."""
        self.check_shape(vectors)
        return encode(vectors, self.info.dtype)

    def check_shape(self, vectors: Any) -> None:
        if len(vectors.shape) != 2 or vectors.shape[1] != self.info.dim:
            raise ValueError(
                f"vectors: shape {list(vectors.shape)}; the collection {self.info.name!r} needs"
                f" [rows, {self.info.dim}]"
            )

    def known(self) -> str:
        return ", ".join(f"{each.name}:{each.text}" for each in self.info.attributes) or "none"

    def attribute(self, name: str) -> Attribute:
        declared = self.info.declared
        if name not in declared:
            similar = get_close_matches(str(name), declared, n=1)
            hint = f"; did you mean {similar[0]}?" if similar else ""
            text = f"the collection {self.info.name!r} declares {self.known()}{hint}"
            raise ValueError(f"attributes[{name!r}]: {text}")
        return declared[name]

    def checked_column(self, column: Column | None) -> Column | None:
        """Returns the column. Raises an error for values that no attribute may have."""
        if column is None:
            return None
        name = f"attributes[{column.attribute.name!r}]"
        if isinstance(column.values, list):
            check_texts(name, column.values)
            sizes = map(len, map(str.encode, column.values))
            self._check_sizes(name, sizes, "bytes", "attribute_keyword_bytes_max")
        elif column.attribute.type == "double" and np.isnan(column.values).any():
            raise ValueError(f"{name}: NaN; give None for a row without a value")
        if column.sizes is not None:
            sizes = iter(column.sizes.tolist())
            self._check_sizes(name, sizes, "values", "attribute_list_values_max")
        return column

    def payloads_of(self, values: Iterable[Any]) -> list[bytes]:
        """Returns payloads as they are stored."""
        found = list(map(payload_bytes, values))
        self._check_sizes("payload", map(len, found), "bytes", "payload_bytes_max")
        return found

    def _check_sizes(self, name: str, sizes: Iterable[int], unit: str, limit: str) -> None:
        if self.limits is None:
            return
        largest, size_max = max(sizes, default=0), getattr(self.limits, limit)
        if largest > size_max:
            facts = {"field": name, "value": f"{largest} {unit}", "limit": str(size_max)}
            text = f"{name}: {largest} {unit}, must be at most {size_max}"
            raise InvalidArgument(text, facts=facts)


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
    try:
        return value.encode() if isinstance(value, str) else compact_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise placed(error, "payload") from None


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
    raise TypeError(f"{value!r} has no form in JSON")
