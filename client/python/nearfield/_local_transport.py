"""The connection of a client that opened a data directory in this process. Thread safety: any
number of threads."""

from __future__ import annotations

import ctypes
import math
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from nearfield._blocking_transport import BlockingReadStream
from nearfield._duplex import BlockingDuplex, OpenCall
from nearfield._errors import from_rpc_error
from nearfield._library import (
    CallOptions,
    Interrupted,
    LibraryError,
    PlainResult,
    PlainSearch,
    Reply,
    Signals,
    freed,
    load,
)
from nearfield._methods import Method, Request, Response
from nearfield._native_device import DeviceLibrary
from nearfield._retry import BlockingClock, Clock
from nearfield._transport import Metadata

T = TypeVar("T")
_MAIN_THREAD = threading.main_thread().ident
_SIGNALS = Signals()
NEVER = Interrupted()  # null
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9.-]+):[0-9]+|unix:.*|[a-z]+://.*")
_FILE = re.compile(r"configuration file settings, line [0-9]+: unknown setting '(.*?)'")


def on_main_thread() -> bool:
    """Returns True on the thread that runs the signal handlers of Python."""
    return threading.get_ident() == _MAIN_THREAD


def _for_python(error: LibraryError) -> LibraryError:
    """Returns an error of settings without the configuration file in which they are passed."""
    message = _FILE.sub(r"\1: no setting", error.details())
    message = message.replace("; --help lists all", "").replace(" (from file)", "")
    return LibraryError(error.code(), message, error.trailing_metadata())


def settings_text(folder: str | Path | None, settings: Mapping[str, Any]) -> str:
    """Returns the settings in the form of the server's configuration file."""
    if "data_dir" in settings:
        raise TypeError("data_dir: it is the first argument of open()")
    if isinstance(folder, str) and _ADDRESS.fullmatch(folder) and not Path(folder).exists():
        raise ValueError(
            f"folder: {folder!r} is an address; use nearfield.connect({folder!r}), or write"
            f" ./{folder} for a folder of this name"
        )
    lines = []
    data_dir = "none" if folder is None else str(Path(folder).expanduser())
    for name, value in {"data_dir": data_dir, **settings}.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if not name.isidentifier():  # else it could be a comment
            raise TypeError(f"{name!r}: no setting of open()")
        if any(c in text for c in '"\n\r'):
            raise ValueError(f"{name}: {text!r} cannot hold a quote or the end of a line")
        lines.append(f'{name} = "{text}"')
    return "\n".join(lines) + "\n"


