#!/usr/bin/env python3
"""Times searches for the best groups: nearfield.open, LanceDB in memory and Qdrant's local mode. LanceDB
has no groups, so it is asked for more rows than needed (over-fetching).

    tests/environment/run --peers --python tests/bench/groups_bench.py [--rows 1000000] [--queries 20]

Two families of rows: groups of unequal size, and one group that has half of the rows. The benchmark
ends with an error if an answer of nearfield differs from that of sorting all rows. `recall` is the
share of the right (group, row) pairs that were found. `plain` is nearfield's search for as many rows,
without groups. Prints a table and writes a receipt. A peer that is not installed is left out.
NEARFIELD_LIBRARY names libnearfield.so, unless nearfield-native is installed.
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

GROUPS, GROUP_ROWS = 10, 3  # of an answer
OVERFETCH = (1, 10, 100)  # times the rows of an answer
QDRANT_QUERIES = 5  # its local mode takes seconds for each
BLOCK_ROWS = 50_000
Answer = list[tuple[int, list[int]]]  # the value and the rows of each group
Search = Callable[[np.ndarray], Answer]


def make(family: str, rows: int, groups: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns vectors and the group of each row. The rows of a group lie near its center."""
    rng = np.random.default_rng(7)
    chosen = (groups * rng.random(rows) ** 3).astype(np.int64)  # unequal sizes
    if family == "half":
        chosen[rng.random(rows) < 0.5] = 0
    centers = rng.standard_normal((groups, dim), dtype=np.float32)
    vectors = rng.standard_normal((rows, dim), dtype=np.float32)
    vectors += centers[chosen]
    return vectors, chosen


def take(order: Any, group_of: Callable[[int], int]) -> Answer:
    """Returns the groups of rows in the order of their scores."""
    found: dict[int, list[int]] = {}
    for row in order:
        group = group_of(row)
        if group in found or len(found) < GROUPS:
            rows = found.setdefault(group, [])
            if len(rows) < GROUP_ROWS:
                rows.append(int(row))
    return list(found.items())


def expected(queries: np.ndarray, vectors: np.ndarray, groups: np.ndarray) -> list[Answer]:
    """Sorts all rows by their score in double precision, rounded to single, and then by id."""
    scores = np.empty((len(queries), len(vectors)), np.float32)
    for begin in range(0, len(vectors), BLOCK_ROWS):
        block = vectors[begin : begin + BLOCK_ROWS].astype(np.float64)
        scores[:, begin : begin + BLOCK_ROWS] = queries.astype(np.float64) @ block.T
    return [take(np.argsort(-each, kind="stable"), lambda row: int(groups[row])) for each in scores]


def recall(found: Answer, right: Answer) -> float:
    pairs = {(group, row) for group, rows in right for row in rows}
    return len(pairs & {(group, row) for group, rows in found for row in rows}) / len(pairs)


def open_lancedb(vectors: np.ndarray, groups: np.ndarray) -> peer_stores.Searches:
    table = peer_stores.lancedb_table(vectors, {"group": groups})

    def searching(limit: int) -> Search:
        def search(query: np.ndarray) -> Answer:
            rows = table.search(query).distance_type("dot").select(["row", "group", "_distance"]).limit(limit).to_arrow()
            found = dict(zip(rows["row"].to_pylist(), rows["group"].to_pylist(), strict=True))
            return take(found, found.__getitem__)

        return search

    return [(f"{factor * GROUPS * GROUP_ROWS} rows", searching(factor * GROUPS * GROUP_ROWS), 0) for factor in OVERFETCH]


def open_qdrant(vectors: np.ndarray, groups: np.ndarray) -> peer_stores.Searches:
    client = peer_stores.qdrant_client(vectors, {"group": groups})

    def search(query: np.ndarray) -> Answer:
        found = client.query_points_groups("docs", "group", query, limit=GROUPS, group_size=GROUP_ROWS, with_payload=False)
        return [(int(group.id), [int(hit.id) for hit in group.hits]) for group in found.groups]

    return [("local mode, its groups", search, QDRANT_QUERIES)]


def measure(options: argparse.Namespace, family: str) -> list[campaign.Row]:
    vectors, groups = make(family, options.rows, options.groups, options.dim)
    queries = vectors[:: max(1, options.rows // options.queries)][: options.queries].copy()
    right = expected(queries, vectors, groups)
    rows: list[campaign.Row] = []

    def report(what: str, times: campaign.Row, found: list[Answer]) -> None:
        mean = statistics.fmean(recall(each, true) for each, true in zip(found, right, strict=False))
        rows.append({"family": family, "rows": options.rows, "dim": options.dim, "groups": options.groups, "what": what,
                     "queries": len(found), **times, "recall": round(mean, 4)})
        print(peer_stores.line(rows[-1]), flush=True)

    docs = peer_stores.open_nearfield(vectors, {"group": groups}, options.backend)
    plain, times = peer_stores.timed(lambda query: docs.search(query, k=GROUPS * GROUP_ROWS), queries)
    report("nearfield, plain search", times, [take(each.ids, lambda row: int(groups[row])) for each in plain])
    answers, times = peer_stores.timed(lambda query: docs.search(query, k=GROUPS, group_by="group", group_rows=GROUP_ROWS), queries)
    found = [[(each.value, [hit.id for hit in each.hits]) for each in answer.groups] for answer in answers]
    if found != right:
        sys.exit(f"{family}: an answer differs from that of sorting all rows")
    report(f"nearfield {nearfield.__version__}, groups", times, found)
    peers: peer_stores.Peers = {
        "LanceDB": ("lancedb", lambda: open_lancedb(vectors, groups)),
        "Qdrant": ("qdrant-client", lambda: open_qdrant(vectors, groups)),
    }
    if not options.no_peers:
        peer_stores.ask(peers, queries, report)
    return rows


def main() -> None:
    parser = campaign.parser_of(__doc__, "groups_<cores>_cores")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--backend", choices=["cpu", "gpu"], default="cpu", help="of nearfield")
    parser.add_argument("--no-peers", action="store_true", help="measure nearfield only")
    options = parser.parse_args()
    peer_stores.finish(options, "groups", lambda: [row for family in ("unequal", "half") for row in measure(options, family)])


if __name__ == "__main__":
    main()
