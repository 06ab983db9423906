"""The connection of AsyncClient: grpc.aio, and a second connection for the calls that send and
receive many messages (_duplex.py says why). Thread safety: one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import grpc
import grpc.aio

from nearfield._blocking_transport import BlockingTransport
from nearfield._duplex import AsyncDuplex
from nearfield._methods import Method, Request, Response
from nearfield._retry import AsyncClock, Clock
from nearfield._transport import Metadata, channel_options, request_id_in

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
    def __init__(self, address: str, clock: Clock | None = None, credentials: Any = None) -> None:
        self.clock: Clock = clock or AsyncClock()
        self._address = address
        self._credentials = credentials
        self._channel: Any = None
        self._blocking: BlockingTransport | None = None
        self._calls: dict[str, Any] = {}

    def _multi(self, kind: str, method: Method[Any, Any]) -> Any:
        if self._channel is None:  # made by the first call, because it belongs to the running loop
            options = channel_options()
            self._channel = (
                grpc.aio.insecure_channel(self._address, options=options)
                if self._credentials is None
                else grpc.aio.secure_channel(self._address, self._credentials, options=options)
            )
        call = self._calls.get(method.path)
        if call is None:
            make = getattr(self._channel, kind)
            call = make(
                method.path,
                # Requests of unary calls are bytes.
                request_serializer=None if kind == "unary_unary" else method.serialize,
                response_deserializer=method.parse,
            )
            self._calls[method.path] = call
        return call

    async def unary(
        self,
        method: Method[Any, Response],
        data: bytes,
        timeout: float | None,
        metadata: Metadata,
    ) -> tuple[Response, str | None]:
        call = self._multi("unary_unary", method)(data, timeout=timeout, metadata=metadata)
        reply = await call
        return reply, request_id_in(await call.trailing_metadata())

    def stream(
        self,
        method: Method[Request, Response],
        request: Request,
        timeout: float | None,
        metadata: Metadata,
    ) -> AsyncReadStream[Response]:
        call = self._multi("unary_stream", method)
        return AsyncReadStream(call(request, timeout=timeout, metadata=metadata))

    def duplex(
        self, method: Method[Request, Response], timeout: float | None, metadata: Metadata
    ) -> AsyncDuplex[Request, Response]:
        if self._blocking is None:
            self._blocking = BlockingTransport(self._address, credentials=self._credentials)
        return AsyncDuplex(self._blocking.open_duplex(method, timeout, metadata))

    async def compute(self, function: Callable[[], T]) -> T:
        return await asyncio.to_thread(function)

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()
        if self._blocking is not None:
            await self._blocking.close()
