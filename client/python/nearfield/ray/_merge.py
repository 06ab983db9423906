"""Merges the lists that several shards found to the answers of all rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfield._values import Ids


class Found(NamedTuple):
    """The best rows of one shard for each query, or of all shards.

    ids     uint64 or texts [queries, n]: every query has the same number of rows, because a shard
            with fewer than k rows returns all of them
    scores  float32 [queries, n], descending; equal scores by ascending id
    """

    ids: NDArray[Any]
    scores: NDArray[np.float32]


def best_first(
    ids: Ids, scores: NDArray[np.float32], queries: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Returns the places of the rows of all queries by (query, descending score, ascending id).
    Texts compare by code points, which is the order of their UTF-8 bytes."""
    bits = (np.float32(0) - scores).view(np.int32)  # of -score; both zeros become the same
    rising = np.where(bits < 0, ~bits, bits | np.int32(-(2**31))).view(np.uint32)
    keys = queries.astype(np.uint64) << np.uint64(32) | rising
    order: NDArray[np.int64] = np.argsort(keys, kind="stable")
    found = keys[order]
    if (found[1:] == found[:-1]).any():  # only equal scores need the ids, which is slower
        order = np.lexsort((np.array(ids, object) if isinstance(ids, list) else ids, keys))
    return order


def merge(found: Sequence[Found], k: int) -> Found:
    """Returns the k best rows of all lists, which is the answer of a single collection with the
    rows of all shards."""
    if len(found) == 1:
        return found[0]
    ids = np.concatenate([each.ids for each in found], axis=1)
    scores = np.concatenate([each.scores for each in found], axis=1)
    queries = np.arange(len(ids)).repeat(ids.shape[1])
    order = best_first(ids.reshape(-1), scores.reshape(-1), queries)
    best = order.reshape(ids.shape)[:, :k]
    return Found(ids.reshape(-1)[best], scores.reshape(-1)[best])
