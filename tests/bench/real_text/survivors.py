#!/usr/bin/env python3
"""Counts the rows that a certified scan of each code leaves, on an embedded corpus.

A row is left if its certified upper bound reaches the k-th best exact score. Reads the folder that
embed.py writes, and checks every bound against the exact score. Neglects rounding and the code of
the query, which add about 3e-5 of the norms to the engine's bounds (engine/DESIGN.md). Needs torch
and NumPy. The fp16 rows and the fp64 scores must fit in the memory of the GPU.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from codes import Code, make_codes
from survivor_table import KS, table
from torch import Tensor

CHUNK_ROWS = 1 << 16
TRAIN_ROWS = 1 << 16


def exact_scores(rows: Tensor, queries: Tensor) -> Tensor:
    """Returns the dot products [queries, rows] in fp64."""
    scores = torch.empty(len(queries), len(rows), dtype=torch.float64, device=rows.device)
    for begin in range(0, len(rows), CHUNK_ROWS):
        chunk = rows[begin : begin + CHUNK_ROWS].double()
        torch.mm(queries, chunk.T, out=scores[:, begin : begin + len(chunk)])
    return scores


class Counter:
    """Counts, per query and k, the rows whose bound reaches the k-th score."""

    def __init__(self, thresholds: Tensor) -> None:
        self.thresholds = thresholds  # [ks, queries]
        self.counts = torch.zeros_like(thresholds, dtype=torch.int64)

    def add(self, bounds: Tensor, scores: Tensor) -> None:
        """Adds a chunk. bounds, scores: [queries, rows]."""
        short = (scores - bounds).max().item()
        if short > 1e-9:
            raise AssertionError(f"a bound is {short} below the score of its row")
        for i, threshold in enumerate(self.thresholds):
            self.counts[i] += (bounds >= threshold[:, None]).sum(1)

    def result(self) -> dict[str, dict[str, float]]:
        numbers = self.counts.double()
        return {
            str(k): {"median": line.median().item(), "p99": line.quantile(0.99).item()}
            for k, line in zip(KS, numbers, strict=True)
        }


def measure(
    code: Code, rows: Tensor, queries: Tensor, scores: Tensor, thresholds: Tensor
) -> dict[str, Any]:
    """Returns the survivors of one code."""
    counter = Counter(thresholds)
    basis = code.basis.double()
    turned = queries @ basis
    query_norms = turned.reshape(len(queries), code.blocks, -1).norm(dim=2)
    offset = (queries @ code.mean.double())[:, None]
    ratios = []
    for begin in range(0, len(rows), CHUNK_ROWS):
        centered = rows[begin : begin + CHUNK_ROWS].double() - code.mean.double()
        x = centered @ basis
        near = code.quantize(x.float()).double()
        if code.fits_scale:
            squares = near.square().sum(1, keepdim=True).clamp_min(1e-30)
            near *= (x * near).sum(1, keepdim=True) / squares
        residuals = (x - near).reshape(len(x), code.blocks, -1).norm(dim=2)  # [rows, blocks]
        bounds = offset + turned @ near.T + query_norms @ residuals.T
        counter.add(bounds, scores[:, begin : begin + len(x)])
        ratios.append(residuals.norm(dim=1))
    return {"name": code.name, "row_bytes": code.row_bytes,
            "residual": torch.cat(ratios).median().item(), "left": counter.result()}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder that embed.py writes")
    parser.add_argument("--rows", type=int, help="only the first ROWS rows")
    parser.add_argument("--queries", type=int, default=512, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--json", type=Path, help="file of the result")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(arguments.seed)
    torch.backends.cuda.matmul.allow_tf32 = False
    mapped = np.load(arguments.data / "packages.fp16.npy", mmap_mode="r")
    rows = torch.from_numpy(np.array(mapped[: arguments.rows])).to(device)
    asked = np.load(arguments.data / "queries.f32.npy")[: arguments.queries]
    queries = torch.from_numpy(asked).to(device).double()
    scores = exact_scores(rows, queries)
    best = scores.topk(max(KS), dim=1).values
    thresholds = torch.stack([best[:, k - 1] for k in KS])
    medians = {str(k): best[:, k - 1].median().item() for k in KS}
    result: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "CPU",
        "rows": len(rows),
        "dim": rows.shape[1],
        "queries": len(queries),
        "seed": arguments.seed,
        "median_scores": medians,
        "codes": [],
    }
    begin = time.monotonic()
    for code in make_codes(rows[:TRAIN_ROWS].float(), arguments.seed):
        result["codes"].append(measure(code, rows, queries, scores, thresholds))
        print(f"{time.monotonic() - begin:6.1f} s  {json.dumps(result['codes'][-1])}", flush=True)
        if arguments.json is not None:
            arguments.json.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    print(table(result))


if __name__ == "__main__":
    main()
