#!/usr/bin/env python3
"""Token sampling of a language model: top-k and top-p over 128 x 128,256 logits.

A nucleus (top-p) rarely has more than some hundred tokens, so the k highest logits hold it and a
sort of all logits is not needed: select k, take their probabilities, and keep the prefix that
reaches p. If the k probabilities do not reach p, which the result shows, the row needs a larger k.
The program compares this with PyTorch (torch.topk, torch.sort) and, if it is installed, FlashInfer.

    PYTHONPATH=client/python NEARFIELD_TOPK_LIBRARY=build/dev/lib/libnearfield_topk.so \\
        python3 tests/bench/topk_examples/sampler.py [--quick] [--dtype bfloat16] [--json FILE]

Checks, for which the program fails: the selected logits and tokens equal those of a stable sort, to
the bit; the drawn tokens, from the same random numbers in fp64, equal those of PyTorch's pipelines.
Times are of CUDA events, in ms: "eager" calls the functions, "graph" replays a CUDA graph of them.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from device_timing import graph_of, milliseconds

from nearfield.topk import Workspace, make_workspace, topk

BATCH, VOCABULARY = 128, 128_256
K_NUCLEUS = 2048  # tokens among which a nucleus is looked for
TOP_K, TOP_P = 50, 0.9
TOP_K_WITH_P = 1000

Sampler = Callable[[Any, Any, Any], Any]  # logits, random numbers, type of the sums: tokens


def make_logits(batch: int, vocabulary: int, dtype: Any, device: str) -> Any:
    """Makes logits with a standard deviation of 4: a nucleus of 0.9 has about 400 of 128,256."""
    generator = torch.Generator(device).manual_seed(11)
    return (4 * torch.randn((batch, vocabulary), generator=generator, device=device)).to(dtype)


def draw(ordered: Any, tokens: Any, all_logits: Any, p: float, uniform: Any, dtype: Any) -> Any:
    """Draws a token of each row from the prefix of its tokens that reaches the probability p.

    ordered     [batch, k] logits, highest first, of `tokens`
    all_logits  [batch, n] those that the probabilities refer to
    uniform     [batch, 1] random numbers in [0, 1)
    returns     (tokens [batch], complete [batch]: the k probabilities reach p)"""
    total = torch.logsumexp(all_logits.to(dtype), -1, keepdim=True)
    probabilities = torch.exp(ordered.to(dtype) - total)
    sums = probabilities.cumsum(-1)
    kept = (sums - probabilities < p).sum(-1, keepdim=True)
    mass = sums.gather(-1, kept - 1)
    at = torch.searchsorted(sums, uniform.to(dtype) * mass, right=True)
    at = torch.minimum(at, kept - 1)
    return tokens.gather(-1, at).squeeze(-1), sums[:, -1] >= p


def nearfield_samplers(workspace: Workspace | None) -> dict[str, Sampler]:
    def by_k(logits: Any, uniform: Any, dtype: Any) -> Any:
        values, tokens = topk(logits, TOP_K, workspace=workspace)
        return draw(values, tokens, values, math.inf, uniform, dtype)[0]

    def by_p(logits: Any, uniform: Any, dtype: Any) -> Any:
        k = min(K_NUCLEUS, logits.shape[-1])
        values, tokens = topk(logits, k, workspace=workspace)
        return draw(values, tokens, logits, TOP_P, uniform, dtype)[0]

    def by_k_and_p(logits: Any, uniform: Any, dtype: Any) -> Any:
        values, tokens = topk(logits, TOP_K_WITH_P, workspace=workspace)
        return draw(values, tokens, values, TOP_P, uniform, dtype)[0]

    return {"top-k": by_k, "top-p": by_p, "top-k, top-p": by_k_and_p}


def torch_samplers() -> dict[str, Sampler]:
    def by_k(logits: Any, uniform: Any, dtype: Any) -> Any:
        values, tokens = torch.topk(logits, TOP_K)
        return draw(values, tokens, values, math.inf, uniform, dtype)[0]

    def by_p(logits: Any, uniform: Any, dtype: Any) -> Any:
        values, tokens = torch.sort(logits, dim=-1, descending=True, stable=True)
        return draw(values, tokens, logits, TOP_P, uniform, dtype)[0]

    def by_k_and_p(logits: Any, uniform: Any, dtype: Any) -> Any:
        values, tokens = torch.topk(logits, TOP_K_WITH_P)
        return draw(values, tokens, values, TOP_P, uniform, dtype)[0]

    return {"top-k": by_k, "top-p": by_p, "top-k, top-p": by_k_and_p}


def load_flashinfer() -> Any:
    try:
        return importlib.import_module("flashinfer")
    except Exception as error:  # it may be installed without what it needs
        print(f"without FlashInfer: {type(error).__name__}: {error}")
        return None


def flashinfer_samplers(flashinfer: Any) -> dict[str, Sampler]:
    """Its samplers draw with their own random numbers, from probabilities."""
    if flashinfer is None:
        return {}
    sampling = flashinfer.sampling

    def probabilities(logits: Any) -> Any:
        return torch.softmax(logits.float(), -1)

    def by_k(logits: Any, uniform: Any, dtype: Any) -> Any:
        return sampling.top_k_sampling_from_probs(probabilities(logits), TOP_K)

    def by_p(logits: Any, uniform: Any, dtype: Any) -> Any:
        return sampling.top_p_sampling_from_probs(probabilities(logits), TOP_P)

    def by_k_and_p(logits: Any, uniform: Any, dtype: Any) -> Any:
        return sampling.top_k_top_p_sampling_from_probs(
            probabilities(logits), TOP_K_WITH_P, TOP_P, filter_apply_order="top_k_first"
        )

    return {"top-k": by_k, "top-p": by_p, "top-k, top-p": by_k_and_p}


def sample_nucleus(logits: Any, p: float, uniform: Any) -> Any:
    """Draws from the nucleus of any logits: rows whose k highest do not reach p repeat with four
    times as many. Reads the result on the host, so it is not for CUDA graphs."""
    k = min(K_NUCLEUS, logits.shape[-1])
    while True:
        values, tokens = topk(logits, k)
        drawn, complete = draw(values, tokens, logits, p, uniform, torch.float64)
        if k == logits.shape[-1] or bool(complete.all()):
            return drawn
        k = min(4 * k, logits.shape[-1])


def check(logits: Any, uniform: Any, workspace: Workspace | None) -> None:
    """Raises AssertionError if an answer differs."""
    ordered, tokens = torch.sort(logits, dim=-1, descending=True, stable=True)
    for k in (1, TOP_K, TOP_K_WITH_P, K_NUCLEUS):
        values, indices = topk(logits, k, workspace=workspace)
        assert torch.equal(values, ordered[:, :k]), f"logits of k = {k}"
        assert torch.equal(indices.long(), tokens[:, :k]), f"tokens of k = {k}"
    values, indices = ordered[:, :K_NUCLEUS], tokens[:, :K_NUCLEUS]
    _, complete = draw(values, indices, logits, TOP_P, uniform, torch.float64)
    assert bool(complete.all()), f"a nucleus has more than {K_NUCLEUS} tokens"
    wanted = {
        "top-k": draw(
            ordered[:, :TOP_K], tokens, ordered[:, :TOP_K], math.inf, uniform, torch.float64
        ),
        "top-p": draw(ordered, tokens, logits, TOP_P, uniform, torch.float64),
        "top-k, top-p": draw(
            ordered[:, :TOP_K_WITH_P],
            tokens,
            ordered[:, :TOP_K_WITH_P],
            TOP_P,
            uniform,
            torch.float64,
        ),
    }
    for task, sampler in nearfield_samplers(workspace).items():
        found = sampler(logits, uniform, torch.float64)
        assert torch.equal(found.long(), wanted[task][0]), f"drawn tokens of {task}"
    flat = logits[:4] / 4  # wider nuclei: needs several rounds
    ordered, tokens = torch.sort(flat, dim=-1, descending=True, stable=True)
    drawn = draw(ordered, tokens, flat, TOP_P, uniform[:4], torch.float64)[0]
    assert torch.equal(sample_nucleus(flat, TOP_P, uniform[:4]).long(), drawn), "wide nuclei"


def measure(calls: dict[str, Any], repeats: int) -> dict[str, Any]:
    """Returns the times of each library's call; a library that fails is left out."""
    times: dict[str, Any] = {}
    for library, call in calls.items():
        for mode, make in (("eager", lambda function: function), ("graph", graph_of)):
            try:
                times[f"{library} {mode}"] = milliseconds(make(call), repeats)
            except Exception as error:
                if library != "flashinfer":
                    raise
                print(f"flashinfer, {mode}: {type(error).__name__}: {error}")
    return times


