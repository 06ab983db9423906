"""One replica of a shard: an actor that runs a server, and brings it to a manifest."""

from __future__ import annotations

import functools
import os
import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pyarrow as pa
import ray

import nearfield
from nearfield._export import Layout
from nearfield._upload_progress import Progress
from nearfield.ray._manifest import CollectionState, Manifest
from nearfield.ray._segment import encode_segment, ids_of, read_segment
from nearfield.ray._server import ServerProcess, node_address
from nearfield.ray._shards import partition_range
from nearfield.ray._store import Store

T = TypeVar("T")
# A staged upload waits for this long; its coordinator may be gone.
DECISION_SECONDS_MAX = 300.0
# Settings of the server, unless the user gives others.
_DEFAULTS = {
    "upload_idle_ms": 2 * 1000 * int(DECISION_SECONDS_MAX),
    "cursor_ms": 600_000,  # a search may read the manifest before the last for this long
    "log_sample": 0,
}


class Orphaned(Exception):
    """The server has a commit that is in no manifest, so its rows must be loaded again."""


def as_value(method: Callable[..., T]) -> Callable[..., T | Exception]:
    """Returns exceptions, because Ray would raise them with another type."""

    @functools.wraps(method)
    def call(*args: Any) -> T | Exception:
        try:
            return method(*args)
        except (nearfield.Error, OSError, TypeError, ValueError, Orphaned) as error:
            return error

    return call


class _Abandoned(Exception):
    pass


class _Staged:
    """An upload whose rows the server has, and which waits for the decision to commit it."""

    def __init__(self, docs: nearfield.Collection, table: pa.Table, mode: str) -> None:
        self._rows = table.num_rows
        self._sent = threading.Event()
        self._decided = threading.Event()
        self._commit = False
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(docs, table, mode), daemon=True)
        self._thread.start()
        self._sent.wait()
        if self.error is not None:
            raise self.error

    def _run(self, docs: nearfield.Collection, table: pa.Table, mode: Any) -> None:
        try:
            rows: dict[str, Any] = {"data": table, "payloads": "payload"}
            if not self._rows:
                rows = {"data": []}
            docs.upload(**rows, mode=mode, progress=self._hold, timeout=3600)
        except Exception as error:
            self.error = error
        self._sent.set()

    def _hold(self, now: Progress) -> None:
        if now.rows_sent < self._rows:
            return
        self._sent.set()
        if not self._decided.wait(DECISION_SECONDS_MAX) or not self._commit:
            raise _Abandoned

    def finish(self, commit: bool) -> None:
        self._commit = commit
        self._decided.set()
        self._thread.join()
        if commit and self.error is not None:
            raise self.error


