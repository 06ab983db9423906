"""Ids of rows, and the shard of each row: a row belongs to one of 4,096 partitions by the XXH64 of
its id, and each shard owns a range of partitions."""

from __future__ import annotations

import numpy as np
import xxhash
from numpy.typing import NDArray

from nearfield._values import Ids

PARTITIONS = 4096


def partitions_of(ids: Ids) -> NDArray[np.int64]:
    """Returns the partition of each id, 0 .. PARTITIONS - 1: the XXH64 of its 8 bytes in
    little-endian order, or of the UTF-8 of a text: its upper 12 bits; [n]."""
    if isinstance(ids, list):
        keys = (text.encode() for text in ids)
        count = len(ids)
    else:
        data = memoryview(np.ascontiguousarray(ids, "<u8").tobytes())
        count = len(ids)
        keys = (bytes(data[at : at + 8]) for at in range(0, 8 * count, 8))
    hashes = (xxhash.xxh64_intdigest(key) >> 52 for key in keys)
    return np.fromiter(hashes, np.int64, count)


def shards_of(ids: Ids, shards: int) -> NDArray[np.int64]:
    """Returns the shard of each id, 0 .. shards - 1; [n]. shards: 1 .. PARTITIONS."""
    if not 1 <= shards <= PARTITIONS:
        raise ValueError(f"shards: {shards}, must be 1 .. {PARTITIONS}")
    return partitions_of(ids) * shards // PARTITIONS


def partition_range(shard: int, shards: int) -> tuple[int, int]:
    """Returns the partitions [begin, end) of a shard."""
    return -(-PARTITIONS * shard // shards), -(-PARTITIONS * (shard + 1) // shards)
