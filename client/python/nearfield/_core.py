"""The connection of a client: deadlines, retries, the limits of the server, and what the client
remembers about collections. Thread safety: a lock guards the memory."""

from __future__ import annotations

import difflib
import math
import re
import threading
from dataclasses import dataclass, field
from typing import Any

import grpc

from nearfield import _methods as methods
from nearfield._arguments import real
from nearfield._errors import (
    DeadlineExceeded,
    Error,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    Unauthenticated,
    Unavailable,
    from_rpc_error,
)
from nearfield._methods import Method, Request, Response
from nearfield._proto import admin_pb2 as admin
from nearfield._proto import common_pb2 as common
from nearfield._records import CollectionInfo, Limits, read_collection, read_plain
from nearfield._retry import Retries, RetryPolicy
from nearfield._transport import Metadata, Transport
from nearfield._wording import in_words_of_python

CALLER_BYTES_MAX = 128
# Smaller requests are not worth a request for the limits.
UNCHECKED_REQUEST_BYTES = 1 << 20
_NO_COLLECTION = re.compile(r'no collection "([^"]*)"')


@dataclass(frozen=True)
class Options:
    """timeout           seconds of one call including its retries; an upload has none by default
    caller            by this name the server shares its device fairly; empty: the address
    retry             how often calls that can be repeated safely are tried again
    read_your_writes  reads wait for the epoch of this client's own writes
    metadata          sent with each call; not shown, because it may contain a key
    """

    timeout: float = 30.0
    caller: str = ""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    read_your_writes: bool = True
    metadata: Metadata = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.retry, RetryPolicy):
            raise TypeError(f"retry: {self.retry!r}; give nearfield.RetryPolicy(tries_max=...)")
        if not real("timeout", self.timeout) > 0:
            raise ValueError(f"timeout: {self.timeout}; it must be above 0 seconds")
        if not isinstance(self.caller, str):
            raise TypeError(f"caller: {self.caller!r}; a text is needed")
        if len(self.caller) > CALLER_BYTES_MAX:
            raise ValueError(
                f"caller: {len(self.caller)} characters, must be at most {CALLER_BYTES_MAX}"
            )
        if not all(" " <= c <= "~" for c in self.caller):
            raise ValueError("caller: only printable ASCII characters can be sent")


