"""Tests of nearfield.topk on a GPU: torch, CuPy and JAX against the selection on the host, to the
bit. They skip without torch or a GPU. Also a program, for machines without pytest:

    PYTHONPATH=client/python NEARFIELD_TOPK_LIBRARY=libnearfield_topk.so \\
        python3 tests/python/test_topk_device.py [words of test names...]
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import traceback
from typing import Any

import numpy as np
from nearfield.topk import _host, algorithms, make_workspace, topk

try:
    import pytest
except ImportError:
    pytest: Any = None
try:
    import torch
except ImportError:
    torch: Any = None

REASON = "torch is not installed" if torch is None else "no GPU: torch.cuda.is_available() is False"
HAS_GPU = torch is not None and torch.cuda.is_available()
if pytest is not None:
    pytestmark = pytest.mark.skipif(not HAS_GPU, reason=REASON)

TYPES = ("float32", "float16", "bfloat16", "int32", "uint32")
SHAPES = [  # batch, n, k
    (1, 1, 1), (3, 5, 5), (7, 1000, 1), (2, 4099, 64), (64, 2048, 2048), (5, 60_001, 2048),
    (1, 300_007, 100), (128, 33_000, 50), (300, 257, 32),
]


def bits_of(tensor: Any) -> Any:
    """Returns the bits of a torch tensor as an unsigned NumPy array."""
    kind, unsigned = (torch.int16, np.uint16) if tensor.itemsize == 2 else (torch.int32, np.uint32)
    return tensor.cpu().view(kind).numpy().view(unsigned)


def make_bits(rng: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    """Random scores: any bits, or few distinct ones with zeros, infinities and NaNs."""
    width = _host.BITS[dtype]
    kind = np.uint16 if width == 16 else np.uint32
    if rng.integers(2):
        return rng.integers(0, 1 << width, shape).astype(kind)
    top = {"float32": 0x7F800000, "float16": 0x7C00, "bfloat16": 0x7F80}.get(dtype, 0x7FFFFFFF)
    sign = 1 << (width - 1)
    pool = [0, sign, top, top | sign, top + 1, (top + 1) | sign, 1, sign + 1, *rng.integers(0, 1 << width, 30)]
    return rng.choice(np.array(pool, dtype=np.uint64).astype(kind), shape)


def to_device(bits: Any, dtype: str) -> Any:
    signed = np.int16 if bits.itemsize == 2 else np.int32
    return torch.from_numpy(bits.view(signed)).cuda().view(getattr(torch, dtype))


def check(bits: Any, dtype: str, k: int, answer: Any, begin: Any = None, end: Any = None) -> None:
    """Compares an answer with the selection on the host."""
    values, indices = _host.select(bits.reshape(-1, bits.shape[-1]), dtype, k, begin, end)
    assert answer.indices.dtype == torch.int32
    found = bits_of(answer.indices).view(np.int32).reshape(-1, k)
    assert np.array_equal(found, indices), (found[found != indices][:5], indices[found != indices][:5])
    assert np.array_equal(bits_of(answer.values).reshape(-1, k), values)


def lengths_of(rng: Any, batch: int, n: int) -> tuple[Any, Any]:
    """Bounds of rows: empty, short and full ones."""
    begin = rng.integers(0, n + 1, batch)
    end = np.minimum(begin + rng.integers(-2, n + 1, batch), n)
    full = rng.integers(0, 3, batch) == 0
    begin[full], end[full] = 0, n
    return begin.astype(np.int32), end.astype(np.int32)


def test_equals_the_host() -> None:
    rng = np.random.default_rng(1)
    for dtype in TYPES:
        for batch, n, k in SHAPES:
            bits = make_bits(rng, dtype, (batch, n))
            check(bits, dtype, k, topk(to_device(bits, dtype), k))


def test_ragged_rows_equal_the_host() -> None:
    rng = np.random.default_rng(2)
    for dtype in TYPES:
        for batch, n, k in SHAPES:
            bits = make_bits(rng, dtype, (batch, n))
            scores = to_device(bits, dtype)
            begin, end = lengths_of(rng, batch, n)
            first, last = torch.from_numpy(begin).cuda(), torch.from_numpy(end).cuda()
            check(bits, dtype, k, topk(scores, k, row_begin=first, row_end=last), begin, end)
            check(bits, dtype, k, topk(scores, k, lengths=last), None, end)
            check(bits, dtype, k, topk(scores, k, row_begin=first), begin, None)


def test_every_algorithm() -> None:
    rng = np.random.default_rng(3)
    selected: dict[str, int] = {}
    for name in algorithms():
        for batch, n, k in SHAPES:
            for ragged in (False, True):
                bits = make_bits(rng, "float32", (batch, n))
                begin, end = lengths_of(rng, batch, n) if ragged else (None, None)
                bounds = {"row_begin": torch.from_numpy(begin).cuda(), "row_end": torch.from_numpy(end).cuda()} if ragged else {}
                try:
                    answer = topk(to_device(bits, "float32"), k, algorithm=name, **bounds)
                except NotImplementedError:
                    continue
                check(bits, "float32", k, answer, begin, end)
                selected[name] = selected.get(name, 0) + 1
    print(f"  selections: {selected}")
    assert set(selected) == set(algorithms())
    try:
        topk(torch.zeros(3, device="cuda"), 1, algorithm="none such")
    except LookupError as error:
        assert "none such" in str(error)
    else:
        raise AssertionError("an unknown algorithm was accepted")


def test_any_alignment_and_stride() -> None:
    rng = np.random.default_rng(4)
    for dtype in TYPES:
        bits = make_bits(rng, dtype, (9, 3001))
        scores = to_device(bits, dtype)
        for at in (1, 2, 3, 5, 7):
            check(bits[:, at:], dtype, 64, topk(scores[:, at:], 64))
            check(bits[1:, at:-at], dtype, 64, topk(scores[1:, at:-at], 64))
        check(bits[:, ::3], dtype, 64, topk(scores[:, ::3], 64))
        turned = scores.T.contiguous().T
        assert turned.stride() == (1, 9)
        check(bits, dtype, 64, topk(turned, 64))
        check(bits[4], dtype, 64, topk(scores[4], 64))
        folded = bits.reshape(3, 3, 3001)
        answer = topk(scores.view(3, 3, 3001), 10)
        assert answer.values.shape == (3, 3, 10)
        check(folded, dtype, 10, answer)


def test_out_receives_the_answer() -> None:
    rng = np.random.default_rng(5)
    bits = make_bits(rng, "float16", (6, 999))
    out = (torch.empty(6, 33, dtype=torch.float16, device="cuda"), torch.empty(6, 33, dtype=torch.int32, device="cuda"))
    answer = topk(to_device(bits, "float16"), 33, out=out)
    assert answer.values is out[0] and answer.indices is out[1]
    check(bits, "float16", 33, answer)


def test_work_joins_the_order_of_the_stream() -> None:
    """The scores are written by kernels that take some time, on several streams at the same time."""
    product = torch.randn(4096, 4096, device="cuda")
    streams = [torch.cuda.Stream() for _ in range(4)]
    torch.cuda.synchronize()
    answers = []
    for round_number in range(5):
        for stream in streams:
            with torch.cuda.stream(stream):
                scores = (product @ product)[round_number :: 64].contiguous()
                if round_number % 2:
                    answers.append((scores, topk(scores, 300)))
        for stream in streams:
            with torch.cuda.stream(stream):
                scores = product[round_number :: 64] * 2
            answers.append((scores, topk(scores, 300, stream=stream)))
    torch.cuda.synchronize()
    for scores, answer in answers:
        check(bits_of(scores), "float32", 300, answer)


def test_graphs_replay_with_new_scores() -> None:
    rng = np.random.default_rng(6)
    batch, n, k = 16, 50_000, 500
    scores = torch.empty(batch, n, device="cuda")
    ends = torch.full((batch,), n, dtype=torch.int32, device="cuda")
    topk(scores, k)  # loads the kernels
    torch.cuda.synchronize()
    graphs = []
    for workspace in (None, make_workspace(scores, k, ragged=True)):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            answer = topk(scores, k, lengths=ends, workspace=workspace)
            again = topk(answer.values, 7, workspace=workspace)
        graphs.append((graph, answer, again, workspace))
    for _ in range(6):
        bits = make_bits(rng, "float32", (batch, n))
        end = rng.integers(0, n + 1, batch).astype(np.int32)
        scores.copy_(to_device(bits, "float32"))
        ends.copy_(torch.from_numpy(end))
        for graph, answer, again, _workspace in graphs:
            graph.replay()
            topk(scores[:, : n // 2], 10)  # between replays, with the kept workspace of the stream
            check(bits, "float32", k, answer, None, end)
            assert np.array_equal(bits_of(again.values), bits_of(answer.values)[:, :7])


def test_a_first_call_in_a_capture_is_refused() -> None:
    program = """
