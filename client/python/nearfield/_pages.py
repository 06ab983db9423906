"""Answers that are larger than one message: SearchAll and Scan, continued after the last page if
the connection is lost."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc

from nearfield import _methods as methods
from nearfield._attributes import Attribute
from nearfield._columns import read_columns
from nearfield._core import Core
from nearfield._errors import Internal
from nearfield._methods import Method
from nearfield._proto import retrieval_pb2 as retrieval
from nearfield._results import ScanPage, SearchResult
from nearfield._search import read_answer
from nearfield._transport import ReadStream
from nearfield._values import decode, read_ids


def _advance_search(request: retrieval.SearchAllRequest, reply: Any) -> bool:
    """Lets the request continue after this reply. Returns False if no row follows."""
    hits = reply.results[0] if reply.results else retrieval.QueryResult()
    if hits.next_cursor:
        _continue_at(request.search, hits.next_cursor)
    return bool(hits.next_cursor) and _count_down(request, "results_max", hits.ids)


def _advance_scan(request: retrieval.ScanRequest, reply: Any) -> bool:
    if reply.next_cursor:
        _continue_at(request, reply.next_cursor)
    return bool(reply.next_cursor) and _count_down(request, "rows_max", reply.ids)


def _continue_at(request: Any, cursor: bytes) -> None:
    request.cursor = cursor
    for name in ("min_epoch", "at_epoch", "incarnation"):  # those of the cursor apply
        request.ClearField(name)


def _count_down(request: Any, limit: str, ids: Any) -> bool:
    """Takes the rows of a reply off the maximum, if the request has one. Returns True if it is not
    reached."""
    if not request.HasField(limit):
        return True
    left: int = max(0, getattr(request, limit) - len(ids.numbers) - len(ids.texts))
    setattr(request, limit, left)
    return left > 0


@dataclass(frozen=True)
class PagedCall:
    """A streaming call. part: the part of its request that names epoch and cursor; advance: as
    _advance_search."""

    method: Method[Any, Any]
    part: Callable[[Any], Any]
    advance: Callable[[Any, Any], bool]


SEARCH_PAGES = PagedCall(methods.SEARCH_ALL, lambda request: request.search, _advance_search)
SCAN_PAGES = PagedCall(methods.SCAN, lambda request: request, _advance_scan)


async def pages(
    core: Core, call: PagedCall, request: Any, deadline: float | None
) -> AsyncGenerator[Any, None]:
    """Yields the replies of a call. After a failure that is worth a retry it continues after the
    last reply; each reply starts the count of tries again."""
    part = call.part(request)
    pinned = core.pin(part.collection, part)
    retries = core.retries(deadline)
    stream: ReadStream[Any] | None = None
    try:
        while True:
            try:
                stream = stream or core.transport.stream(
                    call.method, request, retries.time_left(), core.metadata
                )
                reply = await stream.read()
            except grpc.RpcError as raised:
                stream, error = None, core.error(raised, request)
                if pinned and core.unpin(part.collection, part, error):
                    pinned = False
                    continue
                await retries.wait(error)
                continue
            if reply is None:
                raise Internal("malformed reply: the pages ended before the last one")
            core.answered = True
            retries = core.retries(deadline)
            more = call.advance(request, reply)
            yield reply
            if not more:
                return
    finally:
        if stream is not None:
            stream.cancel()


async def search_pages(
    core: Core,
    request: retrieval.SearchAllRequest,
    declared: Mapping[str, Attribute],
    deadline: float | None,
) -> AsyncGenerator[SearchResult, None]:
    async for reply in pages(core, SEARCH_PAGES, request, deadline):
        yield read_answer(reply, None, 1, declared)


async def scan_pages(
    core: Core,
    request: retrieval.ScanRequest,
    declared: Mapping[str, Attribute],
    deadline: float | None,
) -> AsyncGenerator[ScanPage, None]:
    async for reply in pages(core, SCAN_PAGES, request, deadline):
        ids = read_ids(reply.ids)
        yield ScanPage(
            ids,
            list(reply.payloads),
            decode(reply.vectors, len(ids)) if reply.HasField("vectors") else None,
            read_columns(reply.attributes, len(ids), declared),
            reply.epoch,
            reply.incarnation,
            reply.rows_count,
        )
