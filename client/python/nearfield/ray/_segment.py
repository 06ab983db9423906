"""Segments: the rows of an upload as one object, ordered by partition, so that a shard reads only
the rows of its range."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nearfield._arrow import arrow_type, column_name, vectors_of
from nearfield._blocks import Batch
from nearfield._columns import Column
from nearfield._errors import InvalidArgument
from nearfield._export import Layout
from nearfield._records import CollectionInfo
from nearfield.ray._shards import PARTITIONS, partitions_of

# Rows of one record batch of the file: the smallest part that is read.
_BATCH_ROWS = 4096
_BYTES_MAX = 128 << 20  # of the vectors of one segment
_INDEX = b"nearfield.partitions"


def segments(info: CollectionInfo, batches: Iterable[Batch]) -> Iterator[tuple[pa.Table, bytes]]:
    """Yields the rows and the bytes of each segment. Raises InvalidArgument for a value that no
    server accepts."""
    schema = Layout(info, vectors=True, payload=True, attributes=info.attributes).schema()
    tables: list[pa.Table] = []
    size = 0
    for batch in batches:
        tables.append(_table(info, schema, batch))
        size += batch.vectors.nbytes
        if size >= _BYTES_MAX:
            yield _segment(tables)
            tables, size = [], 0
    if tables:
        yield _segment(tables)


def _segment(tables: list[pa.Table]) -> tuple[pa.Table, bytes]:
    table = pa.concat_tables(tables)
    return table, encode_segment(table)


def ids_of(table: pa.Table) -> Any:
    """Returns the ids as uint64 [n] or as a list of texts."""
    column = table.column("id")
    if pa.types.is_integer(column.type):
        return column.to_numpy().astype(np.uint64, copy=False)
    return column.to_pylist()


def encode_segment(table: pa.Table) -> bytes:
    """Returns a segment with the rows of a table. Rows of one id keep their order."""
    partitions = partitions_of(ids_of(table))
    order = np.argsort(partitions, kind="stable")
    counts = np.bincount(partitions, minlength=PARTITIONS)
    offsets = np.concatenate(([0], np.cumsum(counts))).astype("<u4")
    table = table.take(pa.array(order)).combine_chunks()
    table = table.replace_schema_metadata({_INDEX: zlib.compress(offsets.tobytes())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=_BATCH_ROWS)
    return bytes(sink.getvalue())


def read_segment(file: Any, begin: int, end: int) -> pa.Table:
    """Returns the rows of the partitions [begin, end)."""
    with pa.ipc.open_file(file) as reader:
        index = zlib.decompress(reader.schema.metadata[_INDEX])
        offsets = np.frombuffer(index, "<u4")
        first, last = int(offsets[begin]), int(offsets[end])
        numbers = range(first // _BATCH_ROWS, -(-last // _BATCH_ROWS)) if first < last else ()
        batches = [reader.get_batch(number) for number in numbers]
        schema = reader.schema.remove_metadata()
    if not batches:
        return schema.empty_table()
    start = first // _BATCH_ROWS * _BATCH_ROWS
    table = pa.Table.from_batches(batches).replace_schema_metadata(None)
    return table.slice(first - start, last - first)


def _table(info: CollectionInfo, schema: pa.Schema, batch: Batch) -> pa.Table:
    rows = len(batch)
    ids = batch.ids
    columns: dict[str, Any] = {
        "id": pa.array(ids, pa.string()) if isinstance(ids, list) else pa.array(ids),
        "vector": vectors_of(_checked(info, batch.vectors)),
        "payload": pa.array(batch.payloads or [b""] * rows, pa.binary()),
    }
    there = {column.attribute.name: column for column in batch.columns}
    for attribute in info.attributes:
        column = there.get(attribute.name)
        kind = arrow_type(attribute)
        columns[column_name(attribute)] = (
            pa.nulls(rows, kind) if column is None else _values(column, kind)
        )
    return pa.table(columns).cast(schema)


def _checked(info: CollectionInfo, vectors: NDArray[Any]) -> NDArray[Any]:
    """Returns the rows as they are exported. Raises InvalidArgument for one that is not finite."""
    if info.dtype == "bfloat16":
        vectors = (vectors.astype("<u4") << 16).view("<f4")
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        raise InvalidArgument(f"vectors[{int(np.argmin(finite))}]: a value is not finite")
    return vectors


def _values(column: Column, kind: pa.DataType) -> pa.Array:
    inner = kind.value_type if column.attribute.is_list else kind
    if pa.types.is_timestamp(inner):
        values = pa.array(column.values, pa.int64()).cast(inner)
    else:
        values = pa.array(column.values, inner)
    if column.sizes is not None:
        offsets = np.concatenate(([0], np.cumsum(column.sizes))).astype(np.int32)
        values = pa.ListArray.from_arrays(pa.array(offsets), values)
    if column.present is None:
        return values
    places = np.cumsum(column.present) - 1
    return values.take(pa.array(places, mask=~column.present))
