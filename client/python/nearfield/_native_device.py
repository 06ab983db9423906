"""The functions of libnearfield.so for searches on the device, by ctypes. Contract:
server/c_abi/nearfield_device.h and nearfield.h."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from nearfield._errors import from_rpc_error
from nearfield._library import CallOptions, Reply, freed


class DeviceSearch(ctypes.Structure):
    """nf_device_search"""

    _fields_ = [
        ("collection", ctypes.c_char_p),
        ("filter_text", ctypes.c_char_p),
        ("queries", ctypes.c_void_p),
        ("queries_count", ctypes.c_int64),
        ("query_dtype", ctypes.c_int32),
        ("dim", ctypes.c_int32),
        ("k", ctypes.c_int32),
        ("has_score_threshold", ctypes.c_int32),
        ("score_threshold", ctypes.c_float),
        ("reserved", ctypes.c_int32),
        ("stream", ctypes.c_void_p),
        ("scores", ctypes.c_void_p),
        ("ids", ctypes.c_void_p),
        ("counts", ctypes.c_void_p),
    ]


class _DeviceResult(ctypes.Structure):
    """nf_device_result"""

    _fields_ = [
        ("epoch", ctypes.c_uint64),
        ("matched_rows", ctypes.c_int64),
        ("device_us", ctypes.c_int64),
        ("total_us", ctypes.c_int64),
    ]


@dataclass(frozen=True)
class DeviceResult:
    """The facts about a search whose answers are on the device."""

    epoch: int
    matched_rows: int
    device_us: int
    total_us: int


class HeldMemory:
    """Device memory of an engine, given back when this object is gone."""

    def __init__(self, library: Any, handle: int, address: int) -> None:
        self._give_back = library.nf_give_device_memory
        self._handle = handle
        self.address = address

    def __del__(self) -> None:
        self._give_back(self._handle)


class DeviceLibrary:
    """The functions of a loaded library."""

    def __init__(self, library: Any) -> None:
        self._library = library
        library.nf_give_device_memory.argtypes = [ctypes.c_uint64]
        library.nf_give_device_memory.restype = None
        library.nf_take_device_memory.argtypes = [
            ctypes.c_uint64,
            ctypes.c_int64,
            ctypes.POINTER(ctypes.c_uint64),
            ctypes.POINTER(ctypes.c_void_p),
            ctypes.POINTER(Reply),
        ]
        library.nf_search_device.argtypes = [
            ctypes.c_uint64,
            ctypes.POINTER(DeviceSearch),
            ctypes.POINTER(CallOptions),
            ctypes.POINTER(_DeviceResult),
            ctypes.POINTER(Reply),
        ]

    def search_device(
        self, server: int, search: DeviceSearch, timeout: float | None
    ) -> DeviceResult:
        options = CallOptions(timeout_us=0 if timeout is None else max(1, int(timeout * 1e6)))
        result, reply = _DeviceResult(), Reply()
        self._library.nf_search_device(
            server,
            ctypes.byref(search),
            ctypes.byref(options),
            ctypes.byref(result),
            ctypes.byref(reply),
        )
        self._check(reply)
        return DeviceResult(result.epoch, result.matched_rows, result.device_us, result.total_us)

    def take_memory(self, server: int, size: int) -> HeldMemory:
        handle, address, reply = ctypes.c_uint64(), ctypes.c_void_p(), Reply()
        self._library.nf_take_device_memory(
            server, size, ctypes.byref(handle), ctypes.byref(address), ctypes.byref(reply)
        )
        self._check(reply)
        return HeldMemory(self._library, handle.value, address.value or 0)

    def _check(self, reply: Reply) -> None:
        """Frees the reply, and raises its error."""
        with freed(self._library, reply):
            error = reply.error() if reply.code else None
        if error is not None:
            raise from_rpc_error(error)
