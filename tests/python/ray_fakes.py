"""A coordinator of nearfield.ray.Cluster without Ray, and replicas that fail on demand."""

from __future__ import annotations

import threading
import types
from typing import Any

import pytest
from nearfield.ray import _coordinator, _fleet, _server, _slot
from nearfield.ray._fleet import Fleet
from nearfield.ray._manifest import CollectionState, Manifest
from nearfield.ray._operations import Coordinator
from nearfield.ray._store import Store

DECLARED = {"dim": 6, "metric": "dot"}


LATE = "a call that has not ended"


def raise_or_return(value: Any) -> Any:
    if isinstance(value, Exception):
        raise value
    return value


class FakeReplica:
    """A replica of one collection, as a handle of an actor. answers: by method, what a call returns."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.calls: list[str] = []
        self.rows = 0

    def __getattr__(self, name: str) -> Any:
        def remote(*_: Any) -> Any:
            self.calls.append(name)
            answer = self.answers.get(name)
            if name in ("stage", "apply") and answer is None:
                self.rows += name == "apply"
                return {"rows": self.rows + (name == "stage"), **({"changed": 1} if name == "stage" else {"epoch": 9})}
            return {"docs": {"rows": self.rows, "epoch": 9}} if name == "sync" and answer is None else answer

        return types.SimpleNamespace(remote=remote)


class Mute(FakeReplica):
    """A replica whose actor stops to answer in the middle of a commit: in the call of this name. It is the last one."""

    def __init__(self, slot: Any, name: str) -> None:
        super().__init__()
        self._slot, self._name = slot, name

    def __getattr__(self, name: str) -> Any:
        if name != self._name:
            return super().__getattr__(name)

        def remote(*_: Any) -> str:
            self._slot.silent = True
            return LATE

        return types.SimpleNamespace(remote=remote)


class FakeSlot(_slot.Slot):
    def ask(self, reply: Any, timeout: Any = None) -> Any:
        return raise_or_return(reply)


def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of replicas that are not real are their replies."""
    for module in (_slot, _fleet):
        monkeypatch.setattr(module, "ended", lambda calls, seconds=0: [each for each in calls if each is not LATE])


def fake_coordinator(store: Store, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two shards of two replicas, with the collection docs."""
    without_ray(monkeypatch)
    monkeypatch.setattr(_coordinator, "_COMMIT_SECONDS_MAX", 0.2)
    made = object.__new__(Coordinator)
    settings = _server.Settings("fake", 2, 2, store.uri, "", "", 1, 0, {}, 1.0, 4096)
    Fleet.__init__(made, settings)
    made._committers, made._operation = threading.Semaphore(4), threading.Lock()
    state = CollectionState("c", 1, DECLARED, [0, 0])
    made._log.head, made._log.opened = Manifest(1, 1, 2, {"docs": state}, author=made._log.author), 1
    made._slots = [FakeSlot(settings, 1, 1, shard, 2, replica) for shard in (0, 1) for replica in (0, 1)]
    for slot in made._slots:
        slot.actor, slot.ready, slot.place = FakeReplica(), True, {"address": slot.name}
        slot.held = {1: {"docs": {"rows": 0, "epoch": 1}}}
    made._show()
    return made


def shown(coordinator: Any) -> tuple[int, list[int]]:
    """Returns the number of the view and the replicas of each shard, all of which hold this manifest."""
    view = coordinator.view()
    for shard in view["shards"]:
        assert len({str(replica["states"]) for replica in shard}) <= 1
    return view["number"], [len(shard) for shard in view["shards"]]


def commit(coordinator: Any, token: str = "once") -> Any:
    """Returns the number of the manifest and the changed rows."""
    number, rows, replaced, created = coordinator.commit("docs", {"kind": "insert", "segments": []}, token)
    assert (replaced, created) == (0, 1)
    return [number, rows]
