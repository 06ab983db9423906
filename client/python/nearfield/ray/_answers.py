"""Puts the parts of several shards together to the answer of one collection with all rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfield._columns import ReadColumn, make_column
from nearfield._proto import common_pb2 as common
from nearfield._results import Hits, Rows
from nearfield.ray._merge import best_of
from nearfield.ray._shards import joined


def merge_hits(parts: Sequence[Hits], k: int) -> Hits:
    """Returns the k best rows of the lists of all shards."""
    scores = np.concatenate([part.scores for part in parts])
    ids = joined([part.ids for part in parts])
    order = best_of(_sortable(ids), scores, k)
    matched = [part.matched_rows for part in parts]
    chosen_ids, payloads, vectors, columns = _take(parts, ids, order)
    return Hits(
        chosen_ids,
        payloads,
        vectors,
        columns,
        scores=scores[order],
        matched_rows=None if None in matched else sum(matched),  # type: ignore[arg-type]
    )


def fetched(
    parts: Sequence[Rows], wanted: Any
) -> tuple[Any, list[bytes], NDArray[Any] | None, tuple[ReadColumn, ...]]:
    """Returns ids, payloads, vectors and columns of the rows of all shards, in the order of
    `wanted`."""
    ids = joined([part.ids for part in parts])
    places = {each: place for place, each in enumerate(_plain(ids))}
    order = [places[each] for each in _plain(wanted) if each in places]
    return _take(parts, ids, np.array(order, np.int64))


def _plain(ids: Any) -> list[Any]:
    return ids if isinstance(ids, list) else ids.tolist()


def _sortable(ids: Any) -> NDArray[Any]:
    return np.array(ids, object) if isinstance(ids, list) else ids


def _take(
    parts: Sequence[Rows], ids: Any, order: NDArray[np.int64]
) -> tuple[Any, list[bytes], NDArray[Any] | None, tuple[ReadColumn, ...]]:
    full = [part for part in parts if len(part)] or parts[:1]
    payloads = [each for part in full for each in part.payloads]
    vectors = None
    if full[0].vectors is not None:
        vectors = np.concatenate([part.vectors for part in full])[order]
    return (
        [ids[place] for place in order] if isinstance(ids, list) else ids[order],
        [payloads[place] for place in order] if payloads else [],
        vectors,
        tuple(_column(full, at, order) for at in range(len(full[0].columns))),
    )


def _column(parts: Sequence[Rows], at: int, order: NDArray[np.int64]) -> ReadColumn:
    attribute = parts[0].columns[at].attribute
    values = [each for part in parts for each in part.columns[at].raw()]
    made = make_column(attribute, [values[place] for place in order], len(order))
    message = made.message(0, len(order)) if made is not None else None
    if message is None:  # no row has a value
        message = common.AttributeColumn(attribute=attribute.name)
        message.presence = bytes(-(-len(order) // 8))
    return ReadColumn(message, len(order), attribute)
