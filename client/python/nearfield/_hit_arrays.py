"""The hits of all queries of a search in arrays: those of packed replies, and of others."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfield._proto import retrieval_pb2 as retrieval
from nearfield._values import Ids


class HitArrays(NamedTuple):
    """The hits of all queries, one query after the other: see SearchResult.to_numpy."""

    ids: Ids
    scores: NDArray[np.float32]
    counts: NDArray[np.int64]


def arrays_of(message: Any) -> HitArrays | None:
    """Returns the hits of a reply that has those of all queries in arrays; None for another."""
    if not isinstance(message, retrieval.SearchResponse):
        arrays: HitArrays | None = getattr(message, "arrays", None)  # of a plain search
        if arrays is None:
            return None
        return HitArrays(arrays.ids.copy(), arrays.scores.copy(), arrays.counts.copy())
    if not message.HasField("packed"):
        return None
    packed = message.packed
    return HitArrays(
        np.frombuffer(packed.ids, "<u8").astype(np.uint64),
        np.frombuffer(packed.scores, "<f4").astype(np.float32),
        np.frombuffer(packed.counts, "<u4").astype(np.int64),
    )


def read_arrays(message: retrieval.SearchResponse) -> HitArrays:
    """Reads the hits of all queries of a reply."""
    arrays = arrays_of(message)
    if arrays is not None:
        return arrays
    numbers: list[int] = []
    texts: list[str] = []
    scores: list[float] = []
    counts = []
    results = message.results
    for i in range(len(results)):  # faster than an iterator of protobuf
        each = results[i]
        some = each.ids.numbers[:]
        if some:
            numbers += some
        else:
            texts += each.ids.texts
        found = each.scores[:]
        scores += found
        counts.append(len(found))
    ids = texts or np.array(numbers, np.uint64)
    return HitArrays(ids, np.array(scores, np.float32), np.array(counts, np.int64))
