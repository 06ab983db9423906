"""The operations of a running cluster: another number of shards, a restart, a compaction."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import ray

from nearfield._errors import Aborted, Error, Internal, Unavailable
from nearfield.ray._coordinator import CoordinatorProcess
from nearfield.ray._manifest import Manifest
from nearfield.ray._slot import NAMESPACE, Settings, Slot, ask


class Coordinator(CoordinatorProcess):
    """The actor with its operations, of which one runs at a time."""

    METHODS: tuple[str, ...] = (
        *CoordinatorProcess.METHODS,
        "ready",
        "resize",
        "restart",
        "compact",
    )

    def _wait_ready(self, slots: list[Slot], seconds: float) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: all(slot.ready for slot in slots), seconds):
                waiting = [f"{slot.name} ({slot.error})" for slot in slots if not slot.ready]
                raise Unavailable(f"not ready after {seconds:g} s: {', '.join(waiting)}")

    def ready(self, seconds: float) -> None:
        """Waits until all replicas hold the newest manifest."""
        with self._changed:
            self._changed.wait_for(lambda: self._slots, seconds)
            slots = list(self._slots)
        self._wait_ready(slots, seconds)

    def resize(self, shards: int, seconds: float = 600.0) -> int:
        """Loads the rows into another number of shards, next to the present ones, then changes over
        in one manifest."""
        with self._operation:
            present = self._shown()
            layout = present.layout + 1
            slots = self._new_slots(layout, shards, range(self._settings.replicas))
            try:
                self._wait_ready(slots, seconds)
                with self._commit:
                    self._change_layout(self._settled(), layout, shards, slots)
            except Error:
                for slot in slots:
                    slot.stop()
                raise
            return shards

    def _change_layout(
        self, manifest: Manifest, layout: int, shards: int, slots: list[Slot]
    ) -> None:
        states = self._each(slots, lambda slot: slot.sync(manifest))
        following = replace(manifest, number=manifest.number + 1, layout=layout, shards=shards)
        collections = {}
        for name, state in manifest.collections.items():
            of_name = {slot: each[name] for slot, each in states.items()}
            rows = self._rows(following, of_name)
            if sum(rows) != sum(state.rows) or -1 in rows:
                raise Internal(f"{name}: the new shards have other rows")
            collections[name] = replace(state, rows=rows)
        if len({slot.shard for slot in states}) != shards:
            raise Unavailable("a new shard has no server")
        old, self._slots = self._slots, self._slots + slots
        for slot, found in states.items():
            slot.pending = found
        self._write(replace(following, collections=collections))
        self._slots = slots
        for slot in old:
            slot.stop()
        self._show()

    def restart(self, seconds: float = 600.0) -> int:
        """Starts all servers again, one after the other; returns their number. A shard with one
        replica gets a second one for the time."""
        with self._operation:
            manifest = self._shown()
            extra: list[Slot] = []
            if self._settings.replicas == 1:
                extra = self._new_slots(manifest.layout, manifest.shards, range(1, 2))
                self._slots = self._slots + extra
            try:
                self._wait_ready(extra, seconds)
                slots = [slot for slot in self._slots if slot not in extra]
                for slot in slots:
                    begin = time.monotonic()
                    slot.restart()
                    self._show()
                    self._wait_ready([slot], seconds - (time.monotonic() - begin))
            finally:
                with self._commit:
                    self._slots = [slot for slot in self._slots if slot not in extra]
                self._show()
                for slot in extra:
                    slot.stop()
            return len(slots)

    def compact(self, name: str) -> int:
        """Writes the present rows as segments, which replace the operations before; returns the
        number of the operations that are gone."""
        with self._operation:
            with self._commit:
                manifest = self._settled()
                state = self._find(manifest, name)
                slots = {slot.shard: slot for slot in self._quorum(manifest)}
                states = {slot: slot.states[name] for slot in slots.values()}
            if not state.log:
                return 0
            names = self._each(
                list(slots.values()),
                lambda slot: ask(slot.actor.export.remote(name, states[slot])),
            )
            if len(names) != manifest.shards:
                raise Unavailable("a server ended during the compaction")
            base = {
                "number": state.log[-1]["number"],
                "id": state.log[-1]["id"],
                "upload": "replace",
                "segments": [each for found in names.values() for each in found],
            }
            with self._commit:
                latest = self._find(self._settled(), name)
                if latest.created != state.created:
                    raise Aborted(f"the collection {name!r} was dropped")
                following = replace(latest, log=[base, *latest.log[len(state.log) :]])
                for slot in self._quorum(self._shown()):
                    slot.pending = slot.states
                self._write(self._shown().with_collection(name, following))
            kept = {each for one in following.log for each in one.get("segments", [])}
            for one in state.log:
                for each in one.get("segments", []):
                    if each not in kept:
                        self._store.delete(each)
            return len(state.log) - 1


def start_coordinator(settings: Settings) -> Any:
    """Returns the coordinator of a cluster: a new one, or the one that runs."""
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
