"""A shard of knn_join: the part of the corpus that one actor holds. Imports neither Ray Data nor
pandas, which take seconds in every process."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import ray

import nearfield
from nearfield import _methods as methods
from nearfield._arrow import matrix_of, vectors_of
from nearfield._blocking import run
from nearfield._methods import Method
from nearfield.ray._segment import ids_of, shards_of

# Memory of a shard on the CPU besides its rows, and for each row besides its vector, in bytes.
_SHARD_BYTES = 64 << 20
_ROW_BYTES = 128
_UPLOAD_IDLE_MS = 3_600_000  # no client can be lost: it is this process, which may wait for a core


class _Bytes:
    """In place of the type of a message: the callers of a shard make and read the messages, so that
    its process does little besides searching."""

    @staticmethod
    def SerializeToString(data: bytes) -> bytes:  # noqa: N802
        return data

    FromString = SerializeToString


_SEARCH: Method[Any, Any] = Method(methods.SEARCH.path, _Bytes, _Bytes)
COLLECTION = "corpus"


class Loaded(NamedTuple):
    """A shard that has its rows. queries_max: of one call."""

    rows: int
    queries_max: int


def whole_column(table: pa.Table, name: str) -> pa.Array:
    """Returns a column as one array."""
    return pa.concat_arrays(table.column(name).chunks)


def plain_rows(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Returns the table with the columns id and vector, vectors as lists of equal size."""
    vectors = vectors_of(matrix_of(whole_column(table, columns[1]), columns[1]))
    return pa.table([whole_column(table, columns[0]), vectors], names=["id", "vector"])


@ray.remote
def first_row(block: pa.Table, columns: Sequence[str]) -> pa.Table:
    return plain_rows(block.slice(0, 1), columns) if block.num_rows else block


@ray.remote
def split_rows(block: pa.Table, columns: Sequence[str], shards: int) -> Any:
    """Returns the rows of each shard; a single table for one shard."""
    if not block.num_rows:
        return [None] * shards if shards > 1 else None
    table = plain_rows(block, columns)
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
        self._client: nearfield.Client | None = None

    def pid(self) -> int:
        return os.getpid()

    def load(self) -> Loaded:
        """Loads the rows. The constructor does not: Ray would repeat its error for ever."""
        client = self._loaded()
        rows = client.collection(COLLECTION).count().rows_count
        return Loaded(rows, client.limits().queries_max)

    def _loaded(self) -> nearfield.Client:
        with self._lock:
            if self._client is None:
                self._client = self._load()
            return self._client

    def _load(self) -> nearfield.Client:
        tables = [table for table in ray.get(list(self._pieces)) if table is not None]
        rows_count = sum(table.num_rows for table in tables)
        settings = {"upload_idle_ms": _UPLOAD_IDLE_MS, **self._settings}
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
            corpus = client.create_collection(COLLECTION, **self._declared)
            if rows_count:
                corpus.upload(pa.concat_tables(tables), zero_rows="accept")
        except BaseException:
            client.close()
            raise
        return client

    def search(self, request: bytes) -> bytes:
        """Returns the reply to a SearchRequest."""
        core = self._loaded()._inner._core
        reply: bytes = run(core.call(_SEARCH, request, core.deadline(None)))[0]
        return reply
