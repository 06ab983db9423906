"""Exceptions: one class for each status code, with the facts that the server sends about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from nearfield._proto import error_details_pb2, status_pb2

REQUEST_ID_KEY = "nearfield-request-id"
RETRY_AFTER_KEY = "grpc-retry-pushback-ms"
DETAILS_KEY = "grpc-status-details-bin"


class Error(Exception):
    """A call that failed. The subclasses are named after the status codes of
    proto/README.md, "Status codes".

    code         the gRPC status code
    message      the server's message: names the field, its value and the limit
    field        path of the refused field, for example "queries[3].vector.values", or None
    value        the refused value as text, or None
    limit        what is accepted, as text, or None
    request_id   the id to search for in the server's log; None if no server answered
    retry_after  seconds after which the call is worth repeating, or None
    unreachable  True if no server answered at all
    """

    def __init__(
        self,
        message: str,
        *,
        code: grpc.StatusCode | None = None,
        facts: dict[str, str] | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        facts = facts or {}
        self.message = message
        known = (_CODES[each] for each in type(self).__mro__ if each in _CODES)
        self.code = code or next(known, grpc.StatusCode.UNKNOWN)
        self.field = facts.get("field")
        self.value = facts.get("value")
        self.limit = facts.get("limit")
        self.request_id = request_id
        self.retry_after = retry_after

    @property
    def unreachable(self) -> bool:
        return self.code is grpc.StatusCode.UNAVAILABLE and self.request_id is None

    def __str__(self) -> str:
        text = f"{self.code.name}: {self.message}"
        return text if self.request_id is None else f"{text} (request {self.request_id})"


class InvalidArgument(Error, ValueError):
    """The request can never succeed as it is."""


class NotFound(Error, LookupError):
    """The collection, id, alias, snapshot or token does not exist."""


class AlreadyExists(Error):
    """The name or the id exists already."""


class FailedPrecondition(Error):
    """A correct request in the wrong state: for example, the epoch of a cursor has passed."""


class ResourceExhausted(Error):
    """Too much at the same time, if retry_after is set; else a lack of memory or a size limit."""


class Unavailable(Error):
    """The server is starting, draining, not reachable, or has lost its device."""


class DeadlineExceeded(Error, TimeoutError):
    """The call did not end within its timeout."""


class Cancelled(Error):
    """The call was cancelled."""


class Aborted(Error):
    """The collection was dropped during the call."""


class Unimplemented(Error):
    """The server does not have this call, or the request sets a reserved part."""


class Internal(Error):
    """A fault of the server: report it with the request id."""


class Unauthenticated(Error):
    """The server requires an API key, and the call has none, or one that is wrong or expired."""


class PermissionDenied(Error):
    """The API key does not allow this call, or not for this collection."""


class DataLoss(Error):
    """Stored data is damaged, or an answer differs from the oracle's or from its own digest."""


_CLASSES: dict[grpc.StatusCode, type[Error]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgument,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExists,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPrecondition,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.CANCELLED: Cancelled,
    grpc.StatusCode.ABORTED: Aborted,
    grpc.StatusCode.UNIMPLEMENTED: Unimplemented,
    grpc.StatusCode.INTERNAL: Internal,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.DATA_LOSS: DataLoss,
}
_BY_NUMBER: dict[int, grpc.StatusCode] = {code.value[0]: code for code in _CLASSES}
_CODES = {kind: code for code, kind in _CLASSES.items()}


def error_of(code: grpc.StatusCode, message: str, metadata: Iterable[Any]) -> Error:
    """Returns the exception for the status and the trailing metadata of a call."""
    found = dict(metadata)
    sent = _status(found.get(DETAILS_KEY))
    if code is grpc.StatusCode.CANCELLED and sent.code in _BY_NUMBER:
        # A proxy may reset a stream right after the final status of the server, as HAProxy 2.6 does
        # if the client has not ended its side. gRPC then reports the reset.
        code, message = _BY_NUMBER[sent.code], sent.message
    hint = found.get(RETRY_AFTER_KEY)
    return _CLASSES.get(code, Error)(
        message,
        code=code,
        facts=_facts(sent),
        request_id=found.get(REQUEST_ID_KEY),
        retry_after=int(hint) / 1000 if isinstance(hint, str) and hint.isdecimal() else None,
    )


def from_rpc_error(error: Any) -> Error:
    """Returns the exception for a grpc.RpcError of the blocking or of the asyncio API."""
    metadata = [*(_metadata(error.initial_metadata)), *(_metadata(error.trailing_metadata))]
    return error_of(error.code(), error.details() or "", metadata)


def _metadata(read: Any) -> Iterable[Any]:
    return read() or ()


def _status(serialized: Any) -> status_pb2.Status:
    """Returns the google.rpc.Status of an answer; an empty one if it cannot be decoded: the status
    of the call itself is what counts."""
    try:
        return status_pb2.Status.FromString(serialized if isinstance(serialized, bytes) else b"")
    except DecodeError:
        return status_pb2.Status()


def _facts(status: status_pb2.Status) -> dict[str, str]:
    """Reads the facts of an error (common.proto, "Error details")."""
    facts: dict[str, str] = {}
    try:
        for detail in status.details:
            if detail.type_url.rpartition("/")[2] == "google.rpc.ErrorInfo":
                facts.update(error_details_pb2.ErrorInfo.FromString(detail.value).metadata)
    except DecodeError:
        return {}
    return facts
