"""One replica of a shard: an actor that runs a server, and brings it to a manifest.

The server is a cache of the operations that the manifest names. An operation is first staged: the
replica checks it, sends its rows to the server, and predicts the rows afterwards, and nothing of it
is visible. It is applied once it is in the log. If that fails half way, or the server has what no
manifest has, the server ends, and is loaded again from the storage."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import ray

import nearfield
from nearfield._export import Layout
from nearfield.ray._manifest import CollectionState, Manifest, Operation, operations_after
from nearfield.ray._segment import Reference, ids_of, partition_range, put_tables, read_segment
from nearfield.ray._server import DEFAULTS, ServerProcess, Settings, listen_host, must_move
from nearfield.ray._staging import Incoming, Staged, delete_rows, incoming_key, staged
from nearfield.ray._steps import run
from nearfield.ray._store import Store
from nearfield.ray._updates import apply_update

# After one of these, the server has taken nothing of an upload.
REFUSALS = (nearfield.AlreadyExists, nearfield.InvalidArgument, nearfield.ResourceExhausted)


@dataclass
class _Held:
    """A collection of the server. id: CollectionState.id; last: id of its last operation; begun: of
    the next one, once a part of it may be there."""

    id: str
    last: str = ""
    begun: str = ""
    rows: int = 0


@contextlib.contextmanager
def _in_time() -> Iterator[None]:
    """Distinguishes a server that does not answer in time from a storage that fails:
    DeadlineExceeded is an OSError."""
    try:
        yield
    except nearfield.DeadlineExceeded as error:
        raise nearfield.Unavailable(f"the server: {error.message}") from None


class ReplicaProcess:
    """The actor. Thread safety: _lock serializes what changes the server."""

    def __init__(self, settings: Settings) -> None:
        self._store = Store(settings.storage)
        self._settings = settings
        self._lock = threading.Lock()
        self._opened = 0  # Log.opened of the latest coordinator
        self._server: Any = None  # a ServerProcess, once it was started
        self._client: nearfield.Client | None = None
        self._held: dict[str, _Held] = {}
        self._owned: tuple[int, int] = (0, 0)
        self._staged: Staged | None = None
        self._incoming: dict[str, Incoming] = {}  # uploads whose turn has not come, by incoming_key

    # The process.

    def start(self, opened: int, fresh: bool, settings: Settings | None = None) -> None:
        """Starts the server, unless one runs. fresh: ends one that runs, also one that hangs.
        settings: those of now, if they have changed since the actor was started."""
        if fresh and self._server is not None and opened >= self._opened:
            self._server.kill()
        with self._lock:
            self._fence(opened)
            self._settings = settings or self._settings
            if self._server is not None and not self._server.ended.is_set():
                return
            self._release(received=True)
            if self._client is not None:
                self._client.close()
            self._held, self._client = {}, None
            host = listen_host(self._settings.host)
            options = {**DEFAULTS, **self._settings.settings}
            self._server = ServerProcess(self._settings, host, options)

    def place(self) -> dict[str, Any]:
        """Waits until the server serves; returns where it is."""
        address = self._server.address()
        with self._lock:
            if self._client is None:
                retry = nearfield.RetryPolicy(tries_max=2, unavailable_max=0)
                self._client = nearfield.connect(address, timeout=600, retry=retry)
        pids = {"pid": os.getpid(), "server_pid": self._server.pid}
        return {"address": address, "node": self.node(), **pids}

    def node(self) -> str:
        return str(ray.get_runtime_context().get_node_id())

    def watch(self, seconds: float) -> None:
        """Waits. Errors: Unavailable if the server has ended or does not answer, which ends it."""
        server, client = self._server, self._client
        if server is None or server.ended.wait(seconds):
            raise nearfield.Unavailable("the server ended")
        if client is None or not server.serves:
            return
        try:
            client.health(timeout=self._settings.hang_timeout)
        except nearfield.Error as error:
            server.kill()
            raise nearfield.Unavailable(f"the server does not answer: {error.message}") from None
        if must_move(self._settings.host, server.address()):
            server.kill()
            raise nearfield.Unavailable("the server moves from loopback to the node's address")

    # The fence: what an old coordinator asks for is refused.

    def _fence(self, opened: int) -> None:
        if opened < self._opened:
            raise nearfield.Aborted("a later coordinator has taken over")
        if opened > self._opened:
            self._opened = opened
            self._release(received=True)

    def _release(self, received: bool = False) -> None:
        """Abandons what is staged, and what was received."""
        over = list(self._incoming.values()) if received else []
        if self._staged is not None and self._staged.incoming is not None:
            over.append(self._staged.incoming)
        self._staged, self._incoming = None, {} if received else self._incoming
        for each in over:
            each.finish(False)

    # Staging.

    def receive(self, opened: int, name: str, operation: Operation) -> None:
        """Sends the rows of an upload to the server before its turn has come, so that other commits
        go on meanwhile. stage() or discard() follows."""
        with self._lock:
            self._fence(opened)
            docs, server = self._docs(name), self._server
        incoming = Incoming(operation, self._read)
        incoming.send(docs)
        key = incoming_key(name, operation)
        over: Incoming | None = incoming
        with self._lock:
            if opened == self._opened and server is self._server:
                over = self._incoming.get(key)  # of a try before
                self._incoming[key] = incoming
        if over is not None:
            over.finish(False)

    def discard(self, opened: int, name: str, operation: Operation, _: Any = None) -> None:
        with self._lock:
            self._fence(opened)
            incoming = self._incoming.pop(incoming_key(name, operation), None)
            if incoming is not None:
                incoming.finish(False)

    def stage(
        self, opened: int, name: str, expected: tuple[str, str], operation: Operation
    ) -> dict[str, int]:
        """Does all of an operation that can fail; the server does not show it yet. expected: the id
        of the collection and of the operation before. Returns "rows", the rows afterwards, and
        "changed", those of the operation. Errors: those of the operation; Aborted; OSError."""
        with self._lock, _in_time():
            self._fence(opened)
            self._release()
            if operation["kind"] == "create":
                self._create(name, operation["id"], operation["declared"])
                self._staged = Staged(name, operation)
                return {"rows": 0, "changed": 0}
            held = self._held.get(name)
            if held is None or (held.id, held.last) != tuple(expected):
                raise nearfield.Aborted(f"{name}: this server is at another operation")
            incoming = None
            if "segments" in operation:
                incoming = self._incoming.pop(incoming_key(name, operation), None)
                incoming = incoming or Incoming(operation, self._read)
            try:
                self._staged = staged(name, operation, self._docs(name), held.rows, incoming)
            except BaseException:
                if incoming is not None:
                    incoming.finish(False)
                raise
            return {"rows": self._staged.rows, "changed": self._staged.changed}

    def _read(self, reference: Reference) -> pa.Table:
        return read_segment(self._store, reference, *self._owned)

    def abandon(self, opened: int, operation_id: str, kept: bool = False) -> None:
        """Abandons an operation that is staged. kept: its rows stay, as after receive()."""
        with self._lock:
            self._fence(opened)
            old = self._staged
            if old is None or old.operation["id"] != operation_id:
                return
            if kept and old.incoming is not None:
                self._incoming[incoming_key(old.name, old.operation)] = old.incoming
                self._staged = None
            self._release()

    # Applying.

    def apply(self, opened: int, name: str, operation_id: str) -> dict[str, int]:
        """Makes the staged operation visible; returns the state of the collection, {} if it is
        dropped. If the server refuses it as a whole, nothing has changed."""
        with self._lock:
            self._fence(opened)
            ready = self._staged
            if ready is None or (ready.name, ready.operation["id"]) != (name, operation_id):
                raise nearfield.Aborted(f"{name}: the operation is not staged")
            try:
                return self._applied(ready)
            except REFUSALS:
                if ready.incoming is None and ready.operation["kind"] != "update":
                    self._server.kill()
                raise
            except BaseException:
                self._server.kill()
                raise
            finally:
                self._release()

    def _applied(self, ready: Staged) -> dict[str, int]:
        if ready.operation["kind"] == "drop":
            self._drop(ready.name)
            return {}
        self._docs(ready.name).pin_epoch()  # searches read it until the next manifest is shown
        if ready.incoming is not None:
            ready.incoming.finish(True)
        elif ready.ids is not None:
            delete_rows(self._docs(ready.name), ready.ids)
        elif ready.operation["kind"] == "filter":
            self._docs(ready.name).delete(filter=ready.operation["filter"])
        elif ready.operation["kind"] == "update":
            apply_update(self._docs(ready.name), ready.operation)
        held = self._held[ready.name]
        if ready.operation["kind"] != "create":
            held.last = ready.operation["id"]
        state = self._state(ready.name)
        if state["rows"] != ready.rows:
            raise nearfield.Internal(f"{ready.name}: {state['rows']} rows, not {ready.rows}")
        return state

    # Loading.

    def sync(self, opened: int, encoded: bytes, shard: int, shards: int) -> dict[str, Any]:
        """Brings the server to a manifest; returns its state of each collection. Errors: OSError
        and DataLoss of the storage, which leave the server usable; any other ends the server."""
        with self._lock:
            self._fence(opened)
            self._release()
            try:
                with _in_time():
                    return self._sync(Manifest.decode(encoded), shard, shards)
            except (OSError, nearfield.DataLoss):
                raise
            except BaseException:
                self._server.kill()
                raise

    def _sync(self, manifest: Manifest, shard: int, shards: int) -> dict[str, Any]:
        self._owned = partition_range(shard, shards)
        for name, held in list(self._held.items()):
            state = manifest.collections.get(name)
            if state is None or state.id != held.id:
                self._drop(name)
        for name, state in manifest.collections.items():
            self._load(name, state)
        return {name: self._state(name) for name in manifest.collections}

    def _load(self, name: str, state: CollectionState) -> None:
        if name not in self._held:
            self._create(name, state.id, state.declared)
        held = self._held[name]
        operations = run(operations_after(state, held.last), store=self._store)
        begun = [each["id"] for each in (operations or [])[:1]]
        if operations is None or held.begun not in ("", *begun):  # compacted or withdrawn
            operations = run(operations_after(state, ""), store=self._store) or []
            self._docs(name).pin_epoch()
            self._docs(name).upload([], mode="replace")
            held.last = held.begun = ""
        elif operations:
            self._docs(name).pin_epoch()  # searches read it until the manifest is shown
        for operation in operations:
            held.begun = operation["id"]
            self._replay(name, operation)
            held.last, held.begun = operation["id"], ""

    def _replay(self, name: str, operation: Operation) -> None:
        """Applies an operation one segment at a time, which no client sees. Reads each segment
        before the server changes, so that it can be repeated after an error of the storage."""
        docs, kind = self._docs(name), operation["kind"]
        if kind == "filter":
            docs.delete(filter=operation["filter"])
            return
        if kind == "update":  # a second time it gives the same rows the same values
            apply_update(docs, operation)
            return
        if kind == "replace" and docs.count().rows_count:
            docs.upload([], mode="replace")
        for reference in operation["segments"]:
            table = self._read(reference)
            if not len(table):
                continue
            if kind == "delete":
                delete_rows(docs, ids_of(table))
            else:  # upsert, because the segment may be there from an earlier try
                docs.upload(table, payloads="payload", mode="upsert", zero_rows="accept")

    def _create(self, name: str, collection_id: str, declared: dict[str, Any]) -> None:
        assert self._client is not None
        if name in self._held:
            self._drop(name)
        self._client.create_collection(name, **declared)
        self._held[name] = _Held(collection_id)

    def _drop(self, name: str) -> None:
        assert self._client is not None
        self._client.drop_collection(name)
        del self._held[name]

    def _docs(self, name: str) -> nearfield.Collection:
        if self._client is None:
            raise nearfield.Unavailable("the server has not started")
        return self._client.collection(name)

    def _state(self, name: str) -> dict[str, int]:
        """Returns the present epoch, which the server now keeps for the clients."""
        pinned = self._docs(name).pin_epoch()
        self._held[name].rows = pinned.rows_count
        incarnation, rows = pinned.incarnation, pinned.rows_count
        return {"epoch": pinned.epoch, "incarnation": incarnation, "rows": rows}

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

        found = put_tables(self._store.put, tables())
        if rows != state["rows"]:
            raise nearfield.Internal(f"{name}: a scan returned {rows} of {state['rows']} rows")
        return found
