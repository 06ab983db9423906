"""The connection as the shared core sees it. _blocking_transport.py and _async_transport.py
implement it over gRPC's two Python APIs.

The core is written with async and await for both. A blocking transport never suspends, so its
coroutines run to their end at the first step (_blocking.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from nearfield._connection import Peer
from nearfield._errors import REQUEST_ID_KEY
from nearfield._methods import Method, Request, Response
from nearfield._retry import Clock

T = TypeVar("T")
Message = TypeVar("Message", contravariant=True)
Reply = TypeVar("Reply")
Covariant = TypeVar("Covariant", covariant=True)
Metadata = tuple[tuple[str, str], ...]


class ReadStream(Protocol[Covariant]):
    """A call that sends one message and receives many."""

    async def read(self) -> Covariant | None:
        """Returns the next message; None after the last one. Raises grpc.RpcError."""

    def cancel(self) -> None: ...


class Duplex(Protocol[Message, Reply]):
    """A call that sends and receives many messages. Replies are received in the background, so
    that a server never waits for a client that only writes."""

    async def write(self, message: Message) -> bool:
        """Sends a message; waits while a few are in flight. Returns False if the call ended."""

    async def finish_writing(self) -> None: ...

    async def read(self, timeout: float | None = None) -> Reply | None:
        """Returns the next message; None after the last one. Raises grpc.RpcError, and
        TimeoutError after `timeout` seconds."""

    def received(self) -> list[Reply]:
        """Returns the messages that have arrived and were not read, without waiting."""

    def request_id(self) -> str | None:
        """Returns the server's id of a call that ended."""

    def cancel(self) -> None: ...


class Transport(Protocol):
    clock: Clock

    @property
    def peer(self) -> Peer | None:
        """The server; None in this process."""

    async def unary(
        self,
        method: Method[Any, Response],
        data: bytes,
        timeout: float | None,
        metadata: Metadata,
    ) -> tuple[Response, str | None]:
        """Makes one call with a serialized request; returns the reply and the server's id of it.
        Raises grpc.RpcError."""

    def stream(
        self,
        method: Method[Request, Response],
        request: Request,
        timeout: float | None,
        metadata: Metadata,
    ) -> ReadStream[Response]: ...

    def duplex(
        self, method: Method[Request, Response], timeout: float | None, metadata: Metadata
    ) -> Duplex[Request, Response]: ...

    async def compute(self, function: Callable[[], T]) -> T:
        """Runs work that takes CPU time or reads files, without blocking an event loop."""

    async def close(self) -> None: ...


def request_id_in(metadata: Any) -> str | None:
    for key, value in metadata or ():
        if key == REQUEST_ID_KEY:
            return str(value)
    return None
