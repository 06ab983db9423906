"""Vectors as one array: NumPy, memory-mapped files, HDF5. They are read and encoded batch by
batch, so an array may be larger than memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from nearfield._blocks import Batch
from nearfield._sources.columns import column_data, column_packer, values_of
from nearfield._sources.places import located, rows_from, with_id
from nearfield._sources.source import BATCH_ROWS, Parts, Source, Spec
from nearfield._values import Ids, id_values


def array_source(spec: Spec, vectors: Any) -> Source:
    """vectors: [rows, dim], sliceable. spec.ids: ids, or None for 0, 1, 2, ...; spec.attributes: a
    column by name; spec.payloads: a sequence."""
    if len(getattr(vectors, "shape", ())) != 2:
        raise ValueError(f"vectors: shape {list(np.shape(vectors))}; it must be [rows, dim]")
    rows = vectors.shape[0]
    if spec.vectors is not None:
        raise TypeError("vectors: names a column or a dataset; an array has none")
    ids = _ids(spec, rows)
    columns: dict[str, Any] = {}
    if spec.attributes is not None:
        if not isinstance(spec.attributes, Mapping):
            raise TypeError("attributes: with an array they are columns: {'year': [...], ...}")
        columns = {name: column_data(name, data, rows) for name, data in spec.attributes.items()}
    for name in columns:
        spec.attribute(name)
    if rows:
        spec.check_shape(vectors)
    payloads = _payloads(spec, rows, range(rows) if ids is None else ids)

    def batch(begin: int, end: int) -> Batch:
        part = np.asarray(vectors[begin:end])
        numbers = np.arange(begin, end, dtype=np.uint64)
        parts = Parts(
            ids=lambda n: numbers[:n] if ids is None else ids[begin : begin + n],
            vectors=lambda n: spec.encoded(part[:n]),
            payloads=None if payloads is None else lambda n: payloads[begin : begin + n],
            columns=[column_packer(spec, name, data[begin:end]) for name, data in columns.items()],
        )
        return spec.batch(end - begin, rows_from(begin), parts)

    def batches() -> Iterator[Batch]:
        for begin in range(0, rows, BATCH_ROWS):
            yield batch(begin, min(begin + BATCH_ROWS, rows))

    return Source(rows, sum(map(len, payloads or ())), batches, numbered=ids is None)


def _ids(spec: Spec, rows: int) -> Ids | None:
    if spec.ids is None:
        if spec.info.id_type != "uint64":
            raise TypeError(
                f"ids: the collection {spec.info.name!r} has ids of type string, so they must be"
                " given"
            )
        return None
    values = id_values(spec.ids)
    ids = located(lambda n: spec.checked_ids(values[:n]), len(values), rows_from(0))
    if len(ids) != rows:
        raise ValueError(f"ids: {len(ids)} for {rows} vectors")
    return ids


def _payloads(spec: Spec, rows: int, ids: Any) -> list[bytes] | None:
    if spec.payloads is None:
        return None
    if isinstance(spec.payloads, (str, bytes)):
        raise TypeError("payloads: with an array they are a sequence of one value per row")
    values = values_of(spec.payloads)
    if len(values) != rows:
        raise ValueError(f"payloads: {len(values)} for {rows} vectors")
    place = with_id(rows_from(0), ids.__getitem__)
    return located(lambda n: spec.payloads_of(values[:n]), rows, place)
