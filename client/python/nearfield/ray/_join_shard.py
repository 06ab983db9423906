"""A shard of knn_join: the part of the corpus that one actor holds. Imports neither Ray Data nor
pandas, which take seconds in every process."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import ray
from numpy.typing import NDArray

import nearfield
from nearfield.ray._merge import Found
from nearfield.ray._segment import ids_of
from nearfield.ray._shards import shards_of

# Memory of a shard on the CPU besides its rows, and for each row besides its vector, in bytes.
_SHARD_BYTES = 64 << 20
_ROW_BYTES = 128


def plain_rows(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Returns the table with the columns id and vector, tensors as lists."""
    found = []
    for name in columns:
        column = table.column(name).combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks)
        if isinstance(column.type, pa.BaseExtensionType):
            values = np.stack(list(column.to_numpy(zero_copy_only=False)))
            flat = pa.array(values.reshape(-1))
            column = pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
        found.append(column)
    return pa.table(found, names=["id", "vector"])


@ray.remote
def first_row(block: pa.Table, columns: Sequence[str]) -> pa.Table:
    return plain_rows(block.slice(0, 1), columns) if block.num_rows else block


@ray.remote
def split_rows(block: pa.Table, columns: Sequence[str], shards: int) -> Any:
    """Returns the rows of each shard; a single table for one shard."""
    table = plain_rows(block, columns) if block.num_rows else None
    if table is None:
        return [None] * shards if shards > 1 else None
    if shards == 1:
        return table
    owners = shards_of(ids_of(table), shards)
    return [table.filter(pa.array(owners == shard)) for shard in range(shards)]


@ray.remote
class JoinShard:
    """An engine with the rows of one shard. Ray starts a shard that dies again, without its rows:
    the next call loads them."""

    def __init__(
        self, pieces: Sequence[Any], declared: dict[str, Any], settings: dict[str, Any]
    ) -> None:
        self._pieces = pieces
        self._declared = declared
        self._settings = settings
        self._lock = threading.Lock()
        self._corpus: nearfield.Collection | None = None

    def pid(self) -> int:
        return os.getpid()

    def load(self) -> Exception | None:
        """Loads the rows; returns the error that they have. An exception of a method would be
        raised with another type, and one of the constructor would be repeated for ever."""
        try:
            self._loaded()
        except (nearfield.Error, TypeError, ValueError) as error:
            return error
        return None

    def _loaded(self) -> nearfield.Collection:
        with self._lock:
            if self._corpus is None:
                self._corpus = self._load()
            return self._corpus

    def _load(self) -> nearfield.Collection:
        tables = [table for table in ray.get(list(self._pieces)) if table is not None]
        rows_count = sum(table.num_rows for table in tables)
        settings = self._settings
        if settings.get("backend") == "cpu":
            number_bytes = 5 if self._declared["dtype"] == "float32" else 3
            row_bytes = self._declared["dim"] * number_bytes + _ROW_BYTES
            ids_bytes = sum(table.column("id").nbytes for table in tables)
            settings = {
                "memory_bytes": _SHARD_BYTES + rows_count * row_bytes,
                "host_memory_bytes": _SHARD_BYTES + rows_count * _ROW_BYTES + 2 * ids_bytes,
                **settings,
            }
        client = nearfield.open(None, timeout=3600, **settings)
        try:
            corpus = client.create_collection("corpus", **self._declared)
            if rows_count:
                corpus.upload(pa.concat_tables(tables))
            self._queries_max = client.limits().queries_max
        except BaseException:
            client.close()
            raise
        return corpus

    def search(self, vectors: NDArray[Any], k: int) -> Found:
        found: list[nearfield.Hits] = []
        corpus = self._loaded()
        for begin in range(0, len(vectors), self._queries_max):
            result = corpus.search(vectors[begin : begin + self._queries_max], k=k)
            found += result.queries
        shape = len(found), len(found[0].scores)
        scores = np.array([hits.scores for hits in found], np.float32).reshape(shape)
        kind = object if isinstance(found[0].ids, list) else np.uint64
        return Found(np.array([hits.ids for hits in found], kind).reshape(shape), scores)
