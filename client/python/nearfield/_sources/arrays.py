"""Vectors as one array: NumPy, memory-mapped files, HDF5. They are read and encoded batch by
batch, so an array may be larger than memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nearfield._blocks import Batch
from nearfield._columns import make_column
from nearfield._sources.source import BATCH_ROWS, Source, Spec, payload_bytes


def array_source(spec: Spec, vectors: Any) -> Source:
    """vectors: [rows, dim], sliceable. spec.ids: ids, or None for 0, 1, 2, ...; spec.attributes: a
    column by name; spec.payloads: a sequence."""
    if len(getattr(vectors, "shape", ())) != 2:
        raise ValueError(f"vectors: shape {list(np.shape(vectors))}; it must be [rows, dim]")
    rows = vectors.shape[0]
    if spec.vectors is not None:
        raise TypeError("vectors: names a column or a dataset; an array has none")
    if spec.ids is None and spec.info.id_type != "uint64":
        raise TypeError(
            f"ids: the collection {spec.info.name!r} has ids of type string, so they must be given"
        )
    ids = None if spec.ids is None else spec.checked_ids(spec.ids)
    if ids is not None and len(ids) != rows:
        raise ValueError(f"ids: {len(ids)} for {rows} vectors")
    columns: dict[str, Any] = {}
    if spec.attributes is not None:
        if not isinstance(spec.attributes, Mapping):
            raise TypeError("attributes: with an array they are columns: {'year': [...], ...}")
        columns = {name: _column(name, data, rows) for name, data in spec.attributes.items()}
    payloads = _payloads(spec.payloads, rows)

    def batches() -> Iterator[Batch]:
        for begin in range(0, rows, BATCH_ROWS):
            end = min(begin + BATCH_ROWS, rows)
            made = (
                make_column(spec.attribute(name), data[begin:end], end - begin)
                for name, data in columns.items()
            )
            yield Batch(
                np.arange(begin, end, dtype=np.uint64) if ids is None else ids[begin:end],
                spec.encoded(np.asarray(vectors[begin:end])),
                None if payloads is None else payloads[begin:end],
                [column for column in made if column is not None],
            )

    for name in columns:
        spec.attribute(name)
    return Source(rows, sum(map(len, payloads or ())), batches)


def _column(name: str, data: Any, rows: int) -> Any:
    if hasattr(data, "to_pylist"):
        data = data.to_pylist()
    elif hasattr(data, "to_numpy"):
        data = data.to_numpy()
    if not isinstance(data, (np.ndarray, Sequence)) or isinstance(data, (str, bytes)):
        raise TypeError(f"attributes[{name!r}]: {data!r}; a column is an array or a list")
    if len(data) != rows:
        raise ValueError(f"attributes[{name!r}]: {len(data)} values for {rows} vectors")
    return data


def _payloads(payloads: Any, rows: int) -> list[bytes] | None:
    if payloads is None:
        return None
    if isinstance(payloads, (str, bytes)):
        raise TypeError("payloads: with an array they are a sequence of one value per row")
    found = [payload_bytes(value) for value in payloads]
    if len(found) != rows:
        raise ValueError(f"payloads: {len(found)} for {rows} vectors")
    return found
