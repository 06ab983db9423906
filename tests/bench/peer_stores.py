"""The stores that benchmarks ask the same questions: LanceDB in memory and Qdrant's local mode."""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

import campaign
import numpy as np

import nearfield

Columns = dict[str, np.ndarray]  # by name: one value for each row
Searches = list[tuple[str, Callable[[np.ndarray], Any], int]]  # the name of each, and its queries at most; 0: all
Peers = dict[str, tuple[str, Callable[[], Searches]]]  # by name: the package, and what opens it


def timed(search: Callable[[np.ndarray], Any], queries: np.ndarray) -> tuple[list[Any], campaign.Row]:
    """Returns the answers, and the medians of their times, after one search that is not timed. The CPU
    time is that of all threads: all contenders run in this process."""
    search(queries[0])
    answers, times, cpu_times = [], [], []
    for query in queries:
        begin, cpu_begin = time.perf_counter(), time.process_time()
        answers.append(search(query))
        times.append(time.perf_counter() - begin)
        cpu_times.append(time.process_time() - cpu_begin)
    return answers, {"median_ms": round(1e3 * statistics.median(times), 2), "cpu_ms": round(1e3 * statistics.median(cpu_times), 2)}


def ask(peers: Peers, queries: np.ndarray, report: Callable[[str, campaign.Row, list[Any]], None]) -> None:
    """Asks every installed peer the queries, and reports each of its searches: what, times, answers."""
    for name, (package, open_peer) in peers.items():
        if importlib.util.find_spec(package.replace("-", "_")) is None:
            continue
        for setting, search, queries_max in open_peer():
            found, times = timed(search, queries[: queries_max or len(queries)])
            report(f"{name} {metadata.version(package)}, {setting}", times, found)


def open_nearfield(vectors: np.ndarray, columns: Columns, backend: str = "cpu") -> Any:
    memory = f"{max(256, 3 * vectors.nbytes >> 20)}MiB"
    client = nearfield.open(None, backend=backend, memory_bytes=memory, host_memory_bytes="512MiB")
    types = {name: float if values.dtype.kind == "f" else int for name, values in columns.items()}
    docs = client.create_collection("docs", vectors.shape[1], metric="dot", attributes=types)
    docs.upload(vectors, ids=np.arange(len(vectors), dtype=np.uint64), attributes=columns)
    return docs


def lancedb_table(vectors: np.ndarray, columns: Columns) -> Any:
    import lancedb
    import pyarrow as pa

    return lancedb.connect("memory://").create_table("docs", pa.table({
        "row": pa.array(np.arange(len(vectors))),
        **{name: pa.array(values) for name, values in columns.items()},
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1]),
    }))


def qdrant_client(vectors: np.ndarray, columns: Columns) -> Any:
    from qdrant_client import QdrantClient, models

    client = QdrantClient(":memory:")
    client.create_collection("docs", models.VectorParams(size=vectors.shape[1], distance=models.Distance.DOT))
    payloads = ({name: values[row].item() for name, values in columns.items()} for row in range(len(vectors)))
    client.upload_collection("docs", vectors, payloads, range(len(vectors)))
    return client


def line(row: campaign.Row) -> str:
    return f"{row['family']:8} {row['what']:40} {row['median_ms']:10.2f} ms, CPU {row['cpu_ms']:10.2f} ms  recall {row['recall']:.4f}"


def finish(options: argparse.Namespace, name: str, measure: Callable[[], list[campaign.Row]]) -> None:
    """Measures, prints the table and writes the receipt."""
    if getattr(options, "backend", "cpu") == "gpu":
        facts = campaign.environment(options.commit)
        path = campaign.receipt_path(name, facts)
    else:
        facts = {"commit": campaign.commit_of(options.commit), "load_average": round(os.getloadavg()[0], 1), **campaign.machine()}
        path = campaign.RECEIPTS / f"{name}_{os.cpu_count()}_cores.json"
    rows = measure()
    out = options.out or path
    campaign.finish(options, out, facts, rows, [], "\n".join(map(line, rows)))
