#!/usr/bin/env python3
"""Measures uploads of the Python client: rows with string ids and five attributes, from NumPy, from
an Arrow table and from a Parquet file.

    python tests/bench/python_upload.py --address 127.0.0.1:50051 [--rows 200000] [--dim 384]

Prints for each source the rows per second by the clock, and the CPU seconds of this process. The
server's share of the cores is its own. Checks the rows with Count and one verified search.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import nearfield
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ATTRIBUTES = {"lang": "keyword", "year": "int64", "price": "double", "made": "timestamp", "tags": "keyword[]"}
NAME = "python-upload-bench"


def make_table(rows: int, dim: int) -> pa.Table:
    """Returns Gaussian vectors, and attributes of which price and tags are missing in some rows."""
    rng = np.random.default_rng(7)
    vectors = rng.standard_normal((rows, dim), dtype=np.float32)
    number = np.arange(rows)
    names = np.array([f"tag{i}" for i in range(100)])
    return pa.table({
        "id": pa.array([f"document-{i:09d}" for i in range(rows)]),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), dim),
        "lang": pa.array(np.array(["de", "en", "fr", "es"])[number % 4]),
        "year": pa.array(1980 + number % 45),
        "price": pa.array(number / 4, mask=number % 10 == 0),
        "made": pa.array(number * 1_000_000, pa.timestamp("us", tz="UTC")),
        "tags": pa.array([None if i % 20 == 0 else names[[i % 100, i * 7 % 100]][: i % 3].tolist() for i in range(rows)],
                         pa.list_(pa.string())),
    })


def measure(docs: nearfield.Collection, rows: int, data: Any, **more: Any) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    done = docs.upload(data, mode="replace", **more)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert done.rows_count == rows == docs.count().rows_count
    assert docs.count('exists(price) and tags any ("tag7")').rows_count > 0
    return wall, cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", default="127.0.0.1:50051")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    table = make_table(options.rows, options.dim)
    columns = {name: table.column(name).to_pylist() for name in ("lang", "tags")}
    columns["year"] = table.column("year").to_numpy()
    columns["price"] = table.column("price").to_pylist()
    columns["made"] = table.column("made").cast(pa.int64()).to_numpy().astype("datetime64[us]")
    vectors = table.column("vector").combine_chunks().flatten().to_numpy().reshape(options.rows, options.dim)
    with tempfile.TemporaryDirectory() as folder, nearfield.connect(options.address, timeout=600) as client:
        parquet = Path(folder, "rows.parquet")
        pq.write_table(table, parquet, row_group_size=50_000)
        docs = client.create_collection(NAME, options.dim, metric="cosine", id_type="string", attributes=ATTRIBUTES)
        try:
            for source, data, more in (
                ("NumPy", vectors, {"ids": table.column("id").to_pylist(), "attributes": columns}),
                ("Arrow", table, {}),
                ("Parquet", parquet, {}),
            ):
                runs = [measure(docs, options.rows, data, **more) for _ in range(options.runs)]
                wall, cpu = (statistics.median(each) for each in zip(*runs))
                print(f"{source:8} {options.rows / wall:10,.0f} rows/s  {wall:6.2f} s  CPU {cpu:6.2f} s, "
                      f"{options.rows / cpu:,.0f} rows per CPU second (median of {options.runs})", flush=True)
            assert docs.verify(vectors[3], k=10).equal
        finally:
            client.drop_collection(NAME)


if __name__ == "__main__":
    main()
