"""knn_join: the nearest rows of a corpus for each query, over Ray Data."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import ray
import ray.data
import ray.exceptions
from pyarrow import dataset, fs

from nearfield._arrow import id_array, matrix_of
from nearfield._declaration import RowPlacement, ScanChoice
from nearfield._hit_arrays import read_arrays
from nearfield._infer import infer
from nearfield._proto import retrieval_pb2 as retrieval
from nearfield._search import add_queries
from nearfield._values import Metric
from nearfield.ray._join_shard import (
    COLLECTION,
    JoinShard,
    Loaded,
    first_row,
    split_rows,
    whole_column,
)
from nearfield.ray._merge import check_counts, merged

Rows = Any  # a ray.data.Dataset, an Arrow table, or one or several paths of Parquet files

# Calls that one batch of queries makes at a time, so that a shard always has the next one.
_BATCHES_AT_ONCE = 4
# Rows of a block of a table, so that several workers have some, unless those are too many blocks.
_BLOCK_ROWS = 8192
_BLOCKS_MAX = 256


def knn_join(
    queries: Rows,
    corpus: Rows,
    k: int,
    *,
    metric: Metric,
    shards: int | None = None,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    scan: ScanChoice = "auto",
    rows: RowPlacement = "device",
    id: str = "id",
    vector: str = "vector",
    query_id: str = "id",
    query_vector: str = "vector",
    batch_rows: int = 1024,
    settings: Mapping[str, Any] | None = None,
) -> ray.data.Dataset:
    """Returns the k nearest rows of the corpus for each query, as a Ray data set with one row per
    query, in any order: its id, and the lists `ids` and `scores`, by descending score, equal scores
    by ascending id. The answer is exact, and the same to the bit for any number of shards.

    queries, corpus  a Ray data set, an Arrow table, or paths of Parquet files
    k                rows per query, at least 1; fewer if the corpus has fewer
    metric           dot, cosine or l2
    shards           actors that hold the corpus, each a part of it, chosen by the XXH64 of the id;
                     by default one per GPU of the cluster, or one if there is none
    num_cpus         cores of each shard; by default 1 with GPUs, else its part of the cluster's
                     cores but one, which reads the queries
    num_gpus         GPUs of each shard, by default 1 if the cluster has GPUs
    scan, rows       as in create_collection: speed and memory only
    id, vector       columns of the corpus: integers or texts, and lists of numbers or tensors
    query_id, query_vector  those of the queries
    batch_rows       queries of one call, at most Limits.queries_max of the shards
    settings         more settings of each shard, as in nearfield.open

    Loads the corpus before it returns: each shard reads its rows from Ray's object store into its
    memory. The queries are read when the result is. A shard whose process or node dies is loaded
    again elsewhere, and its calls are repeated; the join does not end with part of an answer.

    A shard keeps its cores or GPU as long as this process has the result, or what was made of it
    and is not yet computed; gc.collect() frees them at once. So keep the result while other
    processes read from it.

    Raises AlreadyExists if an id occurs twice in the corpus, and TypeError or ValueError if a
    column does not fit.

    Source: client/python/nearfield/ray; the order of the answer: nearfield's result contract."""
    if k < 1:
        raise ValueError(f"k: {k}, must be at least 1")
    count, resources, defaults = _resources(shards, num_cpus, num_gpus)
    declared = {"metric": metric, "scan": scan, "rows": rows}
    actors, loaded = _start_shards(
        _dataset(corpus), [id, vector], declared, count, resources, {**defaults, **(settings or {})}
    )
    arguments = {"actors": _OwnedActors(actors), "rows": [each.rows for each in loaded], "k": k}
    return _dataset(queries).map_batches(
        _join,  # type: ignore[arg-type]
        fn_kwargs={**arguments, "columns": [query_id, query_vector]},
        batch_size=min(batch_rows, *(each.queries_max for each in loaded)),
        batch_format="pyarrow",
        num_cpus=0,  # it waits for the shards
        compute=ray.data.TaskPoolStrategy(size=_BATCHES_AT_ONCE),
    )


def _start_shards(
    corpus: ray.data.Dataset,
    columns: list[str],
    declared: Mapping[str, Any],
    shards: int,
    resources: Mapping[str, float],
    settings: Mapping[str, Any],
) -> tuple[list[Any], list[Loaded]]:
    """Returns the shards once each has loaded its rows."""
    gc.collect()  # ends the shards of results that are gone: Ray Data's objects form cycles
    blocks = corpus.select_columns(columns).materialize().to_arrow_refs()
    declared = {**declared, **_declare(blocks, columns)}
    split: Any = split_rows.options(num_returns=shards)
    pieces = [split.remote(block, columns, shards) for block in blocks]
    if shards == 1:  # Ray returns the only part itself
        pieces = [[piece] for piece in pieces]
    shard: Any = JoinShard
    options = {**resources, "max_concurrency": _BATCHES_AT_ONCE}
    options |= {"max_restarts": -1, "max_task_retries": -1}
    actors = [
        shard.options(**options).remote([piece[number] for piece in pieces], declared, settings)
        for number in range(shards)
    ]
    try:
        return actors, ray.get([actor.load.remote() for actor in actors])
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None


