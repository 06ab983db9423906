"""Explores what the replicas of a cluster may do while the coordinator of nearfield.ray commits, loads them and shows
manifests: each call may be answered, may be answered late, whether its effect comes at once or late, may never be
answered, or the server may end.

The coordinator is that of the product (nearfield.ray._coordinator), without Ray and threads. It is run again and again,
with every sequence of these choices.

The laws, in every sequence:
  a view has one manifest, of which every replica in it has exactly the operations at its epoch
  a manifest is first shown when each shard has a replica that holds it, and none is shown after a later one
  what was acknowledged is shown, and each operation takes place once
  no call waits for a replica once another one of its shard has answered
  a replica that is late gets no other call before it has answered, and is not loaded again
  at the end, when all have answered, all hold the newest manifest"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from nearfield._errors import Aborted, Unavailable
from nearfield.ray import _coordinator, _fleet, _server, _slot
from nearfield.ray._fleet import Fleet
from nearfield.ray._log import Log, object_name
from nearfield.ray._manifest import CollectionState, Manifest
from nearfield.ray._operations import Coordinator
from nearfield.ray._steps import run

DECLARED = {"dim": 6, "metric": "dot"}
POLLS_MAX = 40  # of one call: then it ends; those that may be late wait for less than half of it


class Violation(AssertionError):
    """A law that does not hold."""


class Choices:
    """One sequence of choices: those of `taken`, then the first ones. counts: of the possible ones, by place."""

    def __init__(self, taken: list[int], faults: int) -> None:
        self.taken, self.counts, self.faults = taken, [], faults

    def choose(self, count: int, *, fault: bool = False) -> int:
        """Returns a number below `count`; fault: each but 0 is one, of which there are not more than `faults`."""
        if fault and self.faults == 0:
            return 0
        place = len(self.counts)
        if place == len(self.taken):
            self.taken.append(0)
        self.counts.append(count)
        found = self.taken[place]
        self.faults -= fault and found > 0
        return found

    def following(self) -> list[int] | None:
        """Returns the next sequence, None after the last one."""
        for place in range(len(self.counts) - 1, -1, -1):
            if self.taken[place] + 1 < self.counts[place]:
                return [*self.taken[:place], self.taken[place] + 1]
        return None


class Storage:
    """The objects of nearfield.ray._store.Store that commits need."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def put_new(self, name: str, data: bytes) -> bool:
        return self.objects.setdefault(name, data) is data

    def find(self, name: str) -> bytes | None:
        return self.objects.get(name)

    def get(self, name: str) -> bytes:
        return self.objects[name]

    def first(self, folder: str) -> str | None:
        return min((name for name in self.objects if name.startswith(folder)), default=None)


class Call:
    """A call of a replica. effect: makes the reply."""

    def __init__(self, effect: Callable[[], Any]) -> None:
        self._effect: Callable[[], Any] | None = effect
        self._reply: Any = None
        self.ended = False
        self.polls = 0

    def take_effect(self) -> None:
        if self._effect is not None:
            self._reply, self._effect = self._effect(), None

    def end(self) -> None:
        self.take_effect()
        self.ended = True

    def reply(self) -> Any:
        if isinstance(self._reply, Exception):
            raise self._reply
        return self._reply


