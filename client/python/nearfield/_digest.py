"""The digest of an answer: retrieval.proto, "Digest"."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable

from nearfield._results import Hits

TITLE = b"nearfield result digest 1"


def result_digest(results: Iterable[Hits]) -> bytes:
    """Returns the SHA-256 (32 bytes) of the ids and score bits of results, in order."""
    digest = hashlib.sha256(TITLE)
    for hits in results:
        texts = isinstance(hits.ids, list)
        digest.update(struct.pack("<QQ", len(hits), 0 if not len(hits) else 2 if texts else 1))
        if isinstance(hits.ids, list):
            for text in hits.ids:
                encoded = text.encode()
                digest.update(struct.pack("<Q", len(encoded)) + encoded)
        else:
            digest.update(hits.ids.astype("<u8").tobytes())
        digest.update(hits.scores.astype("<f4").tobytes())
    return digest.digest()
