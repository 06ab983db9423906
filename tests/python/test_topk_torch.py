"""Tests of nearfield.topk with tensors of torch on the CPU. They skip without torch, whose wheel is
too large to install for them."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any

import pytest
from conftest import ROOT

try:
    import torch
except ImportError:
    torch: Any = None

pytestmark = pytest.mark.skipif(torch is None, reason="torch is not installed (its wheel has several hundred MB)")
TYPES = ("float32", "float16", "bfloat16", "int32")


def operator() -> Any:
    import nearfield.topk.torch_operator  # noqa: F401

    return torch.ops.nearfield.topk


def random_scores(dtype: str, shape: tuple[int, ...]) -> Any:
    scores = torch.randint(-1000, 1000, shape, generator=torch.Generator().manual_seed(1))
    return scores.to(getattr(torch, dtype))


@pytest.mark.parametrize("dtype", TYPES)
def test_values_equal_those_of_torch(dtype: str) -> None:
    from nearfield.topk import topk

    scores = random_scores(dtype, (3, 5, 4000))
    values, indices = topk(scores, 100)
    assert (values.dtype, indices.dtype) == (scores.dtype, torch.int32)
    assert torch.equal(values, torch.topk(scores, 100).values)
    order = torch.sort(scores, dim=-1, descending=True, stable=True).indices
    assert torch.equal(indices.long(), order[..., :100])


@pytest.mark.parametrize("dtype", TYPES)
def test_the_operator_compiles_in_one_graph(dtype: str) -> None:
    op = operator()

    def step(scores: Any, lengths: Any) -> Any:
        values, indices = op(scores * 2, 7, row_end=lengths)
        return values + 1, indices.long()

    scores = random_scores(dtype, (6, 500))
    lengths = torch.tensor([500, 3, 0, 100, 7, 499], dtype=torch.int32)
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    for wanted, found in zip(step(scores, lengths), compiled(scores, lengths), strict=True):
        assert torch.equal(wanted, found)
    assert compiled(scores, lengths)[1][1].tolist()[3:] == [-1] * 4


def test_the_operator_keeps_the_rules_of_torch() -> None:
    op = operator()
    scores = random_scores("float32", (4, 64))
    tests = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(op, (scores, 8), test_utils=tests)
    ends = torch.tensor([1, 2, 3, 64], dtype=torch.int32)
    torch.library.opcheck(op, (scores, 8), {"row_end": ends}, test_utils=tests)


def test_out_and_errors() -> None:
    from nearfield.topk import topk

    scores = random_scores("float32", (2, 9))
    out = (torch.empty(2, 3), torch.empty(2, 3, dtype=torch.int32))
    assert topk(scores, 3, out=out).values is out[0]
    assert torch.equal(out[0], torch.topk(scores, 3).values)
    with pytest.raises(ValueError, match=r"k = 10, must be 1 \.\. 9"):
        operator()(scores, 10)
    with pytest.raises(ValueError, match="scores.dtype = float64"):
        topk(scores.double(), 1)


def example(name: str) -> ModuleType:
    path = ROOT / "tests" / "bench" / "topk_examples" / f"{name}.py"
    sys.path.insert(0, str(path.parent))  # of device_timing.py
    spec = importlib.util.spec_from_file_location(f"example_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_sampler_checks_itself(dtype: str) -> None:
    sampler = example("sampler")
    logits = sampler.make_logits(4, sampler.VOCABULARY, getattr(torch, dtype), "cpu")
    sampler.check(logits, torch.rand((4, 1), dtype=torch.float64), None)


@pytest.mark.parametrize("n", [2048, 4096])
def test_the_indexer_checks_itself(n: int, monkeypatch: Any) -> None:
    """With the scores of PyTorch in place of those of the kernel."""
    indexer = example("indexer")

    def compute(library: Any, work: Any) -> None:
        inside = ~indexer.beyond(work)
        work.scores[inside] = indexer.pipeline_scores(work, torch.float32)[inside]

    monkeypatch.setattr(indexer, "compute_scores", compute)
    lengths = indexer.lengths_of(3, n)
    exact, model = (indexer.make_sequences(3, n, each, "cpu").cut(3, n, lengths) for each in (True, False))
    indexer.check(None, exact, model, None)
    exact.scores[~indexer.beyond(exact)] += 1  # no longer those of the pipeline
    monkeypatch.setattr(indexer, "compute_scores", lambda library, work: None)
    with pytest.raises(AssertionError, match="scores of integers"):
        indexer.check(None, exact, model, None)