class _OwnedActors:
    """Actors that end with this object, which the data set holds. A process that reads it gets
    their handles only. Workers keep those for as long as they live, so Ray itself would not end
    the actors before."""

    def __init__(self, actors: Sequence[Any]) -> None:
        self._actors = tuple(actors)
        weakref.finalize(self, _end_soon, self._actors).atexit = False

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self._actors,)


def _end_soon(actors: Sequence[Any]) -> None:
    """Ends actors from another thread: the caller may be the garbage collector, within Ray."""

    def end() -> None:
        for actor in actors:
            with contextlib.suppress(Exception):  # Ray may end just now
                if ray.is_initialized():  # else kill would start another
                    ray.kill(actor)

    threading.Thread(target=end, daemon=True).start()


def _resources(
    shards: int | None, cpus: float | None, gpus: float | None
) -> tuple[int, dict[str, float], dict[str, Any]]:
    """Returns the number of shards, what Ray reserves for each, and settings of each."""
    if not ray.is_initialized():
        ray.init()
    cluster = ray.cluster_resources()  # type: ignore[no-untyped-call]
    if gpus is None:
        gpus = 1.0 if cluster.get("GPU", 0) >= 1 else 0.0
    if shards is None:
        shards = max(1, int(cluster.get("GPU", 0) / gpus)) if gpus else 1
    if shards < 1:
        raise ValueError(f"shards: {shards}, must be at least 1")
    if cpus is None:
        free = (cluster.get("CPU", 1) - 1) / shards
        cpus = 1.0 if gpus else max(int(free), round(min(free, 0.9), 1))
    settings = {} if gpus else {"backend": "cpu", "threads": max(1, int(cpus))}
    return shards, {"num_cpus": cpus, "num_gpus": gpus}, settings


def _dataset(rows: Rows) -> ray.data.Dataset:
    if isinstance(rows, ray.data.Dataset):
        return rows
    if isinstance(rows, pa.Table):
        step = max(_BLOCK_ROWS, -(-len(rows) // _BLOCKS_MAX))
        parts = [rows.slice(begin, step) for begin in range(0, len(rows), step)]
        return ray.data.from_arrow(parts or rows)
    paths = [rows] if isinstance(rows, (str, Path)) else list(rows)
    if not paths:
        raise ValueError("rows: no path of a Parquet file")
    # A path without a scheme is of this process: workers have folders of their own.
    found = [
        fs.FileSystem.from_uri(str(path) if "://" in str(path) else Path(path).absolute().as_uri())
        for path in paths
    ]
    files = dataset.dataset([path for _, path in found], filesystem=found[0][0], format="parquet")
    parts = [part for each in files.get_fragments() for part in each.split_by_row_group()]
    numbers = ray.data.from_items([{"part": number} for number in range(len(parts))])
    return numbers.map_batches(
        _read_part,  # type: ignore[arg-type]
        fn_kwargs={"parts": parts},
        batch_size=1,
        batch_format="pyarrow",
    )


def _read_part(numbers: pa.Table, *, parts: Sequence[Any]) -> pa.Table:
    """Returns the rows of one row group of a Parquet file."""
    return parts[numbers.column("part")[0].as_py()].to_table()


def _declare(blocks: Sequence[Any], columns: Sequence[str]) -> dict[str, Any]:
    """Returns dim, dtype and id_type of the corpus."""
    for block in blocks:
        first = ray.get(first_row.remote(block, columns))
        if first.num_rows:
            found = infer(first, "id", "vector", declares=False)
            return {"dim": found.dim, "dtype": found.dtype, "id_type": found.id_type}
    raise ValueError("corpus: it has no rows")


def _join(
    table: pa.Table, *, actors: Sequence[Any], rows: Sequence[int], k: int, columns: Sequence[str]
) -> pa.Table:
    """Returns the neighbors of a batch of queries. rows: their number, by shard."""
    if not table.num_rows:
        return pa.table({})
    request = retrieval.SearchRequest(collection=COLLECTION, k=k)
    add_queries(request.queries, matrix_of(whole_column(table, columns[1]), columns[1]))
    data = ray.put(request.SerializeToString())
    replies = ray.get([actor.search.remote(data) for actor in actors])
    parts = [read_arrays(retrieval.SearchResponse.FromString(each)) for each in replies]
    for part, count in zip(parts, rows, strict=True):
        check_counts(part, count, k)
    found, _ = merged(parts, k)
    offsets = pa.array(np.append(0, np.cumsum(found.counts)).astype(np.int32))
    return pa.table(
        {
            columns[0]: table.column(columns[0]),
            "ids": pa.ListArray.from_arrays(offsets, id_array(found.ids)),
            "scores": pa.ListArray.from_arrays(offsets, pa.array(found.scores)),
        }
    )
