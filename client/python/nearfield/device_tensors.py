"""Searches with query tensors that are on the GPU, by an engine in this process.

    docs = nearfield.open("folder").collection("docs")
    hits = docs.search_device(queries, k=10)         # queries: torch, CuPy, JAX
    scores = torch.from_dlpack(hits.scores)          # [queries, k], no copy
    ids = torch.from_dlpack(hits.ids_int64)

Neither queries nor answers are copied to the host. The call blocks until the answers are in device
memory: first for the work that the stream has, then for the search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nearfield._errors import InvalidArgument
from nearfield._native_device import DeviceLibrary, DeviceSearch
from nearfield.topk import _dlpack
from nearfield.topk._dlpack import Borrowed, DeviceArray, SupportsDLPack

__all__ = ["DeviceArray", "DeviceHits", "search_device"]

# nearfield.v1.DataType
_QUERY_TYPES = {"float32": 1, "float16": 2, "bfloat16": 3}
_SIZES = {"float32": 4, "uint64": 8, "int64": 8, "int32": 4}


@dataclass(frozen=True)
class DeviceHits:
    """The answers of a search, on the GPU. counts[i] hits of query i come first in row i, best
    first; the other places of the row have the score NaN and the id 2**64 - 1.

    scores  float32 [queries, k]
    ids     uint64 [queries, k]
    counts  int32 [queries]
    epoch   of the collection that was searched
    matched_rows  rows that the filter chose; without a filter, all rows
    """

    scores: Any
    ids: Any
    counts: Any
    epoch: int
    matched_rows: int

    @property
    def ids_int64(self) -> DeviceArray:
        """The ids as int64, for libraries without uint64: equal for ids below 2**63. Only without
        `out`."""
        if not isinstance(self.ids, DeviceArray):
            raise TypeError("ids_int64: the ids are the caller's own tensor")
        return self.ids.viewed_as("int64")


def search_device(
    library: DeviceLibrary,
    server: int,
    collection: str,
    queries: SupportsDLPack,
    k: int = 10,
    *,
    filter_text: str | None = None,
    score_threshold: float | None = None,
    stream: int | None = None,
    out: tuple[SupportsDLPack, SupportsDLPack, SupportsDLPack] | None = None,
    timeout: float | None = None,
) -> DeviceHits:
    """Returns the k best rows of every query, with the same ids and score bits as `search`.

    queries  [queries, dim] or [dim]: float32, float16 or bfloat16, row-major, on the GPU of the
             engine
    stream   the CUDA stream whose order the search joins, as a number
             (torch.cuda.current_stream().cuda_stream); None: the legacy default stream, before
             which the library of `queries` puts its own work (DLPack)
    out      tensors that receive scores, ids (uint64 or int64) and counts. Without it they are in
             memory of the engine, at least 256 KiB or 2 MiB for each search, that counts as used
             until the last array of the answer is gone; the GPU is then waited for, as cudaFree
             does
    Raises InvalidArgument (field, value, limit), FailedPrecondition (string ids; a stream that is
    being captured into a graph), ResourceExhausted (device memory), Unimplemented (the engine runs
    on the CPU), and the errors of `search`.
    """
    stream = stream or _dlpack.LEGACY_STREAM
    given = _borrow("queries", queries, stream)
    if given.dtype not in _QUERY_TYPES:
        raise _must_be("queries.dtype", given.dtype, "float32, float16 or bfloat16")
    if len(given.shape) not in (1, 2):
        raise _must_be("queries.shape", given.shape, "[queries, dim] or [dim]")
    count, dim = given.shape if len(given.shape) == 2 else (1, given.shape[0])
    if count < 1:
        raise _must_be("queries.shape", given.shape, "at least 1 query")
    if k < 1 or k > 2**31 - 1:
        raise _must_be("k", k, "at least 1")
    shapes = {"scores": (count, k), "ids": (count, k), "counts": (count,)}
    answer: list[Any]
    if out is None:
        answer = list(_take_memory(library, server, shapes, given.device))
        places = [array.address for array in answer]
    else:
        answer = list(out)
        borrowed = _borrow_out(out, shapes, given.device, stream)
        places = [each.address for each in borrowed]
    result = library.search_device(
        server,
        DeviceSearch(
            collection=collection.encode(),
            filter_text=None if filter_text is None else filter_text.encode(),
            queries=given.address,
            query_dtype=_QUERY_TYPES[given.dtype],
            dim=dim,
            queries_count=count,
            k=k,
            has_score_threshold=score_threshold is not None,
            score_threshold=0.0 if score_threshold is None else score_threshold,
            stream=stream,
            scores=places[0],
            ids=places[1],
            counts=places[2],
        ),
        timeout,
    )
    scores, ids, counts = answer
    return DeviceHits(scores, ids, counts, result.epoch, result.matched_rows)


def _must_be(field: str, value: object, limit: str) -> InvalidArgument:
    facts = {"field": field, "value": str(value), "limit": limit}
    return InvalidArgument(f"{field} = {value}, must be {limit}", facts=facts)


def _borrow(field: str, tensor: SupportsDLPack, stream: int) -> Borrowed:
    if not hasattr(tensor, "__dlpack__") or not hasattr(tensor, "__dlpack_device__"):
        raise _must_be(field, type(tensor).__name__, "a tensor with __dlpack__")
    kind = int(tensor.__dlpack_device__()[0])
    if kind != _dlpack.CUDA:
        name = _dlpack.DEVICE_NAMES.get(kind, f"a device of kind {kind}")
        raise _must_be(f"{field}.device", name, "a CUDA device")
    borrowed = Borrowed(tensor, stream)
    if not borrowed.contiguous:
        raise _must_be(f"{field}.strides", "not contiguous", "row-major and contiguous")
    return borrowed


def _borrow_out(
    out: tuple[SupportsDLPack, ...],
    shapes: dict[str, tuple[int, ...]],
    device: int,
    stream: int,
) -> list[Borrowed]:
    types = {"scores": ("float32",), "ids": ("uint64", "int64"), "counts": ("int32",)}
    if len(out) != len(shapes):
        raise _must_be("out", f"{len(out)} tensors", "scores, ids and counts")
    borrowed = []
    for (name, shape), tensor in zip(shapes.items(), out, strict=True):
        field = f"out.{name}"
        each = _borrow(field, tensor, stream)
        if each.dtype not in types[name]:
            raise _must_be(f"{field}.dtype", each.dtype, " or ".join(types[name]))
        if each.shape != shape:
            raise _must_be(f"{field}.shape", each.shape, str(shape))
        if each.device != device:
            raise _must_be(f"{field}.device", f"cuda:{each.device}", f"cuda:{device}")
        borrowed.append(each)
    return borrowed


def _take_memory(
    library: DeviceLibrary, server: int, shapes: dict[str, tuple[int, ...]], device: int
) -> list[DeviceArray]:
    """Returns arrays for scores, ids and counts, in one piece of the engine's memory."""
    types = {"scores": "float32", "ids": "uint64", "counts": "int32"}
    offsets = {}
    end = 0
    for name, shape in shapes.items():
        offsets[name] = end
        size = _SIZES[types[name]]
        for dimension in shape:
            size *= dimension
        end += (size + 255) // 256 * 256
    memory = library.take_memory(server, end)
    return [
        DeviceArray(memory, memory.address + offsets[name], shape, types[name], device)
        for name, shape in shapes.items()
    ]