class Replica:
    """A replica of a shard. operations: their ids; epochs: the operations at each epoch that its server has kept."""

    def __init__(self, choices: Choices) -> None:
        self._choices = choices
        self.incarnation = 0
        self.calls: list[Call] = []
        self.end()

    def end(self) -> None:
        """The server ends: a new one has nothing."""
        self.incarnation += 1
        self.failed = self.incarnation > 1
        self.operations: tuple[str, ...] = ()
        self.epochs: dict[int, tuple[str, ...]] = {}
        self._staged = ""

    def __getattr__(self, name: str) -> Any:
        method = getattr(type(self), f"on_{name}")

        class Remote:
            @staticmethod
            def remote(opened: int, *arguments: Any) -> Call:
                return self._called(Call(lambda: method(self, *arguments)), name)

        return Remote

    def _called(self, call: Call, name: str) -> Call:
        if name != "abandon" and not all(each.ended for each in self.calls):
            raise Violation(f"{name} is called before the replica has answered the call before")
        outcome = 0 if name == "abandon" else self._choices.choose(4, fault=True)
        if outcome == 3:
            self.end()
            call = Call(lambda: Unavailable("the server ended"))
        if outcome in (0, 3):
            call.end()
        else:
            self.calls.append(call)
            if outcome == 1:
                call.take_effect()
        return call

    def on_stage(self, name: str, expected: Any, operation: Any) -> Any:
        if self.failed or (self.operations or ("",))[-1] != expected[1]:
            return Aborted("this server is at another operation")
        self._staged = operation["id"]
        return {"rows": 0, "changed": 1}

    def on_abandon(self, operation_id: str, kept: bool = False) -> None:
        if self._staged == operation_id:
            self._staged = ""

    def on_apply(self, name: str, operation_id: str) -> Any:
        if self._staged != operation_id:
            return Aborted("the operation is not staged")
        return self._at((*self.operations, operation_id))

    def on_sync(self, encoded: bytes, shard: int, shards: int) -> Any:
        self.failed = False
        return {"docs": self._at(operations_of(Manifest.decode(encoded)))}

    def _at(self, operations: tuple[str, ...]) -> dict[str, int]:
        self._staged, self.operations = "", operations
        epoch = len(self.epochs)
        self.epochs[epoch] = operations
        return {"rows": 0, "epoch": epoch, "incarnation": self.incarnation}


class ModelSlot(_slot.Slot):
    def ask(self, reply: Any, timeout: Any = None) -> Any:
        if not reply.ended and not self.has_ended:
            reply.end()  # of a server that is loaded while commits go on
        if not reply.ended:
            raise Unavailable("it has failed")
        return reply.reply()

    def fail(self, why: str) -> None:
        if not self.actor.failed:
            raise Violation(f"{self.name} is loaded again, but was only late: {why}")
        super().fail(why)


def operations_of(manifest: Manifest) -> tuple[str, ...]:
    return tuple(each["id"] for each in manifest.collections["docs"].tail)


