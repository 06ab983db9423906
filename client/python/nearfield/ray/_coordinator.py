"""The coordinator: one actor that commits to the storage and keeps the replicas."""

from __future__ import annotations

import os
import threading
import traceback
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from nearfield._errors import Aborted, AlreadyExists, Error, Internal, NotFound, Unavailable
from nearfield.ray._manifest import CollectionState, Manifest, ManifestLog
from nearfield.ray._rpc import STARTING, serve
from nearfield.ray._server import node_address
from nearfield.ray._slot import Settings, Slot, ask, end_others
from nearfield.ray._store import Store

_STORE_PAUSE_SECONDS = 0.5  # after a failure of the storage
_TOKENS_KEPT = 1000  # latest operations of a collection whose tokens are remembered


class CoordinatorProcess:
    """The actor. Thread safety: _commit serializes commits and the entry of replicas, and _changed
    guards what is shown; calls that only look do not wait for a commit."""

    METHODS: tuple[str, ...] = ("view", "status", "create", "drop", "change")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store = Store(settings.storage)
        self._commit = threading.RLock()
        self._operation = threading.Lock()
        self._changed = threading.Condition()
        self._pool = ThreadPoolExecutor(64)
        self._manifest: Manifest | None = None  # the one that is shown
        self._doubt: Manifest | None = None  # the next one, if its write failed
        self._slots: list[Slot] = []
        self._view: dict[str, Any] = {}
        self._serial = 0
        methods: dict[str, Callable[..., Any]] = {
            name: getattr(self, name) for name in self.METHODS
        }
        self._server, self._address = serve(methods, settings.host or node_address())
        threading.Thread(target=self._open, daemon=True).start()

    def address(self) -> str:
        return self._address

    def pid(self) -> int:
        return os.getpid()

    def stop(self) -> None:
        """Ends the replicas."""
        for slot in self._slots:
            slot.stop()

    def _open(self) -> None:
        """Claims the storage and starts the replicas; tries until the storage answers. Then looks
        after commits whose write failed."""
        while self._manifest is None:
            try:
                self._log = ManifestLog(self._store, self._address)
                newest = self._log.newest()
            except (OSError, Aborted):
                traceback.print_exc()
                threading.Event().wait(_STORE_PAUSE_SECONDS)
                continue
            if not newest.layout:
                newest = replace(newest, layout=1, shards=self._settings.shards)
            self._manifest = replace(newest, term=self._log.term)
        self._slots = self._new_slots(newest.layout, newest.shards, range(self._settings.replicas))
        self._show()
        end_others(self._settings.name, {slot.name for slot in self._slots})
        while True:
            threading.Event().wait(_STORE_PAUSE_SECONDS)
            if self._doubt is not None:
                self._settle_later()

    def _settle_later(self) -> None:
        """Writes a manifest whose write failed, although no client asks for it again."""
        try:
            with self._commit:
                self._settled()
        except Unavailable:
            pass  # the next turn tries again

    def _new_slots(self, layout: int, shards: int, replicas: range) -> list[Slot]:
        slots = [
            Slot(self._settings, layout, shard, shards, replica)
            for shard in range(shards)
            for replica in replicas
        ]
        for slot in slots:
            threading.Thread(target=slot.keep, args=(self._enter, self._leave), daemon=True).start()
        return slots

    def _enter(self, slot: Slot) -> bool:
        """Loads a replica; shows it if no commit came in between."""
        before = self._shown()
        slot.sync(before)  # takes long, so commits go on
        with self._commit:
            manifest = self._shown()
            slot.states = slot.sync(manifest)
            for name, state in manifest.collections.items():
                of_layout = slot.layout == manifest.layout
                if of_layout and slot.states[name]["rows"] != state.rows[slot.shard]:
                    raise Internal(f"{name}: shard {slot.shard} has another number of rows")
            slot.pending, slot.ready = None, True
            self._show()
        return True

    def _leave(self, slot: Slot) -> None:
        slot.ready = False
        self._show()

    def _shown(self) -> Manifest:
        if self._manifest is None:
            raise Unavailable(STARTING)
        return self._manifest

    # The view of the clients.

    def _show(self) -> None:
        """Makes the present manifest and replicas visible."""
        with self._changed:
            manifest = self._shown()
            shards: list[list[Any]] = [[] for _ in range(manifest.shards)]
            for slot in list(self._slots):
                if slot.ready and slot.layout == manifest.layout:
                    address = slot.place["address"]
                    shards[slot.shard].append({"address": address, "states": slot.states})
            self._serial += 1
            self._view = {
                "have": [manifest.term, self._serial],
                "number": manifest.number,
                "shards": shards,
                "collections": {
                    name: {"created": state.created, "rows": state.rows}
                    for name, state in manifest.collections.items()
                },
            }
            self._changed.notify_all()

    def view(self, have: list[int] | None = None, wait: float = 0.0) -> dict[str, Any] | None:
        """Returns what a search needs; None if the caller has it already, after up to `wait`
        seconds in which it did not change."""
        with self._changed:
            self._changed.wait_for(lambda: self._view and self._view["have"] != have, wait)
            if not self._view:
                raise Unavailable(STARTING)
            return None if self._view["have"] == have else self._view

    def status(self) -> dict[str, Any]:
        manifest = self._shown()
        return {
            "name": self._settings.name,
            "storage": self._settings.storage.partition("?")[0].rpartition("@")[2],
            "term": manifest.term,
            "pid": os.getpid(),
            "manifest": manifest.number,
            "shards": manifest.shards,
            "replicas": self._settings.replicas,
            "collections": {
                name: {"rows": sum(state.rows), "operations": len(state.log)}
                for name, state in manifest.collections.items()
            },
            "servers": [slot.report() for slot in list(self._slots)],
        }

    # Commits.

    def create(self, name: str, declared: dict[str, Any]) -> int:
        with self._commit:
            manifest = self._settled()
            if name in manifest.collections:
                if manifest.collections[name].declared == declared:
                    raise AlreadyExists(f"the collection {name!r} exists")
                raise AlreadyExists(f"the collection {name!r} exists with another declaration")
            slots = self._quorum(manifest)
            number = manifest.number + 1
            states = self._each(
                slots, lambda slot: ask(slot.actor.create.remote(name, number, declared))
            )
            state = CollectionState(number, declared, [0] * manifest.shards, [], {})
            return self._append(manifest, name, state, states)

    def drop(self, name: str) -> int:
        with self._commit:
            manifest = self._settled()
            rows = sum(self._find(manifest, name).rows)
            following = manifest.with_collection(name, None)
            slots = self._quorum(manifest)
            for slot in slots:
                slot.pending = {key: slot.states[key] for key in slot.states if key != name}
            self._write(following)
            self._each(slots, lambda slot: slot.sync(following))
            return rows

    def change(self, name: str, operation: dict[str, Any]) -> dict[str, Any]:
        """Commits an operation on all shards; returns {"number", "rows"}. The same token again
        returns what it returned."""
        with self._commit:
            manifest = self._settled()
            state = self._find(manifest, name)
            token = operation.pop("token")
            if token in state.tokens:
                return dict(zip(("number", "rows"), state.tokens[token], strict=True))
            number = manifest.number + 1
            operation = {**operation, "number": number, "id": uuid.uuid4().hex}
            changed = operation.pop("rows", 0)
            states = self._apply(manifest, name, operation)
            if "upload" not in operation:
                changed = sum(
                    next(each["rows_changed"] for slot, each in states.items() if slot.shard == at)
                    for at in range(manifest.shards)
                )
            rows = self._rows(manifest, states)
            tokens = dict([*state.tokens.items(), (token, [number, changed])][-_TOKENS_KEPT:])
            following = replace(state, rows=rows, log=[*state.log, operation], tokens=tokens)
            self._append(manifest, name, following, states)
            return {"number": number, "rows": changed}

    def _find(self, manifest: Manifest, name: str) -> CollectionState:
        if name not in manifest.collections:
            raise NotFound(f"collection: there is no {name!r}")
        return manifest.collections[name]

    def _quorum(self, manifest: Manifest) -> list[Slot]:
        """Returns the ready replicas. Raises Unavailable if a shard has none."""
        slots = [each for each in self._slots if each.ready and each.layout == manifest.layout]
        missing = set(range(manifest.shards)) - {slot.shard for slot in slots}
        if missing:
            raise Unavailable(f"shard {min(missing)} of {manifest.shards} has no server")
        return slots

    def _each(self, slots: list[Slot], call: Callable[[Slot], Any]) -> dict[Slot, Any]:
        """Calls all replicas. One that has ended is hidden and left out; any other error, of the
        first replica that has one, is raised after all have answered."""
        found: dict[Slot, Any] = {}
        failed: Exception | None = None
        for slot, future in [(slot, self._pool.submit(call, slot)) for slot in slots]:
            try:
                found[slot] = future.result()
            except Unavailable:
                self._leave(slot)
            except Exception as error:
                failed = failed or error
        if failed is not None:
            raise failed if isinstance(failed, Error) else Unavailable(f"storage: {failed}")
        return found

    def _apply(
        self, manifest: Manifest, name: str, operation: dict[str, Any]
    ) -> dict[Slot, dict[str, Any]]:
        """Lets every replica stage the operation, and then commit it. If a shard has none left, the
        others load their rows again, so that no manifest ever has what a shard refused."""
        slots = self._quorum(manifest)
        try:
            self._each(
                slots,
                lambda slot: ask(slot.actor.stage.remote(name, operation)),
            )
            slots = self._quorum(manifest)
        except Error:
            for slot in slots:
                slot.actor.finish.remote(name, operation, False)
            raise
        states: dict[Slot, dict[str, Any]] = {}
        try:
            states = self._each(
                slots, lambda slot: ask(slot.actor.finish.remote(name, operation, True))
            )
            self._quorum(manifest)
        except Error:
            for slot in slots:
                slot.restart()
            raise
        return states

    def _rows(self, manifest: Manifest, states: dict[Slot, dict[str, Any]]) -> list[int]:
        """Returns the rows of each shard, in which its replicas agree."""
        rows = [-1] * manifest.shards
        for slot, state in states.items():
            if rows[slot.shard] not in (-1, state["rows"]):
                for each in states:
                    each.restart()
                raise Internal(f"the replicas of shard {slot.shard} differ in their rows")
            rows[slot.shard] = state["rows"]
        return rows

    def _append(
        self,
        manifest: Manifest,
        name: str,
        state: CollectionState,
        states: dict[Slot, dict[str, Any]],
    ) -> int:
        for slot, each in states.items():
            slot.pending = {**slot.states, name: each}
        return self._write(manifest.with_collection(name, state))

    def _write(self, manifest: Manifest) -> int:
        self._doubt = manifest
        self._settled()
        return manifest.number

    def _settled(self) -> Manifest:
        """Writes the manifest whose write failed, if there is one, and shows it. Until then the
        servers have a commit that no client sees."""
        manifest = self._shown()
        if self._doubt is None:
            return manifest
        try:
            self._log.append(self._doubt)
        except Aborted:
            os._exit(1)  # another coordinator has the storage
        except OSError as error:
            raise Unavailable(
                f"storage: {error}; the commit may take effect: repeat it with the same token"
            ) from None
        shown = self._manifest = self._doubt
        self._doubt = None
        for slot in [slot for slot in self._slots if slot.ready and slot.layout == shown.layout]:
            if slot.pending is None:  # it came back in between, without the commit
                slot.pending = self._each([slot], lambda slot: slot.sync(shown)).get(slot, {})
            slot.states, slot.pending = slot.pending, None
        self._show()
        try:
            self._log.forget_old()
        except OSError:
            traceback.print_exc()
        return shown