class LocalCall:
    """A call with a stream of messages, with the methods of a call of gRPC."""

    def __init__(
        self, library: Any, stream: int, parse: Callable[[bytes], Any], signals: Signals | None
    ) -> None:
        self._library = library
        self._signals = signals
        self._stream = stream
        self._parse = parse
        self._metadata: Metadata = ()
        self._done = False
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self._end = weakref.finalize(self, library.nf_end, stream)

    def send_all(self, messages: Iterator[Any], serialize: Callable[[Any], bytes]) -> None:
        """Sends the messages on a thread of its own."""
        # The thread must not keep the call alive.
        send, stream = self._library.nf_send, self._stream

        def run() -> None:
            for message in messages:
                data = serialize(message)
                if not send(stream, data, len(data)):
                    return
            send(stream, None, 0)

        threading.Thread(target=run, name="nearfield-send", daemon=True).start()

    def __iter__(self) -> LocalCall:
        return self

    def __next__(self) -> Any:
        reply = Reply()
        received = self._library.nf_receive(self._stream, ctypes.byref(reply))
        with freed(self._library, reply):
            if self._signals is not None:
                self._signals.check()
            if received:
                return self._parse(reply.bytes())
            self._metadata = reply.metadata()
            error = reply.error() if reply.code else None
        self._finish()
        if error is not None:
            raise error
        raise StopIteration

    def _finish(self) -> None:
        with self._lock:
            self._done = True
            callbacks, self._callbacks = self._callbacks, []
        self._end()
        for callback in callbacks:
            callback()

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Returns False if the call has ended: the callback is not called."""
        with self._lock:
            if not self._done:
                self._callbacks.append(callback)
            return not self._done

    def trailing_metadata(self) -> Metadata:
        return self._metadata

    def cancel(self) -> None:
        self._library.nf_cancel(self._stream)


class LocalTransport:
    peer = None

    def __init__(
        self, folder: str | Path | None, settings: Mapping[str, Any], clock: Clock | None = None
    ) -> None:
        self.clock: Clock = clock or BlockingClock()
        self._library = load()
        handle, reply = ctypes.c_uint64(), Reply()
        code = self._library.nf_open(
            settings_text(folder, settings).encode(), ctypes.byref(handle), ctypes.byref(reply)
        )
        with freed(self._library, reply):
            if code:
                raise from_rpc_error(_for_python(reply.error()))
        self._handle = handle.value
        self._nf_search = self._library.nf_search
        # The options of the last call of `search`, kept for the next one: making them takes a
        # microsecond.
        self._search_options: tuple[tuple[float, bool], CallOptions] = ((0, False), CallOptions())
        # Also at the exit of the interpreter, before the library is gone.
        self._close = weakref.finalize(self, self._library.nf_close, self._handle)

    def device(self) -> tuple[DeviceLibrary, int]:
        """Returns the functions for searches on the device, and the open directory."""
        return DeviceLibrary(self._library), self._handle

    def options(self, timeout: float | None, metadata: Metadata, interrupted: Any) -> CallOptions:
        timeout_us = 0 if timeout is None else max(1, int(timeout * 1e6))
        options = CallOptions(timeout_us, None, None, interrupted)
        for key, value in metadata:
            if key == "nearfield-caller":
                options.caller = value.encode()
        return options

    async def unary(
        self,
        method: Method[Any, Response],
        data: bytes,
        timeout: float | None,
        metadata: Metadata,
    ) -> tuple[Response, str | None]:
        if not on_main_thread() or _SIGNALS.in_handler:
            return self.call(method, data, self.options(timeout, metadata, NEVER))
        try:
            options = self.options(timeout, metadata, _SIGNALS.interrupted)
            return self.call(method, data, options)
        finally:
            _SIGNALS.check()

    def call(
        self, method: Method[Any, Response], data: bytes, options: CallOptions
    ) -> tuple[Response, str | None]:
        """Makes a unary call. Blocks."""
        reply = Reply()
        code = self._library.nf_call(
            self._handle,
            method.path.encode(),
            data,
            len(data),
            ctypes.byref(options),
            ctypes.byref(reply),
        )
        try:
            if code:
                raise reply.error()
            return method.parse(reply.bytes()), reply.own_request_id()
        finally:
            self._library.nf_free(ctypes.byref(reply))

    def search(
        self,
        search: PlainSearch,
        result: PlainResult,
        reply: Reply,
        timeout: float,
        metadata: Metadata,
    ) -> int:
        """Makes the call nf_search; returns the code of the reply, which must be freed. Blocks."""
        handles_signals = on_main_thread() and not _SIGNALS.in_handler
        key, options = self._search_options
        if key != (timeout, handles_signals):
            key = (timeout, handles_signals)
            interrupted = _SIGNALS.interrupted if handles_signals else NEVER
            options = self.options(None if timeout == math.inf else timeout, metadata, interrupted)
            self._search_options = key, options
        code: int = self._nf_search(self._handle, search, options, result, reply)
        if handles_signals:
            try:
                _SIGNALS.check()
            except BaseException:
                self._library.nf_free(reply)
                raise
        return code

    def freed(self, reply: Reply) -> AbstractContextManager[Reply]:
        """Frees the reply at the end of the block."""
        return freed(self._library, reply)

    def begin(
        self,
        method: Method[Any, Any],
        data: bytes | None,
        timeout: float | None,
        metadata: Metadata,
        signals: Signals | None = None,
    ) -> LocalCall:
        """Begins a call with a stream of messages. signals: for one whose replies are awaited by
        the thread that may be the main one."""
        interrupted = NEVER if signals is None else signals.interrupted
        stream, reply = ctypes.c_uint64(), Reply()
        code = self._library.nf_begin(
            self._handle,
            method.path.encode(),
            data,
            len(data or b""),
            ctypes.byref(self.options(timeout, metadata, interrupted)),
            ctypes.byref(stream),
            ctypes.byref(reply),
        )
        with freed(self._library, reply):
            if code:
                raise reply.error()
        return LocalCall(self._library, stream.value, method.parse, signals)

    def stream(
        self,
        method: Method[Request, Response],
        request: Request,
        timeout: float | None,
        metadata: Metadata,
    ) -> BlockingReadStream[Response]:
        data = method.serialize(request)
        return BlockingReadStream(self.begin(method, data, timeout, metadata, Signals()))

    def duplex(
        self, method: Method[Request, Response], timeout: float | None, metadata: Metadata
    ) -> BlockingDuplex[Request, Response]:
        return BlockingDuplex(self.open_duplex(method, timeout, metadata))

    def open_duplex(
        self, method: Method[Any, Any], timeout: float | None, metadata: Metadata
    ) -> OpenCall:
        def open_call(messages: Iterator[Any]) -> LocalCall:
            call = self.begin(method, None, timeout, metadata)
            call.send_all(messages, method.serialize)
            return call

        return open_call

    async def compute(self, function: Callable[[], T]) -> T:
        return function()

    def close_now(self) -> None:
        """Cancels the calls in flight and closes the directory. Blocks."""
        self._close()

    async def close(self) -> None:
        self.close_now()
