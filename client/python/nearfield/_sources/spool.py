"""Keeps batches of an unknown number in a temporary file.

The server reserves memory when an upload begins, so its rows and payload bytes must be known
first; and a source that can be read only once must be kept to be sent again."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterable, Iterator

from nearfield._blocks import Batch
from nearfield._sources.source import Source


def spooled(batches: Iterable[Batch]) -> Source:
    """Reads all batches into a file without a name in the folder for temporary files ($TMPDIR)."""
    file = tempfile.TemporaryFile(prefix="nearfield-")  # noqa: SIM115
    rows = payload_bytes = count = 0
    try:
        for batch in batches:
            pickle.dump(batch, file, pickle.HIGHEST_PROTOCOL)
            rows += len(batch)
            payload_bytes += sum(map(len, batch.payloads or ()))
            count += 1
    except BaseException:
        file.close()
        raise

    def read() -> Iterator[Batch]:
        file.seek(0)
        for _ in range(count):
            yield pickle.load(file)

    return Source(rows, payload_bytes, read, file.close)
