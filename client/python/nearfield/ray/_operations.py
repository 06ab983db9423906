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

import nearfield
from nearfield._errors import Unavailable
from nearfield.ray._coordinator import CoordinatorProcess
from nearfield.ray._log import compacted, laid_out, unchanged
from nearfield.ray._manifest import CollectionState, Manifest
from nearfield.ray._segment import PARTITIONS, Reference
from nearfield.ray._server import Settings
from nearfield.ray._slot import NAMESPACE, Slot

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

    METHODS = (*CoordinatorProcess.METHODS, "resize", "restart", "compact", "withdraw")

    def __init__(self, settings: Settings) -> None:
        self._operation = threading.Lock()
        # Ray starts the actor with its first arguments again: what has changed is in Ray's store
        # of keys, which lives as long as these arguments.
        changed = internal_kv._internal_kv_get(settings.cluster, namespace=NAMESPACE)
        if changed:
            settings = replace(settings, settings=json.loads(changed))
        super().__init__(settings)
        threading.Thread(target=self._maintain_always, daemon=True).start()

    @contextlib.contextmanager
    def _operating(self) -> Iterator[None]:
        if not self._operation.acquire(timeout=_WAIT_SECONDS_MAX):
            raise Unavailable("another resize, restart or compaction runs")
        try:
            yield
        finally:
            self._operation.release()

    def resize(self, shards: int, seconds: float = 600.0) -> int:
        """Loads the rows into another number of shards, next to the present ones, then changes over
        in one manifest."""
        if not 1 <= shards <= PARTITIONS:
            raise nearfield.InvalidArgument(f"shards: {shards}, must be 1 .. {PARTITIONS}")
        with self._operating():
            self._replace_servers(shards, seconds)
        return shards

    def _replace_servers(self, shards: int, seconds: float) -> None:
        """The layout of the new servers is the number of a manifest that this coordinator commits:
        no other one has it. At the end, the servers of the layout that does not count end."""
        before, after = self._change(unchanged)
        self._resizing = layout = after.number
        try:
            slots = self._new_slots(layout, shards)
            self._start(slots)
            self.ready(seconds, slots)
            newest = self._newest()  # what was committed in between, while commits go on
            self._replies({slot: slot.sync(newest) for slot in slots})
            self._change(partial(laid_out, before.layout, layout, shards, slots))
        finally:
            self._resizing = 0
            with self._commit:
                self._stop_over()

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
                    for slot in [each for each in slots if not self._serves(each)]:
                        slot.use(after)  # the settings before may be why
                    self.ready(seconds, slots)
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
                reason = f"{name!r}: all shards have servers with its rows"
                raise nearfield.FailedPrecondition(reason)
            self._perform(self._log.withdraw(name))
            self.load()

    def _start_again(self, slot: Slot, settings: Settings, seconds: float) -> None:
        """Starts a server again, once its shard has all the others."""
        others = [each for each in self._slots if each is not slot]
        self.ready(seconds, [each for each in others if each.shard == slot.shard])
        slot.use(settings)
        slot.fail("it is started again")
        self.leave(slot)
        self.ready(seconds, [slot])

    def compact(self, name: str) -> int:
        """Writes the present rows as segments, which replace the operations before; returns the
        number of the operations that are gone."""
        with self._operating():
            with self._committing() as manifest:
                state = self._state_of(manifest, name)
                holders = [some[0] for some in self._quorum(manifest)]
            if not state.last:
                return 0
            segments: list[Reference] = []
            exported = False
            try:
                self._export(name, holders, segments)
                exported = True
                made = partial(compacted, name, state, segments, uuid.uuid4().hex)
                before, after = self._change(made)
            except Exception as error:
                # After other errors of the change its manifest may be in the log.
                if not exported or isinstance(error, nearfield.Aborted):
                    with contextlib.suppress(OSError):  # then `clean` deletes them
                        for each in segments:
                            self._store.delete(each["name"])
                raise
            self._forget(before.collections[name], after.collections[name])
            return state.count - 1

    def _export(self, name: str, holders: Any, segments: list[Reference]) -> None:
        """Lets a replica of each shard write its rows, and adds their references."""
        states = dict(holders)
        calls = {slot: slot.actor.export.remote(name, states[slot][name]) for slot in states}
        written = self._replies(calls).values()
        failed = [each for each in written if isinstance(each, Exception)]
        segments += [one for some in written if isinstance(some, list) for one in some]
        if failed:
            raise failed[0]
        found = sum(each["rows"] for each in segments)
        wanted = sum(states[slot][name]["rows"] for slot in calls)
        if found != wanted:
            reason = f"{name}: {found} of {wanted} rows were written"
            raise Unavailable(f"{reason}: a server does not answer")

    def _maintain_always(self) -> None:
        """Looks after the storage; doubles the pause after each error."""
        pause, clean_at = _MAINTAIN_SECONDS, 0.0
        while True:
            threading.Event().wait(pause)
            clean = time.monotonic() >= clean_at
            done = self._maintain(clean)
            pause = _MAINTAIN_SECONDS if done else min(2 * pause, _PAUSE_SECONDS_MAX)
            if clean and done:
                clean_at = time.monotonic() + _CLEAN_SECONDS

    def _maintain(self, clean: bool) -> bool:
        """Compacts the collections with many commits, unless a replica loads: it reads the files
        that a compaction replaces. Deletes old files. Returns False if a part of it failed."""
        if not self._log.opened:
            return True
        work: list[Callable[[], int]] = [self.clean] if clean else []
        if all(map(self._serves, self._slots)):
            for name, state in self._newest().collections.items():
                rows = sum(state.rows) // _ROWS_PER_COMMIT
                if state.count >= max(self._settings.compact_after, rows):
                    work.append(partial(self.compact, name))
        done = True
        for each in work:
            try:
                each()
            except Exception:
                done = False
                traceback.print_exc()
        return done

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
            found |= self._files_of(state, pages)
        return found

    def _state_of(self, manifest: Manifest, name: str) -> CollectionState:
        if name not in manifest.collections:
            raise nearfield.NotFound(f"collection: there is no {name!r}")
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