def run(dtype: Any, repeats: int) -> dict[str, dict[str, Any]]:
    logits = make_logits(BATCH, VOCABULARY, dtype, "cuda")
    uniform = torch.rand((BATCH, 1), device="cuda", dtype=torch.float64)
    sizes = [make_workspace(logits, k) for k in (1, TOP_K, TOP_K_WITH_P, K_NUCLEUS)]
    workspace = max(sizes, key=lambda each: each.bytes)  # a smaller k may need more
    check(logits, uniform, workspace)
    flashinfer = load_flashinfer()
    table: dict[str, dict[str, Any]] = {}
    for k in (TOP_K, TOP_K_WITH_P, K_NUCLEUS):
        calls = {
            "nearfield": lambda k=k: topk(logits, k, workspace=workspace),
            "torch": lambda k=k: torch.topk(logits, k),
        }
        if hasattr(flashinfer, "top_k"):
            calls["flashinfer"] = lambda k=k: flashinfer.top_k(logits, k, sorted=True)
        table[f"select {k}"] = measure(calls, repeats)
    libraries = {
        "nearfield": nearfield_samplers(workspace),
        "torch": torch_samplers(),
        "flashinfer": flashinfer_samplers(flashinfer),
    }
    for task in libraries["nearfield"]:
        calls = {
            name: lambda sampler=samplers[task]: sampler(logits, uniform, torch.float32)
            for name, samplers in libraries.items()
            if task in samplers
        }
        table[task] = measure(calls, repeats)
    return table