class Cluster:
    """A coordinator of two shards of two replicas, with the collection docs, which checks the laws."""

    def __init__(self, choices: Choices) -> None:
        self._choices = choices
        self.storage = Storage()
        self.coordinator = made = object.__new__(Coordinator)
        settings = _server.Settings("model", 2, 2, "/none", "", "", 1, 0, {}, 1.0, 4096)
        Fleet.__init__(made, settings)
        made._store = self.storage  # type: ignore[assignment]
        made._committers, made._operation = threading.Semaphore(4), threading.Lock()
        head = Manifest(layout=1, shards=2, collections={"docs": CollectionState("c", 1, DECLARED, [0, 0])})
        run(made._log.open(head), store=self.storage, fleet=self)
        made._slots = [ModelSlot(settings, 1, 1, shard, 2, replica) for shard in (0, 1) for replica in (0, 1)]
        for slot in made._slots:
            slot.actor, slot.ready, slot.place = Replica(choices), True, {"address": slot.name}
            slot.held = {1: {"docs": slot.actor._at(())}}
        self._number, show = 0, made._show

        def show_and_check() -> None:
            show()
            self._check_view()

        made._show = show_and_check  # type: ignore[method-assign]
        made._show()

    def load(self) -> None:
        """The log calls this before there are replicas."""

    def _check_view(self) -> None:
        view, slots = self.coordinator._view, {slot.name: slot for slot in self.coordinator._slots}
        number = view["number"]
        if number < self._number:
            raise Violation(f"manifest {number} is shown after {self._number}")
        if number > self._number and not all(view["shards"]):
            raise Violation(f"manifest {number} is shown, but a shard has no replica")
        self._number = number
        wanted = operations_of(Manifest.decode(self.storage.get(object_name(number))))
        for replica in (each for some in view["shards"] for each in some):
            state, actor = replica["states"]["docs"], slots[replica["address"]].actor
            if state["incarnation"] == actor.incarnation and actor.epochs[state["epoch"]] != wanted:
                raise Violation(f"{replica['address']} is shown for {number}, but has {actor.epochs[state['epoch']]}, not {wanted}")

    def ended(self, calls: list[Call], seconds: float = 1.0) -> list[Call]:
        """In the place of _slot.ended. A call that commits do not wait for may end at any time."""
        for call in calls:
            if seconds == 0 and not call.ended and self._choices.choose(2):
                call.end()
            call.polls += not call.ended and seconds > 0
        over = [call for call in calls if not call.ended and call.polls >= POLLS_MAX]
        for call in over:
            self._check_awaited(call)
        for call in over:
            call.end()
        return [call for call in calls if call.ended]

    def _check_awaited(self, call: Call) -> None:
        """A call may only be awaited for long if no other replica of its shard can answer in its place."""
        (slot,) = [each for each in self.coordinator._slots if call in each.actor.calls]
        for twin in self.coordinator._slots:
            answers = twin.ready and not twin.actor.failed and all(each.ended for each in twin.actor.calls)
            if twin is not slot and twin.shard == slot.shard and answers:
                raise Violation(f"a call waits for {slot.name}, but {twin.name} answers")

    def commit(self, token: str) -> None:
        """Commits a delete, and repeats it if it is not acknowledged."""
        for _ in range(2):
            try:
                done = self.coordinator.commit("docs", {"kind": "filter", "filter": token}, token)
            except Unavailable:
                self.restart_failed()
                continue
            if self.coordinator._view["number"] < done.number:
                raise Violation(f"{token} is acknowledged at {done.number}, but not shown")
            return

    def commit_elsewhere(self, token: str) -> None:
        """A commit by another coordinator, whose replicas never fail; this one follows."""
        log = Log("other")
        run(log.find(), store=self.storage)

        class Others:
            def load(self) -> None: ...

            def stage(self, *_: Any) -> Any:
                return [0, 0], 1

            def apply(self, *_: Any) -> None: ...

        run(log.commit("docs", {"kind": "filter", "filter": token}, token, None), store=self.storage, fleet=Others())
        self.coordinator._follow_others()

    def restart_failed(self) -> None:
        """As the threads of the replicas."""
        for slot in self.coordinator._slots:
            if not slot.ready or slot.actor.failed:
                self.coordinator.leave(slot)
                slot._failed.clear()
                slot.pending = None
                self.coordinator.enter(slot, slot._life)

    def finish(self, tokens: list[str]) -> None:
        self._choices.faults = 0
        for slot in self.coordinator._slots:
            for call in slot.actor.calls:
                call.end()
        for _ in range(2):
            self.restart_failed()
            with self.coordinator._committing() as manifest:
                pass
        held = [each["filter"] for each in manifest.collections["docs"].tail]
        if held != tokens:
            raise Violation(f"{held} took place, not {tokens}")
        if self.coordinator._view["number"] != manifest.number or [len(each) for each in self.coordinator._view["shards"]] != [2, 2]:
            raise Violation(f"{self.coordinator._view} at the end, but {manifest.number} is the newest")


def explore(monkeypatch: Any, script: list[tuple[str, str]], faults: int) -> int:
    """Runs a script of calls of Cluster with all choices; returns their number. Raises Violation."""
    monkeypatch.setattr(_coordinator, "_COMMIT_SECONDS_MAX", 0)
    taken: list[int] | None = []
    count = 0
    while taken is not None:
        choices, count = Choices(taken, faults), count + 1
        cluster = Cluster(choices)
        monkeypatch.setattr(_slot, "ended", cluster.ended)
        monkeypatch.setattr(_fleet, "ended", cluster.ended)
        try:
            for call, token in script:
                getattr(cluster, call)(token)
            cluster.finish([token for _, token in script])
        except Violation as error:
            raise Violation(f"{error}\nchoices: {choices.taken}") from None
        taken = choices.following()
    return count