class Core:
    """Shared by a client and its collection handles."""

    def __init__(self, transport: Transport, options: Options) -> None:
        self.transport = transport
        self.options = options
        caller: Metadata = (("nearfield-caller", options.caller),) if options.caller else ()
        self.metadata = caller + options.metadata
        # Errors suggest the name of another collection, if the server lists it to this caller.
        self.suggests = True
        self.answered = False  # the server has answered a call of this client
        self._lock = threading.Lock()
        self._limits: Limits | None = None
        self._infos: dict[str, CollectionInfo] = {}
        # By the name that the writes used: the incarnation and epoch of the last own write.
        self._written: dict[str, tuple[int, int]] = {}

    def deadline(self, timeout: float | None, default: float | None = None) -> float | None:
        """Returns the time by the clock at which a call that begins now must have ended; None if
        there is none. timeout: seconds; None: `default`, or the client's; math.inf: no limit."""
        seconds = timeout if timeout is not None else default or self.options.timeout
        if not real("timeout", seconds) > 0:
            raise ValueError(f"timeout: {seconds}; it must be above 0 seconds")
        return None if math.isinf(seconds) else self.transport.clock.now() + seconds

    async def call(
        self, method: Method[Request, Response], request: Request, deadline: float | None
    ) -> tuple[Response, str | None]:
        """Makes a call with retries; returns the reply and the server's id of it."""
        data = method.serialize(request)
        if len(data) > UNCHECKED_REQUEST_BYTES:
            await self._check_size(len(data), deadline)
        retries = self.retries(deadline)
        while True:
            try:
                reply = await self.transport.unary(method, data, retries.time_left(), self.metadata)
                self.answered = True
                return reply
            except grpc.RpcError as raised:
                error = await self._with_suggestion(self.error(raised, request), deadline)
            if not method.may_repeat(request):
                raise error
            await retries.wait(error)

    async def _with_suggestion(self, error: Error, deadline: float | None) -> Error:
        """Adds the name of a similar collection to an error about one that does not exist."""
        found = _NO_COLLECTION.search(error.message) if isinstance(error, NotFound) else None
        if found is None or not self.suggests:
            return error
        try:
            request = admin.ListCollectionsRequest()
            reply, _ = await self.call(methods.LIST_COLLECTIONS, request, deadline)
        except Error:  # perhaps not permitted
            return error
        names = [name for each in reply.collections for name in (each.name, *each.aliases)]
        for name in difflib.get_close_matches(found[1], names, n=1):
            error.message += f'; did you mean "{name}"?'
        return error

    def retries(self, deadline: float | None) -> Retries:
        """Returns the tries of a call that begins now."""
        options = self.options
        return Retries(
            options.retry, self.transport.clock, deadline, options.timeout, lambda: self.answered
        )

    def error(self, raised: grpc.RpcError, request: Any = None) -> Error:
        """Returns the exception for a failed call. If no server answered it, the message says why
        if that can be known. request: if its fields are those of arguments."""
        error = from_rpc_error(raised)
        error.message = in_words_of_python(error.message, request)
        if isinstance(error, Unauthenticated) and "authorization" not in dict(self.metadata):
            error.message += "; give token_file= or NEARFIELD_TOKEN_FILE"
        if error.request_id is not None:
            self.answered = True
        elif isinstance(error, (Unavailable, DeadlineExceeded)) and self.transport.peer is not None:
            error.message = self.transport.peer.explain(error.message)
        return error

    async def reply(
        self, method: Method[Request, Response], request: Request, timeout: float | None
    ) -> Response:
        reply, _ = await self.call(method, request, self.deadline(timeout))
        return reply

    async def read(
        self,
        method: Method[Request, Response],
        name: str,
        request: Request,
        deadline: float | None,
    ) -> tuple[Response, str | None]:
        """Makes a call that reads a collection, after this client's own writes."""
        pinned = self.pin(name, request)
        try:
            return await self.call(method, request, deadline)
        except FailedPrecondition as error:
            if not pinned or not self.unpin(name, request, error):
                raise
        return await self.call(method, request, deadline)

    def last_write(self, name: str) -> tuple[int, int] | None:
        """Returns incarnation and epoch of this client's last write, for which its reads wait."""
        with self._lock:
            return self._written.get(name) if self.options.read_your_writes else None

    def pin(self, name: str, request: Any) -> bool:
        """Lets a request wait for this client's last write, unless it names an epoch itself.
        Returns True if it now does."""
        written = self.last_write(name)
        if written is None:
            return False
        if any(map(request.HasField, ("min_epoch", "at_epoch", "incarnation"))):
            return False
        if getattr(request, "cursor", b""):  # which reads its own epoch
            return False
        request.incarnation, request.min_epoch = written
        return True

    def unpin(self, name: str, request: Any, error: Error) -> bool:
        """Forgets the writes to a collection that was created again, or whose alias was moved.
        Returns True if this was the error, and the request can be repeated without an epoch."""
        if not error.message.startswith("incarnation:"):
            return False
        self.forget(name)
        request.ClearField("min_epoch")
        request.ClearField("incarnation")
        return True

    def wrote(self, name: str, incarnation: int, epoch: int, *, redeclared: bool = False) -> None:
        """Remembers a write. Concurrent writes may report in any order. redeclared: the write has
        changed the attributes, so what is known of the collection, by all its names, is wrong."""
        with self._lock:
            if redeclared:
                known = self._infos.items()
                self._infos = {key: each for key, each in known if each.incarnation != incarnation}
            before = self._written.get(name, (incarnation, 0))
            if before[0] == incarnation:
                epoch = max(epoch, before[1])
            self._written[name] = (incarnation, epoch)

    def forget(self, name: str) -> None:
        with self._lock:
            self._written.pop(name, None)
            self._infos.pop(name, None)

    def remember(self, name: str, info: CollectionInfo) -> None:
        with self._lock:
            self._infos[name] = info

    async def info(
        self, name: str, deadline: float | None, *, fresh: bool = False
    ) -> CollectionInfo:
        """Returns a collection; with fresh=False perhaps as it was earlier: other clients may have
        added and dropped attributes, and another collection may have the name now."""
        with self._lock:
            known = self._infos.get(name)
        if known is not None and not fresh:
            return known
        reply, _ = await self.call(
            methods.GET_COLLECTION, admin.GetCollectionRequest(name=name), deadline
        )
        info = read_collection(reply.collection)
        self.remember(name, info)
        return info

    async def limits(self, deadline: float | None) -> Limits:
        with self._lock:
            known = self._limits
        if known is None:
            request = common.GetLimitsRequest()
            reply, _ = await self.call(methods.GET_LIMITS, request, deadline)
            known = read_plain(Limits, reply)
            with self._lock:
                self._limits = known
        return known

    async def _check_size(self, size: int, deadline: float | None) -> None:
        """Refuses a request that exceeds the server's limit, with a better message than gRPC's."""
        limits = await self.limits(deadline)
        if size > limits.request_bytes_max:
            raise InvalidArgument(
                f"the request takes {size} bytes, the server accepts {limits.request_bytes_max} in"
                " one message"
            )