def show(table: dict[str, dict[str, Any]]) -> None:
    columns = [
        f"{name} {mode}"
        for name in ("nearfield", "torch", "flashinfer")
        for mode in ("eager", "graph")
    ]
    print(f"{'ms':<14}" + "".join(f"{each:>18}" for each in columns) + f"{'torch / nearfield':>20}")
    for task, times in table.items():
        cells = "".join(
            f"{times[each]:>18.3f}" if each in times else f"{'-':>18}" for each in columns
        )
        print(f"{task:<14}{cells}{times['torch graph'] / times['nearfield graph']:>20.1f}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Top-k and top-p sampling, against PyTorch.")
    parser.add_argument("--quick", action="store_true", help="few repetitions")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))
    parser.add_argument("--json", metavar="FILE", help="write the times to a file")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("SKIPPED: no GPU")
        return 0
    shape = f"{BATCH} x {VOCABULARY:,} {arguments.dtype}"
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}: {shape}")
    try:
        table = run(getattr(torch, arguments.dtype), repeats=10 if arguments.quick else 100)
    except AssertionError as error:
        print(f"MISMATCH: {error}", file=sys.stderr)
        return 1
    show(table)
    if arguments.json:
        facts = {
            "device": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "dtype": arguments.dtype,
        }
        Path(arguments.json).write_text(json.dumps({**facts, "times_ms": table}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
