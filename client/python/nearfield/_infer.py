"""The declaration of a collection that can hold some data."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from nearfield._attributes import Attribute, AttributeType
from nearfield._columns import is_gap
from nearfield._sources.json_lines import read_jsonl
from nearfield._sources.open import as_table, is_table, open_vectors, suffix_of
from nearfield._sources.places import naming
from nearfield._sources.plan import check_columns
from nearfield._sources.rows import MEMBERS
from nearfield._sources.source import name_of_column
from nearfield._values import is_bfloat16

_TYPES: dict[AttributeType, tuple[type, ...]] = {  # bool first: it is an int too
    "bool": (bool, np.bool_),
    "int64": (int, np.integer),
    "double": (float, np.floating),
    "keyword": (str,),
    "timestamp": (dt.date, np.datetime64),
}


@dataclass(frozen=True)
class Inferred:
    """The properties of a collection that can hold some data."""

    dim: int
    dtype: str
    id_type: str
    attributes: tuple[Attribute, ...]


def infer(data: Any, ids: Any, vectors: str | None, declares: bool) -> Inferred:
    """Returns the declaration for what upload() takes: vectors [rows, dim], a table with the
    columns id, vector and one for each attribute, a list of rows, or a file. Narrow floats stay
    narrow; all other numbers become float32. declares: infer attributes too; raises TypeError for
    data that no attribute can hold."""
    if isinstance(data, (str, Path)):
        with naming(Path(data)):
            return _infer_file(Path(data), ids, vectors, declares)
    if isinstance(data, (list, tuple)):
        if not data or isinstance(data[0], Mapping):
            return _infer_rows(data, declares)
        data = np.array(data)
    if isinstance(data, np.ndarray):
        if vectors is not None:
            raise TypeError("vectors: names a column; an array has none")
        return _infer_array(data, ids)
    if not isinstance(data, Mapping) and not is_table(data):
        raise TypeError(f"like: {type(data).__name__}; an array, a table, a list or a file")
    return _infer_table(as_table(data), ids, vectors, declares)


def _infer_array(data: Any, ids: Any) -> Inferred:
    if len(data.shape) != 2:
        raise ValueError(f"like: shape {list(data.shape)}; it must be [rows, dim]")
    texts = ids is not None and len(ids) > 0 and isinstance(ids[0], str)
    dtype = "float16" if data.dtype == np.float16 else "float32"
    dtype = "bfloat16" if is_bfloat16(data.dtype) else dtype
    return Inferred(data.shape[1], dtype, "string" if texts else "uint64", ())


def _infer_file(path: Path, ids: Any, vectors: str | None, declares: bool) -> Inferred:
    suffix = suffix_of(path)
    if suffix in (".jsonl", ".ndjson"):
        return _infer_rows((row for _, row in read_jsonl(path, {})), declares)
    if suffix == ".csv":
        raise TypeError("like: a file .csv does not show its types; give dim= and attributes=")
    if suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            first = list(islice(file.iter_batches(batch_size=1), 1))
            table = pa.Table.from_batches(first, file.schema_arrow)
        return _infer_table(table, ids, vectors, declares)
    found, close = open_vectors(path, vectors)
    try:
        return _infer_array(found, ids)
    finally:
        close()


def _infer_table(table: Any, ids: Any, vectors: str | None, declares: bool) -> Inferred:
    import pyarrow as pa

    from nearfield._arrow import plain_type
    from nearfield._sources.arrow_columns import declare_from

    id_name = name_of_column("ids", ids, "id")
    vector_name = name_of_column("vectors", vectors, "vector")
    check_columns(id_name, vector_name, table.schema.names)
    kind = plain_type(table.schema.field(vector_name).type)
    dim = kind.list_size if pa.types.is_fixed_size_list(kind) else 0
    if not dim and len(table):
        dim = len(table.column(vector_name)[0])
    if not dim:
        raise ValueError(
            f"column {vector_name!r}: {kind} without rows shows no dimension: give dim"
        )
    skip = {id_name, vector_name, "payload"}
    id_type = plain_type(table.schema.field(id_name).type)
    return Inferred(
        dim,
        "float16" if kind.value_type == pa.float16() else "float32",
        "uint64" if pa.types.is_integer(id_type) else "string",
        tuple(declare_from(table.schema, skip)) if declares else (),
    )


def _infer_rows(rows: Iterable[Mapping[str, Any]], declares: bool) -> Inferred:
    """All rows are read, because a member may be absent in some of them."""
    dim, id_type, found = 0, "uint64", dict[str, Attribute | None]()
    for number, row in enumerate(rows):
        if not hasattr(row.get("vector"), "__len__"):
            raise ValueError(f"row {number}: no vector, a list of numbers")
        if number == 0:
            dim = len(row["vector"])
            id_type = "string" if isinstance(row.get("id"), str) else "uint64"
        for name in row.keys() - MEMBERS if declares else ():
            known, seen = found.get(name), declared_by(name, row[name])
            found[name] = known if seen is None else seen if known is None else both(known, seen)
    if not dim:
        raise ValueError("no rows, which show no dimension: give dim")
    for name, attribute in found.items():
        if attribute is None:
            raise TypeError(f"{name!r}: no row has a value, so its type is not known")
    return Inferred(dim, "float32", id_type, tuple(each for each in found.values() if each))


def declared_by(name: str, value: Any) -> Attribute | None:
    """Returns the declaration that a value shows; None if it shows none."""
    if isinstance(value, (list, np.ndarray)):
        kinds = {each.type: each for item in value if (each := declared_by(name, item))}
        found = [Attribute(name, kind, True) for kind in kinds]
        return None if not found else found[0] if len(found) == 1 else both(*found[:2])
    if is_gap(value):
        return None
    for kind, types in _TYPES.items():
        if isinstance(value, types):
            return Attribute(name, kind)
    raise TypeError(f"{name!r}: {value!r:.60}; no attribute can hold it")


def both(one: Attribute, other: Attribute) -> Attribute:
    """Returns the declaration that holds the values of both."""
    if one == other:
        return one
    if one.is_list != other.is_list or {one.type, other.type} != {"int64", "double"}:
        raise TypeError(f"{one.name!r}: values of {one.text} and of {other.text}")
    return Attribute(one.name, "double", one.is_list)
