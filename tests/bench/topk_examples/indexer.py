#!/usr/bin/env python3
"""Sparse-attention indexer: which 2,048 keys does each sequence attend to?

Every sequence of a batch has a query with 64 heads, a weight for each head, and keys of 128
dimensions in FP8 (e4m3) with a scale each. The score of a key is

    scale * sum over heads of weight * max(0, query . key)

and the answer is the 2,048 highest of each sequence, best first, ties to the smaller index. The
scores are computed by indexer.cu in one pass, and selected by nearfield.topk as ragged rows. The
other pipeline is PyTorch's: dequantize to bfloat16, matrix product, relu, weighted sum, mask, topk.

    PYTHONPATH=client/python NEARFIELD_TOPK_LIBRARY=build/dev/lib/libnearfield_topk.so \\
        python3 tests/bench/topk_examples/indexer.py [--quick] [--json FILE]

libnearfield_indexer.so is next to libnearfield_topk.so, or NEARFIELD_INDEXER_LIBRARY names it.

Checks, each to the bit, on every workload; the program fails if one does:
1. On integers, of which every sum is exact in any order of summation: the scores equal those of a
   pipeline in fp32, and the selected indices those of a stable sort of them, in the same order.
2. On numbers as of a model: the selected indices equal those of a stable sort of the computed
   scores, and a second run gives the same scores.
Times are of CUDA events; "eager" calls the functions, "graph" replays a CUDA graph of them.
Source of the indexer: DeepSeek-AI, "DeepSeek-V3.2-Exp", 2025, section "DeepSeek Sparse Attention".
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from device_timing import graph_of, milliseconds

from nearfield.topk import Workspace, make_workspace, topk

HEADS, DIMS, K = 64, 128, 2048
BATCHES = (1, 2, 4, 8, 16, 32, 48, 64)
LENGTHS = tuple(round(2048 * 64 ** (i / 15) / 64) * 64 for i in range(16))  # 2,048 to 131,072
QUICK = ((1, 2048), (1, 131072), (8, 9344), (64, 2048), (64, 16384))
E4M3 = torch.float8_e4m3fn


class IndexerCall(ctypes.Structure):
    """IndexerCall of indexer.cu."""

    _fields_ = [
        ("keys", ctypes.c_void_p),
        ("keys_stride", ctypes.c_int64),
        ("scales", ctypes.c_void_p),
        ("scales_stride", ctypes.c_int64),
        ("queries", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("lengths", ctypes.c_void_p),
        ("scores", ctypes.c_void_p),
        ("batch", ctypes.c_int64),
        ("n", ctypes.c_int64),
        ("stream", ctypes.c_void_p),
    ]


@dataclass
class Sequences:
    """A batch of sequences, and memory for its scores.

    keys     e4m3 [batch, n, 128]; scales fp32 [batch, n]
    queries  e4m3 [batch, 64, 128]; weights fp32 [batch, 64]
    lengths  int32 [batch], 1 to n
    """

    keys: Any
    scales: Any
    queries: Any
    weights: Any
    lengths: Any
    scores: Any

    def cut(self, batch: int, n: int, lengths: Any) -> Sequences:
        """Returns the first keys of the first sequences. Scores beyond a length are NaN, which
        would show up in an answer that used them."""
        scores = torch.full((batch, n), math.nan, device=self.keys.device)
        return Sequences(
            self.keys[:batch, :n],
            self.scales[:batch, :n],
            self.queries[:batch],
            self.weights[:batch],
            lengths,
            scores,
        )


def make_sequences(batch: int, n: int, exact: bool, device: str) -> Sequences:
    """Makes random sequences; exact: of small integers, with powers of two as scales. Then scores
    are multiples of 1/2 below 2^20, and many are equal."""
    generator = torch.Generator(device).manual_seed(1 + exact)

    def numbers(*shape: int) -> Any:
        if exact:
            made = torch.randint(-4, 5, shape, generator=generator, device=device, dtype=torch.int8)
            return made.to(torch.float16).to(E4M3)
        return torch.randn(shape, generator=generator, device=device).to(E4M3)

    def choose(values: tuple[float, ...], *shape: int) -> Any:
        at = torch.randint(0, len(values), shape, generator=generator, device=device)
        return torch.tensor(values, dtype=torch.float32, device=device)[at]

    keys = torch.empty((batch, n, DIMS), dtype=E4M3, device=device)
    for i in range(batch):  # one at a time, to save memory
        keys[i] = numbers(n, DIMS)
    if exact:
        scales, weights = choose((0.5, 1, 2), batch, n), choose((1, 2, 3, 4), batch, HEADS)
    else:
        scales = torch.rand((batch, n), generator=generator, device=device) + 0.5
        weights = torch.randn((batch, HEADS), generator=generator, device=device)
    queries = numbers(batch, HEADS, DIMS)
    empty = torch.empty(0, device=device)
    return Sequences(keys, scales, queries, weights, empty, empty)


def load_indexer() -> Any:
    beside = Path(os.environ.get("NEARFIELD_TOPK_LIBRARY", "")).with_name("libnearfield_indexer.so")
    library = ctypes.CDLL(os.environ.get("NEARFIELD_INDEXER_LIBRARY", str(beside)))
    library.nf_indexer_scores.argtypes = [ctypes.POINTER(IndexerCall)]
    library.nf_indexer_scores.restype = ctypes.c_int32
    return library


def compute_scores(library: Any, work: Sequences) -> None:
    """Enqueues indexer.cu on the current stream."""
    call = IndexerCall(
        keys=work.keys.data_ptr(),
        keys_stride=work.keys.stride(0),
        scales=work.scales.data_ptr(),
        scales_stride=work.scales.stride(0),
        queries=work.queries.data_ptr(),
        weights=work.weights.data_ptr(),
        lengths=work.lengths.data_ptr(),
        scores=work.scores.data_ptr(),
        batch=work.scores.shape[0],
        n=work.scores.shape[1],
        stream=torch.cuda.current_stream().cuda_stream,
    )
    code = library.nf_indexer_scores(ctypes.byref(call))
    if code:
        raise RuntimeError(f"nf_indexer_scores: CUDA error {code}")


def fused(library: Any, work: Sequences, workspace: Workspace | None) -> Any:
    """Returns the indices of the selected keys, int32 [batch, 2048], -1 where there are none."""
    compute_scores(library, work)
    return topk(work.scores, K, lengths=work.lengths, workspace=workspace).indices


def beyond(work: Sequences) -> Any:
    """Returns a mask of the places at and after the length of each sequence."""
    return torch.arange(work.keys.shape[1], device=work.keys.device) >= work.lengths[:, None]


def pipeline_scores(work: Sequences, dtype: Any) -> Any:
    """Returns the scores as PyTorch computes them in a type, fp32 with -inf after each length."""
    keys = work.keys.to(dtype) * work.scales[..., None].to(dtype)
    products = torch.einsum("bhd,bnd->bhn", work.queries.to(dtype), keys).relu_()
    scores = torch.einsum("bh,bhn->bn", work.weights.to(dtype), products).float()
    return scores.masked_fill_(beyond(work), -math.inf)


def pipeline(work: Sequences) -> Any:
    return torch.topk(pipeline_scores(work, torch.bfloat16), K).indices


def sorted_indices(work: Sequences, scores: Any) -> Any:
    """Returns the answer by a stable sort of these scores."""
    masked = scores.masked_fill(beyond(work), -math.inf)
    order = torch.sort(masked, dim=-1, descending=True, stable=True).indices[:, :K].int()
    place = torch.arange(K, device=order.device)
    return order.masked_fill_(place >= work.lengths[:, None], -1)


def check(library: Any, exact: Sequences, model: Sequences, workspace: Workspace | None) -> None:
    """Raises AssertionError if an answer differs."""
    found = fused(library, exact, workspace)
    wanted = pipeline_scores(exact, torch.float32)
    inside = ~beyond(exact)
    wrong = (exact.scores != wanted) & inside
    assert not wrong.any(), f"{int(wrong.sum())} scores of integers, first at {wrong.nonzero()[0]}"
    assert torch.equal(found, sorted_indices(exact, wanted)), "indices of integers"
    found = fused(library, model, workspace)
    first = model.scores.clone()
    assert torch.equal(found, sorted_indices(model, first)), "indices"
    assert torch.equal(found, fused(library, model, workspace)), "indices of a second run"
    assert torch.equal(model.scores[inside], first[inside]), "scores of a second run"
    # A sanity check, not a comparison of results: the formula is that of the pipeline.
    difference = (first[inside] - pipeline_scores(model, torch.float32)[inside]).abs().max()
    assert difference < 1e-3 * first[inside].abs().max(), f"scores differ by {difference}"


def measure(library: Any, work: Sequences, workspace: Workspace, repeats: int) -> dict[str, float]:
    """Returns the times of both pipelines, in ms, and of the scores alone."""
    calls = {
        "fused": lambda: fused(library, work, workspace),
        "pytorch": lambda: pipeline(work),
    }
    times: dict[str, float] = {}
    for name, call in calls.items():
        times[f"{name}_eager_ms"] = milliseconds(call, repeats)
        times[f"{name}_graph_ms"] = milliseconds(graph_of(call), repeats)
    times["scores_graph_ms"] = milliseconds(
        graph_of(lambda: compute_scores(library, work)), repeats
    )
    times["speedup_eager"] = times["pytorch_eager_ms"] / times["fused_eager_ms"]
    times["speedup_graph"] = times["pytorch_graph_ms"] / times["fused_graph_ms"]
    torch.cuda.empty_cache()  # the memory of the graphs
    return times


def lengths_of(batch: int, n: int) -> Any:
    """Returns lengths of which one is n, and the others are n / 2 to n."""
    generator = torch.Generator().manual_seed(batch * n)
    lengths = torch.randint(n // 2, n + 1, (batch,), generator=generator, dtype=torch.int32)
    lengths[0] = n
    return lengths


def run(workloads: list[tuple[int, int]], repeats: int) -> list[dict[str, Any]]:
    library = load_indexer()
    most = (max(batch for batch, _ in workloads), max(n for _, n in workloads))
    pools = [make_sequences(*most, exact, "cuda") for exact in (True, False)]
    rows: list[dict[str, Any]] = []
    for batch, n in workloads:
        lengths = lengths_of(batch, n).cuda()
        exact, model = (pool.cut(batch, n, lengths) for pool in pools)
        workspace = make_workspace(model.scores, K, ragged=True)
        check(library, exact, model, workspace)
        times = measure(library, model, workspace, repeats)
        rows.append({"batch": batch, "length": n, "keys": int(lengths.sum()), **times})
        print(
            f"{batch:>3} x {n:>7,}: fused {times['fused_graph_ms']:.3f} ms"
            f" (scores {times['scores_graph_ms']:.3f}), pytorch {times['pytorch_graph_ms']:.3f} ms,"
            f" {times['speedup_graph']:.1f} x; eager {times['speedup_eager']:.1f} x",
            flush=True,
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description="Sparse-attention indexer, against PyTorch.")
    parser.add_argument("--quick", action="store_true", help="5 workloads instead of 128")
    parser.add_argument("--json", metavar="FILE", help="write the summary and all times to a file")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("SKIPPED: no GPU")
        return 0
    torch.backends.cuda.matmul.allow_tf32 = False
    workloads = list(QUICK) if arguments.quick else [(b, n) for b in BATCHES for n in LENGTHS]
    try:
        rows = run(workloads, repeats=5 if arguments.quick else 10)
    except AssertionError as error:
        print(f"MISMATCH: {error}", file=sys.stderr)
        return 1
    summary: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "workloads": len(rows),
        "equal_index_lists": len(rows),
        "mean_speedup_graph": sum(row["speedup_graph"] for row in rows) / len(rows),
        "mean_speedup_eager": sum(row["speedup_eager"] for row in rows) / len(rows),
        "minimum_speedup_graph": min(row["speedup_graph"] for row in rows),
    }
    print(json.dumps(summary))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({**summary, "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
