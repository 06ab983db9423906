"""topk: checks the arguments, finds the memory, and runs the selection."""

from __future__ import annotations

import ctypes
import math
from typing import Any, NamedTuple

import numpy as np

from . import _frameworks, _host, _native
from ._frameworks import Framework, View
from ._workspaces import Key, Workspace, Workspaces

COLUMNS_MAX = 2**31 - 1  # an index is an int32

_kept = Workspaces()


class TopK(NamedTuple):
    """values   [..., k] of the type of the scores, best first
    indices  [..., k] int32; -1 where a ragged row has fewer than k scores
    """

    values: Any
    indices: Any


class _Rows(NamedTuple):
    """Scores as rows: `stride` and `column_stride` apart, in elements."""

    batch: int
    n: int
    stride: int  # 0: a single row
    column_stride: int


class Call(NamedTuple):
    """The arguments of `topk`. keep: without an own workspace, use one that stays for the next call
    of the stream."""

    scores: Any
    k: int
    bounds: tuple[Any, Any] = (None, None)
    algorithm: str | None = None
    out: tuple[Any, Any] | None = None
    workspace: Workspace | None = None
    keep: bool = True


class _Place(NamedTuple):
    device: int
    stream: int
    capturing: bool


def topk(
    scores: Any,
    k: int,
    *,
    row_begin: Any = None,
    row_end: Any = None,
    lengths: Any = None,
    algorithm: str | None = None,
    out: tuple[Any, Any] | None = None,
    stream: Any = None,
    workspace: Workspace | None = None,
) -> TopK:
    """Returns the k highest scores of each row and their indices, sorted.

    scores   [..., n]: float32, float16, bfloat16, int32 or uint32; n below 2**31. Rows may have any
             alignment and any stride of at least n; several leading dimensions must be contiguous
             among themselves. On a GPU at most 65,535 rows
    k        1 to n
    row_begin, row_end  int32 [...], on the device of the scores: row r has the scores of the
             columns [row_begin[r], row_end[r]), and its indices count from row_begin[r]. A begin
             below 0 counts as 0, a length below 0 as 0, above n as n. A place without a score has
             the index -1 and the value -inf, or the lowest integer. None: 0, and n. On a GPU the
             bounds are not checked
    lengths  int32 [...]: row_end, of rows that begin at 0
    algorithm  one of `algorithms()`; None: "adaptive", which chooses by the shape
    out      (values, indices) to write to, contiguous; indices int32 or uint32
    stream   a CUDA stream, as an object of torch or CuPy or as a number; None: the current one of
             the library of the scores
    workspace  of `make_workspace`; None: one that this module keeps for the stream
    Raises ValueError (the field, its value, its limit), TypeError (no tensor that it knows),
    LookupError (no such algorithm), NotImplementedError (the algorithm cannot select the shape; a
    build without CUDA), RuntimeError (CUDA), ImportError (no libnearfield_topk.so).
    """
    if lengths is not None:
        if row_begin is not None or row_end is not None:
            raise ValueError("lengths: given with row_begin or row_end, must be alone")
        row_end = lengths
    framework = _frameworks.of(scores)
    if framework.on_host(scores):
        if algorithm not in (None, "adaptive", "numpy"):
            raise LookupError(f"algorithm = {algorithm}: on the CPU there is only numpy")
        return _on_host(framework, scores, k, (row_begin, row_end), out)
    device = framework.device(scores)
    with framework.on_stream(stream, device) as number:
        call = Call(scores, k, (row_begin, row_end), algorithm, out, workspace)
        return on_device(framework, call, number)


def make_workspace(
    scores: Any, k: int, *, ragged: bool = False, algorithm: str | None = None, stream: Any = None
) -> Workspace:
    """Returns a workspace for `topk` of scores like these, initialized on the stream. It also
    serves every shape that needs at most as many bytes. Raises as `topk`."""
    framework = _frameworks.of(scores)
    if framework.on_host(scores):
        raise TypeError("scores: on the CPU, must be on a GPU: the CPU needs no workspace")
    device = framework.device(scores)
    with framework.on_stream(stream, device) as number:
        view = framework.view(scores, number)
        shape = _shape_of(view, _rows_of(view.shape, view.strides, k), k, ragged)
        selector = _native.selector(device, framework.capturing(number))
        size = selector.workspace_bytes(shape, algorithm)
        made = _make_workspace(framework, selector, size, device, number)
        if framework.blocking:
            selector.wait(number)
        return made


