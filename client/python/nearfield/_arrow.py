"""Rows and answers to and from Arrow. Imported only if pyarrow is used."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nearfield._attributes import Attribute, column_name
from nearfield._columns import ReadColumn
from nearfield._values import Ids

_TYPES = {
    "int64": pa.int64(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "keyword": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


def arrow_type(attribute: Attribute) -> pa.DataType:
    inner = _TYPES[attribute.type]
    return pa.list_(inner) if attribute.is_list else inner


def column_of(column: ReadColumn) -> pa.Array:
    return pa.array(column.raw(), type=arrow_type(column.attribute))


def vectors_of(vectors: Any) -> pa.Array:
    """Returns vectors [n, D] as a list of D float32 or float16 per row."""
    flat = pa.array(np.ascontiguousarray(vectors).reshape(-1))
    dim = vectors.shape[1] if vectors.ndim == 2 else 0
    return pa.FixedSizeListArray.from_arrays(flat, max(dim, 1))


def is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type with the same values that all functions of Arrow accept: strings and lists
    instead of their views, as polars has them, and the values of a dictionary or an extension."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    is_view = str(kind).startswith(("list_view", "large_list_view"))
    if is_view or is_list(kind):
        inner = plain_type(kind.value_type)
        if not is_view and inner.equals(kind.value_type):
            return kind
        size = kind.list_size if pa.types.is_fixed_size_list(kind) else None
        return pa.large_list(inner) if size is None else pa.list_(inner, size)
    return {"string_view": pa.string(), "binary_view": pa.binary()}.get(str(kind), kind)


def plain(array: pa.Array) -> pa.Array:
    """Returns the array with its plain_type."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = plain_type(array.type)
    # No cast of Arrow 26 does this for lists of views and dictionaries of views.
    return array if kind.equals(array.type) else pa.array(array.to_pylist(), kind)


def matrix_of(column: pa.Array, name: str, dim: int | None = None) -> NDArray[Any]:
    """Returns a column of lists of equal size as [rows, dim], without a copy if possible."""
    column = plain(column)
    kind = column.type
    if not is_list(kind):
        raise TypeError(f"column {name!r}: {kind}; a vector is a list of numbers")
    if column.null_count:
        raise ValueError(f"column {name!r}: no vector")
    flat = column.flatten()
    if flat.null_count:
        raise ValueError(f"column {name!r}: a vector holds a null")
    values: NDArray[Any] = flat.to_numpy(zero_copy_only=False)
    if not len(column):
        return values.reshape(0, dim or 0)
    fixed = pa.types.is_fixed_size_list(kind)
    sizes = np.array([kind.list_size]) if fixed else np.diff(column.offsets.to_numpy())
    other = sizes[sizes != (sizes[0] if dim is None else dim)]
    if len(other):
        raise ValueError(
            f"column {name!r}: a vector of {other[0]} numbers, but"
            f" {'others have' if dim is None else 'the collection has'} {dim or sizes[0]}"
        )
    return values.reshape(len(column), -1)


def id_array(ids: Ids) -> pa.Array:
    return pa.array(ids, pa.string() if isinstance(ids, list) else pa.uint64())


def table_of(
    ids: Ids, scores: Any, vectors: Any, payloads: list[bytes], columns: Iterable[ReadColumn]
) -> pa.Table:
    """scores and vectors: None if the rows have none."""
    table: dict[str, Any] = {"id": id_array(ids)}
    if scores is not None:
        table["score"] = pa.array(scores)
    if vectors is not None:
        table["vector"] = vectors_of(vectors)
    if payloads:
        table["payload"] = pa.array(payloads, pa.binary())
    for column in columns:
        table[column_name(column.attribute)] = column_of(column)
    return pa.table(table)


def stack(tables: list[pa.Table]) -> pa.Table:
    """Puts the answers to several queries below each other."""
    numbered = [
        table.add_column(0, "query", pa.array(np.full(len(table), i, np.uint32)))
        for i, table in enumerate(tables)
    ]
    return pa.concat_tables(numbered)
