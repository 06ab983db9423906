"""knn_join: the exact join on Ray against one engine with all rows: the same ids and score bits."""

from __future__ import annotations

import gc
import os
import signal
import time
from pathlib import Path
from typing import Any

import nearfield
import numpy as np
import pytest
from readme import block

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ray = pytest.importorskip("ray")

from nearfield._hit_arrays import HitArrays  # noqa: E402
from nearfield.ray import _join, knn_join  # noqa: E402
from nearfield.ray._merge import merged  # noqa: E402
from nearfield.ray._segment import PARTITIONS, partitions_of, shards_of  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
DIM = 12


pytestmark = pytest.mark.usefixtures("local_ray")


def table_of(ids, vectors, ids_name="id", vectors_name="vector"):
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
    return pa.table({ids_name: pa.array(ids), vectors_name: lists})


def expected(corpus, vectors, k, metric):
    """The answer of one engine: id -> (ids, score bytes) for each query in order."""
    with nearfield.open(None, backend="cpu", memory_bytes="64MiB", host_memory_bytes="64MiB") as client:
        docs = client.create_collection("c", metric=metric, like=corpus)
        docs.upload(corpus)
        return [(list(hits.ids), hits.scores.tobytes()) for hits in docs.search(vectors, k=k).queries]


def joined(dataset):
    found = {}
    for row in dataset.iter_rows():
        scores = np.asarray(row["scores"], np.float32)
        found[row["id"]] = (list(row["ids"]), scores.tobytes())
    return found


def shards_started(monkeypatch):
    """A list to which the joins of this test add their shards."""
    actors, start = [], _join._start_shards

    def started(*given):
        found, loaded = start(*given)
        actors.extend(found)
        return found, loaded

    monkeypatch.setattr(_join, "_start_shards", started)
    return actors


def draw_rows(rng, count, dtype=np.float32):
    """Small whole numbers, so that many scores are equal."""
    return rng.integers(-2, 3, (count, DIM)).astype(dtype)


def test_partitions_are_those_of_xxh64():
    numbers = np.array([0, 1, 7, 2**64 - 1], np.uint64)
    assert partitions_of(numbers[:3]).tolist() == partitions_of(["\0" * 8, "\1" + "\0" * 7, "\7" + "\0" * 7]).tolist()
    # The XXH64 of no bytes, from its specification.
    assert partitions_of([""]).tolist() == [0xEF4]
    ids = np.arange(20_000, dtype=np.uint64)
    for shards in (1, 2, 3, 5, PARTITIONS):
        owners = shards_of(ids, shards)
        assert owners.min() == 0 and owners.max() == shards - 1
        if shards < 8:
            assert np.bincount(owners).min() > 0.9 * len(ids) / shards
    with pytest.raises(ValueError, match="shards: 0, must be 1"):
        shards_of(ids, 0)


@pytest.mark.parametrize("text", [False, True])
def test_merged_lists_are_the_list_of_all_rows(rng, text):
    for _ in range(50):
        rows, k, queries = int(rng.integers(1, 60)), int(rng.integers(1, 20)), 4
        scores = rng.choice([-np.inf, -1.5, -0.0, 0.0, 1.0, 2.5], (queries, rows)).astype(np.float32)
        ids = rng.permutation(rows).astype(np.uint64)
        names = np.array([f"ü{i:03}" if i % 2 else f"z{i:03}" for i in ids], object) if text else ids
        owners = shards_of(ids, 3)
        lists = []
        for shard in range(3):
            mine = np.flatnonzero(owners == shard)
            order = np.lexsort((np.tile(names[mine], (queries, 1)), -scores[:, mine]), axis=-1)[:, :k]
            ids_found = np.tile(names[mine], (queries, 1))[np.arange(queries)[:, None], order].reshape(-1)
            scores_found = np.take_along_axis(scores[:, mine], order, 1).reshape(-1)
            counts = np.full(queries, order.shape[1])
            lists.append(HitArrays(ids_found.tolist() if text else ids_found, scores_found, counts))
        found, _ = merged(lists, k)
        width = min(k, rows)
        assert found.counts.tolist() == [width] * queries
        for q in range(queries):
            best = sorted(zip(-scores[q], names, strict=True))[:k]
            assert list(found.ids[q * width : (q + 1) * width]) == [name for _, name in best]
            assert found.scores[q * width : (q + 1) * width].tolist() == [-score for score, _ in best]


@pytest.mark.parametrize(
    ("metric", "dtype", "text", "shards"),
    [("dot", np.float32, False, 1), ("l2", np.float16, False, 3), ("cosine", np.float32, True, 4)],
)
def test_a_join_is_the_answer_of_one_engine(rng, metric, dtype, text, shards):
    numbers = rng.permutation(10_000)[:900]
    ids = [f"ü{n}" for n in numbers] if text else numbers.astype(np.uint64)
    vectors = draw_rows(rng, 900, dtype)
    vectors[:, 0] = 1  # no zero rows: cosine
    corpus = table_of(ids, vectors)
    queries = draw_rows(rng, 130)
    queries[:, 0] = 1
    asked = table_of(np.arange(130), queries)
    blocks = ray.data.from_arrow([corpus.slice(0, 10), corpus.slice(10, 500), corpus.slice(510)])
    found = joined(knn_join(asked, blocks, 17, metric=metric, shards=shards, num_cpus=0.2, batch_rows=32))
    assert [found[i] for i in range(130)] == expected(corpus, queries, 17, metric)


