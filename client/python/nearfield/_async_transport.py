"""The connection of AsyncClient: grpc.aio, and a second connection for the calls that send and
receive many messages (_duplex.py says why). Thread safety: any number of event loops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import grpc
import grpc.aio

from nearfield._blocking_transport import BlockingTransport
from nearfield._connection import Peer, Stubs
from nearfield._duplex import AsyncDuplex
from nearfield._methods import Method, Request, Response
from nearfield._retry import AsyncClock, Clock
from nearfield._transport import Metadata, request_id_in

T = TypeVar("T")


class AsyncReadStream(Generic[Response]):
    def __init__(self, call: Any) -> None:
        self._call = call

    async def read(self) -> Response | None:
        message = await self._call.read()
        return None if message is grpc.aio.EOF else message

    def cancel(self) -> None:
        self._call.cancel()


class AsyncTransport:
    def __init__(self, peer: Peer, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or AsyncClock()
        self.peer = peer
        self._lock = threading.Lock()
        # A channel of grpc.aio belongs to the loop that ran when it was made.
        self._stubs: dict[asyncio.AbstractEventLoop, Stubs] = {}
        self._blocking: BlockingTransport | None = None
        self._closed = False

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("this client is closed")

    def _call(self, kind: str, method: Method[Any, Any]) -> Any:
        loop = asyncio.get_running_loop()
        with self._lock:
            self._check_open()
            if loop not in self._stubs:
                self._stubs = {at: each for at, each in self._stubs.items() if not at.is_closed()}
                self._stubs[loop] = self.peer.open(grpc.aio)
            return self._stubs[loop].call(kind, method)

    async def unary(
        self,
        method: Method[Any, Response],
        data: bytes,
        timeout: float | None,
        metadata: Metadata,
    ) -> tuple[Response, str | None]:
        call = self._call("unary_unary", method)(data, timeout=timeout, metadata=metadata)
        reply = await call
        return reply, request_id_in(await call.trailing_metadata())

    def stream(
        self,
        method: Method[Request, Response],
        request: Request,
        timeout: float | None,
        metadata: Metadata,
    ) -> AsyncReadStream[Response]:
        call = self._call("unary_stream", method)
        return AsyncReadStream(call(request, timeout=timeout, metadata=metadata))

    def duplex(
        self, method: Method[Request, Response], timeout: float | None, metadata: Metadata
    ) -> AsyncDuplex[Request, Response]:
        with self._lock:
            self._check_open()
            if self._blocking is None:
                self._blocking = BlockingTransport(self.peer)
        return AsyncDuplex(self._blocking.open_duplex(method, timeout, metadata))

    async def compute(self, function: Callable[[], T]) -> T:
        return await asyncio.to_thread(function)

    async def close(self) -> None:
        loop = asyncio.get_running_loop()
        with self._lock:
            self._closed = True
            stubs, self._stubs = self._stubs, {}
        if loop in stubs:  # the channels of other loops end with their last reference
            await stubs[loop].channel.close()
        if self._blocking is not None:
            await self._blocking.close()
