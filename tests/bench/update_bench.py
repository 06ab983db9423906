#!/usr/bin/env python3
"""Measures updates of attributes over loopback: one call with many rows, calls of one row from many
callers, and searches meanwhile; next to Qdrant's local mode.

    python tests/bench/update_bench.py --address 127.0.0.1:50051 --data-dir DIR [--rows 1000000]

DIR is the server's data directory; the time of a sync is measured there. Prints one JSON object.
Checks after each step that every row has the value that was written last.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nearfield
import numpy as np

NAME = "update-bench"
CALLERS = 64
PROCESSES = 4
SECONDS = 10.0


def sync_ms(folder: Path) -> float:
    """Returns the median milliseconds of a sync after a write of 4 KiB in the folder."""
    path = folder / "update-bench.tmp"
    times = []
    with path.open("wb", buffering=0) as file:
        for _ in range(50):
            file.write(os.urandom(4096))
            begin = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - begin)
    path.unlink()
    return 1e3 * statistics.median(times)


def upload(docs: nearfield.Collection, rows: int, dim: int) -> None:
    rng = np.random.default_rng(7)
    for begin in range(0, rows, 100_000):
        count = min(100_000, rows - begin)
        docs.upload(rng.standard_normal((count, dim), dtype=np.float32), ids=np.arange(begin, begin + count),
                    attributes={"status": ["new"] * count, "version": np.zeros(count, np.int64)})


def one_large_call(docs: nearfield.Collection, rows: int) -> dict[str, Any]:
    """Times calls of 10,000 rows with new keywords."""
    rng = np.random.default_rng(11)
    count = min(10_000, rows)
    times = []
    for repeat in range(10):
        ids = rng.choice(rows, count, replace=False)
        values = [f"call {repeat} row {i}" for i in range(count)]
        begin = time.perf_counter()
        done = docs.update(ids, attributes={"status": values})
        times.append(1e3 * (time.perf_counter() - begin))
        assert done.rows == count
        assert docs.count(nearfield.F("status in $1", values[:100])).rows_count == 100
    return {"rows": count, "median_ms": round(statistics.median(times), 1), "max_ms": round(max(times), 1)}


def call_until(address: str, first: int, until: float, results: Any) -> None:
    """Updates one row per call in CALLERS / PROCESSES threads, each thread a row of its own."""
    counts = [0] * (CALLERS // PROCESSES)

    def run(place: int) -> None:
        client = nearfield.connect(address)
        docs = client.collection(NAME)
        while time.time() < until:
            docs.update([first + place], attributes={"version": [counts[place] + 1]})
            counts[place] += 1

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(counts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put({first + place: count for place, count in enumerate(counts)})


def many_callers(docs: nearfield.Collection, address: str, meanwhile: Callable[[float], Any]) -> tuple[dict[str, Any], Any]:
    """Runs the callers, and meanwhile(end of the run)."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    until = time.time() + SECONDS + 2
    each = CALLERS // PROCESSES
    processes = [context.Process(target=call_until, args=(address, each * place, until, results)) for place in range(PROCESSES)]
    before = docs.info().epoch
    for process in processes:
        process.start()
    beside = meanwhile(until)
    counts: dict[int, int] = {}
    for _ in processes:
        counts |= results.get()
    for process in processes:
        process.join()
    calls = sum(counts.values())
    assert docs.info().epoch == before + calls, "each call has an epoch of its own"
    found = docs.fetch(list(counts), attributes=["version"], vectors=False)
    assert list(found.attributes["version"]) == list(counts.values())
    return {"callers": CALLERS, "calls": calls, "calls_per_s": round(calls / SECONDS)}, beside


def search_times(docs: nearfield.Collection, dim: int, until: float) -> list[float]:
    """Searches 20 times a second; returns the milliseconds of each search, sorted."""
    rng = np.random.default_rng(13)
    times = []
    ended = threading.Event()  # never set: its wait is the pause
    while time.time() < until:
        query = rng.standard_normal(dim, dtype=np.float32)
        begin = time.perf_counter()
        docs.search(query, k=10)
        times.append(1e3 * (time.perf_counter() - begin))
        ended.wait(0.05)
    return sorted(times)


def quantiles(times: list[float]) -> dict[str, float]:
    return {"median_ms": round(statistics.median(times), 2), "p99_ms": round(times[int(0.99 * len(times))], 2)}


def qdrant(rows: int, dim: int) -> dict[str, Any]:
    """Times the same two steps in Qdrant's local mode, which keeps everything in this process."""
    from qdrant_client import QdrantClient, models  # an optional package

    client = QdrantClient(":memory:")
    client.create_collection(NAME, models.VectorParams(size=dim, distance=models.Distance.DOT))
    rng = np.random.default_rng(7)
    for begin in range(0, rows, 10_000):
        count = min(10_000, rows - begin)
        client.upsert(NAME, models.Batch(ids=list(range(begin, begin + count)),
                                         vectors=rng.standard_normal((count, dim), dtype=np.float32).tolist(),
                                         payloads=[{"status": "new"}] * count))
    count = min(10_000, rows)
    begin = time.perf_counter()
    operations = [models.SetPayloadOperation(set_payload=models.SetPayload(payload={"status": f"row {i}"}, points=[i]))
                  for i in range(count)]
    client.batch_update_points(NAME, operations)
    large = 1e3 * (time.perf_counter() - begin)
    times = []
    for i in range(1000):
        begin = time.perf_counter()
        client.set_payload(NAME, {"version": i}, points=[i % rows])
        times.append(time.perf_counter() - begin)
    return {"rows": rows, "many_rows_ms": round(large, 1), "one_row_per_s": round(1 / statistics.median(times)), "durable": False}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", default="127.0.0.1:50051")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--qdrant-rows", type=int, default=20_000, help="0: leave Qdrant out")
    options = parser.parse_args()
    client = nearfield.connect(options.address)
    docs = client.create_collection(NAME, options.dim, metric="dot", attributes={"status": str, "version": int})
    upload(docs, options.rows, options.dim)
    result: dict[str, Any] = {"cores": os.cpu_count(), "rows": options.rows, "dim": options.dim, "sync_ms": round(sync_ms(options.data_dir), 2)}
    result["one_call"] = one_large_call(docs, options.rows)
    alone = search_times(docs, options.dim, time.time() + SECONDS)
    result["many_callers"], during = many_callers(docs, options.address, lambda until: search_times(docs, options.dim, until))
    result["searches"] = {"alone": quantiles(alone), "during_updates": quantiles(during)}
    if options.qdrant_rows:
        result["qdrant_local"] = qdrant(options.qdrant_rows, options.dim)
    print(json.dumps(result, indent=1))
    client.drop_collection(NAME)


if __name__ == "__main__":
    main()
