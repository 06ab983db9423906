"""Puts the parts of several shards together to the answer of one collection with all rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfield._columns import ReadColumn, column_message, make_column
from nearfield._hit_arrays import HitArrays
from nearfield._results import Hits, Rows, SearchResult
from nearfield._values import join_ids, listed
from nearfield.ray._merge import merged, pick


def merge_hits(
    parts: Sequence[SearchResult], arrays: Sequence[HitArrays], k: int, with_rest: bool
) -> tuple[Hits, ...]:
    """Returns the k best rows of all shards for each query. arrays: those of the parts; with_rest:
    there is more to take from them than ids and scores."""
    best, places = merged(arrays, k)
    ends = np.cumsum(best.counts).tolist()
    found = []
    for number, (begin, end) in enumerate(pairwise([0, *ends])):
        rest: tuple[Any, Any, Any] = [], None, ()
        matched = None
        if with_rest:
            some = [part.queries[number] for part in parts]
            rest = _rest(some, places[begin:end])
            counted = [hits.matched_rows for hits in some]
            matched = None if None in counted else sum(counted)  # type: ignore[arg-type]
        found.append(Hits(best.ids[begin:end], *rest, best.scores[begin:end], matched))
    return tuple(found)


def fetched(
    parts: Sequence[Rows], wanted: Any
) -> tuple[Any, list[bytes], NDArray[Any] | None, tuple[ReadColumn, ...]]:
    """Returns ids, payloads, vectors and columns of the rows of all shards, in the order of
    `wanted`."""
    ids = join_ids([part.ids for part in parts])
    places = {each: place for place, each in enumerate(listed(ids))}
    order = np.array([places[each] for each in listed(wanted) if each in places], np.int64)
    return pick(ids, order), *_rest(parts, order)


def _rest(
    parts: Sequence[Rows], order: NDArray[np.int64]
) -> tuple[list[bytes], NDArray[Any] | None, tuple[ReadColumn, ...]]:
    """Returns payloads, vectors and columns of rows of all parts. order: their places."""
    full = [part for part in parts if len(part)] or parts[:1]
    payloads = [each for part in full for each in part.payloads]
    vectors = None
    if full[0].vectors is not None:
        vectors = np.concatenate([part.vectors for part in full])[order]
    return (
        [payloads[place] for place in order] if payloads else [],
        vectors,
        tuple(_column(full, at, order) for at in range(len(full[0].columns))),
    )


def _column(parts: Sequence[Rows], at: int, order: NDArray[np.int64]) -> ReadColumn:
    attribute = parts[0].columns[at].attribute
    values = [each for part in parts for each in part.columns[at].raw()]
    made = make_column(attribute, [values[place] for place in order], len(order))
    return ReadColumn(column_message(attribute, made, len(order)), len(order), attribute)
