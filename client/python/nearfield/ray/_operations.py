"""The operations of a running cluster: another number of shards, a restart, a compaction. And what
the coordinator does unasked: it compacts, and deletes files that no manifest names."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import ray
from ray.experimental import internal_kv

from nearfield._errors import (
    Aborted,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    NotFound,
    Unavailable,
)
from nearfield.ray._coordinator import CoordinatorProcess
from nearfield.ray._manifest import (
    CollectionState,
    Manifest,
    files_of,
    operations_after,
)
from nearfield.ray._replica import as_value
from nearfield.ray._segment import Reference
from nearfield.ray._server import Settings
from nearfield.ray._shards import PARTITIONS
from nearfield.ray._slot import NAMESPACE, Slot
from nearfield.ray._tokens import folded

_MAINTAIN_SECONDS = 10.0  # between two looks whether a collection is to be compacted
_CLEAN_SECONDS = 3600.0  # between two looks for files that no manifest names
_PAUSE_SECONDS_MAX = 3600.0  # of the maintenance, after errors
_WAIT_SECONDS_MAX = 30.0  # for the operation before
_ROWS_PER_COMMIT = 1000  # rows that a compaction may write, for each commit before it
_UPLOAD_SECONDS_MAX = 7 * 24 * 3600.0  # from the first file of an upload to its commit
_CHECK_SECONDS_MAX = 30.0  # of the settings, by a server's program
_DELETES_MAX = 100  # files, while commits wait


class Coordinator(CoordinatorProcess):
    """The actor with its operations, of which one runs at a time."""

    METHODS: tuple[str, ...] = (
        *CoordinatorProcess.METHODS,
        "ready",
        "waiting",
        "resize",
        "restart",
        "compact",
        "withdraw",
    )

    def __init__(self, settings: Settings) -> None:
        self._operation = threading.Lock()
        # Ray starts the actor with its first arguments again: what has changed is in Ray's store
        # of keys, which lives as long as these arguments.
        changed = internal_kv._internal_kv_get(settings.cluster, namespace=NAMESPACE)
        if changed:
            settings = replace(settings, settings=json.loads(changed))
        super().__init__(settings)
        threading.Thread(target=self._maintain_always, daemon=True).start()

    def _open(self) -> None:
        if not self._address:  # or none of its ports was free
            self._server, self._address = self._listen()
        super()._open()

    @contextlib.contextmanager
    def _operating(self) -> Iterator[None]:
        if not self._operation.acquire(timeout=_WAIT_SECONDS_MAX):
            raise Unavailable("another resize, restart or compaction runs")
        try:
            yield
        finally:
            self._operation.release()

    def _wait_ready(self, some: list[Slot] | None, seconds: float) -> None:
        """Waits for some replicas. None: for all, even if they change meanwhile."""

        def ready() -> bool:
            slots = self._slots if some is None else some
            return bool(self._slots) and all(slot.ready for slot in slots)

        with self._changed:
            done = self._changed.wait_for(ready, seconds)
        if not done:
            raise Unavailable(f"not ready after {seconds:g} s: {self.waiting(some)}")

    def waiting(self, some: list[Slot] | None = None) -> str:
        """Returns the replicas that are not ready, and why; "" if all are."""
        slots = list(self._slots) if some is None else some
        if not slots:
            return self._error or "the storage"
        names: dict[str, list[str]] = {}
        for slot, error in self._errors(slots):
            if not slot.ready:
                names.setdefault(error or "its server loads", []).append(slot.name)
        return "; ".join(f"{', '.join(some)}: {why}" for why, some in names.items())

    def ready(self, seconds: float) -> None:
        """Waits until all replicas hold the newest manifest."""
        self._wait_ready(None, seconds)

    wait_ready = as_value(ready)  # for Ray

    def resize(self, shards: int, seconds: float = 600.0) -> int:
        """Loads the rows into another number of shards, next to the present ones, then changes over
        in one manifest."""
        if not 1 <= shards <= PARTITIONS:
            raise InvalidArgument(f"shards: {shards}, must be 1 .. {PARTITIONS}")
        with self._operating():
            self._replace_servers(shards, seconds)
        return shards

    def _replace_servers(self, shards: int, seconds: float) -> None:
        with self._operating_layout() as (before, layout):
            slots = self._new_slots(layout, shards)
            self._start(slots)
            self._wait_ready(slots, seconds)
            for slot in slots:  # what was committed in between, while commits go on
                slot.ask(slot.sync(self._newest()))
            self._commit_next(partial(self._laid_out, before, layout, shards, slots))

    @contextlib.contextmanager
    def _operating_layout(self) -> Iterator[tuple[int, int]]:
        """Yields the layout of now, and the number of a new manifest: a layout that no other
        coordinator has. At the end, the servers of the one that does not count end."""
        before, after = self._commit_next(lambda manifest: manifest)
        self._resizing = after.number
        try:
            yield before.layout, after.number
        finally:
            self._resizing = 0
            with self._commit:
                self._stop_over()

    def _laid_out(
        self, before: int, layout: int, shards: int, slots: list[Slot], manifest: Manifest
    ) -> Manifest:
        """Returns the next manifest, with the rows that the new shards have."""
        if manifest.layout != before:
            raise Aborted("another coordinator has changed the shards")
        ready = {slot.shard: slot for slot in slots if slot.ready}
        if len(ready) != shards:
            raise Unavailable("a new shard has no server")
        states = {shard: slot.ask(slot.sync(manifest), 60.0) for shard, slot in ready.items()}
        collections = {}
        for name, state in manifest.collections.items():
            rows = [states[shard][name]["rows"] for shard in range(shards)]
            if sum(rows) != sum(state.rows):
                raise Internal(f"{name}: the new shards have {sum(rows)} of {sum(state.rows)} rows")
            collections[name] = replace(state, rows=rows, before=[])
        return replace(manifest, layout=layout, shards=shards, collections=collections)

    def restart(self, seconds: float = 600.0, settings: Mapping[str, Any] | None = None) -> int:
        """Starts all servers again, one after the other, with changed settings if there are some;
        returns their number. With one replica of each shard, starts others and changes over to
        them. After an error the settings are those before. Errors: InvalidArgument, and then no
        server has ended."""
        with self._operating():
            with self._committing():
                slots = list(self._slots)
            before, after = self._settings, self._settings.changed(settings or {})
            for slot in [each for each in slots if settings and each.ready]:
                slot.ask(slot.actor.check.remote(after), _CHECK_SECONDS_MAX)
            self._settings, restarted = after, []
            try:
                if after.replicas == 1:
                    self._replace_servers(self._newest().shards, seconds)
                else:
                    for slot in [each for each in slots if not each.ready]:
                        slot.use(after)  # the settings before may be why
                    self._wait_ready(slots, seconds)
                    for slot in slots:
                        restarted.append(slot)
                        self._start_again(slot, after, seconds)
                if settings:
                    value = json.dumps(after.settings, default=str)
                    internal_kv._internal_kv_put(after.cluster, value, namespace=NAMESPACE)
            except Exception:
                self._settings = before
                for slot in slots:
                    slot.use(before)
                for slot in reversed(restarted if settings else []):
                    with contextlib.suppress(Unavailable):
                        self._start_again(slot, before, seconds)
                raise
            return len(slots)

    def withdraw(self, name: str) -> None:
        """Withdraws the last operation of a collection, which all servers of a shard refuse to
        load."""
        with self._operating(), self._committing():
            manifest = self._follow_others()
            self._state_of(manifest, name)
            if all(self._holders(manifest)):
                raise FailedPrecondition(f"{name!r}: all shards have servers with its rows")
            self._perform(self._log.withdraw(name))
            self.load()

    def _start_again(self, slot: Slot, settings: Settings, seconds: float) -> None:
        """Starts a server again, once its shard has all the others."""
        others = [each for each in self._slots if each is not slot]
        self._wait_ready([each for each in others if each.shard == slot.shard], seconds)
        slot.use(settings)
        slot.fail("it is started again")
        self.leave(slot)
        self._wait_ready([slot], seconds)

    def status(self) -> dict[str, Any]:
        settings = {name: str(value) for name, value in self._settings.settings.items()}
        return {**super().status(), "settings": settings}

    def compact(self, name: str) -> int:
        """Writes the present rows as segments, which replace the operations before; returns the
        number of the operations that are gone."""
        with self._operating():
            with self._committing() as manifest:
                state = self._state_of(manifest, name)
                holders = [some[0] for some in self._quorum(manifest)]
            if not state.last:
                return 0
            segments = self._export(name, holders)
            try:
                made = partial(self._compacted, name, state, segments)
                before, after = self._commit_next(made)
            except Exception:
                if self._log.pending is None:  # else its manifest may be there
                    self._delete(segments)
                raise
            self._forget(before.collections[name], after.collections[name])
            return state.count - 1

    def _compacted(
        self, name: str, state: CollectionState, segments: list[Reference], manifest: Manifest
    ) -> Manifest:
        """Returns the next manifest, in which the rows of a state take the place of its
        operations."""
        now = self._state_of(manifest, name)
        after = operations_after(self._store, now, state.last) if now.id == state.id else None
        if after is None:
            raise Aborted(f"the collection {name!r} was dropped or compacted")
        base = {"id": state.last, "kind": "replace", "segments": segments}
        made = replace(now, pages=[], tail=[base, *after], before=now.before if after else [])
        return manifest.with_state(name, self._perform(folded(made, uuid.uuid4().hex)))

    def _export(self, name: str, holders: list[tuple[Slot, dict[str, Any]]]) -> list[Reference]:
        """Lets a replica of each shard write its rows; deletes what they wrote after an error."""
        calls = [(slot, slot.actor.export.remote(name, states[name])) for slot, states in holders]
        segments: list[Reference] = []
        failed: Exception | None = None
        for slot, call in calls:
            try:
                segments += slot.ask(call)
            except Exception as error:
                failed = failed or error
        if failed is not None:
            self._delete(segments)
            raise failed
        return segments

    def _delete(self, segments: list[Reference]) -> None:
        with contextlib.suppress(OSError):  # then `clean` deletes them
            for each in segments:
                self._store.delete(each["name"])

    def _maintain_always(self) -> None:
        """Looks after the storage; doubles the pause after each error."""
        pause, clean_at = _MAINTAIN_SECONDS, 0.0
        while True:
            threading.Event().wait(pause)
            clean = time.monotonic() >= clean_at
            if not self._maintain(clean):
                pause = min(2 * pause, _PAUSE_SECONDS_MAX)
                continue
            pause = _MAINTAIN_SECONDS
            if clean:
                clean_at = time.monotonic() + _CLEAN_SECONDS

    def _maintain(self, clean: bool) -> bool:
        """Compacts the collections that are due, and deletes old files. Returns False if a part of
        it failed."""
        if not self._log.opened:
            return True
        work: list[Callable[[], int]] = [partial(self.compact, name) for name in self._due()]
        if clean:
            work.append(self.clean)
        done = True
        for each in work:
            try:
                each()
            except Exception:
                done = False
                traceback.print_exc()
        return done

    def _due(self) -> list[str]:
        """Returns the collections to compact. None while a replica loads: it reads the files that a
        compaction replaces."""
        if not all(slot.ready for slot in self._slots):
            return []
        after = self._settings.compact_after
        return [
            name
            for name, state in self._newest().collections.items()
            if state.count >= max(after, sum(state.rows) // _ROWS_PER_COMMIT)
        ]

    def clean(self, age_seconds_min: float = _UPLOAD_SECONDS_MAX) -> int:
        """Deletes files that no manifest names, such as those of uploads that were not committed;
        returns their number. No file of a commit or of a compaction that runs is that old."""
        folders = ("segments", "log")
        old = [name for each in folders for name in self._store.list(each, age_seconds_min)]
        pages: dict[str, set[str]] = {}
        if old:
            self._named(self._newest(), pages)  # read before commits wait
        count = 0
        while old:
            with self._committing():
                named = self._named(self._follow_others(), pages)
                over = [name for name in old if name not in named]
                for name in over[:_DELETES_MAX]:
                    self._store.delete(name)
            count += len(over[:_DELETES_MAX])
            old = over[_DELETES_MAX:]
        return count

    def _named(self, manifest: Manifest, pages: dict[str, set[str]]) -> set[str]:
        found = {name for name, *_ in manifest.token_pages}
        for state in manifest.collections.values():
            found |= files_of(self._store, state, pages)
        return found

    def _state_of(self, manifest: Manifest, name: str) -> CollectionState:
        if name not in manifest.collections:
            raise NotFound(f"collection: there is no {name!r}")
        return manifest.collections[name]


def start_coordinator(settings: Settings) -> Any:
    """Returns a new coordinator of a cluster."""
    actor: Any = ray.remote(Coordinator)
    return actor.options(
        name=settings.name,
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        num_cpus=0,
        max_restarts=-1,
        max_task_retries=-1,
        max_concurrency=16,
    ).remote(settings)
