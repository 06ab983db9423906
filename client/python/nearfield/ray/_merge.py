"""Merges the lists that several shards found to the answers of all rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfield._errors import DataLoss
from nearfield._hit_arrays import HitArrays
from nearfield._values import Ids, join_ids


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
