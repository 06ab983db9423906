"""The connection of AsyncClient, over grpc.aio. Thread safety: one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import grpc
import grpc.aio

from nearfield._methods import Method, Request, Response
from nearfield._retry import AsyncClock, Clock
from nearfield._transport import End, Inbox, Metadata, channel_options, request_id_in

T = TypeVar("T")


class AsyncReadStream(Generic[Response]):
    def __init__(self, call: Any) -> None:
        self._call = call

    async def read(self) -> Response | None:
        message = await self._call.read()
        return None if message is grpc.aio.EOF else message

    def cancel(self) -> None:
        self._call.cancel()


class AsyncDuplex(Inbox[Response], Generic[Request, Response]):
    def __init__(self, call: Any) -> None:
        super().__init__()
        self._call = call
        self._inbox: asyncio.Queue[Response | End] = asyncio.Queue()
        self._request_id: str | None = None
        self._receiver = asyncio.ensure_future(self._receive())

    async def _receive(self) -> None:
        error: grpc.RpcError | None = None
        try:
            while (message := await self._call.read()) is not grpc.aio.EOF:
                self._inbox.put_nowait(message)
            self._request_id = request_id_in(await self._call.trailing_metadata())
        except grpc.RpcError as raised:
            error = raised
        except asyncio.CancelledError:
            error = grpc.aio.AioRpcError(
                grpc.StatusCode.CANCELLED, grpc.aio.Metadata(), grpc.aio.Metadata(), "cancelled"
            )
        finally:
            self._inbox.put_nowait(End(error))

    def _poll(self) -> Response | End | None:
        return None if self._inbox.empty() else self._inbox.get_nowait()

    async def write(self, message: Request) -> bool:
        if self._call.done():
            return False
        try:
            await self._call.write(message)
        except (grpc.RpcError, asyncio.InvalidStateError):
            return False
        return True

    async def finish_writing(self) -> None:
        if not self._call.done():
            await self._call.done_writing()

    async def read(self, timeout: float | None = None) -> Response | None:
        if self._end is not None:
            self._end.result()
            return None
        try:
            return self._take(await asyncio.wait_for(self._inbox.get(), timeout))
        except asyncio.TimeoutError:  # until Python 3.11 not the built-in one
            raise TimeoutError from None

    def request_id(self) -> str | None:
        return self._request_id

    def cancel(self) -> None:
        self._call.cancel()


class AsyncTransport:
    def __init__(self, address: str, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or AsyncClock()
        self._address = address
        self._channel: Any = None
        self._calls: dict[str, Any] = {}

    def _multi(self, kind: str, method: Method[Any, Any]) -> Any:
        if self._channel is None:  # made by the first call, because it belongs to the running loop
            self._channel = grpc.aio.insecure_channel(self._address, options=channel_options())
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
        call = self._multi("unary_unary", method)(request, timeout=timeout, metadata=metadata)
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
        call = self._multi("stream_stream", method)
        return AsyncDuplex(call(timeout=timeout, metadata=metadata))

    async def compute(self, function: Callable[[], T]) -> T:
        return await asyncio.to_thread(function)

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()
