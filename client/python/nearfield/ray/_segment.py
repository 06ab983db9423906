"""Segments: the rows of an upload, or the ids of a delete, as one object, ordered by partition, so
that a shard reads only its range.

    chunk 0 | chunk 1 | ... | index

Each chunk is an Arrow stream with _CHUNK_ROWS rows. The index has the first row of each partition,
and the length and XXH64 of each chunk. The manifest refers to a segment as {"name", "rows",
"index": [offset, length, XXH64]}, so that every byte that is read is checked."""

from __future__ import annotations

import base64
import json
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from nearfield._arrow import id_array, table_of
from nearfield._blocks import Batch
from nearfield._columns import ReadColumn, column_message
from nearfield._errors import DataLoss, InvalidArgument
from nearfield._export import Layout
from nearfield._records import CollectionInfo
from nearfield._row_calls import ZeroRows
from nearfield._values import Ids
from nearfield.ray._store import Store

PARTITIONS = 4096  # of the ids, by their XXH64; each shard owns a range
_CHUNK_ROWS = 4096  # the smallest part that is read
_BYTES_MAX = 128 << 20  # of the rows of one segment, unless one batch has more
Reference = dict[str, Any]


def put_tables(put: Callable[[str, bytes], None], tables: Iterable[pa.Table]) -> list[Reference]:
    """Writes the rows of the tables as large segments, by Store.put; returns their references."""
    found: list[Reference] = []
    some: list[pa.Table] = []
    for table in chain(tables, [None]):
        some += [] if table is None else [table]
        if some and (table is None or sum(each.nbytes for each in some) >= _BYTES_MAX):
            data, reference = encode_segment(pa.concat_tables(some))
            put(reference["name"], data)
            found.append(reference)
            some = []
    return found


def encode_segment(table: pa.Table) -> tuple[bytes, Reference]:
    """Returns the bytes and the reference of a segment. Rows of one id keep their order."""
    partitions = partitions_of(ids_of(table))
    order = np.argsort(partitions, kind="stable")
    counts = np.bincount(partitions, minlength=PARTITIONS)
    offsets = np.concatenate(([0], np.cumsum(counts))).astype("<u4")
    table = table.take(pa.array(order)).combine_chunks().replace_schema_metadata(None)
    begins = range(0, max(1, len(table)), _CHUNK_ROWS)
    chunks = [_encoded(table.slice(begin, _CHUNK_ROWS)) for begin in begins]
    index = json.dumps(
        {
            "offsets": base64.b64encode(zlib.compress(offsets.tobytes())).decode(),
            "chunks": [[len(each), xxhash.xxh64_hexdigest(each)] for each in chunks],
        }
    ).encode()
    found = [sum(map(len, chunks)), len(index), xxhash.xxh64_hexdigest(index)]
    reference = {"name": f"segments/{uuid.uuid4().hex}", "rows": len(table), "index": found}
    return b"".join([*chunks, index]), reference


