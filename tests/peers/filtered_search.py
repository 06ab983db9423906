"""One contender of scripts/peer_campaign: a library that answers filtered queries one by one.

    filtered_search.py make FOLDER --rows 200000 --queries 1000   # the data and the oracle's answers
    filtered_search.py NAME FOLDER --threads 8                    # a contender

The rows are the demo's corpus of real text (scripts/data), repeated with the elements of each vector
rotated, so that each rotation is a corpus of its own; a query is a mixture of two rows. Rows have
length 1, so that the dot product is also the cosine. The filter `group < 10` passes about a tenth.

A contender loads the rows, prints "ready", and then reads one line "BEGIN END SECONDS" for each
round: it asks these queries until the seconds are over, at least one of them, and prints "done".
When its input ends, it compares its answers with the oracle's and prints its row as JSON. A
contender whose library is not installed exits with 3.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "scripts" / "lib"), str(ROOT / "tests" / "e2e")]

import campaign  # noqa: E402
import canonical  # noqa: E402
from server import ServerProcess  # noqa: E402

K = 10
GROUPS, GROUPS_PASSED = 100, 10
ROTATION = 7  # elements by which each copy of the corpus is rotated further
BLOCK = 5000  # rows of one upload
WARM_UP = 5

# Takes a query; returns the ids and the scores of the answer, best first.
Search = Callable[[np.ndarray], tuple[Any, Any]]


class Data:
    """The files that `make` writes."""

    def __init__(self, folder: Path, threads: int = 0) -> None:
        self.folder, self.threads = folder, threads
        self.rows = np.load(folder / "rows.npy")
        self.groups = np.load(folder / "groups.npy")
        self.queries = np.load(folder / "queries.npy")
        self.stack = ExitStack()

    def blocks(self) -> Iterator[range]:
        for begin in range(0, len(self.rows), BLOCK):
            yield range(begin, min(begin + BLOCK, len(self.rows)))


def normalized(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def make(folder: Path, rows_count: int, queries_count: int) -> None:
    """Writes rows, groups, queries, and the oracle's ids and scores."""
    rng = np.random.default_rng(7)
    corpus = np.load(ROOT / "scripts/data/packages.fp16.npy").astype(np.float32)
    copies = -(-rows_count // len(corpus))
    if ROTATION * copies > corpus.shape[1]:
        raise SystemExit(f"filtered_search: at most {corpus.shape[1] // ROTATION * len(corpus)} rows")
    rows = normalized(np.concatenate([np.roll(corpus, ROTATION * i, axis=1) for i in range(copies)])[:rows_count])
    groups = rng.integers(0, GROUPS, rows_count)
    first, second = rng.integers(0, rows_count, (2, queries_count))
    queries = normalized(rows[first] + 0.5 * rows[second])
    passing = np.flatnonzero(groups < GROUPS_PASSED)
    wide = rows[passing].astype(np.float64)
    ids, scores = np.empty((queries_count, K), np.int64), np.empty((queries_count, K), np.float32)
    for i, query in enumerate(queries):
        # Products in fp64 are exact to 1e-13: no other row can be among the best K.
        near = wide @ query.astype(np.float64)
        near = np.flatnonzero(near >= np.partition(near, -K)[-K] - 1e-6)
        chosen = passing[near]
        best = canonical.best("dot", query, rows[chosen], chosen.tolist(), K)
        ids[i] = [each for each, _ in best]
        scores[i] = np.array([bits for _, bits in best], np.uint32).view(np.float32)
    for name, values in (("rows", rows), ("groups", groups), ("queries", queries), ("ids", ids), ("scores", scores)):
        np.save(folder / f"{name}.npy", values)


def fill(client: Any, data: Data) -> Search:
    from nearfield import F

    docs = client.create_collection("docs", data.rows.shape[1], metric="dot", attributes={"group": int})
    docs.upload(data.rows, ids=np.arange(len(data.rows), dtype=np.uint64), attributes={"group": data.groups.tolist()})
    condition = F.group < GROUPS_PASSED

    def search(query: np.ndarray) -> tuple[Any, Any]:
        answer = docs.search(query, k=K, filter=condition)
        return answer.ids, answer.scores

    return search


def memory_of(data: Data) -> int:
    return max(256 << 20, 3 * data.rows.nbytes)


def open_nearfield(data: Data) -> Search:
    import nearfield

    client = nearfield.open(None, backend="cpu", threads=data.threads, memory_bytes=memory_of(data), host_memory_bytes="512MiB")
    return fill(data.stack.enter_context(client), data)


def open_server(data: Data) -> Search:
    import nearfield

    command = [os.environ["NEARFIELD_SERVER"], "--listen", "127.0.0.1:0", "--ops-listen", "none", "--http-listen", "none",
               "--data-dir", str(data.folder / "server"), "--backend", "cpu", "--threads", str(data.threads),
               "--memory-bytes", str(memory_of(data)), "--host-memory-bytes", "512MiB"]  # fmt: skip
    server = ServerProcess(command, data.folder / "server.log")
    data.stack.callback(server.terminate, 30)
    return fill(data.stack.enter_context(nearfield.connect(server.wait_ready())), data)


def open_faiss(data: Data) -> Search:
    import faiss

    faiss.omp_set_num_threads(data.threads)
    index = faiss.IndexFlatIP(data.rows.shape[1])
    index.add(data.rows)
    # The fastest of its selectors: it reads the rows of these ids and no others.
    passing = faiss.IDSelectorArray(np.flatnonzero(data.groups < GROUPS_PASSED))
    parameters = faiss.SearchParameters(sel=passing)

    def search(query: np.ndarray) -> tuple[Any, Any]:
        scores, ids = index.search(query[None], K, params=parameters)
        return ids[0], scores[0]

    return search


def open_lancedb(data: Data) -> Search:
    import lancedb
    import pyarrow as pa

    vectors = pa.FixedSizeListArray.from_arrays(pa.array(data.rows.reshape(-1)), data.rows.shape[1])
    columns = {"id": pa.array(np.arange(len(data.rows))), "vector": vectors, "group": pa.array(data.groups)}
    table = lancedb.connect("memory://").create_table("docs", pa.table(columns))
    table.create_scalar_index("group")
    condition = f"group < {GROUPS_PASSED}"

    def search(query: np.ndarray) -> tuple[Any, Any]:
        asked = table.search(query).distance_type("dot").where(condition, prefilter=True).limit(K)
        found = asked.select(["id", "_distance"]).to_arrow()
        return found["id"].to_numpy(), 1 - found["_distance"].to_numpy()

    return search


def open_chroma(data: Data) -> Search:
    import chromadb

    client = chromadb.EphemeralClient(chromadb.Settings(anonymized_telemetry=False))
    docs = client.create_collection("docs", configuration={"hnsw": {"space": "ip", "num_threads": data.threads}})
    for block in data.blocks():
        groups = [{"group": int(group)} for group in data.groups[block.start : block.stop]]
        docs.add(ids=[str(i) for i in block], embeddings=data.rows[block.start : block.stop], metadatas=groups)
    condition: Any = {"group": {"$lt": GROUPS_PASSED}}

    def search(query: np.ndarray) -> tuple[Any, Any]:
        found = docs.query(query_embeddings=query[None], n_results=K, where=condition, include=["distances"])
        return [int(each) for each in found["ids"][0]], 1 - np.array(found["distances"][0])

    return search


def open_qdrant(data: Data) -> Search:
    from qdrant_client import QdrantClient, models

    client = QdrantClient(":memory:")
    client.create_collection("docs", models.VectorParams(size=data.rows.shape[1], distance=models.Distance.DOT))
    client.upload_collection("docs", data.rows, [{"group": int(group)} for group in data.groups], list(range(len(data.rows))))
    condition = models.Filter(must=[models.FieldCondition(key="group", range=models.Range(lt=GROUPS_PASSED))])

    def search(query: np.ndarray) -> tuple[Any, Any]:
        points = client.query_points("docs", query, query_filter=condition, limit=K, with_payload=False).points
        return [point.id for point in points], [point.score for point in points]

    return search


# Name: how it is opened, its package, its setting.
CONTENDERS: dict[str, tuple[Callable[[Data], Search], str, str]] = {
    "nearfield": (open_nearfield, "nearfield", "`nearfield.open`, in the process"),
    "nearfield-server": (open_server, "nearfield", "a server over loopback"),
    "faiss": (open_faiss, "faiss-cpu", "`IndexFlatIP`, `IDSelectorArray` made beforehand"),
    "lancedb": (open_lancedb, "lancedb", "in memory, no vector index, scalar index"),
    "chroma": (open_chroma, "chromadb", "in memory, default HNSW"),
    "qdrant": (open_qdrant, "qdrant-client", "local mode, in memory"),
}


def compare(data: Data, answers: dict[int, tuple[Any, Any]]) -> dict[str, float]:
    """Returns the recall, and the shares of answers with the oracle's ids in order and score bits."""
    true_ids, true_scores = np.load(data.folder / "ids.npy"), np.load(data.folder / "scores.npy")
    found = order = bits = 0
    for i, (ids, scores) in answers.items():
        ids, scores = [int(each) for each in ids], np.asarray(scores, np.float32)
        found += len(set(ids) & set(true_ids[i].tolist()))
        order += ids == true_ids[i].tolist()
        bits += scores.tobytes() == true_scores[i].tobytes()
    count = len(answers)
    return {"recall": found / (count * K), "same_order": order / count, "same_score_bits": bits / count}


def contend(name: str, data: Data) -> campaign.Row:
    """Loads the rows, answers the rounds that the input names, and returns the row of the receipt."""
    make_search, package, setting = CONTENDERS[name]
    begun = time.monotonic()
    search = make_search(data)
    load_seconds = time.monotonic() - begun
    for query in data.queries[:WARM_UP]:
        search(query)
    print("ready", flush=True)
    answers: dict[int, tuple[Any, Any]] = {}
    times_us: list[float] = []
    for line in sys.stdin:
        begin, end, seconds = line.split()
        deadline = time.monotonic() + float(seconds)
        for i in range(int(begin), int(end)):
            if i > int(begin) and time.monotonic() > deadline:
                break
            start = time.perf_counter()
            answers[i] = search(data.queries[i])
            times_us.append((time.perf_counter() - start) * 1e6)
        print("done", flush=True)
    p50, p99 = np.percentile(times_us, [50, 99])
    return {
        "name": name, "version": importlib.metadata.version(package), "setting": setting, "n": len(data.rows),
        "dim": data.rows.shape[1], "k": K, "threads": data.threads, "queries": len(times_us),
        "queries_per_s": round(1e6 * len(times_us) / sum(times_us), 1), "p50_us": round(p50, 1), "p99_us": round(p99, 1),
        **compare(data, answers), "load_seconds": round(load_seconds, 1),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=["make", *CONTENDERS])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=8)
    options = parser.parse_args()
    if options.name == "make":
        make(options.folder, options.rows, options.queries)
        return 0
    data = Data(options.folder, options.threads)
    with data.stack:
        try:
            row = contend(options.name, data)
        except ImportError as error:
            print(f"filtered_search: {options.name} is left out: {error}", file=sys.stderr)
            return campaign.NOT_INSTALLED
    print(campaign.RESULT_PREFIX + json.dumps(row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
