"""Tests of nearfield.device_tensors without a GPU: arrays of host memory that claim to be on one,
and a library that records its calls. tests/engine/gpu tests the searches themselves."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest

import nearfield
from nearfield.topk import _dlpack
from nearfield.topk._dlpack import Borrowed, DeviceArray
from nearfield._native_device import DeviceResult, DeviceSearch
from nearfield.device_tensors import search_device


class Tensor:
    """A NumPy array that claims to be on a device."""

    def __init__(self, array: np.ndarray[Any, Any], device: tuple[int, int] = (2, 0)) -> None:
        self.array = array
        self.device = device
        self.streams: list[int] = []

    def __dlpack__(self, *, stream: Any = None) -> Any:
        self.streams.append(stream)
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


class Memory:
    def __init__(self, size: int) -> None:
        self.buffer = ctypes.create_string_buffer(size)
        self.address = ctypes.addressof(self.buffer)


class Library:
    """Answers every query i with i neighbors: row j has the score i + j and the id 100 i + j."""

    def __init__(self) -> None:
        self.searches: list[DeviceSearch] = []
        self.sizes: list[int] = []
        self.vectors: list[bytes] = []

    def take_memory(self, server: int, size: int) -> Memory:
        self.sizes.append(size)
        return Memory(size)

    def search_device(
        self, server: int, search: DeviceSearch, timeout: float | None
    ) -> DeviceResult:
        self.searches.append(search)
        size = 4 if search.query_dtype == 1 else 2
        self.vectors.append(
            ctypes.string_at(search.queries, search.queries_count * search.dim * size)
        )
        for i in range(search.queries_count):
            ctypes.c_int32.from_address(search.counts + 4 * i).value = i
            for j in range(search.k):
                at = i * search.k + j
                score = i + j if j < i else float("nan")
                number = 100 * i + j if j < i else 2**64 - 1
                ctypes.c_float.from_address(search.scores + 4 * at).value = score
                ctypes.c_uint64.from_address(search.ids + 8 * at).value = number
        return DeviceResult(epoch=7, matched_rows=9, device_us=1, total_us=2)


def read(array: DeviceArray) -> np.ndarray[Any, Any]:
    size = int(np.prod(array.shape)) * np.dtype(array.dtype).itemsize
    return np.frombuffer(ctypes.string_at(array.address, size), array.dtype).reshape(array.shape)


def test_answers_are_arrays_in_one_piece_of_memory() -> None:
    library = Library()
    queries = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
    hits = search_device(library, 5, "docs", queries, k=2, filter_text="a == 1", stream=77)
    assert (hits.epoch, hits.matched_rows) == (7, 9)
    assert read(hits.counts).tolist() == [0, 1, 2]
    assert read(hits.ids)[2].tolist() == [200, 201]
    assert read(hits.ids)[0].tolist() == [2**64 - 1] * 2
    assert read(hits.ids_int64)[0].tolist() == [-1] * 2
    assert read(hits.scores)[2].tolist() == [2, 3]
    assert np.isnan(read(hits.scores)[0]).all()
    search = library.searches[0]
    assert (search.collection, search.filter_text) == (b"docs", b"a == 1")
    assert (search.queries_count, search.dim, search.k) == (3, 4, 2)
    assert (search.query_dtype, search.stream, search.has_score_threshold) == (1, 77, 0)
    assert library.vectors[0] == queries.array.tobytes()
    assert queries.streams == [77]
    assert [each.address % 256 for each in (hits.ids, hits.counts)] == [
        hits.scores.address % 256
    ] * 2


@pytest.mark.parametrize(("dtype", "number"), [(np.float32, 1), (np.float16, 2)])
def test_one_query_has_one_dimension(dtype: Any, number: int) -> None:
    library = Library()
    hits = search_device(library, 5, "docs", Tensor(np.ones(4, dtype)), k=3, score_threshold=0.5)
    assert hits.scores.shape == (1, 3)
    search = library.searches[0]
    assert (search.query_dtype, search.dim, search.stream) == (number, 4, 1)
    assert (search.has_score_threshold, search.score_threshold) == (1, 0.5)


def test_bfloat16_is_accepted() -> None:
    memory = Memory(8)
    queries = DeviceArray(memory, memory.address, (1, 4), "bfloat16", 0)
    library = Library()
    search_device(library, 5, "docs", queries, k=1)
    assert library.searches[0].query_dtype == 3


def test_out_receives_the_answers() -> None:
    library = Library()
    scores, ids = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.int64)
    counts = np.zeros(2, np.int32)
    out = (Tensor(scores), Tensor(ids), Tensor(counts))
    hits = search_device(library, 5, "docs", Tensor(np.ones((2, 4), np.float32)), k=3, out=out)
    assert hits.scores is out[0]
    assert counts.tolist() == [0, 1]
    assert ids[1].tolist() == [100, -1, -1]
    assert library.sizes == []
    with pytest.raises(TypeError, match="own tensor"):
        _ = hits.ids_int64


QUERIES = np.ones((2, 4), np.float32)


@pytest.mark.parametrize(
    ("queries", "field", "message"),
    [
        (QUERIES, "queries.device", "queries.device = the CPU, must be a CUDA device"),
        (3, "queries", "queries = int, must be a tensor"),
        (Tensor(QUERIES.astype(np.float64)), "queries.dtype", "queries.dtype = float64, must be"),
        (Tensor(QUERIES.T), "queries.strides", "not contiguous, must be row-major"),
        (Tensor(QUERIES[None]), "queries.shape", r"queries.shape = \(1, 2, 4\), must be"),
        (Tensor(QUERIES[:0]), "queries.shape", "at least 1 query"),
        (Tensor(QUERIES, (13, 0)), "queries.device", "managed memory"),
    ],
)
def test_wrong_queries_are_named(queries: Any, field: str, message: str) -> None:
    library = Library()
    with pytest.raises(nearfield.InvalidArgument, match=message) as raised:
        search_device(library, 5, "docs", queries)
    assert raised.value.field == field
    assert raised.value.limit
    assert library.searches == []


@pytest.mark.parametrize(
    ("place", "tensor", "message"),
    [
        (0, Tensor(np.zeros((2, 3), np.float64)), "out.scores.dtype = float64, must be float32"),
        (1, Tensor(np.zeros((2, 3), np.int32)), "out.ids.dtype = int32, must be uint64 or int64"),
        (2, Tensor(np.zeros(3, np.int32)), r"out.counts.shape = \(3,\), must be \(2,\)"),
        (2, np.zeros(2, np.int32), "out.counts.device = the CPU"),
    ],
)
def test_wrong_out_is_named(place: int, tensor: Any, message: str) -> None:
    out = [Tensor(np.zeros((2, 3), np.float32)), Tensor(np.zeros((2, 3), np.uint64))]
    out = [*out, Tensor(np.zeros(2, np.int32))]
    out[place] = tensor
    with pytest.raises(nearfield.InvalidArgument, match=message):
        search_device(Library(), 5, "docs", Tensor(QUERIES), k=3, out=tuple(out))


def test_an_exported_array_owns_its_memory_until_its_user_is_done() -> None:
    memory = Memory(24)
    array = DeviceArray(memory, memory.address, (2, 3), "float32", 1)
    assert array.__dlpack_device__() == (2, 1)
    before = len(_dlpack._exports)
    borrowed = Borrowed(array, 1)
    assert (borrowed.address, borrowed.shape, borrowed.dtype) == (array.address, (2, 3), "float32")
    assert (borrowed.device, borrowed.contiguous) == (1, True)
    assert len(_dlpack._exports) == before + 1
    del borrowed  # a capsule that was never used
    gc.collect()
    assert len(_dlpack._exports) == before

    capsule = array.__dlpack__(stream=1, max_version=(1, 0))
    set_name = ctypes.pythonapi.PyCapsule_SetName
    set_name.argtypes = [ctypes.py_object, ctypes.c_char_p]
    pointer = _dlpack._python.PyCapsule_GetPointer(capsule, b"dltensor")
    used = b"used_dltensor"
    set_name(capsule, used)
    del capsule
    gc.collect()
    assert len(_dlpack._exports) == before + 1  # it belongs to the user now
    managed = _dlpack._ManagedTensor.from_address(pointer)
    managed.deleter(pointer)
    assert len(_dlpack._exports) == before


def test_an_export_refuses_copies_and_other_devices() -> None:
    memory = Memory(4)
    array = DeviceArray(memory, memory.address, (1,), "float32", 0)
    with pytest.raises(BufferError, match="copy"):
        array.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="dl_device"):
        array.__dlpack__(dl_device=(1, 0))