class ReplicaProcess:
    """The actor. The server's end is its end, and Ray then starts both again."""

    def __init__(self, storage: str, program: str, host: str, settings: Mapping[str, Any]) -> None:
        self._store = Store(storage)
        self._start: Callable[[], ServerProcess] = lambda: ServerProcess(
            program, host or node_address(), {**_DEFAULTS, **settings}, lambda code: os._exit(1)
        )
        self._lock = threading.Lock()
        self._server: ServerProcess | None = None
        self._client: nearfield.Client | None = None
        # By collection: when it was created, and number and id of the last operation.
        self._applied: dict[str, tuple[int, int, str]] = {}
        self._owned: tuple[int, int] | None = None
        self._staged: dict[str, _Staged | None] = {}

    def pids(self) -> tuple[int, int]:
        """Returns the process ids of the actor and of its server."""
        return os.getpid(), self._server.pid if self._server else 0

    def watch(self, seconds: float) -> None:
        """Waits; the call fails when the actor ends."""
        threading.Event().wait(seconds)

    def end(self) -> None:
        os._exit(1)

    @as_value
    def start(self) -> dict[str, Any]:
        """Starts the server, unless it runs; returns its address."""
        with self._lock:
            if self._server is None:
                self._server = self._start()
                address = self._server.address()
                retry = nearfield.RetryPolicy(tries_max=2)
                self._client = nearfield.connect(address, timeout=600, retry=retry)
        actor, server = self.pids()
        context: Any = ray.get_runtime_context()
        node = context.get_node_id()
        return {"address": self._server.address(), "pid": actor, "server_pid": server, "node": node}

    @as_value
    def sync(self, encoded: bytes, shard: int, shards: int) -> dict[str, Any]:
        """Brings the server to a manifest; returns its state of each collection."""
        with self._lock:
            manifest = Manifest.decode(encoded)
            owned = partition_range(shard, shards)
            if self._owned not in (None, owned):
                raise Orphaned(f"it has the partitions {self._owned}")
            self._owned = owned
            for name in [name for name in self._applied if name not in manifest.collections]:
                self._drop(name)
            for name, state in manifest.collections.items():
                if self._applied.get(name, (state.created,))[0] != state.created:
                    self._drop(name)
                self._sync(name, state, owned)
            return {name: self._state(name) for name in manifest.collections}

    def _drop(self, name: str) -> None:
        assert self._client is not None
        self._client.drop_collection(name)
        del self._applied[name]

    def _sync(self, name: str, state: CollectionState, owned: tuple[int, int]) -> None:
        if name not in self._applied:
            self._create(name, state.created, state.declared)
        _, last, last_id = self._applied[name]
        known = [each["id"] for each in state.log if each["number"] <= last]
        if last and known and known[-1] != last_id:
            raise Orphaned(name)
        for operation in state.log:
            if operation["number"] > last:
                self._stage(name, operation, owned)
                self._finish(name, operation, True)

    def _create(self, name: str, created: int, declared: dict[str, Any]) -> None:
        assert self._client is not None
        if name in self._applied:  # of a commit that failed elsewhere
            self._drop(name)
        self._client.create_collection(name, **declared)
        self._applied[name] = (created, 0, "")

    def _docs(self, name: str) -> nearfield.Collection:
        assert self._client is not None
        return self._client.collection(name)

    def _state(self, name: str) -> dict[str, Any]:
        pinned = self._docs(name).pin_epoch()
        return {
            "epoch": pinned.epoch,
            "incarnation": pinned.incarnation,
            "rows": pinned.rows_count,
        }

    @as_value
    def create(self, name: str, created: int, declared: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self._create(name, created, declared)
            return self._state(name)

    @as_value
    def stage(self, name: str, operation: dict[str, Any]) -> None:
        """Does all of an operation that can fail; the server does not show it yet."""
        with self._lock:
            assert self._owned is not None
            self._docs(name).pin_epoch()  # searches read it until the manifest is written
            self._stage(name, operation, self._owned)

    @as_value
    def finish(self, name: str, operation: dict[str, Any], commit: bool) -> dict[str, Any]:
        """Commits an operation that was staged, or abandons it; returns the state."""
        with self._lock:
            rows = self._finish(name, operation, commit)
            return {**self._state(name), "rows_changed": rows}

    def _stage(self, name: str, operation: dict[str, Any], owned: tuple[int, int]) -> None:
        docs = self._docs(name)
        if "filter" in operation:
            docs.count(operation["filter"])
        if "upload" not in operation:
            return
        table = self._read(operation["segments"], owned)
        mode = operation["upload"]
        if mode == "insert" and table.num_rows:
            self._check_new(docs, table)
        staged = _Staged(docs, table, mode) if table.num_rows or mode == "replace" else None
        self._staged[operation["id"]] = staged

    def _read(self, names: list[str], owned: tuple[int, int]) -> pa.Table:
        tables = []
        for name in names:
            with self._store.open(name) as file:
                tables.append(read_segment(file, *owned))
        return pa.concat_tables([each for each in tables if each.num_rows] or tables[:1])

    def _check_new(self, docs: nearfield.Collection, table: pa.Table) -> None:
        assert self._client is not None
        ids, step = ids_of(table), self._client.limits().fetch_ids_max
        for begin in range(0, len(ids), step):
            there = docs.fetch(ids[begin : begin + step], payload=False, vectors=False).ids
            if len(there):
                first = there[0] if isinstance(there, list) else int(there[0])
                raise nearfield.AlreadyExists(f"id {first!r} is already in the collection")

    def _finish(self, name: str, operation: dict[str, Any], commit: bool) -> int:
        docs, rows = self._docs(name), 0
        if "upload" in operation:
            staged = self._staged.pop(operation["id"], None)
            if staged is not None:
                staged.finish(commit)
        elif commit and "ids" in operation:
            step = self._client.limits().fetch_ids_max if self._client else 1
            ids = operation["ids"]
            for begin in range(0, len(ids), step):
                rows += docs.delete(ids[begin : begin + step]).rows_deleted
        elif commit:
            rows = docs.delete(filter=operation["filter"]).rows_deleted
        if commit:
            created = self._applied[name][0]
            self._applied[name] = (created, operation["number"], operation["id"])
        return rows

    @as_value
    def export(self, name: str, state: dict[str, Any]) -> list[str]:
        """Writes all rows of a state as segments; returns their names."""
        docs, names, tables, rows = self._docs(name), [], [], 0
        info = docs.info()
        pages = docs.scan(at_epoch=state["epoch"], incarnation=state["incarnation"])
        schema = Layout(info, vectors=True, payload=True, attributes=info.attributes).schema()
        for page in pages:
            if len(page):
                tables.append(page.to_arrow().cast(schema))
                rows += len(page)
        if rows != state["rows"]:
            raise nearfield.Internal(f"{name}: a scan returned {rows} of {state['rows']} rows")
        for table in tables or [schema.empty_table()]:
            names.append(f"segments/{uuid.uuid4().hex}.arrow")
            self._store.put(names[-1], encode_segment(table))
        return names
