"""Rows one by one: mappings with the members id, vector, payload and attributes; and batches of
columns as mappings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from nearfield._blocks import Batch
from nearfield._columns import make_column
from nearfield._sources.source import BATCH_ROWS, Spec, payload_bytes

MEMBERS = frozenset(["id", "vector", "payload"])


def row_batches(spec: Spec, rows: Iterable[Mapping[str, Any]]) -> Iterator[Batch]:
    """Packs rows such as {"id": 7, "vector": [...], "payload": {...}, "year": 2020}. Rows without
    ids get 0, 1, 2, ..."""
    following, first = iter(rows), 0
    while chunk := list(islice(following, BATCH_ROWS)):
        yield _batch_of_rows(spec, chunk, first)
        first += len(chunk)


def _batch_of_rows(spec: Spec, rows: list[Mapping[str, Any]], first: int) -> Batch:
    names: dict[str, None] = {}
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping) or "vector" not in row:
            raise TypeError(f"row {first + i}: {_shown(row)}; a mapping with the member vector")
        names.update(dict.fromkeys(row))
    if spec.info.id_type == "uint64" and "id" not in names:
        ids: Any = np.arange(first, first + len(rows), dtype=np.uint64)
    else:
        missing = [i for i, row in enumerate(rows) if "id" not in row]
        if missing:
            raise ValueError(f"row {first + missing[0]}: no member id")
        ids = spec.checked_ids([row["id"] for row in rows])
    payloads = None
    if "payload" in names:
        payloads = [payload_bytes(row.get("payload")) for row in rows]
    columns = [
        make_column(spec.attribute(name), [row.get(name) for row in rows], len(rows))
        for name in names
        if name not in MEMBERS
    ]
    return Batch(
        ids,
        spec.encoded(_matrix([row["vector"] for row in rows], first, spec.info.dim)),
        payloads,
        [column for column in columns if column is not None],
    )


def _matrix(vectors: list[Any], first: int, dim: int) -> Any:
    for i, vector in enumerate(vectors):
        if len(vector) != dim:
            raise ValueError(
                f"row {first + i}: a vector of {len(vector)} numbers; the collection needs {dim}"
            )
    return np.array(vectors)


def column_batch(spec: Spec, columns: Mapping[str, Any]) -> Batch:
    """Packs one batch such as {"id": [...], "vector": array [n, dim], "year": [...]}."""
    vectors = spec.encoded(np.asarray(columns["vector"]))
    if "id" not in columns:
        raise ValueError("a batch has no member id: rows of a batch are not numbered")
    made = (
        make_column(spec.attribute(name), data, len(vectors))
        for name, data in columns.items()
        if name not in MEMBERS
    )
    payloads = columns.get("payload")
    return Batch(
        spec.checked_ids(columns["id"]),
        vectors,
        None if payloads is None else [payload_bytes(value) for value in payloads],
        [column for column in made if column is not None],
    )


def is_column_batch(item: Any) -> bool:
    """Returns True for a mapping whose vector has two dimensions."""
    return isinstance(item, Mapping) and "vector" in item and np.ndim(item["vector"]) == 2


def _shown(row: Any) -> str:
    text = repr(row)
    return text if len(text) <= 60 else text[:57] + "..."
