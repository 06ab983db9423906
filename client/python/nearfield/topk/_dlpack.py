"""DLPack by ctypes: the memory of other libraries' tensors, and tensors for other libraries.

Source: the DLPack specification, "C API" and "Python Specification for DLPack", version 1.1.
Tensors are exchanged in the form of version 0, which every library accepts.
"""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

CUDA = 2  # kDLCUDA
CUDA_HOST = 3
CUDA_MANAGED = 13
DEVICE_NAMES = {1: "the CPU", CUDA_HOST: "pinned host memory", CUDA_MANAGED: "managed memory"}
INT, UINT, FLOAT, BFLOAT = 0, 1, 2, 4
CODE_NAMES = {INT: "int", UINT: "uint", FLOAT: "float", 3: "handle", BFLOAT: "bfloat", 5: "complex"}
LEGACY_STREAM = 1  # the number of the legacy default stream

Capsule = Any  # types.CapsuleType is of Python 3.13


class SupportsDLPack(Protocol):
    """A tensor of any library: torch, CuPy, JAX, ..."""

    def __dlpack__(self, *, stream: Any = None) -> Capsule: ...

    def __dlpack_device__(self) -> tuple[Any, int]: ...


class _Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("index", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _ManagedTensor(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]


_TYPES = {
    "float32": (FLOAT, 32),
    "float16": (FLOAT, 16),
    "bfloat16": (BFLOAT, 16),
    "uint64": (UINT, 64),
    "int64": (INT, 64),
    "int32": (INT, 32),
}
_NAME = b"dltensor"
_python = ctypes.pythonapi
_python.PyCapsule_IsValid.restype = ctypes.c_int
_python.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_python.PyCapsule_GetPointer.restype = ctypes.c_void_p
_python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_CapsuleDestructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_python.PyCapsule_New.restype = ctypes.py_object
_python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, _CapsuleDestructor]
# The same functions for a capsule that is being destroyed, which must not be referenced again.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _python)
)
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _python)
)


class Borrowed:
    """The memory of another library's tensor. It is valid while this object exists.

    address, shape, strides (in elements), dtype ("float16", "bfloat16", "uint64", ...), contiguous
    (row-major), device
    """

    def __init__(self, tensor: SupportsDLPack, stream: int) -> None:
        """stream: the stream that will use the memory. Work that the other library has enqueued
        for the tensor is ordered before later work of that stream."""
        self._capsule = tensor.__dlpack__(stream=stream)
        if not _python.PyCapsule_IsValid(self._capsule, _NAME):
            raise TypeError("__dlpack__ returned no capsule named 'dltensor'")
        address = _python.PyCapsule_GetPointer(self._capsule, _NAME)
        view = _ManagedTensor.from_address(address).tensor
        self.address = (view.data or 0) + view.byte_offset
        self.shape = tuple(view.shape[i] for i in range(view.ndim))
        kind = CODE_NAMES.get(view.dtype.code, f"code{view.dtype.code}")
        lanes = "" if view.dtype.lanes == 1 else f"x{view.dtype.lanes}"
        self.dtype = f"{kind}{view.dtype.bits}{lanes}"
        self.device = view.device.index
        strides = tuple(view.strides[i] for i in range(view.ndim)) if view.strides else None
        self.strides = _strides_of(self.shape) if strides is None else strides
        self.contiguous = strides is None or _row_major(self.shape, strides)


def _strides_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the strides of a contiguous tensor."""
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * size)
    return tuple(reversed(strides))[: len(shape)]


def _row_major(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    wanted = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != wanted:
            return False
        wanted *= size
    return True


class _Export:
    """A tensor that another library uses: its struct, and what the struct points to."""

    def __init__(self, array: DeviceArray) -> None:
        self.owner = array
        self.shape = (ctypes.c_int64 * len(array.shape))(*array.shape)
        self.struct = _ManagedTensor()
        tensor = self.struct.tensor
        tensor.data = array.address
        tensor.device = _Device(CUDA, array.device)
        tensor.ndim = len(array.shape)
        tensor.dtype = _DataType(*_TYPES[array.dtype], 1)
        tensor.shape = ctypes.cast(self.shape, ctypes.POINTER(ctypes.c_int64))
        self.struct.deleter = _delete


_exports: dict[int, _Export] = {}  # by the address of the struct


def _forget(address: int | None) -> None:
    if address is not None:
        _exports.pop(address, None)


def _destroy(capsule: int | None) -> None:
    # A capsule that was used has another name by now; its user calls the deleter.
    if _is_valid(capsule, _NAME):
        _forget(_get_pointer(capsule, _NAME))


_delete = _Deleter(_forget)
_destructor = _CapsuleDestructor(_destroy)


class DeviceArray:
    """An array in the memory of a GPU, for other libraries: torch.from_dlpack(array),
    cupy.from_dlpack(array) and jax.dlpack.from_dlpack(array) use the same memory without a copy.

    shape   for example (queries, k)
    dtype   "float32", "uint64", "int64" or "int32"
    device  CUDA ordinal
    """

    def __init__(
        self, owner: object, address: int, shape: tuple[int, ...], dtype: str, device: int
    ) -> None:
        self._owner = owner  # of the memory, which is given back after the last array
        self.address = address
        self.shape = shape
        self.dtype = dtype
        self.device = device

    def viewed_as(self, dtype: str) -> DeviceArray:
        """Returns the same bytes as elements of another type of the same size."""
        return DeviceArray(self._owner, self.address, self.shape, dtype, self.device)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CUDA, self.device)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Capsule:
        """The content is complete, so no stream has to wait for it."""
        if copy:
            raise BufferError("copy = True, must be None or False: the array is not copied")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"dl_device = {dl_device}, must be {self.__dlpack_device__()}")
        export = _Export(self)
        address = ctypes.addressof(export.struct)
        _exports[address] = export
        return _python.PyCapsule_New(address, _NAME, _destructor)

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, device=cuda:{self.device})"
