"""The digest of an answer: retrieval.proto, "Digest"."""

from __future__ import annotations

import datetime as dt
import hashlib
import struct
from collections.abc import Iterable
from typing import Any

import numpy as np

from nearfield._attributes import microseconds
from nearfield._results import Hits

TITLE = b"nearfield result digest 1"
GROUPED_TITLE = b"nearfield grouped digest 1"


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, (dt.datetime, np.datetime64)):
        value = microseconds(value, "group")
    return struct.pack("<q", value)


def result_digest(results: Iterable[Hits]) -> bytes:
    """Returns the SHA-256 (32 bytes) of the ids, score bits and groups of results, in order."""
    results = list(results)
    grouped = bool(results) and results[0].group_sizes is not None
    digest = hashlib.sha256(GROUPED_TITLE if grouped else TITLE)
    for hits in results:
        texts = isinstance(hits.ids, list)
        digest.update(struct.pack("<QQ", len(hits), 0 if not len(hits) else 2 if texts else 1))
        if isinstance(hits.ids, list):
            for text in hits.ids:
                digest.update(_text(text))
        else:
            digest.update(hits.ids.astype("<u8").tobytes())
        digest.update(hits.scores.astype("<f4").tobytes())
        if hits.group_sizes is not None:
            sizes = [size for _, size in hits.group_sizes]
            digest.update(struct.pack(f"<{1 + len(sizes)}Q", len(sizes), *sizes))
            for value, _ in hits.group_sizes:
                digest.update(_value(value))
    return digest.digest()