def _encoded(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def read_segment(store: Store, reference: Reference, begin: int, end: int) -> pa.Table:
    """Returns the rows of the partitions [begin, end). Errors: OSError; DataLoss if a checksum
    differs."""
    name = reference["name"]
    offset, length, checksum = reference["index"]
    index = json.loads(_checked(name, store.get_range(name, offset, length), checksum))
    offsets = np.frombuffer(zlib.decompress(base64.b64decode(index["offsets"])), "<u4")
    first, last = int(offsets[begin]), int(offsets[end])
    chunks = index["chunks"]
    low, high = 0, 1  # for the schema, if there is no row
    if first < last:
        low, high = first // _CHUNK_ROWS, -(-last // _CHUNK_ROWS)
    before, length = (sum(each for each, _ in some) for some in (chunks[:low], chunks[low:high]))
    data = memoryview(store.get_range(name, before, length))
    tables = []
    for length, checksum in chunks[low:high]:
        tables.append(pa.ipc.open_stream(_checked(name, data[:length], checksum)).read_all())
        data = data[length:]
    skipped = first - low * _CHUNK_ROWS if first < last else 0
    return pa.concat_tables(tables).slice(skipped, last - first)


def _checked(name: str, data: bytes | memoryview, checksum: str) -> bytes:
    found = bytes(data)
    if xxhash.xxh64_hexdigest(found) != checksum:
        raise DataLoss(f"{name}: a checksum differs")
    return found


def ids_of(table: pa.Table) -> Ids:
    """Returns the ids as uint64 [n] or as a list of texts."""
    column = table.column("id")
    numbers = pa.types.is_integer(column.type)
    found: Ids = column.to_numpy().astype(np.uint64, copy=False) if numbers else column.to_pylist()
    return found


def id_table(ids: Ids) -> pa.Table:
    return pa.table({"id": id_array(ids)})


def tables_of(
    info: CollectionInfo, batches: Iterable[Batch], zero_rows: ZeroRows
) -> Iterator[pa.Table]:
    """Yields the rows of an upload. Raises InvalidArgument for a vector that is not finite, and
    for one of zeros that has no cosine unless zero_rows is "accept"."""
    check_zero = zero_rows == "refuse" and info.metric == "cosine"
    schema = Layout(info, vectors=True, payload=True, attributes=info.attributes).schema()
    for batch in batches:
        if len(batch):
            yield _table(info, schema, batch, check_zero)


def _table(info: CollectionInfo, schema: pa.Schema, batch: Batch, check_zero: bool) -> pa.Table:
    rows, there = len(batch), {column.attribute.name: column for column in batch.columns}
    columns = [
        ReadColumn(column_message(each, there.get(each.name), rows), rows, each)
        for each in info.attributes
    ]
    vectors, payloads = _rows_of(info, batch, check_zero), batch.payloads or [b""] * rows
    return table_of(batch.ids, None, vectors, payloads, columns).cast(schema)


def _rows_of(info: CollectionInfo, batch: Batch, check_zero: bool) -> NDArray[Any]:
    """Returns the rows as they are exported: bfloat16 as float32."""
    vectors = batch.vectors
    if info.dtype == "bfloat16":
        vectors = (vectors.astype("<u4") << 16).view("<f4")
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        raise InvalidArgument(f"vectors[{int(np.argmin(finite))}]: a value is not finite")
    has_cosine = vectors.any(axis=1)
    if check_zero and not has_cosine.all():
        row = int(np.argmin(has_cosine))
        raise InvalidArgument(
            f"vectors[{row}] (id {batch.ids[row]}): zero in every dimension, and has no cosine: "
            'leave it out, or give zero_rows="accept"'
        )
    return vectors


def partitions_of(ids: Ids) -> NDArray[np.int64]:
    """Returns the partition of each id, 0 .. PARTITIONS - 1: the XXH64 of its 8 bytes in
    little-endian order, or of the UTF-8 of a text: its upper 12 bits; [n]."""
    if isinstance(ids, list):
        keys = (text.encode() for text in ids)
        count = len(ids)
    else:
        data = memoryview(np.ascontiguousarray(ids, "<u8").tobytes())
        count = len(ids)
        keys = (bytes(data[at : at + 8]) for at in range(0, 8 * count, 8))
    hashes = (xxhash.xxh64_intdigest(key) >> 52 for key in keys)
    return np.fromiter(hashes, np.int64, count)


def shards_of(ids: Ids, shards: int) -> NDArray[np.int64]:
    """Returns the shard of each id, 0 .. shards - 1; [n]. shards: 1 .. PARTITIONS."""
    if not 1 <= shards <= PARTITIONS:
        raise ValueError(f"shards: {shards}, must be 1 .. {PARTITIONS}")
    return partitions_of(ids) * shards // PARTITIONS


def partition_range(shard: int, shards: int) -> tuple[int, int]:
    """Returns the partitions [begin, end) of a shard."""
    return -(-PARTITIONS * shard // shards), -(-PARTITIONS * (shard + 1) // shards)
