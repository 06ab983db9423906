#!/usr/bin/env python3
"""Times searches of an agent's memory: similarity, recency and importance in one order. nearfield.open
on the CPU computes it in the search, by row terms. LanceDB in memory and Qdrant's local mode are asked
for more rows than needed, which are ordered again (over-fetching).

    tests/environment/run --peers --python tests/bench/memory_bench.py [--rows 1000000] [--queries 20]

The benchmark ends with an error if an answer of nearfield differs from that of sorting all rows.
`recall` is the share of the right rows that were found. Prints a table and writes a receipt. A peer
that is not installed is left out. NEARFIELD_LIBRARY names libnearfield.so, unless nearfield-native is
installed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "lib"))

import campaign  # noqa: E402
import peer_stores  # noqa: E402

import nearfield  # noqa: E402

K = 10
OVERFETCH = (1, 4, 100)  # times the rows of an answer
QDRANT_QUERIES = 5  # its local mode takes seconds for each
BLOCK_ROWS = 50_000
HALF_LIFE_DAYS = 30.0
Search = Callable[[np.ndarray], list[int]]


def make(rows: int, dim: int) -> tuple[np.ndarray, peer_stores.Columns]:
    """Returns unit vectors, the age of each row in days, and its importance from 1 to 10."""
    rng = np.random.default_rng(7)
    vectors = rng.standard_normal((rows, dim), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors, {"age": rng.exponential(120.0, rows), "importance": rng.integers(1, 11, rows)}


def sums_of(columns: peer_stores.Columns, weights: tuple[float, float]) -> np.ndarray:
    """Returns what recency and importance add to the score of each row."""
    recency = np.exp2(-columns["age"] / HALF_LIFE_DAYS)
    return weights[0] * recency + weights[1] * columns["importance"]


def terms_of(weights: tuple[float, float]) -> list[Any]:
    return [nearfield.HalfLife("age", half_life=HALF_LIFE_DAYS, origin=0.0, weight=weights[0]),
            nearfield.Linear("importance", weight=weights[1])]


def best(scores: np.ndarray, rows: np.ndarray) -> list[int]:
    """Returns the rows with the best scores; of equal scores, the smaller row comes first."""
    order = np.lexsort((rows, -scores.astype(np.float32)))
    return [int(row) for row in rows[order[:K]]]


def expected(queries: np.ndarray, vectors: np.ndarray, sums: np.ndarray) -> list[list[int]]:
    scores = np.empty((len(queries), len(vectors)), np.float32)
    for begin in range(0, len(vectors), BLOCK_ROWS):
        block = slice(begin, begin + BLOCK_ROWS)
        products = (queries.astype(np.float64) @ vectors[block].astype(np.float64).T).astype(np.float32)
        scores[:, block] = products.astype(np.float64) + sums[block]
    return [best(each, np.arange(len(vectors))) for each in scores]


def open_lancedb(vectors: np.ndarray, columns: peer_stores.Columns, sums: np.ndarray) -> peer_stores.Searches:
    table = peer_stores.lancedb_table(vectors, columns)

    def searching(limit: int) -> Search:
        def search(query: np.ndarray) -> list[int]:
            found = table.search(query).distance_type("dot").select(["row", "_distance"]).limit(limit).to_arrow()
            rows = found["row"].to_numpy()
            return best(1.0 - found["_distance"].to_numpy() + sums[rows], rows)

        return search

    return [(f"{factor * K} rows", searching(factor * K), 0) for factor in OVERFETCH]


def open_qdrant(vectors: np.ndarray, columns: peer_stores.Columns, sums: np.ndarray) -> peer_stores.Searches:
    client = peer_stores.qdrant_client(vectors, columns)

    def search(query: np.ndarray) -> list[int]:
        hits = client.query_points("docs", query, limit=4 * K, with_payload=False).points
        rows = np.array([hit.id for hit in hits])
        return best(np.array([hit.score for hit in hits]) + sums[rows], rows)

    return [(f"local mode, {4 * K} rows", search, QDRANT_QUERIES)]


# How much recency and importance count: about as much as the score, and much more.
FAMILIES = {"balanced": (0.1, 0.01), "strong": (0.5, 0.05)}


def measure(options: argparse.Namespace, family: str) -> list[campaign.Row]:
    vectors, columns = make(options.rows, options.dim)
    sums = sums_of(columns, FAMILIES[family])
    queries = vectors[:: max(1, options.rows // options.queries)][: options.queries].copy()
    right = expected(queries, vectors, sums)
    rows: list[campaign.Row] = []

    def report(what: str, times: campaign.Row, found: list[list[int]]) -> None:
        mean = statistics.fmean(len(set(each) & set(true)) / K for each, true in zip(found, right, strict=False))
        rows.append({"family": family, "rows": options.rows, "dim": options.dim, "k": K, "what": what, "queries": len(found),
                     **times, "recall": round(mean, 4)})
        print(peer_stores.line(rows[-1]), flush=True)

    docs = peer_stores.open_nearfield(vectors, columns)
    plain, times = peer_stores.timed(lambda query: docs.search(query, k=K), queries)
    report("nearfield, plain search", times, [[int(row) for row in each.ids] for each in plain])
    terms = terms_of(FAMILIES[family])
    answers, times = peer_stores.timed(lambda query: docs.search(query, k=K, terms=terms), queries)
    found = [[int(row) for row in each.ids] for each in answers]
    if found != right:
        sys.exit(f"{family}: an answer differs from that of sorting all rows")
    report(f"nearfield {nearfield.__version__}, terms", times, found)
    peers: peer_stores.Peers = {
        "LanceDB": ("lancedb", lambda: open_lancedb(vectors, columns, sums)),
        "Qdrant": ("qdrant-client", lambda: open_qdrant(vectors, columns, sums)),
    }
    if not options.no_peers:
        peer_stores.ask(peers, queries, report)
    return rows


def main() -> None:
    parser = campaign.parser_of(__doc__, "memory_<cores>_cores")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--no-peers", action="store_true", help="measure nearfield only")
    options = parser.parse_args()
    peer_stores.finish(options, "memory", lambda: [row for family in FAMILIES for row in measure(options, family)])


if __name__ == "__main__":
    main()