def test_parquet_files_tensors_and_names_of_columns(rng, tmp_path):
    vectors, queries = draw_rows(rng, 300), draw_rows(rng, 40)
    corpus = table_of(np.arange(300), vectors)
    paths = [tmp_path / f"{part}.parquet" for part in range(3)]
    for part, path in enumerate(paths):
        pq.write_table(table_of(np.arange(300), vectors, "key", "embedding").slice(100 * part, 100), path)
    asked = ray.data.from_items([{"id": i, "embedding": queries[i]} for i in range(40)])
    found = joined(knn_join(asked, paths, 5, metric="l2", shards=2, num_cpus=0.2, id="key",
                            vector="embedding", query_vector="embedding", scan="rows"))
    assert [found[i] for i in range(40)] == expected(corpus, queries, 5, "l2")


def test_a_corpus_with_fewer_rows_than_k(rng):
    corpus, queries = table_of(np.arange(4), draw_rows(rng, 4)), draw_rows(rng, 3)
    asked = table_of(np.arange(3), queries)
    found = joined(knn_join(asked, corpus, 100, metric="dot", shards=2, num_cpus=0.2))
    assert [found[i] for i in range(3)] == expected(corpus, queries, 100, "dot")


def test_large_batches_are_cut_to_what_a_call_may_have(rng):
    vectors, queries = draw_rows(rng, 90), draw_rows(rng, 100)
    corpus, asked = table_of(np.arange(90), vectors), table_of(np.arange(100), queries)
    found = joined(knn_join(asked, corpus, 5, metric="dot", shards=2, num_cpus=0.2, batch_rows=64,
                            settings={"queries_max": 16}))
    assert [found[i] for i in range(100)] == expected(corpus, queries, 5, "dot")


def test_a_shard_with_too_few_hits_is_refused(rng, monkeypatch):
    corpus = table_of(np.arange(9), draw_rows(rng, 9))
    start = _join._start_shards

    def more(*given):
        actors, loaded = start(*given)
        return actors, [each._replace(rows=each.rows + 1) for each in loaded]

    monkeypatch.setattr(_join, "_start_shards", more)
    with pytest.raises(Exception, match=r"\[9\] rows of 10, k = 20"):
        joined(knn_join(corpus, corpus, 20, metric="dot", num_cpus=0.2))


def test_wrong_arguments_are_named(rng):
    corpus = table_of(np.arange(8), draw_rows(rng, 8))
    with pytest.raises(ValueError, match="k: 0, must be at least 1"):
        knn_join(corpus, corpus, 0, metric="dot")
    with pytest.raises(ValueError, match="shards: 0"):
        knn_join(corpus, corpus, 1, metric="dot", shards=0)
    with pytest.raises(ValueError, match="corpus: it has no rows"):
        knn_join(corpus, corpus.slice(0, 0), 1, metric="dot")
    twice = pa.concat_tables([corpus, corpus])
    with pytest.raises(nearfield.AlreadyExists):
        knn_join(corpus, twice, 1, metric="dot", shards=2, num_cpus=0.2)


def test_shards_that_die_under_way_leave_the_answer_as_it_is(rng, monkeypatch):
    actors = shards_started(monkeypatch)
    vectors, queries = draw_rows(rng, 2_000), draw_rows(rng, 400)
    corpus, asked = table_of(np.arange(2_000), vectors), table_of(np.arange(400), queries)
    dataset = knn_join(asked, corpus, 9, metric="dot", shards=3, num_cpus=0.2, batch_rows=10)
    assert len(actors) == 3
    found, killed = {}, set()
    for batch in dataset.iter_batches(batch_size=10, prefetch_batches=0, batch_format="pyarrow"):
        for row in batch.to_pylist():
            found[row["id"]] = (row["ids"], np.asarray(row["scores"], np.float32).tobytes())
        if len(killed) < 4:
            pid = ray.get(actors[len(killed) % 3].pid.remote())
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)
    for actor in actors:
        ray.kill(actor)  # the test holds them, and they hold cores
    assert len(killed) == 4
    assert [found[i] for i in range(400)] == expected(corpus, queries, 9, "dot")


def test_shards_end_with_the_result_and_all_that_was_made_of_it(rng, monkeypatch):
    """Also where workers, or this test, still have their handles."""
    actors = shards_started(monkeypatch)
    corpus = table_of(np.arange(50), draw_rows(rng, 50))
    doubled = knn_join(corpus, corpus, 3, metric="dot", num_cpus=0.2).map(lambda row: {**row, "id": 2 * row["id"]})
    gc.collect()
    assert set(joined(doubled)) == set(range(0, 100, 2))  # the data set in between is gone
    assert ray.get(actors[0].pid.remote()) > 0
    del doubled
    gc.collect()
    with pytest.raises(ray.exceptions.RayActorError):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            ray.get(actors[0].pid.remote())


def test_the_readme_joins_two_files(rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    vectors, queries = draw_rows(rng, 90), draw_rows(rng, 20)
    pq.write_table(table_of(np.arange(90), vectors), "corpus.parquet")
    pq.write_table(table_of(np.arange(20), queries), "queries.parquet")
    names: dict[str, Any] = {}
    exec(block(ROOT / "client/python/README.md", "python ray"), names)
    found = {row.id: (list(row.ids), np.asarray(row.scores, np.float32).tobytes())
             for row in names["table"].itertuples()}
    assert [found[i] for i in range(20)] == expected(table_of(np.arange(90), vectors), queries, 10, "dot")
