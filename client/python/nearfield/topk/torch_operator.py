"""Registers torch.ops.nearfield.topk: `topk` as an operator of torch, for torch.compile.

    import nearfield.topk.torch_operator  # once
    values, indices = torch.ops.nearfield.topk(scores, k, row_end=lengths)

Values and indices are those of nearfield.topk.topk: indices are int32, ties go to the smaller
index. Where the scores have no NaN and no -0, values equal those of torch.topk to the bit. There is
no gradient. The operator keeps no workspace between calls: each allocates one and zeroes 14 MiB
of it. So CUDA graphs can capture it, also those of torch.compile(mode="reduce-overhead").
"""

from __future__ import annotations

from typing import Any

import torch

from . import _frameworks, _select

__all__ = ["topk"]

_SCHEMA = (
    "(Tensor scores, SymInt k, Tensor? row_begin=None, Tensor? row_end=None,"
    " str? algorithm=None) -> (Tensor, Tensor)"
)


def _run(
    scores: Any, k: int, row_begin: Any = None, row_end: Any = None, algorithm: str | None = None
) -> tuple[Any, Any]:
    framework = _frameworks.Torch(torch)
    if framework.on_host(scores):
        found = _select.topk(scores, k, row_begin=row_begin, row_end=row_end, algorithm=algorithm)
    else:
        with framework.on_stream(None, framework.device(scores)) as stream:
            call = _select.Call(scores, k, (row_begin, row_end), algorithm, keep=False)
            found = _select.on_device(framework, call, stream)
    return found.values, found.indices


def _shapes(
    scores: Any, k: int, row_begin: Any = None, row_end: Any = None, algorithm: str | None = None
) -> tuple[Any, Any]:
    shape = (*scores.shape[:-1], k)
    return scores.new_empty(shape), scores.new_empty(shape, dtype=torch.int32)


if hasattr(torch.ops.nearfield, "topk"):  # by the other one of nearfield.topk and nearfield_topk
    topk = torch.ops.nearfield.topk
else:
    topk = torch.library.custom_op("nearfield::topk", _run, mutates_args=(), schema=_SCHEMA)
    topk.register_fake(_shapes)
