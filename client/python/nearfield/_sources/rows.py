"""Rows one by one: mappings with the members id, vector, payload and attributes; and batches of
columns as mappings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfield._blocks import Batch
from nearfield._columns import is_gap
from nearfield._sources.columns import column_data, column_packer, values_of
from nearfield._sources.places import Place, located, rows_from
from nearfield._sources.source import BATCH_ROWS, Parts, Spec
from nearfield._values import Ids, id_values

MEMBERS = frozenset(["id", "vector", "payload"])
Row = Mapping[str, Any]


@dataclass(frozen=True)
class RowReader:
    """Packs rows such as {"id": 7, "vector": [...], "payload": {...}, "year": 2020}. Either all
    rows have ids or none: then they are 0, 1, 2, ...

    place    names a row by the number that it comes with
    records  the values may be those of a DataFrame: see from_record
    """

    spec: Spec
    place: Place
    records: bool

    def batches(self, rows: Iterable[tuple[int, Row]]) -> Iterator[Batch]:
        """rows: each with the number of its place."""
        following, first, with_ids = iter(rows), 0, self.spec.info.id_type == "string"
        while chunk := list(islice(following, BATCH_ROWS)):
            if first == 0 and isinstance(chunk[0][1], Mapping):
                with_ids = with_ids or "id" in chunk[0][1]
            yield self._batch(chunk, first, with_ids)
            first += len(chunk)

    def _batch(self, chunk: list[tuple[int, Row]], first: int, with_ids: bool) -> Batch:
        spec, rows = self.spec, [row for _, row in chunk]

        def place(row: int) -> str:
            return self.place(chunk[row][0])

        def ids(n: int) -> Ids:
            if with_ids:
                return spec.checked_ids([row["id"] for row in rows[:n]])
            return np.arange(first, first + n, dtype=np.uint64)

        def vectors(n: int) -> NDArray[Any]:
            return spec.encoded(matrix([row["vector"] for row in rows[:n]], spec.info.dim))

        def payloads(n: int) -> list[bytes]:
            values = (row.get("payload") for row in rows[:n])
            gaps = self.records
            return spec.payloads_of(None if gaps and is_gap(each) else each for each in values)

        names = located(lambda n: self._names(rows[:n], with_ids), len(rows), place)
        columns = [
            column_packer(spec, name, [row.get(name) for row in rows], self.records)
            for name in names
            if name not in MEMBERS
        ]
        parts = Parts(ids, vectors, payloads if "payload" in names else None, columns)
        return spec.batch(len(rows), place, parts)

    def _names(self, rows: list[Row], with_ids: bool) -> dict[str, None]:
        """Returns the names of all members. Raises an error if one belongs to no row."""
        names: dict[str, None] = {}
        for row in rows:
            if not isinstance(row, Mapping) or "vector" not in row:
                names_given = list(map(str, row)) if isinstance(row, Mapping) else []
                for similar in get_close_matches("vector", names_given, n=1):
                    raise TypeError(f"no member vector; is {similar} meant?")
                raise TypeError(f"{_shown(row)}; a mapping with the member vector")
            if with_ids != ("id" in row):
                raise ValueError("no member id" if with_ids else "a member id, which row 0 lacks")
            names.update(dict.fromkeys(row))
        for name in names:
            if name not in MEMBERS:
                self.spec.attribute(name)
        return names


def matrix(vectors: Sequence[Any], dim: int) -> Any:
    """Returns vectors as one array. Raises TypeError or ValueError for one that does not fit."""
    for vector in vectors:
        if isinstance(vector, (str, bytes)) or not hasattr(vector, "__len__"):
            raise TypeError(f"vector: {_shown(vector)}; a list of numbers")
        if len(vector) != dim:
            raise ValueError(f"a vector of {len(vector)} numbers; the collection needs {dim}")
    found = np.array(vectors)
    if found.dtype.kind in "USO":
        raise TypeError(f"vector: {_shown(vectors[-1])}; a list of numbers")
    return found


def column_batches(spec: Spec, batches: Iterable[Mapping[str, Any]]) -> Iterator[Batch]:
    """Packs batches such as {"id": [...], "vector": array [n, dim], "year": [...]}."""
    first = 0
    for columns in batches:
        batch = _column_batch(spec, columns, first)
        yield batch
        first += len(batch)


def _column_batch(spec: Spec, columns: Mapping[str, Any], first: int) -> Batch:
    if "id" not in columns:
        raise ValueError("a batch has no member id: rows of a batch are not numbered")
    vectors = np.asarray(columns["vector"])
    spec.check_shape(vectors)
    rows = len(vectors)
    ids = id_values(columns["id"])
    payloads = None if columns.get("payload") is None else values_of(columns["payload"])
    for name, values in (("ids", ids), ("payloads", payloads)):
        if values is not None and len(values) != rows:
            raise ValueError(f"{name}: {len(values)} for {rows} vectors")
    parts = Parts(
        ids=lambda n: spec.checked_ids(ids[:n]),
        vectors=lambda n: spec.encoded(vectors[:n]),
        payloads=None if payloads is None else lambda n: spec.payloads_of(payloads[:n]),
        columns=[
            column_packer(spec, name, column_data(name, data, rows))
            for name, data in columns.items()
            if name not in MEMBERS
        ],
    )
    return spec.batch(rows, rows_from(first), parts)


def is_column_batch(item: Any) -> bool:
    """Returns True for a mapping whose vector has two dimensions."""
    return isinstance(item, Mapping) and "vector" in item and np.ndim(item["vector"]) == 2


def _shown(row: Any) -> str:
    text = repr(row)
    return text if len(text) <= 60 else text[:57] + "..."
