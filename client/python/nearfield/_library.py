"""libnearfield.so by ctypes: the C ABI of server/c_abi/nearfield.h.

The library comes with the package nearfield-native, or from a build folder: the environment
variable NEARFIELD_LIBRARY names the file."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from nearfield._errors import DETAILS_KEY, REQUEST_ID_KEY, RETRY_AFTER_KEY
from nearfield.topk import _shared_library

ABI_VERSION = 3
LIBRARY_VARIABLE = "NEARFIELD_LIBRARY"
_CODES: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}


class LibraryError(grpc.RpcError):  # type: ignore[misc]
    """The end of a call that failed, with the methods of an error of gRPC."""

    def __init__(
        self, code: grpc.StatusCode, message: str, metadata: tuple[tuple[str, Any], ...] = ()
    ) -> None:
        super().__init__(message)
        self._code = code
        self._message = message
        self._metadata = metadata

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._message

    def initial_metadata(self) -> tuple[tuple[str, Any], ...]:
        return ()

    def trailing_metadata(self) -> tuple[tuple[str, Any], ...]:
        return self._metadata


class Reply(ctypes.Structure):
    """nf_reply."""

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

    def bytes(self) -> bytes:
        return ctypes.string_at(self.data, self.size)

    def own_request_id(self) -> str | None:
        return self.request_id.decode() if self.request_id else None

    def metadata(self) -> tuple[tuple[str, Any], ...]:
        """Returns the trailing metadata that the server would send."""
        found: list[tuple[str, Any]] = []
        if self.request_id:
            found.append((REQUEST_ID_KEY, self.request_id.decode()))
        if self.retry_after_ms >= 0:
            found.append((RETRY_AFTER_KEY, str(self.retry_after_ms)))
        if self.details_size:
            found.append((DETAILS_KEY, ctypes.string_at(self.details, self.details_size)))
        return tuple(found)

    def error(self) -> LibraryError:
        code = _CODES.get(self.code, grpc.StatusCode.UNKNOWN)
        message = self.message.decode("utf-8", "replace") if self.message else ""
        return LibraryError(code, message, self.metadata())


# nf_options.interrupted. Python takes the interpreter's lock for the call.
Interrupted = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


class CallOptions(ctypes.Structure):
    """nf_options."""

    _fields_ = [
        ("timeout_us", ctypes.c_int64),
        ("caller", ctypes.c_char_p),
        ("request_id", ctypes.c_char_p),
        ("interrupted", Interrupted),
        ("context", ctypes.c_void_p),
    ]


class PlainSearch(ctypes.Structure):
    """nf_plain_search."""

    _fields_ = [
        ("collection", ctypes.c_char_p),
        ("queries", ctypes.c_char_p),  # their bytes
        ("queries_count", ctypes.c_int64),
        ("dim", ctypes.c_int32),
        ("k", ctypes.c_int32),
        ("min_epoch", ctypes.c_uint64),
        ("incarnation", ctypes.c_uint64),
        ("ids", ctypes.c_void_p),
        ("scores", ctypes.c_void_p),
        ("counts", ctypes.c_void_p),
    ]


class Escalations(ctypes.Structure):
    """The escalations of nf_plain_result."""

    _fields_ = [("tighter", ctypes.c_uint64), ("canonical", ctypes.c_uint64)]


class PlainCost(ctypes.Structure):
    """The cost of nf_plain_result, with the names of nearfield.v1.SearchCost."""

    _fields_ = [
        ("queue_us", ctypes.c_uint64),
        ("device_us", ctypes.c_uint64),
        ("total_us", ctypes.c_uint64),
        ("candidates", ctypes.c_uint64),
        ("rows_scanned", ctypes.c_uint64),
        ("bytes_read", ctypes.c_uint64),
        ("escalations", Escalations),
        ("read_ns_min", ctypes.c_uint64),
        ("batch_size", ctypes.c_uint32),
        ("backend", ctypes.c_int32),
        ("scan_precision", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    ]


class PlainResult(ctypes.Structure):
    """nf_plain_result, with the names of nearfield.v1.SearchResponse."""

    _fields_ = [
        ("hits_count", ctypes.c_int64),
        ("epoch", ctypes.c_uint64),
        ("incarnation", ctypes.c_uint64),
        ("cost", PlainCost),
        ("request_id", ctypes.c_char * 136),
    ]


class Signals:
    """Runs Python's signal handlers while the main thread is in the library, which cancels the
    call if a handler raises: Ctrl-C. Used by one thread at a time; on others it does nothing."""

    def __init__(self) -> None:
        self._raised: BaseException | None = None
        self.in_handler = False
        polls = self._polls()
        next(polls)
        self.interrupted = Interrupted(polls.send)

    def _polls(self) -> Generator[int, Any, None]:
        # A generator, because Python runs handlers also at the begin of a function, before its
        # `try`. A generator continues inside of it.
        stop = 0
        while True:
            try:
                while True:
                    yield stop
                    stop, self.in_handler = 0, True
                    ctypes.pythonapi.PyErr_CheckSignals()
                    self.in_handler = False
            except GeneratorExit:
                return
            except BaseException as error:
                self._raised, stop, self.in_handler = error, 1, False

    def check(self) -> None:
        """Raises what a handler has raised. Call it when the library has returned."""
        if self._raised is not None:
            raised, self._raised = self._raised, None
            raise raised


@functools.lru_cache(maxsize=1)
def load() -> Any:
    """Returns the library, with the types of its functions."""
    handle, handle_out, reply = (
        ctypes.c_uint64,
        ctypes.POINTER(ctypes.c_uint64),
        ctypes.POINTER(Reply),
    )
    text, options = ctypes.c_char_p, ctypes.POINTER(CallOptions)
    # c_char_p passes a bytes object without a copy, and None as null.
    request = [text, ctypes.c_size_t]
    functions = (
        ("nf_open", ctypes.c_int32, [text, handle_out, reply]),
        ("nf_close", None, [handle]),
        ("nf_call", ctypes.c_int32, [handle, text, *request, options, reply]),
        (
            "nf_search",
            ctypes.c_int32,
            [handle, ctypes.POINTER(PlainSearch), options, ctypes.POINTER(PlainResult), reply],
        ),
        ("nf_begin", ctypes.c_int32, [handle, text, *request, options, handle_out, reply]),
        ("nf_send", ctypes.c_int32, [handle, *request]),
        ("nf_receive", ctypes.c_int32, [handle, reply]),
        ("nf_cancel", None, [handle]),
        ("nf_end", None, [handle]),
        ("nf_free", None, [reply]),
    )
    return _shared_library.load(
        LIBRARY_VARIABLE,
        ("libnearfield.so", ["nearfield_native"]),
        "nearfield.open()",
        ("nf_abi_version", ABI_VERSION),
        functions,
    )


@contextmanager
def freed(library: Any, reply: Reply) -> Iterator[Reply]:
    """Frees the bytes of a reply at the end of the block."""
    try:
        yield reply
    finally:
        library.nf_free(ctypes.byref(reply))
