"""Staging: all of an operation that can fail, before it is in the log."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import nearfield
from nearfield._upload_progress import Progress
from nearfield._values import Ids, join_ids, listed
from nearfield.ray._manifest import Operation
from nearfield.ray._merge import sortable
from nearfield.ray._segment import Reference, ids_of
from nearfield.ray._updates import check_update, limits_of

DECISION_SECONDS_MAX = 1800.0  # for which a staged upload waits for the manifest
# Returns the rows of a segment that belong to this shard.
Read = Callable[[Reference], pa.Table]


class _Abandoned(Exception):
    pass


class Incoming:
    """The rows of an upload, or the ids of a delete, of one shard. Once they are sent, the server
    has confirmed the rows up to the last one, and waits for the decision to commit them. Errors:
    AlreadyExists; OSError and DataLoss of the storage."""

    def __init__(self, operation: Operation, read: Read) -> None:
        self._kind, self._references, self._read = operation["kind"], operation["segments"], read
        self._single = read(self._references[0]) if len(self._references) == 1 else None
        tables = [self._single] if self._single is not None else map(read, self._references)
        self.ids = join_ids([ids_of(each) for each in tables])
        self.distinct, counts = np.unique(sortable(self.ids), return_counts=True)
        if len(self.distinct) < len(self.ids) and self._kind in ("insert", "replace"):
            twice = self.distinct[counts > 1].tolist()[0]
            raise nearfield.AlreadyExists(f"id {twice!r} is twice in the upload")
        self._thread: threading.Thread | None = None  # of the upload
        self._confirmed, self._decided = threading.Event(), threading.Event()
        self._commit = False
        self._error: Exception | None = None

    def send(self, docs: nearfield.Collection) -> None:
        """Sends the rows to the server, which does not show them yet."""
        if self._thread is not None or not (len(self.ids) or self._kind == "replace"):
            return
        data = self._single if self._single is not None else _stream(self._references, self._read)
        options = {"data": data, "payloads": "payload"} if len(self.ids) else {"data": []}
        # The client has checked the rows.
        options |= {"mode": self._kind, "zero_rows": "accept", "progress": self._wait}
        self._thread = threading.Thread(target=self._upload, args=(docs, options), daemon=True)
        self._thread.start()
        self._confirmed.wait()
        if self._error is not None:
            raise self._error

    def _upload(self, docs: nearfield.Collection, options: dict[str, Any]) -> None:
        try:
            docs.upload(**options, timeout=3600)
        except Exception as error:
            self._error = error
        self._confirmed.set()

    def _wait(self, now: Progress) -> None:
        """Called after each block, and once the server has confirmed all rows; then the upload
        commits when this returns."""
        if now.rows_received < len(self.ids) or self._decided.is_set():
            return
        self._confirmed.set()
        if not self._decided.wait(DECISION_SECONDS_MAX) or not self._commit:
            raise _Abandoned

    def finish(self, commit: bool) -> None:
        """Commits or abandons what was sent."""
        self._commit = commit
        self._decided.set()
        if self._thread is not None:
            self._thread.join()
        if commit and self._error is not None:
            raise self._error


@dataclass
class Staged:
    """An operation that was checked.

    rows     of the collection once it is applied
    changed  rows that it uploads, deletes or updates
    ids      of the rows that a delete finds
    """

    name: str
    operation: Operation
    rows: int = 0
    changed: int = 0
    ids: Ids | None = None
    incoming: Incoming | None = None  # of an upload


def incoming_key(name: str, operation: Operation) -> str:
    """Returns what two tries of one upload have in common, and two uploads have not."""
    return " ".join([name, operation["kind"], *(each["name"] for each in operation["segments"])])


def staged(
    name: str,
    operation: Operation,
    docs: nearfield.Collection,
    rows: int,
    incoming: Incoming | None,
) -> Staged:
    """Checks an operation on a collection with `rows` rows, and sends its rows to the server if it
    does not have them yet. The prediction is exact, because no other operation comes in between.
    Errors: those of the operation."""
    kind = operation["kind"]
    made = Staged(name, operation)
    if kind == "drop":
        made.changed = rows
        return made
    if incoming is None:
        if kind == "update":
            check_update(docs, operation)
        made.changed = docs.count(operation["filter"]).rows_count
        made.rows = rows - made.changed * (kind == "filter")
        return made
    ids, distinct = incoming.ids, incoming.distinct
    there: list[Any] = []
    # A delete asks also without rows, so that the server refuses ids of the other type.
    if kind == "delete" or (rows and kind != "replace"):
        there = _existing(docs, distinct.tolist() if isinstance(ids, list) else distinct)
    if kind == "insert" and there:
        raise nearfield.AlreadyExists(f"id {there[0]!r} is already in the collection")
    if kind == "delete":
        made.ids = there if isinstance(ids, list) else np.array(there, np.uint64)
        made.changed, made.rows = len(there), rows - len(there)
        return made
    made.changed = len(ids)
    made.rows = len(distinct) + (0 if kind == "replace" else rows - len(there))
    incoming.send(docs)
    made.incoming = incoming
    return made


def _stream(references: list[Reference], read: Read) -> Any:
    """Returns the rows of several segments, of which one at a time is in memory."""
    if not references:
        return None
    tables = (read(each) for each in references)
    first = next(tables)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from first.to_batches()
        for table in tables:
            yield from table.to_batches()

    return pa.RecordBatchReader.from_batches(first.schema, batches())


def _pages(docs: nearfield.Collection, ids: Ids) -> Iterator[Ids]:
    """Yields as many ids at a time as one call may have."""
    step = limits_of(docs).fetch_ids_max
    return (ids[begin : begin + step] for begin in range(0, len(ids), step))


def _existing(docs: nearfield.Collection, ids: Ids) -> list[Any]:
    found = (docs.fetch(some, payload=False, vectors=False).ids for some in _pages(docs, ids))
    return [each for some in found for each in listed(some)]


def delete_rows(docs: nearfield.Collection, ids: Ids) -> None:
    for some in _pages(docs, ids):
        docs.delete(some)
