"""Tests of nearfield.topk without a GPU: the selection on the host against sorted lists, torch's
operator on CPU tensors, and the calls of the library for a framework that records them.
test_topk_device.py tests the selections on a GPU."""

from __future__ import annotations

import contextlib
import functools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nearfield import topk as module
from nearfield.topk import _frameworks, _host, _native, _select, _workspaces, topk

TYPES = ("float32", "float16", "bfloat16", "int32", "uint32")
SPECIAL = {  # both zeros, infinities, NaNs of either sign, denormals, neighbors of 1
    "float32": [0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFFFFFFF, 1, 0x80000001, 0x3F800000, 0x3F800001],
    "float16": [0, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0xFFFF, 1, 0x8001, 0x3C00, 0x3C01],
    "bfloat16": [0, 0x8000, 0x7F80, 0xFF80, 0x7FC0, 0xFFFF, 1, 0x8001, 0x3F80, 0x3F81],
    "int32": [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF],
    "uint32": [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF],
}


def random_bits(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Any:
    """Scores with many ties, of which some are special."""
    kind = np.uint16 if _host.BITS[dtype] == 16 else np.uint32
    pool = np.concatenate([np.array(SPECIAL[dtype]), rng.integers(0, 2 ** _host.BITS[dtype], 20)]).astype(kind)
    return rng.choice(pool, shape)


def number_of(bits: int, dtype: str) -> float:
    if dtype == "uint32":
        return bits
    if dtype == "int32":
        return bits - 2**32 if bits >= 2**31 else bits
    if dtype == "bfloat16":
        return float(np.uint32(bits << 16).view(np.float32))
    return float(np.uint32(bits).view(np.float32)) if dtype == "float32" else float(np.uint16(bits).view(np.float16))


def sorted_row(bits: list[int], dtype: str) -> list[int]:
    """Returns the indices of a row in the order of the contract."""

    def compare(a: int, b: int) -> int:
        x, y = number_of(bits[a], dtype), number_of(bits[b], dtype)
        if (x != x) != (y != y):
            return 1 if x != x else -1
        return a - b if x == y or x != x else -1 if x > y else 1

    return sorted(range(len(bits)), key=functools.cmp_to_key(compare))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("k", [1, 7, 40])
def test_equals_a_sorted_list(rng: np.random.Generator, dtype: str, k: int) -> None:
    bits = random_bits(rng, dtype, (5, 40))
    values, indices = _host.select(bits, dtype, k)
    canonical = {"float32": 0x7FC00000, "float16": 0x7E00, "bfloat16": 0x7FC0}.get(dtype, 0)
    for r in range(5):
        row = bits[r].tolist()
        wanted = sorted_row(row, dtype)[:k]
        assert indices[r].tolist() == wanted
        for value, i in zip(values[r].tolist(), wanted, strict=True):
            number = number_of(row[i], dtype)
            zero_or_same = 0 if number == 0 else row[i]
            assert value == (canonical if number != number else zero_or_same)


@pytest.mark.parametrize("dtype", TYPES)
def test_ragged_rows_equal_their_slices(rng: np.random.Generator, dtype: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(_host, "CHUNK_KEYS", 100)  # several rows, then one at a time
    bits = random_bits(rng, dtype, (30, 50))
    begin = rng.integers(0, 51, 30)
    end = np.minimum(begin + rng.integers(-5, 51, 30), 50)
    values, indices = _host.select(bits, dtype, 20, begin, end)
    lowest = {"float32": 0xFF800000, "float16": 0xFC00, "bfloat16": 0xFF80, "int32": 0x80000000, "uint32": 0}[dtype]
    for r in range(30):
        row = bits[r, begin[r] : max(begin[r], end[r])]
        k = min(20, len(row))
        if k:
            found = _host.select(row[None], dtype, k)
            assert values[r, :k].tolist() == found[0][0].tolist()
            assert indices[r, :k].tolist() == found[1][0].tolist()
        assert values[r, k:].tolist() == [lowest] * (20 - k)
        assert indices[r, k:].tolist() == [-1] * (20 - k)


def test_arrays_of_numpy() -> None:
    scores = np.array([[[3, 9, 9], [1, 2, 3]], [[0, -1, 5], [7, 7, 7]]], np.float32)
    values, indices = topk(scores, 2)
    assert values.dtype == np.float32 and indices.dtype == np.int32
    assert values.tolist() == [[[9, 9], [3, 2]], [[5, 0], [7, 7]]]
    assert indices.tolist() == [[[1, 2], [2, 1]], [[2, 0], [0, 1]]]
    assert topk(scores[0, :, ::2], 1).indices.tolist() == [[1], [1]]  # strided
    assert topk(scores[0, 0], 1).values.shape == (1,)
    assert topk(scores[:0], 2).values.shape == (0, 2, 2)
    answer = topk(scores, 2, lengths=[[2, 0], [3, 1]])
    assert answer.indices.tolist() == [[[1, 0], [-1, -1]], [[2, 0], [0, -1]]]
    assert answer.values[0, 1].tolist() == [-np.inf, -np.inf]
    early = topk(scores[1], 1, row_begin=[-2, 1], row_end=[2, 3])  # a begin below 0 counts as 0
    assert early.indices.tolist() == [[0], [0]] and early.values.tolist() == [[0], [7]]
    swapped = topk(scores.astype(">f4"), 2)
    assert swapped.values.tolist() == values.tolist() and swapped.values.dtype.isnative
    out = (np.zeros((2, 2, 2), np.float32), np.zeros((2, 2, 2), np.int32))
    assert topk(scores, 2, out=out).values is out[0]
    assert out[1].tolist() == indices.tolist()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: topk(np.zeros(3), 1), ValueError, "scores.dtype = float64, must be one of float32"),
        (
            lambda: topk(np.zeros((1, 3), np.float32), 1, lengths=[2.7]),
            ValueError,
            "row_end.dtype = float64, must be an integer type",
        ),
        (lambda: topk(np.zeros(3, np.float32), 4), ValueError, "k = 4, must be 1 .. 3"),
        (lambda: topk(np.zeros(3, np.float32), 0), ValueError, "k = 0, must be 1 .. 3"),
        (lambda: topk([1.0, 2.0], 1), TypeError, "scores = list, must be an array of"),
        (lambda: topk(np.zeros((2, 3), np.int32), 1, lengths=[1]), ValueError, r"row_end.shape = \(1,\), must be \(2,\)"),
        (lambda: topk(np.zeros(3, np.int32), 1, lengths=[1], row_end=[1]), ValueError, "lengths: given with"),
        (lambda: topk(np.zeros(3, np.int32), 1, row_begin=[1], row_end=[5]), ValueError, r"row 0: columns \[1, 4\)"),
        (lambda: topk(np.zeros(3, np.int32), 1, algorithm="radix_sort"), LookupError, "only numpy"),
        (lambda: module.make_workspace(np.zeros(3, np.int32), 1), TypeError, "must be on a GPU"),
        (
            lambda: topk(np.zeros((2, 3), np.int32), 1, out=(np.zeros((2, 2), np.int32), np.zeros((2, 1), np.int32))),
            ValueError,
            r"out.values.shape = \(2, 2\), must be \(2, 1\)",
        ),
    ],
)
def test_wrong_arguments_are_named(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize(
    ("shape", "strides", "rows"),
    [
        ((7,), (1,), (1, 7, 0, 1)),
        ((7,), (3,), (1, 7, 0, 3)),
        ((4, 7), (9, 1), (4, 7, 9, 1)),
        ((7, 4), (1, 7), (7, 4, 1, 7)),
        ((2, 3, 7), (27, 9, 1), (6, 7, 9, 1)),
        ((2, 1, 7), (9, 5, 1), (2, 7, 9, 1)),
        ((1, 7), (0, 1), (1, 7, 0, 1)),
        ((5, 1), (1, 0), (5, 1, 1, 1)),
        ((2, 0, 7), (7, 7, 1), (0, 7, 0, 1)),
    ],
)
def test_rows_of_strided_tensors(shape: Any, strides: Any, rows: Any) -> None:
    assert tuple(_select._rows_of(shape, strides, 1)) == rows


@pytest.mark.parametrize(
    ("shape", "strides", "words"),
    [
        ((4, 7), (0, 1), "must be positive: make a copy"),
        ((7,), (-1,), "must be positive"),
        ((2, 3, 7), (40, 9, 1), "contiguous leading dimensions"),
        ((), (), r"scores.shape = \(\), must be"),
        ((2**31,), (1,), "at most 2147483647 columns"),
    ],
)
def test_rows_that_cannot_be_are_refused(shape: Any, strides: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        _select._rows_of(shape, strides, 1)


class FakeFramework(_frameworks.Framework):
    """Arrays of NumPy that claim to be on a device."""

    name = "torch"

    def __init__(self) -> None:
        self.capture = False
        self.allocated: list[Any] = []

    def on_host(self, tensor: Any) -> bool:
        return False

    def device(self, tensor: Any) -> int:
        return 3

    def on_stream(self, stream: Any, device: int) -> Any:
        return contextlib.nullcontext(77 if stream is None else stream)

    def capturing(self, stream: int) -> bool:
        return self.capture

    def view(self, tensor: Any, stream: int) -> _frameworks.View:
        steps = tuple(each // tensor.itemsize for each in tensor.strides)
        return _frameworks.View(tensor.ctypes.data, tensor.shape, steps, tensor.dtype.name, 3, tensor)

    def empty(self, shape: Any, dtype: Any, device: int) -> Any:
        self.allocated.append(np.empty(shape, dtype))
        return self.allocated[-1]


class FakeSelector:
    """Records the calls of the library."""

    def __init__(self) -> None:
        self.initialized: list[int] = []
        self.runs: list[tuple[Any, Any, Any, int]] = []
        self.fails = False

    def workspace_bytes(self, shape: Any, algorithm: Any) -> int:
        return int(shape.n)

    def init_workspace(self, address: int, size: int, stream: int) -> None:
        self.initialized.append(stream)

    def run(self, shape: Any, buffers: Any, algorithm: Any, stream: int) -> None:
        if self.fails:
            raise RuntimeError("cudaErrorLaunchFailure")
        self.runs.append((shape, buffers, algorithm, stream))


@pytest.fixture
def device(monkeypatch: Any) -> tuple[FakeFramework, FakeSelector]:
    framework, selector = FakeFramework(), FakeSelector()
    monkeypatch.setattr(_frameworks, "of", lambda tensor: framework)
    monkeypatch.setattr(_native, "selector", lambda device, capturing=False: selector)
    monkeypatch.setattr(_select, "_kept", _workspaces.Workspaces())
    return framework, selector


def test_a_call_passes_addresses_and_strides(device: Any) -> None:
    _framework, selector = device
    scores = np.zeros((4, 10), np.int32)[:, 1:9:2]
    end = np.array([1, 2, 3, 4], np.int32)
    values, indices = topk(scores, 3, row_end=end, algorithm="radix_sort")
    assert values.shape == indices.shape == (4, 3)
    assert (values.dtype, indices.dtype) == (np.int32, np.int32)
    ((shape, buffers, algorithm, stream),) = selector.runs
    assert (shape.type, shape.batch, shape.n, shape.k, shape.column_stride, shape.ragged) == (4, 4, 4, 3, 2, 1)
    assert (shape.struct_bytes, buffers.struct_bytes) == (48, 72)
    assert (buffers.scores, buffers.stride) == (scores.ctypes.data, 10)
    assert (buffers.row_begin, buffers.row_end) == (None, end.ctypes.data)
    assert (buffers.values, buffers.indices) == (values.ctypes.data, indices.ctypes.data)
    assert (algorithm, stream) == ("radix_sort", 77)


def test_a_stream_keeps_one_workspace(device: Any) -> None:
    _framework, selector = device
    scores = np.zeros((2, 100), np.float32)
    for _ in range(3):
        topk(scores, 1)
    topk(scores[:, :50], 1)
    assert selector.initialized == [77]
    topk(np.zeros((2, 200), np.float32), 1)  # a larger one replaces it
    topk(scores, 1, stream=78)
    assert selector.initialized == [77, 77, 78]
    assert len(_select._kept) == 2
    selector.fails = True
    with pytest.raises(RuntimeError):
        topk(scores, 1)
    assert len(_select._kept) == 1  # its counters are unknown


def test_a_capture_uses_no_kept_workspace(device: Any) -> None:
    framework, selector = device
    scores = np.zeros((2, 100), np.float32)
    topk(scores, 1)
    kept = selector.runs[0][1].workspace
    framework.capture = True
    for _ in range(2):
        topk(scores, 1)
    assert selector.initialized == [77, 77, 77]
    framework.capture = False
    topk(scores, 1)
    assert len(_select._kept) == 1
    places = [buffers.workspace for _, buffers, _, _ in selector.runs]
    assert places[3] == kept and kept not in places[1:3]
    own = module.make_workspace(scores, 1)
    framework.capture = True
    topk(scores, 1, workspace=own)
    assert selector.runs[-1][1].workspace == own.address
    framework.name = "cupy"
    with pytest.raises(ValueError, match="workspace = None, must be of make_workspace"):
        topk(scores, 1)


def test_kept_workspaces_are_bounded() -> None:
    kept = _workspaces.Workspaces()

    def make(size: int) -> _workspaces.Workspace:
        return _workspaces.Workspace(None, 0, size, 0)

    for stream in range(100):
        kept.take(("torch", 0, stream, 0), 10, make)
    assert len(kept) == kept.COUNT_MAX
    large = kept.take(("torch", 0, 1, 0), kept.BYTES_MAX + 1, make)
    assert large.bytes == kept.BYTES_MAX + 1
    assert len(kept) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"row_end": np.zeros(2, np.int64)}, "row_end.dtype = int64, must be int32"),
        ({"row_begin": np.zeros(3, np.int32)}, r"row_begin.shape = \(3,\), must be of 2 elements"),
        ({"row_end": np.zeros(4, np.int32)[::2]}, r"row_end.strides = \(2,\), must be row-major"),
        ({"out": (np.zeros((2, 1), np.float32),)}, "out = 1 tensors"),
        ({"out": (np.zeros((2, 1), np.float16), np.zeros((2, 1), np.int32))}, "out.values.dtype = float16"),
        ({"out": (np.zeros((2, 1), np.float32), np.zeros((2, 1), np.int64))}, "out.indices.dtype = int64"),
        ({"workspace": _workspaces.Workspace(None, 256, 1, 5)}, "workspace.device = cuda:5, must be cuda:3"),
    ],
)
def test_wrong_tensors_are_named(device: Any, arguments: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        topk(np.zeros((2, 100), np.float32), 1, **arguments)
    assert device[1].runs == []


def test_the_library_of_the_build_refuses_a_machine_without_a_gpu() -> None:
    path = os.environ.get(_native.LIBRARY_VARIABLE)
    if not path or not Path(path).exists():
        pytest.skip(f"{_native.LIBRARY_VARIABLE} = {path}: no such file")
    library = _native.load()
    assert library.nf_topk_abi_version() == _native.ABI_VERSION
    with pytest.raises((RuntimeError, NotImplementedError), match=r"1000|driver|without CUDA|capability"):
        module.algorithms(device=1000)
