"""The calls of a collection that search it, and the check of their answers."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import grpc
from numpy.typing import ArrayLike

from nearfield import _methods as methods
from nearfield._arguments import check_names_of, read_at, real32, whole
from nearfield._attributes import Attribute
from nearfield._embed import Embed
from nearfield._errors import Internal
from nearfield._facets import Facets, read_facets
from nearfield._filter import FilterLike
from nearfield._filter_forms import set_filter
from nearfield._handle import Handle
from nearfield._lazy import from_message
from nearfield._pages import search_pages
from nearfield._proto import admin_pb2 as admin
from nearfield._proto import common_pb2 as common
from nearfield._proto import facets_pb2 as facets
from nearfield._proto import retrieval_pb2 as retrieval
from nearfield._results import Hits, SearchResult, Verified
from nearfield._search import (
    K_LIMIT,
    PreparedSearch,
    SearchOptions,
    add_queries,
    add_stream_queries,
    attribute_names,
    check_options,
    prepare_search,
    read_answer,
    set_options,
)
from nearfield._terms import TermsLike, set_terms
from nearfield._text_calls import query_vectors
from nearfield._values import Id, IdsLike, enum_value, id_list

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Searches of a stream that wait for their answers.
STREAM_WINDOW = 8


@check_names_of
class SearchCalls(Handle):
    """Searches of one collection."""

    async def search(
        self,
        vector: ArrayLike | None = None,
        *,
        id: Id | None = None,
        ids: IdsLike | None = None,
        text: str | Iterable[str] | None = None,
        embed: Embed | None = None,
        **options: Unpack[SearchOptions],
    ) -> SearchResult:
        """Returns the k best rows for each query: exactly, and ordered by (score, id).

        vector  one query [dim], or several [queries, dim]; rounded once to fp32
        id      instead: the stored row with this id, which the answer excludes
        ids     instead: several stored rows
        text    instead: a text, or several. Payloads are returned unless payload=False, and
                hit.text is the text of a row
        embed   with text=: the model, as in add_texts(). Raises EmbedError if the collection has
                vectors of another one
        The other options are those of SearchOptions."""
        check_options(options, "vector", "id", "ids", "text", "embed")
        deadline = self._core.deadline(options.get("timeout"))
        if text is None and embed is not None:
            raise TypeError("embed: it makes the vector of text=, which is not given")
        if text is not None:
            if vector is not None or id is not None or ids is not None:
                raise TypeError("give one of: a vector or vectors, id=, ids=, text=")
            vector = await query_vectors(self._core, self.name, text, embed, deadline)
            options.setdefault("payload", True)
        search = prepare_search(vector, id, ids, options)
        return await self._send(search, search.request, deadline)

    async def _search_prepared(
        self, search: PreparedSearch, timeout: float | None, at: Mapping[str, int]
    ) -> SearchResult:
        """As search. at: at_epoch, incarnation and the like, which the search does not have yet."""
        request = retrieval.SearchRequest()
        request.CopyFrom(search.request)
        for name, value in at.items():
            setattr(request, name, value)
        return await self._send(search, request, self._core.deadline(timeout))

    async def _send(
        self, search: PreparedSearch, request: retrieval.SearchRequest, deadline: float | None
    ) -> SearchResult:
        request.collection = self.name
        declared = await self._declared(deadline) if search.reads_attributes else {}
        reply, request_id = await self._core.read(methods.SEARCH, self.name, request, deadline)
        return read_answer(reply, request_id, search.queries_count, declared)

    async def explain(
        self,
        vector: ArrayLike | None = None,
        *,
        id: Id | None = None,
        ids: IdsLike | None = None,
        **options: Unpack[SearchOptions],
    ) -> str:
        """Runs a search; returns how it was run, in the words of `nearfield search --explain`."""
        return (await self.search(vector, id=id, ids=ids, **options)).explain()

    async def search_stream(
        self,
        queries: Iterable[Any] | AsyncIterable[Any] | None = None,
        *,
        ids: Iterable[Id] | AsyncIterable[Id] | None = None,
        **options: Unpack[SearchOptions],
    ) -> AsyncGenerator[SearchResult, None]:
        """Runs many searches over one stream; yields one answer for each item, in their order.

        queries  each item is one search: a vector [dim], vectors [queries, dim], or a stored id
                 that is a text; an array [searches, dim] is one search per row
        ids      instead: each is one search for the rows near this stored row
        A failed search ends the stream. A timeout is of the whole stream; without one there is
        none. Not retried: answers that were yielded stay valid."""
        check_options(options, "queries", "ids")
        items = queries if ids is None else ids
        if items is None or (queries is not None and ids is not None):
            raise TypeError("give one of: queries, ids=")
        if isinstance(items, (str, int)):
            raise TypeError(f"{'queries' if ids is None else 'ids'}: {items!r}; give a list")
        deadline = self._core.deadline(options.get("timeout"), math.inf)
        template = retrieval.SearchRequest(collection=self.name)
        declared = await self._set_options(template, options, deadline)
        if self._core.pin(self.name, retrieval.CountRequest()):
            # Requests of a stream cannot be repeated, so a unary call first finds out whether the
            # name still belongs to the collection that this client has written to.
            count = retrieval.CountRequest(collection=self.name)
            await self._core.read(methods.COUNT, self.name, count, deadline)
        self._core.pin(self.name, template)
        clock = self._core.transport.clock
        timeout = None if deadline is None else max(0.0, deadline - clock.now())
        duplex = self._core.transport.duplex(methods.SEARCH_STREAM, timeout, self._core.metadata)
        unanswered: deque[int] = deque()

        async def answer() -> SearchResult:
            reply = await duplex.read()
            if reply is None:
                raise Internal(
                    f"malformed reply: the stream ended with {len(unanswered)} searches unanswered"
                )
            return read_answer(reply, None, unanswered.popleft(), declared)

        try:
            async for item in _each(items):
                request = retrieval.SearchRequest()
                request.CopyFrom(template)
                if ids is None:
                    unanswered.append(add_stream_queries(request.queries, item))
                else:
                    unanswered.append(add_queries(request.queries, None, id=item))
                if not await duplex.write(request):
                    break  # the reason is the status of the stream, after the answers
                if len(unanswered) >= STREAM_WINDOW:
                    yield await answer()
            await duplex.finish_writing()
            while unanswered:
                yield await answer()
        except grpc.RpcError as raised:
            raise self._core.error(raised, template) from None
        finally:
            duplex.cancel()

    async def search_all(
        self,
        vector: ArrayLike | None = None,
        *,
        id: Id | None = None,
        results_max: int | None = None,
        **options: Unpack[SearchOptions],
    ) -> AsyncGenerator[SearchResult, None]:
        """Runs one search whose answer may be larger than a message; yields its pages, all of one
        epoch, and continues after the last one if the connection is lost.

        results_max  maximum number of rows; by default all, or with a score_threshold all that
                     reach it. If more rows follow, the last page has a next_cursor.
        k            rows per page. A timeout is of all pages; without one there is none."""
        check_options(options, "vector", "id", "results_max")
        deadline = self._core.deadline(options.get("timeout"), math.inf)
        if results_max is not None:
            results_max = whole("results_max", results_max, "1 or more", 64)
        request = retrieval.SearchAllRequest(results_max=results_max)
        request.search.collection = self.name
        add_queries(request.search.queries, vector, id)
        declared = await self._set_options(request.search, options, deadline)
        async for page in search_pages(self._core, request, declared, deadline):
            yield page

    async def facets(
        self,
        attributes: Sequence[str] | Literal["*"],
        filter: FilterLike | None = None,
        *,
        vector: ArrayLike | None = None,
        id: Id | None = None,
        score_threshold: float | None = None,
        terms: TermsLike | None = None,
        score_weight: float | None = None,
        values_max: int | None = None,
        priority: Literal["interactive", "batch"] = "interactive",
        min_epoch: int | None = None,
        at_epoch: int | None = None,
        incarnation: int | None = None,
        timeout: float | None = None,
    ) -> Facets:
        """Counts the rows for each value of some attributes: exactly.

        attributes       names, or "*" for all
        filter           count only rows that pass it
        vector, id       one query: count only rows with at least the score_threshold
        terms, score_weight  of these scores, as in the search
        values_max       values of each attribute, 100 by default: those that most rows have"""
        deadline = self._core.deadline(timeout)
        request = facets.FacetsRequest(
            collection=self.name,
            attributes=attribute_names(attributes),
            **read_at(min_epoch, at_epoch, incarnation),
        )
        if values_max is not None:
            request.values_max = whole("values_max", values_max, "1 .. Limits.facet_values_max")
        if vector is not None or id is not None:
            search = retrieval.SearchRequest()
            if add_queries(search.queries, vector, id) != 1:
                raise ValueError(f"vector: {len(search.queries)} queries; facets have at most one")
            request.query.CopyFrom(search.queries[0])
        if score_threshold is not None:
            request.score_threshold = real32("score_threshold", score_threshold)
        request.priority = enum_value(
            "SEARCH_PRIORITY_", common.SearchPriority, priority, "priority"
        )
        set_filter(request, filter)
        set_terms(request, terms, score_weight)
        reply, _ = await self._core.read(methods.FACETS, self.name, request, deadline)
        return read_facets(reply)

    async def verify(
        self,
        vector: ArrayLike | None = None,
        *,
        id: Id | None = None,
        claim: SearchResult | None = None,
        k: int | None = None,
        filter: FilterLike | None = None,
        terms: TermsLike | None = None,
        score_weight: float | None = None,
        score_threshold: float | None = None,
        skip: int | None = None,
        timeout: float | None = None,
    ) -> Verified:
        """Lets the server's oracle score every row again, and compares ids and score bits.

        claim  the answer to check, to this query at its epoch; without it the server searches
        k, filter, terms, score_weight, score_threshold  as in the search; k is by default that of
               the claim
        skip   rows that rank before the claim: for a page, those of the earlier pages"""
        deadline = self._core.deadline(timeout)
        if score_threshold is not None:
            score_threshold = real32("score_threshold", score_threshold)
        search = retrieval.SearchRequest()
        count = add_queries(search.queries, vector, id)
        if count != 1:
            raise ValueError(f"vector: {count} queries; one is checked at a time")
        request = admin.VerifyRequest(
            collection=self.name,
            query=search.queries[0],
            score_threshold=score_threshold,
            skip=None if skip is None else whole("skip", skip, "0 or more", 64),
        )
        if claim is not None:
            if claim.hits.group_sizes is not None:
                raise ValueError(
                    "claim: an answer of groups, and rows are checked; verify=True in the search"
                    " checks groups"
                )
            request.epoch, request.incarnation = claim.epoch, claim.incarnation
            request.claim.ids.CopyFrom(id_list(claim.ids))
            request.claim.scores.extend(claim.scores.tolist())
            k = k if k is not None else max(1, len(claim))
        if k is not None:
            request.k = whole("k", k, K_LIMIT)
        set_filter(request, filter)
        set_terms(request, terms, score_weight)
        reply, _ = await self._core.call(methods.VERIFY, request, deadline)
        return Verified(
            reply.equal,
            reply.epoch,
            reply.incarnation,
            reply.rows_checked,
            None if reply.equal else reply.first_difference,
            reply.explanation,
            from_message(Hits, reply.expected, {}),
            reply.oracle_us,
        )

    async def _set_options(
        self,
        request: retrieval.SearchRequest,
        options: SearchOptions,
        deadline: float | None,
    ) -> Mapping[str, Attribute]:
        """Sets the options; returns the declaration that reading the reply needs."""
        set_options(request, options)
        return await self._declared(deadline) if options.get("attributes") else {}


async def _each(items: Iterable[Any] | AsyncIterable[Any]) -> AsyncGenerator[Any, None]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
