"""Selection in host memory by NumPy, in the order of the GPU: the reference for small inputs.

A row's scores become 64-bit keys, order << 32 | ~index, where the order of a score is a 32-bit
number that is monotone in it: 0 for every NaN, equal for both zeros. The keys of a row are unique,
so the k highest are the same for any method that finds them. The value is read back from the order,
which makes -0 to +0 and a NaN to the quiet positive NaN, as the GPU does."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

CHUNK_KEYS = 1 << 24  # keys in memory at a time
_LOW = np.uint64(0xFFFFFFFF)
_QUIET_NAN = {"float32": 0x7FC00000, "float16": 0x7E00, "bfloat16": 0x7FC0}
_INFINITY = {"float32": 0x7F800000, "float16": 0x7C00, "bfloat16": 0x7F80}
BITS = {"float32": 32, "float16": 16, "bfloat16": 16, "int32": 32, "uint32": 32}


def orders(bits: Array, dtype: str) -> Array:
    """Returns the order of each score, given its bits as uint16 or uint32."""
    wide = bits.astype(np.uint32)
    if dtype == "uint32":
        return wide
    sign = np.uint32(1 << (BITS[dtype] - 1))
    if dtype == "int32":
        return wide ^ sign
    rest = wide & ~sign
    negative = wide > sign  # not -0
    ones = np.uint32((1 << BITS[dtype]) - 1)
    result = np.where(negative, wide ^ ones, rest | sign)
    result[rest > np.uint32(_INFINITY[dtype])] = 0
    return result


def bits_of(order: Array, dtype: str) -> Array:
    """Returns the bits of the scores with these orders; the inverse of `orders`."""
    if dtype == "uint32":
        return order
    sign = np.uint32(1 << (BITS[dtype] - 1))
    if dtype == "int32":
        return order ^ sign
    ones = np.uint32((1 << BITS[dtype]) - 1)
    result = np.where(order >= sign, order ^ sign, order ^ ones)
    result[order == 0] = _QUIET_NAN[dtype]
    return result if BITS[dtype] == 32 else result.astype(np.uint16)


def padding(dtype: str) -> int:
    """Returns the bits of the value of a padded place: -inf, or the lowest integer."""
    if dtype == "uint32":
        return 0
    sign = 1 << (BITS[dtype] - 1)
    return sign if dtype == "int32" else sign | _INFINITY[dtype]


def select(
    bits: Array, dtype: str, k: int, begin: Array | None = None, end: Array | None = None
) -> tuple[Array, Array]:
    """Returns the bits of the k best values of each row, and their indices.

    bits   [batch, n] uint32, or uint16 for float16 and bfloat16
    begin, end  [batch] integers; row r has the columns [begin[r], end[r]); a begin below 0 counts
                as 0
    returns     [batch, k] of the type of `bits`, and int32 [batch, k]
    Raises ValueError if a row that is not empty ends after the last column."""
    batch, n = bits.shape
    first = np.zeros(batch, np.int64) if begin is None else np.maximum(begin.astype(np.int64), 0)
    last = np.full(batch, n, np.int64) if end is None else end.astype(np.int64)
    lengths = np.clip(last - first, 0, n)
    outside = (lengths > 0) & (first + lengths > n)
    if outside.any():
        row = int(outside.argmax())
        raise ValueError(
            f"row {row}: columns [{first[row]}, {first[row] + lengths[row]}), must be in [0, {n})"
        )
    values = np.empty((batch, k), bits.dtype)
    indices = np.empty((batch, k), np.int32)
    step = max(1, CHUNK_KEYS // max(1, n))
    for at in range(0, batch, step):
        part = slice(at, min(at + step, batch))
        values[part], indices[part] = _select(bits[part], dtype, k, first[part], lengths[part])
    return values, indices


def _select(bits: Array, dtype: str, k: int, first: Array, lengths: Array) -> tuple[Array, Array]:
    n = bits.shape[1]
    index = np.arange(n, dtype=np.int64)[None, :] - first[:, None]
    keys = orders(bits, dtype).astype(np.uint64) << np.uint64(32)
    keys |= ~index.astype(np.uint64) & _LOW
    # No key of a score is 0, because ~index is not.
    keys[(index < 0) | (index >= lengths[:, None])] = 0
    best = np.partition(keys, n - k, axis=1)[:, n - k :]
    best = np.sort(best, axis=1)[:, ::-1]
    values = bits_of((best >> np.uint64(32)).astype(np.uint32), dtype)
    indices = (~best & _LOW).astype(np.uint32).view(np.int32)
    none = best == 0  # the index is -1 already
    values[none] = padding(dtype)
    return values, indices
