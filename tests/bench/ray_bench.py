#!/usr/bin/env python3
"""Measures nearfield.ray: what a search costs from several servers instead of one, and the speed of a join.

    python tests/bench/ray_bench.py [--shards 2] [--rows 100000] [--dim 128] [--gpus 1] [--server PROGRAM] [--out receipt.json]

cluster  The same rows in one shard and in --shards, one cluster after the other. Each is asked one query at a
         time, with fresh=True (no further name) and fresh=False, and batches of queries from several processes; so
         is the server of the one shard, without the cluster's client. The digests of one batch must be equal. A
         commit of ten rows.
join     nearfield.ray.knn_join with one shard and with --shards, and the same batches in one process
         (nearfield.open). Every id and score must be equal.

--gpus N gives each server and each shard of a join N GPUs; with 0, the default, they use cores. Prints a table; --out
writes a receipt. The join needs NEARFIELD_LIBRARY or nearfield-native.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import ray

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))

import campaign  # noqa: E402

import nearfield  # noqa: E402
from nearfield._arrow import vectors_of  # noqa: E402
from nearfield.ray import Client, Cluster, knn_join  # noqa: E402

K = 10
UPLOAD_ROWS = 250_000  # of one commit
ALTERNATIONS = 4  # between the ways to ask
HANG_SECONDS = 120  # after which a process that asks says where it hangs, and ends
THREADS = 4  # of a process that asks, so that there is always a batch under way


def draw(count: int, dim: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, dim), dtype=np.float32)


def upload(docs: Any, arguments: argparse.Namespace) -> float:
    """Uploads the rows; returns rows per second."""
    elapsed = 0.0
    for number, begin in enumerate(range(0, arguments.rows, UPLOAD_ROWS)):
        count = min(UPLOAD_ROWS, arguments.rows - begin)
        rows = draw(count, arguments.dim, number)
        started = time.perf_counter()
        docs.upload(rows, ids=np.arange(begin, begin + count), timeout=300)
        elapsed += time.perf_counter() - started
    return arguments.rows / elapsed


def latencies(ways: dict[str, Callable[[np.ndarray], Any]], queries: np.ndarray) -> list[campaign.Row]:
    times: dict[str, list[float]] = {name: [] for name in ways}
    for part in np.array_split(queries, ALTERNATIONS):
        for name, search in ways.items():
            for query in part:
                begin = time.perf_counter()
                search(query)
                times[name].append(1e3 * (time.perf_counter() - begin))
    return [
        {"name": name, "p50_ms": statistics.median(each), "p99_ms": sorted(each)[len(each) * 99 // 100]}
        for name, each in times.items()
    ]


def ask_batches(place: str, direct: bool, shape: tuple[int, int], seconds: float, together: Any, answered: Any) -> None:
    """Asks batches from a process of its own; reports the queries per second."""
    faulthandler.dump_traceback_later(seconds + HANG_SECONDS, exit=True)
    queries = draw(*shape, 1 << 20)
    with nearfield.connect(place) if direct else Client(place) as client:
        docs = client.collection("docs")
        options = {} if direct else {"fresh": False}
        docs.search(queries, k=K, **options)
        together.wait(HANG_SECONDS)
        begin = time.monotonic()

        def run(_: int) -> int:
            count = 0
            while time.monotonic() < begin + seconds:
                answer = docs.search(queries, k=K, **options).to_numpy()
                assert len(answer.ids) == len(answer.scores) == K * len(queries)
                count += len(queries)
            return count

        with ThreadPoolExecutor(THREADS) as threads:
            count = sum(threads.map(run, range(THREADS)))
        answered.put(count / (time.monotonic() - begin))


def throughput(name: str, place: str, direct: bool, arguments: argparse.Namespace) -> list[campaign.Row]:
    spawn = multiprocessing.get_context("spawn")
    rows = []
    for count in arguments.callers:
        together, answered = spawn.Barrier(count), spawn.SimpleQueue()
        options = (place, direct, (arguments.batch, arguments.dim), arguments.seconds, together, answered)
        callers = [spawn.Process(target=ask_batches, args=options) for _ in range(count)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
            if caller.exitcode != 0:
                raise SystemExit(f"{name}: a process that asks ended with {caller.exitcode}")
        rate = sum(answered.get() for _ in callers)
        rows.append({"name": name, "processes": count, "batch": arguments.batch, "queries_per_s": rate})
        print(rows[-1], flush=True)
    return rows


def measure_cluster(arguments: argparse.Namespace, folder: Path) -> list[campaign.Row]:
    queries = draw(arguments.queries, arguments.dim, 1 << 21)
    results: list[campaign.Row] = []
    digests: dict[str, Any] = {}
    for shards in sorted({1, arguments.shards}):
        name, storage = f"{shards} shards", str(folder / f"cluster{shards}")
        settings = {} if arguments.gpus else {"memory_bytes": f"{2 * arguments.rows * arguments.dim * 5 + (256 << 20)}", "threads": arguments.threads}
        cluster = Cluster(storage, shards=shards, name=name.replace(" ", "-"), program=arguments.server, num_gpus=arguments.gpus,
                          num_cpus=0.1, settings=settings)
        try:
            docs = cluster.create_collection("docs", arguments.dim, metric="dot")
            rate = upload(docs, arguments)
            print(f"{name}: {rate:.0f} rows/s uploaded", flush=True)
            ways: dict[str, Any] = {
                f"{name}": lambda query, docs=docs: docs.search(query, k=K, fresh=True),
                f"{name}, fresh=False": lambda query, docs=docs: docs.search(query, k=K, fresh=False),
            }
            digests[name] = docs.search(queries[: arguments.batch], k=K, with_digest=True).digest
            address = cluster.status()["servers"][0]["address"]
            if shards == 1:
                with_one = nearfield.connect(address).collection("docs")
                ways["its server, asked directly"] = lambda query, docs=with_one: docs.search(query, k=K)
                digests["direct"] = with_one.search(queries[: arguments.batch], k=K, with_digest=True).digest
            results += latencies(ways, queries)
            if shards == 1:
                results += throughput("its server, asked directly", address, True, arguments)
            results += throughput(f"{name}, fresh=False", storage, False, arguments)
            commits = []
            for number in range(50):
                begin = time.perf_counter()
                docs.upload(queries[:10], ids=np.arange(10) + arguments.rows + 10 * number)
                commits.append(1e3 * (time.perf_counter() - begin))
            results.append({"name": name, "upload_rows_per_s": rate, "commit_of_10_rows_p50_ms": statistics.median(commits)})
        finally:
            cluster.stop()
    if len(set(digests.values())) != 1:
        raise SystemExit(f"the digests differ: {digests}")
    results.append({"name": "equal digests", "digests": len(digests), "queries": min(arguments.batch, len(queries))})
    return results


def table_of(vectors: np.ndarray) -> pa.Table:
    return pa.table({"id": np.arange(len(vectors)), "vector": vectors_of(vectors)})


def measure_join(arguments: argparse.Namespace, _: Path) -> list[campaign.Row]:
    corpus = draw(arguments.join_rows, arguments.dim, 0)
    queries = draw(arguments.join_queries, arguments.dim, 1)
    size = corpus.nbytes
    settings: dict[str, Any] = {"memory_bytes": 2 * size + (256 << 20), "host_memory_bytes": size + (256 << 20)}
    if not arguments.gpus:
        settings |= {"backend": "cpu", "threads": arguments.threads}
    client = nearfield.open(None, timeout=3600, **settings)
    docs = client.create_collection("docs", arguments.dim, metric="dot")
    docs.upload(corpus)
    docs.search(queries[:1024], k=K)  # warm
    begin = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as threads:
        batches = [queries[at : at + 1024] for at in range(0, len(queries), 1024)]
        answers = list(threads.map(lambda batch: docs.search(batch, k=K).to_numpy(), batches))
    rate = len(queries) / (time.perf_counter() - begin)
    results: list[campaign.Row] = [{"name": "one process", "queries_per_s": rate}]
    wanted_ids = np.concatenate([answer.ids for answer in answers]).reshape(-1, K)
    wanted = np.concatenate([answer.scores for answer in answers])
    client.close()
    rows, asked = table_of(corpus), table_of(queries)
    for shards in sorted({1, arguments.shards}):
        resources = {"num_gpus": arguments.gpus, "num_cpus": 1 if arguments.gpus else arguments.threads}
        begin = time.perf_counter()
        joined = knn_join(asked, rows, K, metric="dot", shards=shards, **resources)
        loaded = time.perf_counter()
        found = pa.concat_tables(ray.get(joined.to_arrow_refs())).sort_by("id")
        elapsed = time.perf_counter() - loaded
        ids = found.column("ids").combine_chunks().values.to_numpy().reshape(-1, K)
        scores = found.column("scores").combine_chunks().values.to_numpy().reshape(-1, K)
        if not np.array_equal(ids, wanted_ids) or scores.tobytes() != wanted.tobytes():
            raise SystemExit(f"the answers of {shards} shards differ from those of one process")
        results.append({"name": f"knn_join, {shards} shards", "queries_per_s": len(queries) / elapsed, "load_s": loaded - begin})
        del joined, found
    return results


PARTS = {"cluster": measure_cluster, "join": measure_join}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--parts", type=lambda text: text.split(","), default=[*PARTS], help="default: cluster,join")
    add("--shards", type=int, default=2)
    add("--rows", type=int, default=100_000, help="of the cluster")
    add("--join-rows", type=int, default=100_000)
    add("--join-queries", type=int, default=20_000)
    add("--dim", type=int, default=128)
    add("--queries", type=int, default=400, help="one at a time, by each way")
    add("--batch", type=int, default=256)
    add("--callers", type=lambda text: [int(each) for each in text.split(",")], default=[1], help="processes with batches")
    add("--seconds", type=float, default=5.0, help="of each measurement with batches")
    add("--gpus", type=float, default=0)
    add("--threads", type=int, default=1, help="of each server and shard, without GPUs")
    add("--server", help="nearfield-server; default: of nearfield-native")
    add("--commit", default="")
    add("--out", type=Path)
    arguments = parser.parse_args()
    ray.init(include_dashboard=False, log_to_driver=False, **({} if arguments.gpus else {"num_cpus": 4}))
    rows: list[campaign.Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for part in arguments.parts:
            rows += [{"bench": f"ray {part}", **row} for row in PARTS[part](arguments, Path(folder))]
    ray.shutdown()
    for row in rows:
        print("  ".join(f"{key} {value:.2f}" if isinstance(value, float) else f"{value}" for key, value in row.items()))
    if arguments.out:
        campaign.write_receipt(arguments.out, {"command": campaign.command_line(), **campaign.environment(arguments.commit)}, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
