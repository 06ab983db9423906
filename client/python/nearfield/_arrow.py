"""Rows and answers to and from Arrow. Imported only if pyarrow is used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nearfield._attributes import Attribute
from nearfield._columns import ReadColumn
from nearfield._results import Rows
from nearfield._values import Ids

_TYPES = {
    "int64": pa.int64(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "keyword": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
RESERVED = ("id", "score", "vector", "payload", "query")


def arrow_type(attribute: Attribute) -> pa.DataType:
    inner = _TYPES[attribute.type]
    return pa.list_(inner) if attribute.is_list else inner


def column_name(attribute: Attribute) -> str:
    """Returns the name of an attribute's column: one that is called like a part of the row gets
    the prefix "attribute_"."""
    return f"attribute_{attribute.name}" if attribute.name in RESERVED else attribute.name


def column_of(column: ReadColumn) -> pa.Array:
    return pa.array(column.raw(), type=arrow_type(column.attribute))


def vectors_of(vectors: Any) -> pa.Array:
    """Returns vectors [n, D] as a list of D float32 or float16 per row."""
    flat = pa.array(np.ascontiguousarray(vectors).reshape(-1))
    dim = vectors.shape[1] if vectors.ndim == 2 else 0
    return pa.FixedSizeListArray.from_arrays(flat, max(dim, 1))


def matrix_of(column: pa.Array, name: str) -> NDArray[Any]:
    """Returns a column of lists of equal size as [rows, dim], without a copy if possible."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    kind = column.type
    if not (
        pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind)
    ):
        raise TypeError(f"column {name!r}: {kind}; a vector is a list of numbers")
    if column.null_count:
        raise ValueError(f"column {name!r}: row {column.is_valid().index(False)} has no vector")
    flat = column.flatten()
    if flat.null_count:
        raise ValueError(f"column {name!r}: a vector holds a null")
    values: NDArray[Any] = flat.to_numpy(zero_copy_only=False)
    if not pa.types.is_fixed_size_list(kind):
        sizes = np.diff(column.offsets.to_numpy())
        if len(sizes) and (sizes != sizes[0]).any():
            raise ValueError(f"column {name!r}: vectors of different sizes")
    return values.reshape(len(column), -1) if len(column) else values.reshape(0, 0)


def id_array(ids: Ids) -> pa.Array:
    return pa.array(ids, pa.string() if isinstance(ids, list) else pa.uint64())


def table_of(rows: Rows, scores: Any = None) -> pa.Table:
    columns: dict[str, Any] = {"id": id_array(rows.ids)}
    if scores is not None:
        columns["score"] = pa.array(scores)
    if rows.vectors is not None:
        columns["vector"] = vectors_of(rows.vectors)
    if rows.payloads:
        columns["payload"] = pa.array(rows.payloads, pa.binary())
    for column in rows.columns:
        columns[column_name(column.attribute)] = column_of(column)
    return pa.table(columns)


def stack(tables: list[pa.Table]) -> pa.Table:
    """Puts the answers to several queries below each other."""
    numbered = [
        table.add_column(0, "query", pa.array(np.full(len(table), i, np.uint32)))
        for i, table in enumerate(tables)
    ]
    return pa.concat_tables(numbered)
