"""The connection of Client, over gRPC's blocking API. Thread safety: any number of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import grpc

from nearfield._connection import Peer
from nearfield._duplex import BlockingDuplex, OpenCall
from nearfield._methods import Method, Request, Response
from nearfield._retry import BlockingClock, Clock
from nearfield._transport import Metadata, request_id_in

T = TypeVar("T")


class BlockingReadStream(Generic[Response]):
    def __init__(self, call: Any) -> None:
        self._call = call

    async def read(self) -> Response | None:
        return next(self._call, None)

    def cancel(self) -> None:
        self._call.cancel()


class BlockingTransport:
    def __init__(self, peer: Peer, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or BlockingClock()
        self.peer = peer
        self._stubs = peer.open(grpc)
        self._closed = False

    def _call(self, kind: str, method: Method[Any, Any]) -> Any:
        if self._closed:
            raise ValueError("this client is closed")
        return self._stubs.call(kind, method)

    async def unary(
        self,
        method: Method[Any, Response],
        data: bytes,
        timeout: float | None,
        metadata: Metadata,
    ) -> tuple[Response, str | None]:
        reply, call = self._call("unary_unary", method).with_call(
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
        call = self._call("unary_stream", method)
        return BlockingReadStream(call(request, timeout=timeout, metadata=metadata))

    def duplex(
        self, method: Method[Request, Response], timeout: float | None, metadata: Metadata
    ) -> BlockingDuplex[Request, Response]:
        return BlockingDuplex(self.open_duplex(method, timeout, metadata))

    def open_duplex(
        self, method: Method[Any, Any], timeout: float | None, metadata: Metadata
    ) -> OpenCall:
        call = self._call("stream_stream", method)
        return lambda sent: call(sent, timeout=timeout, metadata=metadata)

    async def compute(self, function: Callable[[], T]) -> T:
        return function()

    async def close(self) -> None:
        self._closed = True
        self._stubs.channel.close()
