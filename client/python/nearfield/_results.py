"""Answers: the hits of searches, fetched rows, and the outcomes of other calls that read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearfield._attributes import Attribute
from nearfield._columns import ReadColumn, read_columns
from nearfield._cost import Cost, read_cost
from nearfield._groups import Group, read_group_sizes
from nearfield._hit_arrays import HitArrays, arrays_of, read_arrays
from nearfield._lazy import from_message, lazy
from nearfield._proto import retrieval_pb2 as retrieval
from nearfield._terms import PartArrays, Parts, read_parts
from nearfield._values import Id, Ids, decode, ids_count, join_ids, read_ids

if TYPE_CHECKING:
    import pyarrow as pa


class Requested(dict[str, Any]):
    """The attributes of a row that the search requested, by name."""

    def __missing__(self, name: str) -> Any:
        raise KeyError(f"the attribute {name!r} was not requested; search with attributes=[...]")


@dataclass(frozen=True)
class Hit:
    """One row of an answer: id, score, payload, attributes, vector and the parts of the score. None
    or empty if they were not requested."""

    id: Id
    score: float  # higher is better, with every metric
    payload: bytes | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    vector: NDArray[Any] | None = None
    parts: Parts | None = None

    def json(self) -> Any:
        """Parses the payload as JSON; None if it is empty. Raises ValueError if it was not
        requested."""
        if self.payload is None:
            raise ValueError(f"id {self.id!r}: no payload was requested; search with payload=True")
        try:
            return json.loads(self.payload) if self.payload else None
        except ValueError as error:
            text = f"id {self.id!r}: the payload {self.payload!r:.60} is no JSON"
            raise ValueError(f"{text} ({error}); use .payload") from None

    @property
    def text(self) -> str:
        """The text of a row, as add_texts() stores it: the member text of the payload, else all
        texts in it, else the payload itself. Raises ValueError if it was not requested."""
        try:
            payload = self.json()
        except (ValueError, RecursionError):
            if self.payload is None:
                raise
            return self.payload.decode("utf-8", "replace")
        if not isinstance(payload, dict):
            return str(payload or "")
        if isinstance(payload.get("text"), str):
            return str(payload["text"])
        return ", ".join(text for text in payload.values() if isinstance(text, str))


@dataclass(frozen=True)
class Rows:
    """Rows as columns of the same length.

    ids         uint64 [n] or n texts
    payloads    n bytes; empty if they were not requested
    vectors     [n, dim] as stored: float32, float16, or bfloat16 widened exactly to float32;
                None if they were not requested
    """

    ids: Ids
    payloads: list[bytes]
    vectors: NDArray[Any] | None
    columns: tuple[ReadColumn, ...] = field(default=(), repr=False)

    @cached_property
    def attributes(self) -> dict[str, list[Any]]:
        """The requested attributes by name: n values each, None where a row has none. Times are
        datetimes in UTC."""
        return {column.attribute.name: column.python() for column in self.columns}

    def __len__(self) -> int:
        return len(self.ids)

    def _id(self, i: int) -> Id:
        return self.ids[i] if isinstance(self.ids, list) else int(self.ids[i])

    def to_arrow(self) -> pa.Table:
        """Returns an Arrow table with the requested ones of the columns id, vector, payload and the
        attributes. Needs pyarrow."""
        from nearfield._arrow import table_of

        return table_of(self.ids, None, self.vectors, self.payloads, self.columns)


@lazy(
    ids=lambda message, _: read_ids(message.ids),
    payloads=lambda message, _: list(message.payloads),
    vectors=lambda message, _: (
        decode(message.vectors, ids_count(message.ids)) if message.HasField("vectors") else None
    ),
    columns=lambda message, declared: read_columns(
        message.attributes, ids_count(message.ids), declared
    ),
    scores=lambda message, _: np.array(message.scores[:], np.float32),
    matched_rows=lambda message, _: (
        message.matched_rows if message.HasField("matched_rows") else None
    ),
    next_cursor=lambda message, _: message.next_cursor or None,
    cut=lambda message, _: message.cut,
    group_sizes=lambda message, _: read_group_sizes(message),
    parts=lambda message, _: read_parts(message),
)
@dataclass(frozen=True)
class Hits(Rows):
    """The answer to one query: rows by descending score, equal scores by id; with group_by, the
    rows of the first group, then those of the second one, and so on.

    scores        float32 [n]
    matched_rows  with a filter or group_by: rows of the collection that pass, else None
    next_cursor   where the next page begins, if it was requested and a row follows
    cut           rows follow beyond Limits.page_rows_max: use search_all
    group_sizes   with group_by: the value and the number of rows of each group, else None
    parts         with parts=True: what the scores consist of; None without a row
    """

    scores: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    matched_rows: int | None = None
    next_cursor: bytes | None = None
    cut: bool = False
    group_sizes: tuple[tuple[Any, int], ...] | None = None
    parts: PartArrays | None = None

    @cached_property
    def groups(self) -> list[Group]:
        """The groups, best first. Raises ValueError without group_by."""
        if self.group_sizes is None:
            raise ValueError(
                "no groups in this answer; search with group_by=, which old servers ignore"
            )
        hits = iter(self)
        return [Group(value, tuple(islice(hits, size))) for value, size in self.group_sizes]

    def __getitem__(self, i: int) -> Hit:
        return Hit(
            self._id(i),
            float(self.scores[i]),
            self.payloads[i] if self.payloads else None,
            Requested((name, values[i]) for name, values in self.attributes.items()),
            None if self.vectors is None else self.vectors[i],
            None if self.parts is None else self.parts[i],
        )

    def __iter__(self) -> Iterator[Hit]:
        return (self[i] for i in range(len(self)))

    def to_arrow(self) -> pa.Table:
        """As Rows.to_arrow, with the scores in the column score."""
        from nearfield._arrow import table_of

        return table_of(self.ids, self.scores, self.vectors, self.payloads, self.columns)


def _read_queries(message: Any, declared: Mapping[str, Attribute]) -> tuple[Hits, ...]:
    arrays = arrays_of(message)
    if arrays is None:
        return tuple(from_message(Hits, each, declared) for each in message.results)
    ends = np.cumsum(arrays.counts).tolist()
    return tuple(
        plain_hits(arrays.ids[begin:end], arrays.scores[begin:end])
        for begin, end in zip([0, *ends], ends, strict=False)
    )


_NOTHING_ELSE = retrieval.QueryResult()


def plain_hits(ids: Ids, scores: NDArray[np.float32]) -> Hits:
    """Returns hits of which only ids and scores were requested."""
    return from_message(Hits, _NOTHING_ELSE, {}, ids=ids, scores=scores)


@lazy(
    queries=_read_queries,
    epoch=lambda message, _: message.epoch,
    incarnation=lambda message, _: message.incarnation,
    cost=lambda message, _: read_cost(message.cost),
    digest=lambda message, _: message.result_digest or None,
)
@dataclass(frozen=True)
class SearchResult:
    """The answer to a search: of one epoch, to one or several queries.

    With one query its hits are here, as in Hits: ids, scores, payloads, vectors, attributes,
    matched_rows, next_cursor, groups, parts, iteration, len(). With several they are in `queries`,
    in the order of the request.

    epoch        the state of the collection that the answer shows
    incarnation  of the epoch
    cost         where the time went
    digest       with_digest: SHA-256 of the answer, which the client has recomputed
    request_id   the id of the call in the server's log
    """

    queries: tuple[Hits, ...]
    epoch: int
    incarnation: int
    cost: Cost
    digest: bytes | None = None
    request_id: str | None = None

    @property
    def hits(self) -> Hits:
        """The hits of the only query. Raises ValueError if there were several."""
        if len(self.queries) != 1:
            raise ValueError(f"the answer is of {len(self.queries)} queries: see .queries")
        return self.queries[0]

    @property
    def ids(self) -> Ids:
        return self.hits.ids

    @property
    def scores(self) -> NDArray[np.float32]:
        return self.hits.scores

    @property
    def payloads(self) -> list[bytes]:
        return self.hits.payloads

    @property
    def vectors(self) -> NDArray[Any] | None:
        return self.hits.vectors

    @property
    def attributes(self) -> dict[str, list[Any]]:
        return self.hits.attributes

    @property
    def matched_rows(self) -> int | None:
        return self.hits.matched_rows

    @property
    def next_cursor(self) -> bytes | None:
        return self.hits.next_cursor

    @property
    def groups(self) -> list[Group]:
        return self.hits.groups

    @property
    def parts(self) -> PartArrays | None:
        return self.hits.parts

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, i: int) -> Hit:
        return self.hits[i]

    def to_numpy(self) -> HitArrays:
        """Returns ids, scores and counts of the hits of all queries, one query after the other. For
        a large batch this is much faster than reading them from `queries`.

        ids     uint64 [hits] or that many texts
        scores  float32 [hits]
        counts  int64 [queries]: the hits of each query"""
        message: Any = self.__dict__.get("_message")
        if isinstance(message, retrieval.SearchResponse):
            return read_arrays(message)
        if (arrays := arrays_of(message)) is not None:
            return arrays
        return HitArrays(
            join_ids([hits.ids for hits in self.queries]),
            np.concatenate([hits.scores for hits in self.queries]),
            np.array([len(hits) for hits in self.queries], np.int64),
        )

    def to_arrow(self) -> pa.Table:
        """Returns the hits as an Arrow table; with several queries also the column query, the
        number of the query from 0. Needs pyarrow."""
        from nearfield._arrow import stack

        if len(self.queries) == 1:
            return self.hits.to_arrow()
        return stack([hits.to_arrow() for hits in self.queries])

    def explain(self) -> str:
        """Returns how the search was run, in the words of `nearfield search --explain`."""
        return self.cost.explain(self.epoch)


@dataclass(frozen=True)
class FetchResult(Rows):
    """Rows by id, in the order of the request.

    missing      the ids that name no row
    epoch        the state of the collection that the rows show
    incarnation  of the epoch
    """

    missing: Ids = field(default_factory=list)
    epoch: int = 0
    incarnation: int = 0


@dataclass(frozen=True)
class ScanPage(Rows):
    """Rows that follow one another in the order of the ids.

    epoch        the state of the collection; the same for all pages
    incarnation  of the epoch
    rows_count   rows of the whole scan
    """

    epoch: int = 0
    incarnation: int = 0
    rows_count: int = 0


@dataclass(frozen=True)
class Pinned:
    """An epoch that the server keeps: retrieval.proto, PinEpochResponse."""

    epoch: int
    incarnation: int
    rows_count: int
    kept_ms: int


@dataclass(frozen=True)
class Counted:
    """rows_count: rows of the collection that pass the filter, at this epoch and incarnation."""

    rows_count: int
    epoch: int
    incarnation: int


@dataclass(frozen=True)
class Verified:
    """The comparison of an answer with the oracle's, to the bit.

    equal             ids and score bits are the oracle's
    epoch             of both answers, and its incarnation
    rows_checked      rows that the oracle has scored
    first_difference  place of the first wrong row; None if equal
    explanation       of a difference; empty if equal
    expected          the oracle's answer: ids and scores
    oracle_us         microseconds of the oracle
    """

    equal: bool
    epoch: int
    incarnation: int
    rows_checked: int
    first_difference: int | None
    explanation: str
    expected: Hits
    oracle_us: int
