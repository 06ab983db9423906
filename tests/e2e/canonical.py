"""A second implementation of the result contract in numpy, written from the comments of
proto/nearfield/v1/retrieval.proto.

It shares no code with the server. Scores are compared as bits.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def sums(products: Array) -> Array:
    """Sums [rows, dim] fp64 terms to [rows] in the canonical order: 32 accumulators, then the
    tree."""
    rows, dim = products.shape
    padded = np.zeros((rows, -(-dim // 32) * 32))
    padded[:, :dim] = products
    lanes = np.zeros((rows, 32))
    for begin in range(0, padded.shape[1], 32):
        lanes = lanes + padded[:, begin : begin + 32]
    half = 16
    while half >= 1:
        lanes = lanes[:, :half] + lanes[:, half : 2 * half]
        half //= 2
    return lanes[:, 0]


def dot(query: Array, rows: Array) -> Array:
    """Returns S(q, x) as [rows] fp64 for a [dim] fp32 query and [rows, dim] rows."""
    return sums(query.astype(np.float64)[None, :] * rows.astype(np.float64))


def scores(metric: str, query: Array, rows: Array) -> Array:
    """Returns [rows] fp32 scores. L2 is correct only for values whose squared differences are exact
    in fp64, because numpy has no fma."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        if metric == "dot":
            return dot(query, rows).astype(np.float32) + np.float32(0)
        if metric == "cosine":
            row_squared = sums(rows.astype(np.float64) ** 2)
            norms = np.sqrt(dot(query, query[None, :])[0]) * np.sqrt(row_squared)
            cosine = (dot(query, rows) / norms).astype(np.float32) + np.float32(0)
            clamped = np.clip(cosine, np.float32(-1), np.float32(1))
            return np.where(row_squared == 0, np.float32(-np.inf), clamped).astype(np.float32)
        difference = query.astype(np.float64)[None, :] - rows.astype(np.float64)
        return np.float32(0) - sums(difference * difference).astype(np.float32)


def best(metric: str, query: Array, rows: Array, ids: list, k: int) -> list[tuple[object, int]]:
    """Returns the min(k, rows) best as (id, score bits), best first."""
    values = scores(metric, query, rows)
    key = [identity.encode() if isinstance(identity, str) else identity for identity in ids]
    order = sorted(range(len(ids)), key=lambda row: (-float(values[row]), key[row]))[:k]
    return [(ids[row], int(values[row].view(np.uint32))) for row in order]