import torch
from nearfield.topk import topk
scores = torch.zeros(10, device="cuda")
graph = torch.cuda.CUDAGraph()
try:
    with torch.cuda.graph(graph):
        topk(scores, 1)
except RuntimeError as error:
    assert "call topk or nearfield.topk.algorithms once before it" in str(error), error
    print("refused")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("refused\n"), done.stdout + done.stderr


def test_the_operator_equals_torch() -> None:
    import nearfield.topk.torch_operator  # noqa: F401

    generator = torch.Generator("cuda").manual_seed(7)
    for dtype in ("float32", "float16", "bfloat16", "int32"):
        scores = (torch.randn(40, 20_000, device="cuda", generator=generator) * 1000).to(getattr(torch, dtype)) + 1
        values, indices = torch.ops.nearfield.topk(scores, 128)
        assert torch.equal(values, torch.topk(scores, 128).values)
        order = torch.sort(scores, dim=-1, descending=True, stable=True).indices
        assert torch.equal(indices.long(), order[:, :128])
    torch.library.opcheck(torch.ops.nearfield.topk, (scores, 8), test_utils=("test_schema", "test_faketensor"))


def test_the_operator_compiles() -> None:
    import nearfield.topk.torch_operator  # noqa: F401

    def step(scores: Any, ends: Any) -> tuple[Any, Any]:
        values, indices = torch.ops.nearfield.topk(scores * 2, 40, row_end=ends)
        return torch.softmax(values, -1), indices.long() + 1

    for mode in ("default", "reduce-overhead"):
        compiled = torch.compile(step, fullgraph=True, mode=mode)
        for seed in range(6):
            generator = torch.Generator("cuda").manual_seed(seed)
            scores = torch.randn(32, 10_000, device="cuda", generator=generator)
            ends = torch.randint(40, 10_001, (32,), dtype=torch.int32, device="cuda", generator=generator)
            found = [each.clone() for each in compiled(scores, ends)]
            wanted = step(scores, ends)
            assert torch.equal(found[1], wanted[1]), mode
            assert torch.equal(topk(scores * 2, 40, lengths=ends).indices.long() + 1, found[1]), mode


