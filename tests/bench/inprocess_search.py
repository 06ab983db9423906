#!/usr/bin/env python3
"""Compares one query at a time in one process: nearfield.open with the usual libraries of Python.

    python tests/bench/inprocess_search.py [--overhead] [--shapes 5000x384,50000x384,200000x384] [--rounds 5] [--out receipt.json]

The queries of all contenders alternate within one run, so that a change of the machine's load meets
all of them. FAISS is timed with every thread count from one to the number of cores, and the best one
counts. Prints a table and writes a receipt. A peer that is not installed is left out, with a line
that reports it; all of them: pip install faiss-cpu usearch hnswlib lancedb chromadb. NEARFIELD_LIBRARY
names libnearfield.so, unless nearfield-native is installed.

--overhead measures nearfield alone: what one query costs beyond the time of the engine (device_us of
its cost), by nf_call and nf_search of the C library, and by the Python client with messages and without, in turn.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))

import campaign  # noqa: E402

import nearfield  # noqa: E402
from nearfield import _methods as methods  # noqa: E402
from nearfield._blocking import run  # noqa: E402
from nearfield._library import PlainResult, PlainSearch, Reply  # noqa: E402
from nearfield._local_transport import LocalTransport  # noqa: E402

# Takes a query, returns the rows that were found.
Search = Callable[[np.ndarray], Any]
K = 10


class Skipped(Exception):
    """The peer is not installed."""


def module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Skipped(str(error)) from None


def open_nearfield(rows: np.ndarray, folder: Path) -> Search:
    memory = f"{max(256, rows.nbytes * 3 >> 20)}MiB"
    client = nearfield.open(folder / "nearfield", memory_bytes=memory)
    docs = client.create_collection("docs", rows.shape[1], metric="dot")
    docs.upload(rows)
    return lambda query: docs.search(query, k=K).ids


def open_faiss(threads: int) -> Callable[[np.ndarray, Path], Search]:
    def make(rows: np.ndarray, folder: Path) -> Search:
        faiss = module("faiss")
        index = faiss.IndexFlatIP(rows.shape[1])
        index.add(rows)

        def search(query: np.ndarray) -> Any:
            faiss.omp_set_num_threads(threads)
            return index.search(query[None], K)[1][0]

        return search

    return make


def open_usearch(rows: np.ndarray, folder: Path) -> Search:
    index = module("usearch.index")
    metric = index.MetricKind.IP
    return lambda query: index.search(rows, query, K, metric, exact=True).keys


def open_hnswlib(rows: np.ndarray, folder: Path) -> Search:
    index = module("hnswlib").Index(space="ip", dim=rows.shape[1])
    index.init_index(max_elements=len(rows), M=16, ef_construction=200)
    index.add_items(rows)
    index.set_ef(100)
    return lambda query: index.knn_query(query, K, num_threads=1)[0][0]


def open_lancedb(rows: np.ndarray, folder: Path) -> Search:
    lancedb, pa = module("lancedb"), module("pyarrow")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1])
    data = pa.table({"id": pa.array(np.arange(len(rows))), "vector": vectors})
    table = lancedb.connect(str(folder / "lance")).create_table("docs", data)
    return lambda query: table.search(query).metric("dot").limit(K).select(["id", "_distance"]).to_arrow()["id"].to_numpy()


def open_chroma(rows: np.ndarray, folder: Path) -> Search:
    client = module("chromadb").PersistentClient(str(folder / "chroma"))
    docs = client.create_collection("docs", configuration={"hnsw": {"space": "ip"}})
    for begin in range(0, len(rows), 5000):
        part = rows[begin : begin + 5000]
        docs.add(ids=[str(begin + i) for i in range(len(part))], embeddings=part)
    return lambda query: [int(each) for each in docs.query(query_embeddings=query[None], n_results=K, include=[])["ids"][0]]


def open_numpy(rows: np.ndarray, folder: Path) -> Search:
    def search(query: np.ndarray) -> Any:
        scores = rows @ query
        best = np.argpartition(scores, -K)[-K:]
        return best[np.argsort(-scores[best], kind="stable")]

    return search


def contenders() -> dict[str, Callable[[np.ndarray, Path], Search]]:
    cores = os.cpu_count() or 1
    threads = sorted({1 << i for i in range(cores.bit_length()) if 1 << i <= cores} | {cores})
    return {
        "nearfield.open": open_nearfield,
        **{f"FAISS IndexFlatIP, {each} threads": open_faiss(each) for each in threads},
        "usearch, exact": open_usearch,
        "NumPy": open_numpy,
        "hnswlib, M 16, ef 100": open_hnswlib,
        "LanceDB, no index": open_lancedb,
        "Chroma": open_chroma,
    }


def measure(rows: np.ndarray, queries: np.ndarray, rounds: int, folder: Path) -> list[campaign.Row]:
    ready: dict[str, Search] = {}
    results: list[campaign.Row] = []
    for name, make in contenders().items():
        try:
            ready[name] = make(rows, folder)
            ready[name](queries[0])  # warm
        except Skipped as skipped:
            print(f"inprocess_search: {name} is left out: {skipped}", file=sys.stderr)
            results.append({"name": name, "skipped": str(skipped)})
    times: dict[str, list[float]] = {name: [] for name in ready}
    found: dict[str, int] = dict.fromkeys(ready, 0)
    exact = [set(open_numpy(rows, folder)(query).tolist()) for query in queries]
    for _ in range(rounds):
        for name, search in ready.items():
            for query, wanted in zip(queries, exact, strict=True):
                begin = time.perf_counter()
                answer = search(query)
                times[name].append(time.perf_counter() - begin)
                found[name] += len(wanted & {int(each) for each in answer})
    for name, each in times.items():
        each.sort()
        results.append({
            "name": name,
            "p50_us": statistics.median(each) * 1e6,
            "p99_us": each[len(each) * 99 // 100] * 1e6,
            "recall": found[name] / (len(each) * K),
        })
    return results


# Takes a query; returns the time of the call in us, and the cost that the reply reports.
Timed = Callable[[np.ndarray], tuple[float, Any]]


def timed_calls(rows: np.ndarray) -> dict[str, Timed]:
    memory = f"{max(256, rows.nbytes * 3 >> 20)}MiB"
    client = nearfield.open(None, memory_bytes=memory, host_memory_bytes=memory, backend="cpu")
    docs = client.create_collection("docs", rows.shape[1], metric="dot")
    docs.upload(rows)
    transport = client._inner._core.transport
    assert isinstance(transport, LocalTransport)
    library, handle = transport._library, transport._handle
    path = methods.SEARCH.path.encode()

    def by_c(query: np.ndarray) -> tuple[float, Any]:
        request = methods.SEARCH.request(collection="docs", k=K)
        encoded = request.queries.add().encoded
        encoded.dtype, encoded.data = 1, query.tobytes()
        data, reply = request.SerializeToString(), Reply()
        begin = time.perf_counter()
        library.nf_call(handle, path, data, len(data), None, ctypes.byref(reply))
        elapsed = time.perf_counter() - begin
        answer = methods.SEARCH.parse(reply.bytes())
        library.nf_free(ctypes.byref(reply))
        return elapsed * 1e6, answer.cost

    def plain_by_c(query: np.ndarray) -> tuple[float, Any]:
        memory = (ctypes.c_char * (12 * K + 4))()
        search, result, reply = PlainSearch(b"docs", query.tobytes(), 1, len(query), K), PlainResult(), Reply()
        search.ids = address = ctypes.addressof(memory)
        search.scores, search.counts = address + 8 * K, address + 12 * K
        begin = time.perf_counter()
        library.nf_search(handle, search, None, result, reply)
        elapsed = time.perf_counter() - begin
        library.nf_free(reply)
        return elapsed * 1e6, result.cost

    def in_python(search: Callable[..., Any]) -> Timed:
        def timed(query: np.ndarray) -> tuple[float, Any]:
            begin = time.perf_counter()
            answer = search(query, k=K)
            ids, scores = answer.ids, answer.scores
            elapsed = time.perf_counter() - begin
            assert len(ids) == len(scores) == K
            return elapsed * 1e6, answer.cost

        return timed

    return {
        "nf_call": by_c,
        "nf_search": plain_by_c,
        "messages in Python, ids, scores": in_python(lambda query, k: run(docs._inner.search(query, k=k))),
        "Collection.search, ids, scores": in_python(docs.search),
    }


def measure_overhead(rows: np.ndarray, queries: np.ndarray, rounds: int) -> list[campaign.Row]:
    calls = timed_calls(rows)
    times: dict[str, list[tuple[float, ...]]] = {name: [] for name in calls}
    for counted in (False, *([True] * rounds)):  # the first round warms
        for name, call in calls.items():
            for query in queries:
                wall, cost = call(query)
                if counted:
                    times[name].append((wall, cost.device_us, cost.total_us, wall - cost.device_us))
    results: list[campaign.Row] = []
    for name, each in times.items():
        row: campaign.Row = {"name": name}
        for column, values in zip(("wall", "device", "total", "beyond"), np.array(each).T, strict=True):
            for percent in (10, 50, 99):
                row[f"{column}_p{percent}_us"] = round(float(np.percentile(values, percent)), 1)
        results.append(row)
    return results


def overhead_line(row: campaign.Row) -> str:
    columns = (
        f"{column} {row[f'{column}_p10_us']:.0f} {row[f'{column}_p50_us']:.0f} {row[f'{column}_p99_us']:.0f}"
        for column in ("wall", "device", "total", "beyond")
    )
    return f"  {row['name']:32} " + "  ".join(columns)


def best_faiss(rows: list[campaign.Row]) -> list[campaign.Row]:
    """Drops the slower thread counts of FAISS."""
    faiss = [row for row in rows if row["name"].startswith("FAISS") and "p50_us" in row]
    best = min(faiss, key=lambda row: row["p50_us"], default=None)
    return [row for row in rows if row not in faiss or row is best]


def main() -> None:
    parser = campaign.parser_of(__doc__, "inprocess_search")
    parser.add_argument("--shapes", default="5000x384,50000x384,200000x384")
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--overhead", action="store_true")
    options = parser.parse_args()
    measured: list[campaign.Row] = []
    lines: list[str] = []
    for shape in options.shapes.split(","):
        rows_count, dim = (int(part) for part in shape.split("x"))
        rng = np.random.default_rng(7)
        rows = rng.standard_normal((rows_count, dim), dtype=np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        queries = rng.standard_normal((options.queries, dim), dtype=np.float32)
        queries /= np.linalg.norm(queries, axis=1, keepdims=True)
        if options.overhead:
            found = measure_overhead(rows, queries, options.rounds)
            measured += [{"shape": shape, **row} for row in found]
            lines.append(f"{shape}, one query, k = {K}: microseconds, the 10th, 50th and 99th percentile")
            lines += map(overhead_line, found)
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = measure(rows, queries, options.rounds, Path(folder))
        measured += [{"shape": shape, **row} for row in found]
        lines.append(f"{shape}, one query, k = {K}: microseconds and recall")
        for row in best_faiss(found):
            if "p50_us" in row:
                lines.append(f"  {row['name']:28} p50 {row['p50_us']:9.0f}  p99 {row['p99_us']:9.0f}  {row['recall']:.4f}")
    facts = {"commit": campaign.commit_of(options.commit), **campaign.machine()}
    table = "\n".join(lines)
    name = "inprocess_overhead.json" if options.overhead else "inprocess_search.json"
    campaign.finish(options, options.out or campaign.RECEIPTS / name, facts, measured, lines, table)


if __name__ == "__main__":
    main()
