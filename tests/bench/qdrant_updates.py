#!/usr/bin/env python3
"""Times updates of payloads in Qdrant's local mode, which runs in this process: one call with a new
keyword for each of many rows, and calls of one row.

    tests/environment/run --peers --python tests/bench/qdrant_updates.py [--rows 20000]

Times them in memory, and with a folder, where each change is committed to SQLite before the call
ends. Prints lines "NEARFIELD_BENCH_JSON {...}". Exits with 3 if qdrant-client is not installed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from importlib import metadata
from typing import Any

import numpy as np

NAME = "updates"
NOT_INSTALLED = 3
ONE_ROW_CALLS = 1000


def fill(client: Any, models: Any, rows: int, dim: int) -> None:
    client.create_collection(NAME, models.VectorParams(size=dim, distance=models.Distance.DOT))
    rng = np.random.default_rng(7)
    for begin in range(0, rows, 10_000):
        count = min(10_000, rows - begin)
        client.upsert(NAME, models.Batch(ids=list(range(begin, begin + count)),
                                         vectors=rng.standard_normal((count, dim), dtype=np.float32).tolist(),
                                         payloads=[{"status": "new", "version": 0}] * count))


def time_updates(client: Any, models: Any, rows: int, call_rows: int) -> dict[str, Any]:
    operations = [models.SetPayloadOperation(set_payload=models.SetPayload(payload={"status": f"row {i}"}, points=[i]))
                  for i in range(call_rows)]
    begin = time.perf_counter()
    client.batch_update_points(NAME, operations)
    large_ms = 1e3 * (time.perf_counter() - begin)
    times = []
    for i in range(ONE_ROW_CALLS):
        begin = time.perf_counter()
        client.set_payload(NAME, {"version": i}, points=[i % rows])
        times.append(time.perf_counter() - begin)
    return {"large_call_ms": round(large_ms, 1), "one_row_per_second": round(len(times) / sum(times)),
            "one_row_median_us": round(1e6 * statistics.median(times))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--call-rows", type=int, default=10_000, help="rows of the large call")
    parser.add_argument("--folder", help="parent of the folder with the rows; default: a temporary one")
    options = parser.parse_args()
    try:
        from qdrant_client import QdrantClient, models
    except ImportError as error:
        print(f"qdrant-client: {error}")
        return NOT_INSTALLED
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for place, arguments in (("memory", {"location": ":memory:"}), ("folder", {"path": folder})):
            client = QdrantClient(**arguments)
            fill(client, models, options.rows, options.dim)
            times = time_updates(client, models, options.rows, options.call_rows)
            client.close()
            print("NEARFIELD_BENCH_JSON " + json.dumps({
                "bench": "update", "what": "qdrant", "version": metadata.version("qdrant-client"), "rows_in": place,
                "rows": options.rows, "dim": options.dim, "call_rows": options.call_rows, **times}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
