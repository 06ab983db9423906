"""Merges the parts that several shards found to the answer of one collection with all rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfield._columns import ReadColumn, column_message, make_column
from nearfield._errors import DataLoss
from nearfield._hit_arrays import HitArrays
from nearfield._results import Hits, Rows, SearchResult
from nearfield._terms import PartArrays
from nearfield._values import Ids, join_ids, listed


def merged(parts: Sequence[HitArrays], k: int) -> tuple[HitArrays, NDArray[np.int64]]:
    """Returns the k best rows of all shards for each query, which is the answer of a single
    collection with all rows; and the place of each of them among the hits of its query, those of
    the first shard, then those of the next."""
    ids = join_ids([each.ids for each in parts])
    scores = np.concatenate([each.scores for each in parts])
    counts = np.stack([each.counts for each in parts])  # [shards, queries]
    each_count, lengths = counts.reshape(-1), counts.sum(axis=0)
    queries = np.tile(np.arange(len(lengths)), len(parts)).repeat(each_count)
    order = _best_first(ids, scores, queries)
    ranks = np.arange(len(order)) - (np.cumsum(lengths) - lengths).repeat(lengths)
    order = order[ranks < k]
    before = np.cumsum(each_count).reshape(counts.shape) - np.cumsum(counts, axis=0)
    places = order - before.reshape(-1).repeat(each_count)[order]
    return HitArrays(pick(ids, order), scores[order], np.minimum(lengths, k)), places


def check_counts(arrays: HitArrays, rows: int, k: int) -> None:
    """Raises DataLoss unless each query has the k best of a shard's rows, or all of them."""
    if (arrays.counts != min(k, rows)).any():
        raise DataLoss(f"{sorted(set(arrays.counts.tolist()))} rows of {rows}, k = {k}")


def pick(ids: Ids, places: NDArray[np.int64]) -> Any:
    """Returns the ids at these places."""
    return [ids[place] for place in places] if isinstance(ids, list) else ids[places]


def sortable(ids: Ids) -> NDArray[Any]:
    """Returns the ids as an array. Texts compare by code points, which is the order of their UTF-8
    bytes."""
    return np.array(ids, object) if isinstance(ids, list) else ids


def _best_first(
    ids: Ids, scores: NDArray[np.float32], queries: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Returns the places of the rows by (query, descending score, ascending id)."""
    bits = (np.float32(0) - scores).view(np.int32)  # of -score; both zeros become the same
    rising = np.where(bits < 0, ~bits, bits | np.int32(-(2**31))).view(np.uint32)
    keys = queries.astype(np.uint64) << np.uint64(32) | rising
    order: NDArray[np.int64] = np.argsort(keys, kind="stable")
    found = keys[order]
    if (found[1:] == found[:-1]).any():  # only equal scores need the ids, which is slower
        order = np.lexsort((sortable(ids), keys))
    return order


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
        matched: Any = None
        score_parts = None
        if with_rest:
            some = [part.queries[number] for part in parts]
            rest = _rest(some, places[begin:end])
            counted: list[Any] = [hits.matched_rows for hits in some]
            matched = None if None in counted else sum(counted)
            score_parts = _parts(some, places[begin:end])
        found.append(
            Hits(best.ids[begin:end], *rest, best.scores[begin:end], matched, parts=score_parts)
        )
    return tuple(found)


def fetched(parts: Sequence[Rows], wanted: Any) -> tuple[Any, Any, Any, Any]:
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
    columns = tuple(_column(full, at, order) for at in range(len(full[0].columns)))
    return [payloads[place] for place in order] if payloads else [], vectors, columns


def _parts(hits: Sequence[Hits], order: NDArray[np.int64]) -> PartArrays | None:
    """Returns the parts of the scores of hits of all shards. order: their places."""
    parts = [each.parts for each in hits if each.parts is not None]
    if not parts:
        return None
    return PartArrays(
        np.concatenate([each.scores for each in parts])[order],
        np.concatenate([each.terms for each in parts])[order],
    )


def _column(parts: Sequence[Rows], at: int, order: NDArray[np.int64]) -> ReadColumn:
    attribute = parts[0].columns[at].attribute
    values = [each for part in parts for each in part.columns[at].raw()]
    made = make_column(attribute, [values[place] for place in order], len(order))
    return ReadColumn(column_message(attribute, made, len(order)), len(order), attribute)
