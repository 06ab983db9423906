"""The functions of libnearfield.so for searches on the device, by ctypes. Contract:
server/library/nearfield_device.h and nearfield.h."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import grpc

from nearfield._errors import DETAILS_KEY, REQUEST_ID_KEY, error_of


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


class _Reply(ctypes.Structure):
    """nf_reply"""

    _fields_ = [
        ("code", ctypes.c_int32),
        ("has_message", ctypes.c_int32),
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("message", ctypes.c_char_p),
        ("details", ctypes.c_void_p),
        ("details_size", ctypes.c_size_t),
        ("request_id", ctypes.c_char_p),
        ("retry_after_ms", ctypes.c_int64),
        ("owner", ctypes.c_void_p),
    ]


class _Options(ctypes.Structure):
    """nf_options"""

    _fields_ = [
        ("timeout_us", ctypes.c_int64),
        ("caller", ctypes.c_char_p),
        ("request_id", ctypes.c_char_p),
    ]


_STATUS_CODES = {code.value[0]: code for code in grpc.StatusCode}


@dataclass(frozen=True)
class DeviceResult:
    """The facts about a search whose answers are on the device."""

    epoch: int
    matched_rows: int
    device_us: int
    total_us: int


class HeldMemory:
    """Device memory of an engine, given back when this object is gone."""

    def __init__(self, library: ctypes.CDLL, handle: int, address: int) -> None:
        self._give_back = library.nf_give_device_memory
        self._handle = handle
        self.address = address

    def __del__(self) -> None:
        self._give_back(self._handle)


class DeviceLibrary:
    """The functions of a loaded library."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        library.nf_free.argtypes = [ctypes.POINTER(_Reply)]
        library.nf_free.restype = None
        library.nf_give_device_memory.argtypes = [ctypes.c_uint64]
        library.nf_give_device_memory.restype = None
        library.nf_take_device_memory.argtypes = [
            ctypes.c_uint64,
            ctypes.c_int64,
            ctypes.POINTER(ctypes.c_uint64),
            ctypes.POINTER(ctypes.c_void_p),
            ctypes.POINTER(_Reply),
        ]
        library.nf_search_device.argtypes = [
            ctypes.c_uint64,
            ctypes.POINTER(DeviceSearch),
            ctypes.POINTER(_Options),
            ctypes.POINTER(_DeviceResult),
            ctypes.POINTER(_Reply),
        ]

    def search_device(
        self, server: int, search: DeviceSearch, timeout: float | None
    ) -> DeviceResult:
        options = _Options(timeout_us=0 if timeout is None else max(1, int(timeout * 1e6)))
        result, reply = _DeviceResult(), _Reply()
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
        handle, address, reply = ctypes.c_uint64(), ctypes.c_void_p(), _Reply()
        self._library.nf_take_device_memory(
            server, size, ctypes.byref(handle), ctypes.byref(address), ctypes.byref(reply)
        )
        self._check(reply)
        return HeldMemory(self._library, handle.value, address.value or 0)

    def _check(self, reply: _Reply) -> None:
        """Frees the reply, and raises its error."""
        code = reply.code
        message = (reply.message or b"").decode()
        details = ctypes.string_at(reply.details, reply.details_size) if reply.details else b""
        metadata = [
            (DETAILS_KEY, details),
            (REQUEST_ID_KEY, (reply.request_id or b"").decode() or None),
        ]
        self._library.nf_free(ctypes.byref(reply))
        if code != 0:
            raise error_of(_STATUS_CODES[code], message, metadata)
