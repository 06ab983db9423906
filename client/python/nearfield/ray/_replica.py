"""One replica of a shard: an actor that runs a server, and brings it to a manifest.

The server is a cache of the operations that the manifest names. An operation is first staged: the
replica checks it, sends its rows to the server, and predicts the rows afterwards, and nothing of it
is visible. It is applied once it is in the log. If that fails half way, or the server has what no
manifest has, the server ends, and is loaded again from the storage."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import ray

import nearfield
from nearfield._export import Layout
from nearfield._upload_progress import Progress
from nearfield._values import Ids
from nearfield.ray._manifest import CollectionState, Manifest, Operation, operations_after
from nearfield.ray._segment import Reference, ids_of, put_tables, read_segment
from nearfield.ray._server import ServerProcess, listen_host, must_move
from nearfield.ray._shards import partition_range
from nearfield.ray._store import Store

T = TypeVar("T")
_DECISION_SECONDS_MAX = 150.0  # for which a staged upload waits for the manifest
# Settings of the server, unless the user gives others. Applied operations keep the epoch before
# them, because the clients read it until they know the next manifest. Epochs are kept for a short
# time and in a small number, because each may hold the rows of a whole replaced collection.
_DEFAULTS = {
    "upload_idle_ms": 2 * 1000 * int(_DECISION_SECONDS_MAX),
    "cursor_ms": 20_000,
    "epochs_kept_max": 64,
    "epochs_kept_percent": 50,
    "log_sample": 0,
}
# Of an upload: the server has taken nothing of it.
REFUSALS = (nearfield.AlreadyExists, nearfield.InvalidArgument, nearfield.ResourceExhausted)


class _Abandoned(Exception):
    pass


class _Upload:
    """An upload that the server has confirmed up to its last row, and that waits for the decision
    to commit it."""

    def __init__(self, docs: nearfield.Collection, rows: int, data: Any, mode: Any) -> None:
        self._rows = rows
        self._confirmed = threading.Event()
        self._decided = threading.Event()
        self._commit = False
        self._error: Exception | None = None
        options: dict[str, Any] = {"data": data, "payloads": "payload"} if rows else {"data": []}
        options.update(mode=mode, progress=self._hold, timeout=3600)
        self._thread = threading.Thread(target=self._run, args=(docs, options), daemon=True)
        self._thread.start()
        self._confirmed.wait()
        if self._error is not None:
            raise self._error

    def _run(self, docs: nearfield.Collection, options: dict[str, Any]) -> None:
        try:
            docs.upload(**options)
        except Exception as error:
            self._error = error
        self._confirmed.set()

    def _hold(self, now: Progress) -> None:
        if now.rows_received < self._rows or self._decided.is_set():
            return
        self._confirmed.set()
        if not self._decided.wait(_DECISION_SECONDS_MAX) or not self._commit:
            raise _Abandoned

    def finish(self, commit: bool) -> None:
        self._commit = commit
        self._decided.set()
        self._thread.join()
        if commit and self._error is not None:
            raise self._error


@dataclass
class _Staged:
    """An operation that was checked. rows: of the collection once it is applied."""

    name: str
    operation: Operation
    rows: int = 0
    ids: Ids | None = None
    upload: _Upload | None = None


@dataclass
class _Held:
    """A collection of the server. id: CollectionState.id; last: id of its last operation."""

    id: str
    last: str = ""
    rows: int = 0


def as_value(method: Callable[..., T]) -> Callable[..., T | Exception]:
    """Returns exceptions, because Ray would raise them with another type."""

    @functools.wraps(method)
    def call(*args: Any) -> T | Exception:
        try:
            return method(*args)
        except Exception as error:
            return error

    return call


class ReplicaProcess:
    """The actor. Thread safety: _lock serializes what changes the server."""

    def __init__(
        self, storage: str, program: str, host: str, settings: Mapping[str, Any], hang: float
    ) -> None:
        self._store = Store(storage)
        self._program, self._host, self._hang = program, host, hang
        self._settings = {**_DEFAULTS, **settings}
        self._lock = threading.Lock()
        self._term = 0
        self._server: ServerProcess | None = None
        self._client: nearfield.Client | None = None
        self._held: dict[str, _Held] = {}
        self._owned: tuple[int, int] = (0, 0)
        self._staged: _Staged | None = None

    # The process.

    @as_value
    def start(self, fresh: bool) -> None:
        """Starts the server, unless one runs. fresh: ends one that runs."""
        if fresh and self._server is not None:
            self._server.kill()
        with self._lock:
            if self._server is not None and not self._server.ended.is_set():
                return
            self._release()
            self._held, self._client = {}, None
            self._server = ServerProcess(self._program, listen_host(self._host), self._settings)

    @as_value
    def place(self) -> dict[str, Any]:
        """Waits until the server serves; returns where it is."""
        assert self._server is not None
        address = self._server.address()
        with self._lock:
            if self._client is None:
                retry = nearfield.RetryPolicy(tries_max=2)
                self._client = nearfield.connect(address, timeout=600, retry=retry)
        context: Any = ray.get_runtime_context()
        pids = {"pid": os.getpid(), "server_pid": self._server.pid}
        return {"address": address, "node": context.get_node_id(), **pids}

    @as_value
    def watch(self, seconds: float) -> None:
        """Waits. Errors: Unavailable if the server has ended or does not answer, which ends it."""
        server, client = self._server, self._client
        if server is None or server.ended.wait(seconds):
            raise nearfield.Unavailable("the server ended")
        if client is None or not server.serves:
            return
        try:
            client.health(timeout=self._hang)
        except nearfield.Error as error:
            server.kill()
            raise nearfield.Unavailable(f"the server does not answer: {error.message}") from None
        if must_move(self._host, server.address()):
            server.kill()
            raise nearfield.Unavailable("the server moves from loopback to the node's address")

    # The fence: what an old coordinator asks for is refused.

    def _fence(self, term: int) -> None:
        if term < self._term:
            raise nearfield.Aborted(f"a coordinator with the term {self._term} has taken over")
        if term > self._term:
            self._term = term
            self._release()

    def _release(self) -> None:
        """Abandons what is staged."""
        staged, self._staged = self._staged, None
        if staged is not None and staged.upload is not None:
            staged.upload.finish(False)

    def _broken(self) -> None:
        assert self._server is not None
        self._server.kill()

    # Staging.

    @as_value
    def stage(
        self, term: int, name: str, of: tuple[str, str], operation: Operation
    ) -> dict[str, int]:
        """Does all of an operation that can fail; the server does not show it yet. of: the id of
        the collection and of the operation before. Returns "rows", the rows afterwards, and
        "changed", those of the operation. Errors: those of the operation; Aborted; OSError."""
        with self._lock:
            self._fence(term)
            self._release()
            staged = _Staged(name, operation)
            if operation["kind"] == "create":
                self._create(name, operation["id"], operation["declared"])
                self._staged = staged
                return {"rows": 0, "changed": 0}
            held = self._held.get(name)
            if held is None or (held.id, held.last) != tuple(of):
                raise nearfield.Aborted(f"{name}: this server is at another operation")
            changed = self._check(self._docs(name), held.rows, staged)
            self._staged = staged
            return {"rows": staged.rows, "changed": changed}

    def _check(self, docs: nearfield.Collection, before: int, staged: _Staged) -> int:
        """Fills in what is staged; returns the number of the rows that it changes."""
        kind = staged.operation["kind"]
        if kind == "drop":
            return before
        if kind == "filter":
            found = docs.count(staged.operation["filter"]).rows_count
            staged.rows = before - found
            return found
        references = staged.operation["segments"]
        parts = [ids_of(read_segment(self._store, each, *self._owned)) for each in references]
        ids = _joined(parts)
        single = np.unique(np.array(ids, object) if isinstance(ids, list) else ids)
        if len(single) < len(ids) and kind in ("insert", "replace"):
            raise nearfield.AlreadyExists(f"id {_first_twice(ids)!r} is twice in the upload")
        there = []
        if before and kind != "replace":
            there = self._existing(docs, single.tolist() if isinstance(ids, list) else single)
        if kind == "insert" and there:
            raise nearfield.AlreadyExists(f"id {there[0]!r} is already in the collection")
        if kind == "delete":
            staged.ids, staged.rows = _ids_like(there, ids), before - len(there)
            return len(there)
        staged.rows = len(single) + (0 if kind == "replace" else before - len(there))
        if len(ids) or kind == "replace":
            staged.upload = _Upload(docs, len(ids), self._rows_of(references), kind)
        return len(ids)

    def _rows_of(self, references: list[Reference]) -> Any:
        """Returns the rows of the segments; of several as a stream, so that one is in memory."""
        if len(references) == 1:
            return read_segment(self._store, references[0], *self._owned)
        tables = (read_segment(self._store, each, *self._owned) for each in references)
        first = next(tables, None)
        if first is None:
            return None

        def batches() -> Iterator[pa.RecordBatch]:
            yield from first.to_batches()
            for table in tables:
                yield from table.to_batches()

        return pa.RecordBatchReader.from_batches(first.schema, batches())

    def _existing(self, docs: nearfield.Collection, ids: Ids) -> list[Any]:
        found: list[Any] = []
        for some in self._pages(ids):
            there = docs.fetch(some, payload=False, vectors=False).ids
            found += there if isinstance(there, list) else there.tolist()
        return found

    def _pages(self, ids: Ids) -> Iterator[Ids]:
        assert self._client is not None
        step = self._client.limits().fetch_ids_max
        return (ids[begin : begin + step] for begin in range(0, len(ids), step))

    @as_value
    def abandon(self, term: int) -> None:
        with self._lock:
            self._fence(term)
            self._release()

    # Applying.

    @as_value
    def apply(self, term: int, name: str, operation_id: str) -> dict[str, int]:
        """Makes the staged operation visible; returns the state of the collection, {} if it is
        dropped. If the server refuses it as a whole, nothing has changed."""
        with self._lock:
            self._fence(term)
            staged, self._staged = self._staged, None
            if staged is None or (staged.name, staged.operation["id"]) != (name, operation_id):
                raise nearfield.Aborted(f"{name}: the operation is not staged")
            if staged.operation["kind"] == "drop":
                self._drop(name)
                return {}
            try:
                return self._applied(staged)
            except REFUSALS:
                if staged.upload is None:
                    self._broken()
                raise
            except BaseException:
                self._broken()
                raise

    def _applied(self, staged: _Staged) -> dict[str, int]:
        if staged.upload is not None:
            staged.upload.finish(True)
        elif staged.ids is not None:
            self._delete(staged.name, staged.ids)
        elif staged.operation["kind"] == "filter":
            self._docs(staged.name).delete(filter=staged.operation["filter"])
        held = self._held[staged.name]
        if staged.operation["kind"] != "create":
            held.last = staged.operation["id"]
        state = self._state(staged.name)
        if state["rows"] != staged.rows:
            raise nearfield.Internal(f"{staged.name}: {state['rows']} rows, not {staged.rows}")
        return state

    def _delete(self, name: str, ids: Ids) -> None:
        for some in self._pages(ids):
            self._docs(name).delete(some)

    # Loading.

    @as_value
    def sync(self, term: int, encoded: bytes, shard: int, shards: int) -> dict[str, Any]:
        """Brings the server to a manifest; returns its state of each collection. Errors: OSError
        and DataLoss of the storage, with the server as far as it got; any other ends the server."""
        with self._lock:
            self._fence(term)
            self._release()
            try:
                self._owned = partition_range(shard, shards)
                manifest = Manifest.decode(encoded)
                for name, held in list(self._held.items()):
                    state = manifest.collections.get(name)
                    if state is None or state.id != held.id:
                        self._drop(name)
                for name, state in manifest.collections.items():
                    self._load(name, state)
                return {name: self._state(name) for name in manifest.collections}
            except (OSError, nearfield.DataLoss):
                raise
            except BaseException:
                self._broken()
                raise

    def _load(self, name: str, state: CollectionState) -> None:
        if name not in self._held:
            self._create(name, state.id, state.declared)
        held = self._held[name]
        operations = operations_after(self._store, state, held.last)
        if operations is None:
            raise nearfield.Internal(f"{name}: the server has an operation that is in no manifest")
        for operation in operations:
            self._replay(name, operation)
            held.last = operation["id"]

    def _replay(self, name: str, operation: Operation) -> None:
        """Applies an operation one segment at a time, which no client sees. Reads each segment
        before the server changes, so that it can be repeated after an error of the storage."""
        docs, kind = self._docs(name), operation["kind"]
        if kind == "filter":
            docs.delete(filter=operation["filter"])
            return
        if kind == "replace" and docs.count().rows_count:
            docs.upload([], mode="replace")
        for reference in operation["segments"]:
            table = read_segment(self._store, reference, *self._owned)
            if not len(table):
                continue
            if kind == "delete":
                self._delete(name, ids_of(table))
            else:  # upsert, because the segment may be there from an earlier try
                docs.upload(table, payloads="payload", mode="upsert")

    def _create(self, name: str, of: str, declared: dict[str, Any]) -> None:
        assert self._client is not None
        if name in self._held:
            self._drop(name)
        self._client.create_collection(name, **declared)
        self._held[name] = _Held(of)

    def _drop(self, name: str) -> None:
        assert self._client is not None
        self._client.drop_collection(name)
        del self._held[name]

    def _docs(self, name: str) -> nearfield.Collection:
        if self._client is None:
            raise nearfield.Unavailable("the server has not started")
        return self._client.collection(name)

    def _state(self, name: str) -> dict[str, int]:
        """Returns the present epoch, which the server keeps for the clients from now on."""
        pinned = self._docs(name).pin_epoch()
        self._held[name].rows = pinned.rows_count
        return {
            "epoch": pinned.epoch,
            "incarnation": pinned.incarnation,
            "rows": pinned.rows_count,
        }

    @as_value
    def export(self, name: str, state: dict[str, int]) -> list[Reference]:
        """Writes all rows of a state as segments; returns their references."""
        docs = self._docs(name)
        info = docs.info()
        schema = Layout(info, vectors=True, payload=True, attributes=info.attributes).schema()
        rows = 0

        def tables() -> Iterator[pa.Table]:
            nonlocal rows
            for page in docs.scan(at_epoch=state["epoch"], incarnation=state["incarnation"]):
                if len(page):
                    rows += len(page)
                    yield page.to_arrow().cast(schema)

        found = put_tables(self._store, tables())
        if rows != state["rows"]:
            raise nearfield.Internal(f"{name}: a scan returned {rows} of {state['rows']} rows")
        return found


def _joined(parts: list[Ids]) -> Ids:
    if parts and isinstance(parts[0], list):
        return [each for part in parts for each in part]
    return np.concatenate([np.zeros(0, np.uint64), *parts])


def _ids_like(found: list[Any], ids: Ids) -> Ids:
    return found if isinstance(ids, list) else np.array(found, np.uint64)


def _first_twice(ids: Ids) -> Any:
    seen: set[Any] = set()
    for each in ids if isinstance(ids, list) else ids.tolist():
        if each in seen:
            return each
        seen.add(each)
    raise AssertionError
