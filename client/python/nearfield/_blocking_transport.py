"""The connection of Client, over gRPC's blocking API. Thread safety: any number of threads."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import grpc

from nearfield._methods import Method, Request, Response
from nearfield._retry import BlockingClock, Clock
from nearfield._transport import End, Inbox, Metadata, channel_options, request_id_in

T = TypeVar("T")
# Messages that wait to be sent while the next one is made.
WAITING_MAX = 2


class BlockingReadStream(Generic[Response]):
    def __init__(self, call: Any) -> None:
        self._call = call

    async def read(self) -> Response | None:
        return next(self._call, None)

    def cancel(self) -> None:
        self._call.cancel()


class _Outbox(Generic[Request]):
    """The messages to send, as the iterator that gRPC consumes on a thread of its own."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._messages: deque[Request] = deque()
        self._finished = False
        self._ended = False  # the call ended: nothing will be sent anymore

    def put(self, message: Request) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._ended or len(self._messages) < WAITING_MAX)
            self._messages.append(message)
            self._changed.notify_all()
            return not self._ended

    def finish(self) -> None:
        with self._changed:
            self._finished = True
            self._changed.notify_all()

    def end(self) -> None:
        with self._changed:
            self._ended = True
            self._messages.clear()
            self._changed.notify_all()

    def __iter__(self) -> Iterator[Request]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ended or self._finished or self._messages)
                if self._ended or not self._messages:
                    return
                message = self._messages.popleft()
                self._changed.notify_all()
            yield message


class BlockingDuplex(Inbox[Response], Generic[Request, Response]):
    def __init__(self, open_call: Callable[[Iterator[Request]], Any]) -> None:
        super().__init__()
        self._outbox: _Outbox[Request] = _Outbox()
        self._inbox: queue.SimpleQueue[Response | End] = queue.SimpleQueue()
        self._call = open_call(iter(self._outbox))
        if not self._call.add_callback(self._outbox.end):
            self._outbox.end()
        threading.Thread(target=self._receive, name="nearfield-receive", daemon=True).start()

    def _receive(self) -> None:
        try:
            for message in self._call:
                self._inbox.put(message)
            self._inbox.put(End(None))
        except grpc.RpcError as error:
            self._inbox.put(End(error))

    def _poll(self) -> Response | End | None:
        return None if self._inbox.empty() else self._inbox.get()

    async def write(self, message: Request) -> bool:
        return self._outbox.put(message)

    async def finish_writing(self) -> None:
        self._outbox.finish()

    async def read(self, timeout: float | None = None) -> Response | None:
        if self._end is not None:
            self._end.result()
            return None
        try:
            return self._take(self._inbox.get(timeout=timeout))
        except queue.Empty:
            raise TimeoutError from None

    def request_id(self) -> str | None:
        return request_id_in(self._call.trailing_metadata())

    def cancel(self) -> None:
        self._call.cancel()
        self._outbox.end()


class BlockingTransport:
    def __init__(self, address: str, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or BlockingClock()
        self._channel = grpc.insecure_channel(address, options=channel_options())
        self._calls: dict[str, Any] = {}

    def _multi(self, kind: str, method: Method[Any, Any]) -> Any:
        call = self._calls.get(method.path)
        if call is None:
            make = getattr(self._channel, kind)
            call = make(
                method.path,
                request_serializer=method.serialize,
                response_deserializer=method.parse,
            )
            self._calls[method.path] = call
        return call

    async def unary(
        self,
        method: Method[Request, Response],
        request: Request,
        timeout: float | None,
        metadata: Metadata,
    ) -> tuple[Response, str | None]:
        reply, call = self._multi("unary_unary", method).with_call(
            request, timeout=timeout, metadata=metadata
        )
        return reply, request_id_in(call.trailing_metadata())

    def stream(
        self,
        method: Method[Request, Response],
        request: Request,
        timeout: float | None,
        metadata: Metadata,
    ) -> BlockingReadStream[Response]:
        call = self._multi("unary_stream", method)
        return BlockingReadStream(call(request, timeout=timeout, metadata=metadata))

    def duplex(
        self, method: Method[Request, Response], timeout: float | None, metadata: Metadata
    ) -> BlockingDuplex[Request, Response]:
        call = self._multi("stream_stream", method)
        return BlockingDuplex(lambda sent: call(sent, timeout=timeout, metadata=metadata))

    async def compute(self, function: Callable[[], T]) -> T:
        return function()

    async def close(self) -> None:
        self._channel.close()
