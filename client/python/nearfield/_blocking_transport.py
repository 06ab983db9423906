"""The connection of Client, over gRPC's blocking API. Thread safety: any number of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import grpc

from nearfield._duplex import BlockingDuplex, OpenCall
from nearfield._methods import Method, Request, Response
from nearfield._retry import BlockingClock, Clock
from nearfield._transport import Metadata, channel_options, request_id_in

T = TypeVar("T")


class BlockingReadStream(Generic[Response]):
    def __init__(self, call: Any) -> None:
        self._call = call

    async def read(self) -> Response | None:
        return next(self._call, None)

    def cancel(self) -> None:
        self._call.cancel()


class BlockingTransport:
    def __init__(self, address: str, clock: Clock | None = None, credentials: Any = None) -> None:
        self.clock: Clock = clock or BlockingClock()
        self._channel = (
            grpc.insecure_channel(address, options=channel_options())
            if credentials is None
            else grpc.secure_channel(address, credentials, options=channel_options())
        )
        self._calls: dict[str, Any] = {}

    def _multi(self, kind: str, method: Method[Any, Any]) -> Any:
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
        reply, call = self._multi("unary_unary", method).with_call(
            data, timeout=timeout, metadata=metadata
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
        return BlockingDuplex(self.open_duplex(method, timeout, metadata))

    def open_duplex(
        self, method: Method[Any, Any], timeout: float | None, metadata: Metadata
    ) -> OpenCall:
        call = self._multi("stream_stream", method)
        return lambda sent: call(sent, timeout=timeout, metadata=metadata)

    async def compute(self, function: Callable[[], T]) -> T:
        return function()

    async def close(self) -> None:
        self._channel.close()