def algorithms(device: int = 0) -> dict[str, str]:
    """Returns a sentence about each algorithm that can be forced, by its name."""
    return _native.selector(device).algorithms()


def choice(
    batch: int, n: int, k: int, dtype: str = "float32", *, ragged: bool = False, device: int = 0
) -> str:
    """Returns the algorithm that "adaptive" runs for a shape."""
    shape = _new_shape(dtype, batch, n, k, 1, ragged)
    return _native.selector(device).choice(shape)


def _must_be(field: str, value: object, limit: str) -> ValueError:
    return ValueError(f"{field} = {value}, must be {limit}")


def _new_shape(
    dtype: str, batch: int, n: int, k: int, column_stride: int, ragged: bool
) -> _native.Shape:
    if dtype not in _native.TYPES:
        raise _must_be("scores.dtype", dtype, "one of " + ", ".join(_native.TYPES))
    shape = _native.Shape(type=_native.TYPES[dtype], batch=batch, n=n, k=k, ragged=ragged)
    shape.column_stride = column_stride
    shape.struct_bytes = ctypes.sizeof(shape)
    return shape


def _shape_of(view: View, rows: _Rows, k: int, ragged: bool) -> _native.Shape:
    return _new_shape(view.dtype, max(1, rows.batch), rows.n, k, rows.column_stride, ragged)


def _rows_of(shape: tuple[int, ...], strides: tuple[int, ...], k: int) -> _Rows:
    if not shape:
        raise _must_be("scores.shape", (), "[..., n]")
    n = shape[-1]
    if n > COLUMNS_MAX:
        raise _must_be("scores.shape", shape, f"at most {COLUMNS_MAX} columns")
    if not 1 <= k <= n:
        raise _must_be("k", k, f"1 .. {n}, the columns of the scores")
    column_stride = strides[-1] if n > 1 else 1
    if column_stride < 1:
        raise _must_be("scores.strides", strides, "positive")
    if 0 in shape:
        return _Rows(0, n, 0, column_stride)
    batch, stride = 1, 0
    for size, step in zip(reversed(shape[:-1]), reversed(strides[:-1]), strict=True):
        if size == 1:
            continue
        if step < 1:
            raise _must_be("scores.strides", strides, "positive: make a copy")
        if batch == 1:
            stride = step
        elif step != stride * batch:
            raise _must_be("scores.strides", strides, "of contiguous leading dimensions")
        batch *= size
    return _Rows(batch, n, stride if batch > 1 else 0, column_stride)


def _on_host(
    framework: Framework, scores: Any, k: int, bounds: tuple[Any, Any], out: tuple[Any, Any] | None
) -> TopK:
    array, dtype = framework.to_host(scores)
    if dtype not in _native.TYPES:
        raise _must_be("scores.dtype", dtype, "one of " + ", ".join(_native.TYPES))
    if array.ndim < 1 or not 1 <= k <= array.shape[-1]:
        limit = "[..., n]" if array.ndim < 1 else f"1 .. {array.shape[-1]}, the columns"
        raise _must_be("k", k, limit)
    leading, n = array.shape[:-1], array.shape[-1]
    rows = np.ascontiguousarray(array).reshape(-1, n)
    bits = rows.view(np.uint16 if _host.BITS[dtype] == 16 else np.uint32)
    found = [None if each is None else np.asarray(each).reshape(-1) for each in bounds]
    for field, each in zip(("row_begin", "row_end"), found, strict=True):
        if each is not None and each.shape != (bits.shape[0],):
            raise _must_be(f"{field}.shape", each.shape, f"({bits.shape[0]},)")
        if each is not None and each.dtype.kind not in "iu":
            raise _must_be(f"{field}.dtype", each.dtype, "an integer type")
    value_bits, indices = _host.select(bits, dtype, k, found[0], found[1])
    values = value_bits if dtype == "bfloat16" else value_bits.view(array.dtype)
    shape = (*leading, k)
    answer = TopK(
        framework.from_host(values.reshape(shape), dtype, scores),
        framework.from_host(indices.reshape(shape), "int32", scores),
    )
    if out is None:
        return answer
    for field, target, source in zip(("values", "indices"), out, answer, strict=True):
        if tuple(target.shape) != shape:
            raise _must_be(f"out.{field}.shape", tuple(target.shape), str(shape))
        target[...] = source
    return TopK(*out)