def test_arrays_of_cupy() -> None:
    if importlib.util.find_spec("cupy") is None:
        print("  skipped: cupy is not installed")
        return
    import cupy

    rng = np.random.default_rng(8)
    for dtype in ("float32", "float16", "int32", "uint32"):
        bits = make_bits(rng, dtype, (11, 5003))
        end = rng.integers(0, 5004, 11).astype(np.int32)
        scores = cupy.asarray(bits.view(dtype))
        for given, wanted in ((scores, bits), (scores[:, 3::2], bits[:, 3::2])):
            values, indices = _host.select(np.ascontiguousarray(wanted), dtype, 99)
            answer = topk(given, 99)
            assert np.array_equal(cupy.asnumpy(answer.values).view(bits.dtype), values)
            assert np.array_equal(cupy.asnumpy(answer.indices), indices)
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            answer = topk(scores * 1, 99, lengths=cupy.asarray(end))
        wanted_bits = bits if dtype in ("int32", "uint32") else cupy.asnumpy(scores * 1).view(bits.dtype)
        values, indices = _host.select(wanted_bits, dtype, 99, None, end)
        stream.synchronize()
        assert np.array_equal(cupy.asnumpy(answer.indices), indices)
        assert np.array_equal(cupy.asnumpy(answer.values).view(bits.dtype), values)
    workspace = make_workspace(scores, 99)
    out = (cupy.empty((11, 99), "uint32"), cupy.empty((11, 99), "int32"))
    with stream:
        stream.begin_capture()
        topk(scores, 99, workspace=workspace, out=out)
        graph = stream.end_capture()
        scores[:] = cupy.asarray(bits[::-1].copy())
        graph.launch(stream)
    stream.synchronize()
    assert np.array_equal(cupy.asnumpy(out[1]), _host.select(bits[::-1], "uint32", 99)[1])


def test_arrays_of_jax() -> None:
    if importlib.util.find_spec("jax") is None:
        print("  skipped: jax is not installed")
        return
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    if not any(each.platform == "gpu" for each in jax.devices()):
        print("  skipped: jax has no GPU")
        return
    rng = np.random.default_rng(9)
    for dtype in TYPES:
        bits = make_bits(rng, dtype, (11, 5003))
        array = bits.view(jax.numpy.bfloat16 if dtype == "bfloat16" else dtype)
        scores = jax.numpy.asarray(array)
        end = rng.integers(0, 5004, 11).astype(np.int32)
        answers = [topk(scores, 99), topk(scores, 99, lengths=jax.numpy.asarray(end))]
        for answer, ends in zip(answers, (None, end), strict=True):
            values, indices = _host.select(bits, dtype, 99, None, ends)
            assert np.array_equal(np.asarray(answer.indices), indices)
            assert np.array_equal(np.asarray(answer.values).view(bits.dtype), values)
    doubled = topk(scores + 1, 3)  # after work that JAX has only enqueued
    assert np.array_equal(np.asarray(doubled.indices), _host.select(np.asarray(scores + 1), "uint32", 3)[1])


def main() -> int:
    if not HAS_GPU:
        print(f"SKIPPED: {REASON}")
        return 0
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    failed = 0
    for name, test in list(globals().items()):
        if not name.startswith("test_") or not all(word in name for word in sys.argv[1:]):
            continue
        try:
            test()
            torch.cuda.synchronize()
            print(f"ok      {name}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED  {name}\n{traceback.format_exc()}", flush=True)
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
