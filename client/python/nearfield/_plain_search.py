"""Searches of nearfield.open without options, by nf_search: numbers in and numbers out. The
messages of an ordinary call take several times as long in Python.

A search that is not taken here, or that fails, is made as an ordinary call, which has the checks,
the retries and the errors."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nearfield._core import Core
from nearfield._handle import Handle
from nearfield._hit_arrays import HitArrays
from nearfield._lazy import from_message
from nearfield._library import PlainResult, PlainSearch, Reply
from nearfield._local_transport import LocalTransport
from nearfield._proto import retrieval_pb2 as retrieval
from nearfield._results import SearchResult, plain_hits
from nearfield._search import read_answer
from nearfield._values import query_array

_OPTIONS = frozenset({"vector", "k", "timeout"})
# Memory for all that a search may find is taken before it.
_HITS_MAX = 1 << 16
_NUMBER, _SCORE, _COUNT = np.dtype(np.uint64), np.dtype(np.float32), np.dtype(np.uint32)
# After these codes, CANCELLED and DEADLINE_EXCEEDED, no ordinary call is made.
_ENDED = (1, 4)


def plain_search(
    collection: Handle, arguments: Sequence[Any], options: Mapping[str, Any]
) -> SearchResult | None:
    """Searches, given the arguments of AsyncCollection.search. Returns None if an ordinary call
    must be made."""
    core, name = collection._core, collection.name
    transport = core.transport
    if type(transport) is not LocalTransport or not options.keys() <= _OPTIONS:
        return None
    if len(arguments) + ("vector" in options) != 1 or "\0" in name:
        return None
    vector = arguments[0] if arguments else options["vector"]
    k, timeout = options.get("k", 10), options.get("timeout")
    if timeout is None:
        timeout = core.options.timeout
    if vector is None or type(k) is not int or type(timeout) not in (int, float) or not timeout > 0:
        return None
    queries = query_array(vector)
    count = 1 if queries.ndim == 1 else len(queries)
    room = k * count
    if not 0 < room <= _HITS_MAX:
        return None
    search = PlainSearch(name.encode(), queries.tobytes(), count, queries.shape[-1], k)
    search.incarnation, search.min_epoch = core.last_write(name) or (0, 0)
    memory: Any = (ctypes.c_char * (12 * room + 4 * count))()
    search.ids = address = ctypes.addressof(memory)
    search.scores = address + 8 * room
    search.counts = address + 12 * room
    result, reply = PlainResult(), Reply()
    code = transport.search(search, result, reply, timeout, core.metadata)
    if code or reply.has_message:
        return _other_end(core, transport, reply, count)
    core.answered = True
    hits = result.hits_count
    ids = np.frombuffer(memory, _NUMBER, hits)
    scores = np.frombuffer(memory, _SCORE, hits, 8 * room)
    request_id = result.request_id.decode()
    if count == 1:
        found = (plain_hits(ids, scores),)
        return from_message(
            SearchResult, result, {}, queries=found, digest=None, request_id=request_id
        )
    counts = np.frombuffer(memory, _COUNT, count, 12 * room).astype(np.int64)
    result.arrays = HitArrays(ids, scores, counts)
    return from_message(SearchResult, result, {}, digest=None, request_id=request_id)


def _other_end(
    core: Core, transport: LocalTransport, reply: Reply, queries_count: int
) -> SearchResult | None:
    """Returns the answer of a reply with a message; None if an ordinary call must be made. Frees
    the reply. Raises the error of a call that has ended for good."""
    with transport.freed(reply):
        if reply.has_message:
            message = retrieval.SearchResponse.FromString(reply.bytes())
            return read_answer(message, reply.own_request_id(), queries_count, {})
        if reply.code in _ENDED:
            raise core.error(reply.error())
    return None
