"""Calls that send and receive many messages, over gRPC's blocking API for both kinds of clients.

grpc.aio is not used for them: if the server ends a call while a message is being sent, its write()
may replace the status of the server by "Internal error from Core", and the reason is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic

import grpc

from nearfield._methods import Request, Response
from nearfield._transport import request_id_in

# Messages that wait to be sent while the next one is made.
WAITING_MAX = 2
OpenCall = Callable[[Iterator[Any]], Any]


@dataclass(frozen=True)
class End:
    """The end of the replies of a call, and the error that it ended with."""

    error: grpc.RpcError | None

    def result(self) -> None:
        """Raises the error, if there is one."""
        if self.error is not None:
            raise self.error


class _Outbox(Generic[Request]):
    """The messages to send, as the iterator that gRPC consumes on a thread of its own.
    on_taken: called after each message that was taken, and at the end of the call."""

    def __init__(self, on_taken: Callable[[], None]) -> None:
        self._on_taken = on_taken
        self._changed = threading.Condition()
        self._messages: deque[Request] = deque()
        self._finished = False
        self.ended = False  # the call ended: nothing will be sent anymore

    def put(self, message: Request) -> None:
        with self._changed:
            self._messages.append(message)
            self._changed.notify_all()

    def finish(self) -> None:
        with self._changed:
            self._finished = True
            self._changed.notify_all()

    def end(self) -> None:
        with self._changed:
            self.ended = True
            self._messages.clear()
            self._changed.notify_all()
        self._on_taken()

    def __iter__(self) -> Iterator[Request]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self.ended or self._finished or self._messages)
                if self.ended or not self._messages:
                    return
                message = self._messages.popleft()
            self._on_taken()
            yield message


class _ThreadedCall(Generic[Request, Response]):
    """Sends on gRPC's thread and receives on one of its own, so that a server never waits for a
    client that only writes."""

    def __init__(self) -> None:
        self._outbox: _Outbox[Request] = _Outbox(self._on_taken)
        self._end: End | None = None
        self._call: Any = None

    def _start(self, open_call: OpenCall) -> None:
        self._call = open_call(iter(self._outbox))
        if not self._call.add_callback(self._outbox.end):
            self._outbox.end()
        threading.Thread(target=self._receive, name="nearfield-receive", daemon=True).start()

    def _receive(self) -> None:
        try:
            for message in self._call:
                self._deliver(message)
            self._deliver(End(None))
        except grpc.RpcError as error:
            self._deliver(End(error))

    def _on_taken(self) -> None:
        """Lets one waiting write() continue. Called on any thread."""
        raise NotImplementedError

    def _deliver(self, item: Response | End) -> None:
        """Keeps a reply, or the end, for read(). Called on the receiving thread."""
        raise NotImplementedError

    def _poll(self) -> Response | End | None:
        """Returns what was delivered first, if there is something, without waiting."""
        raise NotImplementedError

    def _take(self, item: Response | End) -> Response | None:
        if isinstance(item, End):
            self._end = item
            item.result()
            return None
        return item

    def received(self) -> list[Response]:
        messages: list[Response] = []
        while self._end is None and (item := self._poll()) is not None:
            if isinstance(item, End):
                self._end = item
            else:
                messages.append(item)
        return messages

    async def finish_writing(self) -> None:
        self._outbox.finish()

    def request_id(self) -> str | None:
        return request_id_in(self._call.trailing_metadata())

    def cancel(self) -> None:
        self._call.cancel()
        self._outbox.end()


class BlockingDuplex(_ThreadedCall[Request, Response]):
    """Waits block the thread."""

    def __init__(self, open_call: OpenCall) -> None:
        self._free = threading.Semaphore(WAITING_MAX)
        self._inbox: queue.SimpleQueue[Response | End] = queue.SimpleQueue()
        super().__init__()
        self._start(open_call)

    def _on_taken(self) -> None:
        self._free.release()

    def _deliver(self, item: Response | End) -> None:
        self._inbox.put(item)

    def _poll(self) -> Response | End | None:
        return None if self._inbox.empty() else self._inbox.get()

    async def write(self, message: Request) -> bool:
        self._free.acquire()
        self._outbox.put(message)
        return not self._outbox.ended

    async def read(self, timeout: float | None = None) -> Response | None:
        if self._end is not None:
            self._end.result()
            return None
        try:
            return self._take(self._inbox.get(timeout=timeout))
        except queue.Empty:
            raise TimeoutError from None


class AsyncDuplex(_ThreadedCall[Request, Response]):
    """Waits suspend the task."""

    def __init__(self, open_call: OpenCall) -> None:
        self._loop = asyncio.get_running_loop()
        self._free = asyncio.Semaphore(WAITING_MAX)
        self._inbox: asyncio.Queue[Response | End] = asyncio.Queue()
        super().__init__()
        self._start(open_call)

    def _on_loop(self, function: Callable[..., None], *values: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: no task waits
            self._loop.call_soon_threadsafe(function, *values)

    def _on_taken(self) -> None:
        self._on_loop(self._free.release)

    def _deliver(self, item: Response | End) -> None:
        self._on_loop(self._inbox.put_nowait, item)

    def _poll(self) -> Response | End | None:
        return None if self._inbox.empty() else self._inbox.get_nowait()

    async def write(self, message: Request) -> bool:
        await self._free.acquire()
        self._outbox.put(message)
        return not self._outbox.ended

    async def read(self, timeout: float | None = None) -> Response | None:
        if self._end is not None:
            self._end.result()
            return None
        try:
            return self._take(await asyncio.wait_for(self._inbox.get(), timeout))
        except asyncio.TimeoutError:  # not the built-in one before Python 3.11
            raise TimeoutError from None
