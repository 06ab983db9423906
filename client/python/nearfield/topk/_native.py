"""libnearfield_topk.so by ctypes. Contract: engine/include/nearfield/nearfield_topk.h.

The library comes with the package nearfield-topk or nearfield-native, or from a build folder: the
environment variable NEARFIELD_TOPK_LIBRARY names the file."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from . import _shared_library

ABI_VERSION = 1
LIBRARY_VARIABLE = "NEARFIELD_TOPK_LIBRARY"
TYPES = {"float32": 1, "float16": 2, "bfloat16": 3, "int32": 4, "uint32": 5}
# The errors of the codes of google.rpc.Code that the functions return.
_ERRORS: dict[int, type[Exception]] = {3: ValueError, 5: LookupError, 12: NotImplementedError}


class Shape(ctypes.Structure):
    """nf_topk_shape"""

    _fields_ = [
        ("struct_bytes", ctypes.c_uint32),
        ("type", ctypes.c_int32),
        ("batch", ctypes.c_int64),
        ("n", ctypes.c_int64),
        ("k", ctypes.c_int64),
        ("column_stride", ctypes.c_int64),
        ("ragged", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    ]


class Buffers(ctypes.Structure):
    """nf_topk_buffers"""

    _fields_ = [
        ("struct_bytes", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("scores", ctypes.c_void_p),
        ("stride", ctypes.c_int64),
        ("row_begin", ctypes.c_void_p),
        ("row_end", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("indices", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_int64),
    ]


@functools.lru_cache(maxsize=1)
def load() -> Any:
    """Returns the library, with the types of its functions."""
    address, text, code = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32
    shape, buffers = ctypes.POINTER(Shape), ctypes.POINTER(Buffers)
    functions: tuple[tuple[str, Any, list[Any]], ...] = (
        ("nf_topk_last_error", text, []),
        ("nf_topk_create", code, [ctypes.c_int32, ctypes.POINTER(address)]),
        ("nf_topk_algorithm_name", text, [address, ctypes.c_int32]),
        ("nf_topk_algorithm_summary", text, [address, ctypes.c_int32]),
        ("nf_topk_supports", code, [address, shape, text]),
        ("nf_topk_choice", code, [address, shape, ctypes.POINTER(text)]),
        (
            "nf_topk_workspace_bytes",
            code,
            [address, shape, text, ctypes.POINTER(ctypes.c_int64)],
        ),
        ("nf_topk_init_workspace", code, [address, address, ctypes.c_int64, address]),
        ("nf_topk_run", code, [address, shape, buffers, text, address]),
        ("nf_topk_wait", code, [address, address]),
    )
    return _shared_library.load(
        LIBRARY_VARIABLE,
        ("libnearfield_topk.so", ("nearfield_topk", "nearfield_native")),
        "nearfield.topk on a GPU",
        ("nf_topk_abi_version", ABI_VERSION),
        functions,
    )


def _encoded(algorithm: str | None) -> bytes | None:
    return None if algorithm is None else algorithm.encode()


class Selector:
    """The selections of one device. Thread safety: any number of threads."""

    def __init__(self, device: int) -> None:
        self._library = load()
        self._handle = ctypes.c_void_p()
        self._check(self._library.nf_topk_create(device, ctypes.byref(self._handle)))

    def _check(self, code: int) -> None:
        if code:
            message = self._library.nf_topk_last_error().decode("utf-8", "replace")
            raise _ERRORS.get(code, RuntimeError)(message)

    def algorithms(self) -> dict[str, str]:
        """Returns a sentence about each algorithm, by its name."""
        found: dict[str, str] = {}
        while name := self._library.nf_topk_algorithm_name(self._handle, len(found)):
            summary = self._library.nf_topk_algorithm_summary(self._handle, len(found))
            found[name.decode()] = summary.decode()
        return found

    def choice(self, shape: Shape) -> str:
        name = ctypes.c_char_p()
        self._check(
            self._library.nf_topk_choice(self._handle, ctypes.byref(shape), ctypes.byref(name))
        )
        return (name.value or b"").decode()

    def workspace_bytes(self, shape: Shape, algorithm: str | None) -> int:
        size = ctypes.c_int64()
        self._check(
            self._library.nf_topk_workspace_bytes(
                self._handle, ctypes.byref(shape), _encoded(algorithm), ctypes.byref(size)
            )
        )
        return size.value

    def init_workspace(self, address: int, size: int, stream: int) -> None:
        self._check(self._library.nf_topk_init_workspace(self._handle, address, size, stream))

    def run(self, shape: Shape, buffers: Buffers, algorithm: str | None, stream: int) -> None:
        self._check(
            self._library.nf_topk_run(
                self._handle,
                ctypes.byref(shape),
                ctypes.byref(buffers),
                _encoded(algorithm),
                stream,
            )
        )

    def wait(self, stream: int) -> None:
        self._check(self._library.nf_topk_wait(self._handle, stream))


_selectors: dict[int, Selector] = {}


def selector(device: int, capturing: bool = False) -> Selector:
    """Returns the selector of a device. It is made once, and stays.

    Raises RuntimeError if it must be made while the stream is captured into a graph: loading the
    kernels is not allowed then."""
    found = _selectors.get(device)
    if found is None:
        if capturing:
            raise RuntimeError(
                f"the first call on cuda:{device} is in the capture of a CUDA graph: call topk or"
                " nearfield.topk.algorithms once before it"
            )
        found = _selectors.setdefault(device, Selector(device))
    return found
