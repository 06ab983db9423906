"""Merges the lists that several shards found to the answers of all rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Found(NamedTuple):
    """The best rows of one shard for each query, or of all shards.

    ids     uint64 or texts [queries, n]: every query has the same number of rows, because a shard
            with fewer than k rows returns all of them
    scores  float32 [queries, n], descending; equal scores by ascending id
    """

    ids: NDArray[Any]
    scores: NDArray[np.float32]


def best_first(ids: NDArray[Any], scores: NDArray[np.float32], *groups: Any) -> NDArray[np.int64]:
    """Returns the places of the rows by (descending score, ascending id) along the last axis; with
    a group of each row, by that first. Texts compare by code points, which is the order of their
    UTF-8 bytes."""
    order: NDArray[np.int64] = np.lexsort((ids, -scores, *groups), axis=-1)
    return order


def merge(found: Sequence[Found], k: int) -> Found:
    """Returns the k best rows of all lists, which is the answer of a single collection with the
    rows of all shards."""
    ids = np.concatenate([each.ids for each in found], axis=1)
    scores = np.concatenate([each.scores for each in found], axis=1)
    order = best_first(ids, scores)[:, :k]
    return Found(np.take_along_axis(ids, order, 1), np.take_along_axis(scores, order, 1))
