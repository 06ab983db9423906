"""Search requests: from Python values and options to messages, and the checks of their replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from nearfield._attributes import Attribute
from nearfield._digest import result_digest
from nearfield._errors import DataLoss, Internal
from nearfield._filter import Filter, FilterLike, set_filter
from nearfield._proto import common_pb2 as common
from nearfield._proto import retrieval_pb2 as retrieval
from nearfield._results import SearchResult, read_search
from nearfield._values import (
    Id,
    IdsLike,
    enum_value,
    id_message,
    query_messages,
    to_ids,
)


class SearchOptions(TypedDict, total=False):
    """Options of every search.

    k                1 .. Limits.k_max, 10 by default
    filter           an expression of F, or its text: only rows that pass are in the answer
    payload          return payloads
    vectors          return stored vectors
    attributes       names of attributes to return, or "*" for all
    score_threshold  only rows with at least this score
    with_cursor      return where the next page begins
    cursor           continue after an earlier page
    with_digest      return the digest of the answer, and check it
    verify           let the server's oracle check the answer before it is sent; slow by design
    priority         "interactive" (default) or "batch", which yields to interactive searches
    min_epoch        wait for this epoch; by default that of this client's own last write
    incarnation      of min_epoch
    timeout          seconds, including retries
    """

    k: int
    filter: FilterLike | None
    payload: bool
    vectors: bool
    attributes: Sequence[str] | Literal["*"]
    score_threshold: float | None
    with_cursor: bool
    cursor: bytes | None
    with_digest: bool
    verify: bool
    priority: Literal["interactive", "batch"]
    min_epoch: int | None
    incarnation: int | None
    timeout: float | None


OPTION_NAMES = frozenset(SearchOptions.__annotations__)


def check_options(options: Mapping[str, Any]) -> None:
    for name in options.keys() - OPTION_NAMES:
        raise TypeError(
            f"{name}: no option of a search; they are {', '.join(sorted(OPTION_NAMES))}"
        )


def needs_declaration(options: SearchOptions) -> bool:
    """Returns True if the request or its reply depends on the attributes' types."""
    return isinstance(options.get("filter"), Filter) or bool(options.get("attributes"))


def attribute_names(attributes: Sequence[str] | None) -> list[str]:
    """Returns the names to request. "*" means all."""
    if isinstance(attributes, str):
        return [attributes]
    return list(attributes or ())


def queries_of(
    vector: ArrayLike | None,
    id: Id | None = None,
    ids: IdsLike | None = None,
) -> list[retrieval.Query]:
    """Returns the queries of a vector [D], of vectors [B, D], of one stored id or of several.
    Raises TypeError if not exactly one of them is given."""
    if (vector is not None) + (id is not None) + (ids is not None) != 1:
        raise TypeError("give one of: a vector or vectors, id=, ids=")
    if id is not None:
        return [retrieval.Query(row_id=id_message(id))]
    if ids is not None:
        found = to_ids(ids)
        values = found if isinstance(found, list) else found.tolist()
        return [retrieval.Query(row_id=id_message(each)) for each in values]
    return [
        retrieval.Query(encoded=common.VectorBlock(dtype=common.DATA_TYPE_FLOAT32, data=data))
        for data in query_messages(vector)  # type: ignore[arg-type]
    ]


def stream_queries(item: Any) -> list[retrieval.Query]:
    """Returns the queries of one item of a stream: a vector, vectors, or a stored id."""
    if isinstance(item, (str, int, np.integer)):
        return queries_of(None, id=item if isinstance(item, str) else int(item))
    return queries_of(item)


def search_request(
    collection: str,
    queries: Sequence[retrieval.Query],
    options: SearchOptions,
    declared: Mapping[str, Attribute],
) -> retrieval.SearchRequest:
    request = retrieval.SearchRequest(collection=collection, queries=queries)
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    for name in ("k", "score_threshold", "cursor", "min_epoch", "incarnation"):
        if name in given:
            setattr(request, name, given[name])
    for name in ("with_cursor", "with_digest", "verify"):
        if given.get(name):
            setattr(request, name, True)
    request.with_payload = bool(given.get("payload"))
    request.with_vectors = bool(given.get("vectors"))
    request.attributes.extend(attribute_names(given.get("attributes")))
    if "priority" in given:
        request.priority = enum_value(
            "SEARCH_PRIORITY_", retrieval.SearchPriority, given["priority"], "priority"
        )
    set_filter(request, given.get("filter"), declared)
    return request


def read_answer(
    message: retrieval.SearchResponse,
    request_id: str | None,
    queries_count: int,
    declared: Mapping[str, Attribute],
) -> SearchResult:
    """Reads and checks a reply. Raises DataLoss if the digest of the answer is another."""
    answer = read_search(message, request_id, declared)
    if len(answer.queries) != queries_count:
        raise Internal(
            f"malformed reply: {len(answer.queries)} results for {queries_count} queries",
            request_id=request_id,
        )
    for hits in answer.queries:
        if len(hits.scores) != len(hits):
            raise Internal(
                f"malformed reply: {len(hits.scores)} scores for {len(hits)} ids",
                request_id=request_id,
            )
    if answer.digest is not None and answer.digest != result_digest(answer.queries):
        raise DataLoss(
            "the digest of the answer is not the one that the server sent", request_id=request_id
        )
    return answer
