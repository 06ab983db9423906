"""Search requests: from Python values and options to messages, and the checks of their replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from nearfield._arguments import flag, real32, refuse_unknown, text, texts, whole
from nearfield._attributes import Attribute
from nearfield._digest import result_digest
from nearfield._errors import DataLoss, Internal
from nearfield._filter import FilterLike
from nearfield._filter_forms import set_filter
from nearfield._lazy import from_message
from nearfield._proto import common_pb2 as common
from nearfield._proto import retrieval_pb2 as retrieval
from nearfield._results import SearchResult
from nearfield._terms import TermsLike, set_terms
from nearfield._values import (
    Id,
    IdsLike,
    enum_value,
    id_message,
    ids_count,
    query_bytes,
    to_ids,
)


class SearchOptions(TypedDict, total=False):
    """Options of every search.

    k                1 .. Limits.k_max, 10 by default
    filter           an expression of F, a dict, or a text: only rows that pass are in the answer
    payload          return payloads
    vectors          return stored vectors
    attributes       names of attributes to return, or "*" for all
    terms            row terms, which are added to the score of a row: Linear, Clamped, HalfLife, Is
    score_weight     the weight of the score of the vectors, 1 by default
    parts            return what the score of each row consists of: see .parts
    score_threshold  only rows with at least this score
    group_by         return the k best groups instead of the k best rows: the rows with one value of
                     this attribute are a group, and its best row ranks it; see .groups
    group_rows       maximum number of rows of each group, 1 by default
    with_cursor      return where the next page begins
    cursor           continue after an earlier page
    with_digest      return the digest of the answer, and check it
    verify           let the server's oracle check the answer before it is sent; slow by design
    priority         "interactive" (default) or "batch", which yields to interactive searches
    min_epoch        wait for this epoch; by default that of this client's own last write
    at_epoch         read exactly this epoch: the current one, or one that is kept (pin_epoch)
    incarnation      of these epochs
    timeout          seconds, including retries
    """

    k: int
    filter: FilterLike | None
    payload: bool
    vectors: bool
    attributes: Sequence[str] | Literal["*"]
    terms: TermsLike | None
    score_weight: float | None
    parts: bool
    score_threshold: float | None
    group_by: str | None
    group_rows: int | None
    with_cursor: bool
    cursor: bytes | None
    with_digest: bool
    verify: bool
    priority: Literal["interactive", "batch"]
    min_epoch: int | None
    at_epoch: int | None
    incarnation: int | None
    timeout: float | None


OPTION_NAMES = frozenset(SearchOptions.__annotations__)
# Options that are fields of the request, and flags with the names of their fields.
_PLAIN = frozenset(
    {
        "k",
        "score_threshold",
        "group_by",
        "group_rows",
        "cursor",
        "min_epoch",
        "at_epoch",
        "incarnation",
    }
)
K_LIMIT = "1 .. Limits.k_max"
_FLAGS = {
    "payload": "with_payload",
    "vectors": "with_vectors",
    "with_cursor": "with_cursor",
    "with_digest": "with_digest",
    "verify": "verify",
    "parts": "with_parts",
}


def check_options(options: Mapping[str, Any], *arguments: str) -> None:
    """arguments: the other ones of the call."""
    refuse_unknown("a search", options, OPTION_NAMES.union(arguments))


def attribute_names(attributes: Sequence[str] | None) -> list[str]:
    """Returns the names to request. "*" means all."""
    return [] if attributes is None else texts("attributes", attributes, "the name of an attribute")


def add_queries(
    queries: Any,
    vector: ArrayLike | None,
    id: Id | None = None,
    ids: IdsLike | None = None,
) -> int:
    """Adds the queries of a vector [D], of vectors [B, D], of one stored id or of several to the
    field of a request; returns their number. Raises TypeError if not exactly one of them is
    given."""
    if (vector is not None) + (id is not None) + (ids is not None) != 1:
        raise TypeError("give one of: a vector or vectors, id=, ids=")
    if vector is not None:
        found = query_bytes(vector)
        for data in found:
            encoded = queries.add().encoded
            encoded.dtype = common.DATA_TYPE_FLOAT32
            encoded.data = data
        return len(found)
    values = [id] if id is not None else to_ids(ids)
    for value in values:
        queries.add().row_id.CopyFrom(id_message(value))
    return len(values)


def add_stream_queries(queries: Any, item: Any) -> int:
    """As add_queries, for one item of a stream: a vector, vectors, or a stored id that is a text.
    Raises TypeError for a number, which is probably a part of a vector."""
    if isinstance(item, str):
        return add_queries(queries, None, id=item)
    if isinstance(item, (int, float, np.number)):
        raise TypeError(
            f"queries: {item!r} is a number; each item is a vector: for one vector write"
            " [[...]], for stored rows ids=[...]"
        )
    return add_queries(queries, item)


def _checked(name: str, value: Any) -> Any:
    if name == "k":
        return whole(name, value, K_LIMIT)
    if name == "score_threshold":
        return real32(name, value)
    if name == "group_rows":
        return whole(name, value, "1 .. 2**32 - 1")
    if name == "group_by":
        return text(name, value, "the name of an attribute")
    if name != "cursor":
        return whole(name, value, "0 .. 2**64 - 1", 64)
    if not isinstance(value, bytes):
        raise TypeError(f"cursor: {value!r}; the next_cursor of a page is needed")
    return value


def set_options(request: retrieval.SearchRequest, options: SearchOptions) -> None:
    """Sets the options of a request that has none yet."""
    for name, value in options.items():
        if value is None or name in ("timeout", "terms", "score_weight"):
            continue
        if name in _PLAIN:
            setattr(request, name, _checked(name, value))
        elif name in _FLAGS:
            if flag(name, value):
                setattr(request, _FLAGS[name], True)
        elif name == "attributes":
            request.attributes.extend(attribute_names(value))  # type: ignore[arg-type]
        elif name == "priority":
            request.priority = enum_value(
                "SEARCH_PRIORITY_", common.SearchPriority, str(value), "priority"
            )
        else:
            set_filter(request, value)  # type: ignore[arg-type]
    set_terms(request, options.get("terms"), options.get("score_weight"))


@dataclass(frozen=True)
class PreparedSearch:
    """A checked search without the name of a collection; it may be sent to several."""

    request: retrieval.SearchRequest
    queries_count: int
    reads_attributes: bool


def prepare_search(
    vector: ArrayLike | None, id: Id | None, ids: IdsLike | None, options: SearchOptions
) -> PreparedSearch:
    """Raises TypeError or ValueError, naming the argument."""
    request = retrieval.SearchRequest(packed=True)  # where it has an effect
    count = add_queries(request.queries, vector, id, ids)
    set_options(request, options)
    return PreparedSearch(request, count, bool(options.get("attributes")))


def _check_results(message: retrieval.SearchResponse, queries_count: int) -> str:
    """Returns what is wrong with the results of a reply; empty if nothing is."""
    results = message.results
    if len(results) != queries_count:
        return f"{len(results)} results for {queries_count} queries"
    for i in range(queries_count):  # faster than an iterator of protobuf
        each = results[i]
        scores, ids = len(each.scores), ids_count(each.ids)
        if scores != ids:
            return f"{scores} scores for {ids} ids"
        if each.HasField("parts") and not (
            len(each.parts.scores) == len(each.parts.term_sums) == ids
        ):
            return f"{len(each.parts.scores)} parts of scores for {ids} ids"
        if each.HasField("groups") and sum(each.groups.rows_counts) != ids:
            return f"{sum(each.groups.rows_counts)} rows of groups for {ids} ids"
    return ""


def _check_packed(message: retrieval.SearchResponse, queries_count: int) -> str:
    """As _check_results, for packed results."""
    packed = message.packed
    if len(packed.counts) != 4 * queries_count:
        return f"{len(packed.counts)} bytes of counts for {queries_count} queries"
    hits = int(np.frombuffer(packed.counts, "<u4").sum(dtype=np.uint64))
    ids, scores = len(packed.ids), len(packed.scores)
    if ids != 8 * hits or scores != 4 * hits:
        return f"{ids} bytes of ids and {scores} of scores for {hits} hits"
    return ""


def read_answer(
    message: retrieval.SearchResponse,
    request_id: str | None,
    queries_count: int,
    declared: Mapping[str, Attribute],
) -> SearchResult:
    """Reads and checks a reply. Raises DataLoss if the digest of the answer is another."""
    malformed = (_check_packed if message.HasField("packed") else _check_results)(
        message, queries_count
    )
    if malformed:
        raise Internal(f"malformed reply: {malformed}", request_id=request_id)
    answer = from_message(SearchResult, message, declared, request_id=request_id)
    if message.result_digest and message.result_digest != result_digest(answer.queries):
        raise DataLoss(
            "the digest of the answer is not the one that the server sent", request_id=request_id
        )
    return answer