def _bound(
    framework: Framework, field: str, tensor: Any, rows: _Rows, device: int, stream: int
) -> View:
    view = framework.view(tensor, stream)
    if view.dtype != "int32":
        raise _must_be(f"{field}.dtype", view.dtype, "int32")
    if view.device != device:
        raise _must_be(f"{field}.device", f"cuda:{view.device}", f"cuda:{device}")
    _check_contiguous(field, view, rows.batch)
    return view


def _check_contiguous(field: str, view: View, count: int) -> None:
    wanted = 1
    for size, step in zip(reversed(view.shape), reversed(view.strides), strict=True):
        if size != 1 and step != wanted:
            raise _must_be(f"{field}.strides", view.strides, "row-major and contiguous")
        wanted *= size
    if wanted != count:
        raise _must_be(f"{field}.shape", view.shape, f"of {count} elements")


def _check_out(
    framework: Framework,
    out: tuple[Any, Any],
    scores: View,
    shape: tuple[int, ...],
    stream: int,
) -> None:
    if len(out) != 2:
        raise _must_be("out", f"{len(out)} tensors", "values and indices")
    types = ((scores.dtype,), ("int32", "uint32"))
    for field, tensor, allowed in zip(("out.values", "out.indices"), out, types, strict=True):
        view = framework.view(tensor, stream)
        if view.dtype not in allowed:
            raise _must_be(f"{field}.dtype", view.dtype, " or ".join(allowed))
        if view.device != scores.device:
            raise _must_be(f"{field}.device", f"cuda:{view.device}", f"cuda:{scores.device}")
        if view.shape != shape:
            raise _must_be(f"{field}.shape", view.shape, str(shape))
        _check_contiguous(field, view, math.prod(shape))


def _make_workspace(
    framework: Framework, selector: _native.Selector, size: int, device: int, stream: int
) -> Workspace:
    memory = framework.empty((size,), "uint8", device)
    address = framework.address(memory, stream)
    selector.init_workspace(address, size, stream)
    return Workspace(memory, address, size, device)


def _workspace_for(
    framework: Framework, call: Call, selector: _native.Selector, size: int, place: _Place
) -> Workspace:
    if call.workspace is not None:
        if call.workspace.device != place.device:
            raise _must_be(
                "workspace.device", f"cuda:{call.workspace.device}", f"cuda:{place.device}"
            )
        return call.workspace

    def make(wanted: int) -> Workspace:
        return _make_workspace(framework, selector, wanted, place.device, place.stream)

    if place.capturing and framework.name != "torch":
        raise _must_be("workspace", "None", "of make_workspace in the capture of a CUDA graph")
    # The memory of a capture belongs to its graph, and a kept workspace could be in use by another
    # stream when the graph runs.
    if place.capturing or not call.keep:
        return make(size)
    return _kept.take(_key(framework, place), size, make)


def _key(framework: Framework, place: _Place) -> Key:
    return framework.name, place.device, place.stream, _frameworks.thread_of(place.stream)


def on_device(framework: Framework, call: Call, stream: int) -> TopK:
    """Enqueues a selection on the stream, which is the framework's current one."""
    view = framework.view(call.scores, stream)
    rows = _rows_of(view.shape, view.strides, call.k)
    bounds = [
        None if each is None else _bound(framework, field, each, rows, view.device, stream)
        for field, each in zip(("row_begin", "row_end"), call.bounds, strict=True)
    ]
    shape = _shape_of(view, rows, call.k, any(each is not None for each in bounds))
    out = call.out
    places = (*view.shape[:-1], call.k)
    if out is None:
        out = (
            framework.empty(places, call.scores.dtype, view.device),
            framework.empty(places, "int32", view.device),
        )
    else:
        _check_out(framework, out, view, places, stream)
    if rows.batch == 0:
        return TopK(*out)
    place = _Place(view.device, stream, framework.capturing(stream))
    selector = _native.selector(view.device, place.capturing)
    size = selector.workspace_bytes(shape, call.algorithm)
    workspace = _workspace_for(framework, call, selector, size, place)
    buffers = _native.Buffers(
        struct_bytes=ctypes.sizeof(_native.Buffers),
        scores=view.address,
        stride=rows.stride,
        row_begin=bounds[0].address if bounds[0] else None,
        row_end=bounds[1].address if bounds[1] else None,
        values=framework.address(out[0], stream),
        indices=framework.address(out[1], stream),
        workspace=workspace.address,
        workspace_bytes=workspace.bytes,
    )
    try:
        with workspace.lock:
            selector.run(shape, buffers, call.algorithm, stream)
        if framework.blocking:
            selector.wait(stream)
    except RuntimeError:
        _kept.drop(_key(framework, place))
        raise
    return TopK(*out)
