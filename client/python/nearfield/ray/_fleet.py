"""The replicas of a cluster as its coordinator sees them, and the view that the clients get."""

from __future__ import annotations

import math
import os
import threading
import uuid
from collections import Counter
from collections.abc import Iterable
from itertools import product
from typing import Any

import ray

from nearfield._errors import Aborted, DataLoss, Internal, Unavailable
from nearfield.ray._log import Log
from nearfield.ray._manifest import Manifest
from nearfield.ray._rpc import WAITING
from nearfield.ray._server import Settings, live_nodes
from nearfield.ray._slot import POLL_SECONDS, Slot, ended
from nearfield.ray._store import Store

_WAITERS_MAX = 24  # calls that wait, so that other calls find a thread of the server
# For which a call waits for a replica after another one of each shard has answered, and as long
# again as those took.
_GRACE_SECONDS = 0.5
LEFT_OUT = (Unavailable, Aborted, Internal)  # a replica that returns one of these is loaded again
_ROUNDING = 1e-6  # of sums of resources
# By shard, the replicas that hold a manifest, and their states of each collection at it.
Holders = list[list[tuple[Slot, dict[str, Any]]]]


class Fleet:
    """The replicas. Thread safety: _commit serializes commits and the entry of replicas; _changed
    guards what is shown. Calls that only look do not wait for a commit."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store = Store(settings.storage)
        self._commit = threading.RLock()
        self._placing = threading.Lock()
        self._changed = threading.Condition()
        self._waiters = threading.Semaphore(_WAITERS_MAX)
        self._log = Log(uuid.uuid4().hex)
        self._look = threading.Event()  # another coordinator may have committed
        self._shown: Manifest | None = None
        self._slots: list[Slot] = []
        self._staged: list[Slot] = []  # those that have staged the operation of now
        self._resizing = 0  # the layout of servers that a resize starts
        self._view: dict[str, Any] = {}
        self._serial = 0
        self._error = ""  # of the last look at the storage

    def _new_slots(self, layout: int, shards: int) -> list[Slot]:
        places = product(range(shards), range(self._settings.replicas))
        settings, opened = self._settings, self._log.opened
        return [Slot(settings, opened, layout, shard, shards, each) for shard, each in places]

    def _start(self, slots: list[Slot]) -> None:
        self._slots = self._slots + slots
        for slot in slots:
            slot.keep(self)

    def _stop(self, slots: list[Slot]) -> None:
        self._slots = [slot for slot in self._slots if slot not in slots]
        for slot in slots:
            slot.stopped.set()
        self._show()
        for slot in slots:
            threading.Thread(target=slot.stop, daemon=True).start()

    def _stop_over(self) -> None:
        """Ends the replicas of layouts that are not in use."""
        manifests = (self._shown, self._log.head, self._log.pending)
        used = {self._resizing, *(each.layout for each in manifests if each)}
        over = [slot for slot in self._slots if slot.layout not in used]
        if over:
            self._stop(over)

    def choose_node(self, slot: Slot) -> str:
        """Returns the node for an actor: one with room, without another replica of the shard, and
        with as much room as possible, if there are such nodes."""
        wanted = self._settings.resources
        with self._placing:
            others = [each for each in self._slots if each is not slot]
            mine = (slot.layout, slot.shard)
            shard = [each for each in others if (each.layout, each.shard) == mine]
            for each in [each for each in shard if not each.node]:  # the coordinator is new
                each.locate()
            taken = {each.node for each in shard}
            count = Counter(each.node for each in others)

            def order(node: dict[str, Any]) -> tuple[bool, bool, float]:
                fits = [node["Resources"].get(name, 0) // each for name, each in wanted.items()]
                room = min(fits, default=1e9) - count[node["NodeID"]]
                return room < 1, node["NodeID"] in taken, -room

            slot.node = min(live_nodes(), key=order)["NodeID"]
            return slot.node

    def enter(self, slot: Slot, life: int) -> None:
        """Loads a replica while commits go on; then it follows them as one that was late does."""
        slot.ask(slot.sync(self._newest()))
        with self._commit:
            if slot.lives(life):
                slot.held, slot.ready = {}, True
                self.load()
                self._show()

    def load(self) -> None:
        """Brings the replicas to the newest manifest, and shows it. One that cannot read the
        storage stays at its manifest, for the next call; one that fails is left out."""
        manifest = self._newest()
        behind = self._behind()
        if not any(slot.layout == manifest.layout for slot in self._slots):
            self._start(self._new_slots(manifest.layout, manifest.shards))
        elif not behind:
            return
        held = {shard for shard, some in enumerate(self._holders(manifest)) if some}
        calls = {slot: slot.sync(manifest) for slot in behind}
        for slot, states in self._replies(calls, held).items():
            wrong = self._wrong_rows(slot, manifest, states)
            if isinstance(wrong, (OSError, DataLoss)):
                slot.error = f"storage: {wrong}"
            elif wrong is not None:
                self._drop_out(slot, wrong)
            else:
                slot.held = {**slot.held, manifest.number: states}
                slot.error = ""
        self._show()

    def _replies(self, calls: dict[Slot, Any], held: Iterable[int] = ()) -> dict[Slot, Any]:
        """Returns the replies of replicas, or the errors. Waits until each shard has an answer, and
        a short time for the other replicas: those that have not replied then become late. held:
        shards that need no answer."""
        waiting, found = dict(calls), dict[Slot, Any]()
        missing = {slot.shard for slot in calls}.difference(held)
        steps, limit = 0, math.inf  # counted, so that a pause of this process makes no replica late
        while waiting and steps < limit:
            done = ended([*waiting.values()])
            steps += 1
            for slot, call in [*waiting.items()]:
                if call in done or slot.has_ended:
                    try:
                        found[slot] = slot.ask(waiting.pop(slot))
                    except Exception as error:
                        found[slot] = error
                    if not isinstance(found[slot], LEFT_OUT):
                        missing.discard(slot.shard)
                elif slot.silent:
                    slot.pending = waiting.pop(slot)
            if not missing and limit == math.inf:
                limit = 2 * steps + _GRACE_SECONDS / POLL_SECONDS
        for slot, call in waiting.items():
            slot.pending = call
        return found

    def _wrong_rows(self, slot: Slot, manifest: Manifest, states: Any) -> Exception | None:
        """Returns the error that the reply of a replica is, or shows: other numbers of rows."""
        if isinstance(states, Exception):
            return states
        for name, state in manifest.collections.items():
            found = states[name]["rows"]
            if slot.layout == manifest.layout and found != state.rows[slot.shard]:
                return Internal(f"{name}: {found} rows, the manifest has {state.rows[slot.shard]}")
        return None

    def leave(self, slot: Slot) -> None:
        slot.ready = False
        slot.held = {}
        self._show()

    def may_end(self, slot: Slot) -> bool:
        """Returns True, and hides the replica, unless it is the last one that searches can use."""
        with self._changed:
            for holders in self._holders(self._shown) if self._shown is not None else []:
                if [each for each, _ in holders if each is slot or not each.late] == [slot]:
                    return False
            slot.ready = False
            return True

    def _drop_out(self, slot: Slot, error: Exception) -> None:
        """Leaves out a replica that failed; its own thread loads it again."""
        slot.fail(str(error))
        slot.held = {}

    def _behind(self) -> list[Slot]:
        """Returns the replicas that answer but do not hold the newest manifest, and those that were
        late until now: they may have staged something."""
        newest, found = self._newest(), list[Slot]()
        for slot in self._slots:
            was_late = slot.comes_back()
            there = slot.layout == newest.layout and slot.ready and not slot.late
            if there and (was_late or newest.number not in slot.held):
                found.append(slot)
        return found

    def _serves(self, slot: Slot) -> bool:
        """Returns True if a replica holds what is shown, or waits for a resize."""
        waits = slot.layout != self._log.head.layout
        return slot.ready and not slot.late and (bool(slot.held) or waits)

    def _newest(self) -> Manifest:
        if not self._log.opened:
            raise Unavailable(f"{WAITING}{': ' if self._error else ''}{self._error}")
        return self._log.head

    # The view of the clients.

    def _show(self) -> None:
        """Shows the newest manifest if each shard has a replica that holds it; else the one that
        was shown, with the replicas that still hold it."""
        with self._changed:
            newest = self._newest()
            shards = self._holders(newest)
            # A manifest in doubt may withdraw the newest one.
            if (all(shards) and self._log.pending is None) or self._shown is None:
                self._shown, number = newest, newest.number
                for slot in self._slots:
                    slot.held = {key: held for key, held in slot.held.items() if key == number}
            else:
                shards = self._holders(self._shown)
            self._serial += 1
            self._view = {
                "have": [self._log.author, self._serial],
                "number": self._shown.number,
                "shards": [
                    [{"address": slot.place["address"], "states": states} for slot, states in some]
                    for some in shards
                ],
                "collections": {
                    name: {"created": state.created, "rows": state.rows}
                    for name, state in self._shown.collections.items()
                },
            }
            self._changed.notify_all()

    def _holders(self, manifest: Manifest) -> Holders:
        """Returns the replicas that hold a manifest now: each may fail at any time."""
        found: Holders = [[] for _ in range(manifest.shards)]
        for slot in self._slots:
            states = slot.held.get(manifest.number)
            if slot.ready and slot.layout == manifest.layout and states is not None:
                found[slot.shard].append((slot, states))
        return found

    def _quorum(self, manifest: Manifest) -> Holders:
        """Returns the replicas that hold the manifest and are not late. Raises Unavailable if a
        shard has none."""
        found = self._holders(manifest)
        holders = [[each for each in some if not each[0].late] for some in found]
        for shard, some in enumerate(holders):
            if not some:
                raise Unavailable(f"shard {shard} of {manifest.shards} has no server that answers")
        return holders

    def view(
        self, have: list[Any] | None = None, wait: float = 0.0, number: int = 0
    ) -> dict[str, Any] | None:
        """Returns what a search needs; None if the caller has it already. Waits up to `wait`
        seconds until it has changed, and is of the manifest `number` or a later one."""

        def changed() -> bool:
            return bool(self._view) and self._view["have"] != have and self._has_shown(number)

        waits = wait > 0 and self._waiters.acquire(blocking=False)
        try:
            if number > self._log.head.number:
                self._look.set()
            with self._changed:
                if waits:
                    self._changed.wait_for(changed, wait)
                if not self._view:
                    self._newest()
                    raise Unavailable(WAITING)
                return None if self._view["have"] == have else self._view
        finally:
            if waits:
                self._waiters.release()

    def _has_shown(self, number: int) -> bool:
        return self._shown is not None and self._shown.number >= number

    def status(self) -> dict[str, Any]:
        manifest, settings = self._newest(), self._settings
        errors = self._errors(list(self._slots))
        return {
            "name": settings.name,
            "storage": self._store.name,
            "error": self._error,
            "opened": self._log.opened,
            "pid": os.getpid(),
            "manifest": manifest.number,
            "shown": self._shown.number if self._shown is not None else None,
            "shards": manifest.shards,
            "replicas": settings.replicas,
            "settings": {name: str(value) for name, value in settings.settings.items()},
            "collections": {
                name: {"rows": sum(state.rows), "operations": state.count}
                for name, state in manifest.collections.items()
            },
            "servers": [slot.report(self._serves(slot), error) for slot, error in errors],
        }

    def ready(self, seconds: float, some: list[Slot] | None = None) -> None:
        """Waits until some replicas hold what is shown. None: all of them, also later ones."""

        def serve() -> bool:
            slots = self._slots if some is None else some
            return bool(self._slots) and all(map(self._serves, slots))

        with self._changed:
            done = self._changed.wait_for(serve, seconds)
        if not done:
            raise Unavailable(f"not ready after {seconds:g} s: {self.waiting(some)}")

    def waiting(self, some: list[Slot] | None = None) -> str:
        """Returns the replicas that are not ready, and why; "" if all are."""
        slots = list(self._slots) if some is None else some
        if not slots:
            return self._error or "the storage"
        names: dict[str, list[str]] = {}
        for slot, error in self._errors(slots):
            if not self._serves(slot):
                names.setdefault(error or "its server loads", []).append(slot.name)
        return "; ".join(f"{', '.join(some)}: {why}" for why, some in names.items())

    def _errors(self, slots: list[Slot]) -> list[tuple[Slot, str]]:
        """Returns the replicas with the reason why they are not ready."""
        lack = f"it waits for Ray: {self._lack()}" if any(slot.waits for slot in slots) else ""
        late = {slot: "it is late" for slot in slots if slot.pending is not None}
        return [(slot, lack if slot.waits else slot.error or late.get(slot, "")) for slot in slots]

    def _lack(self) -> str:
        """Returns what Ray lacks to start the actors that wait."""
        count, waiting = len(self._slots), sum(slot.waits for slot in self._slots)
        total: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        free: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call]
        for name, each in self._settings.resources.items():
            has, left = total.get(name, 0), free.get(name, 0)
            largest = max(node["Resources"].get(name, 0) for node in live_nodes())
            if each * count > has + _ROUNDING:
                return f"{each * count:g} {name}s wanted, {has:g} in the cluster"
            if each > largest:
                return f"{each:g} {name}s wanted for a server, {largest:g} on the largest node"
            if each * waiting > left + _ROUNDING:
                return f"{each * waiting:g} {name}s wanted, {left:g} of {has:g} free"
        return "its process starts, or no node has enough that is free"
