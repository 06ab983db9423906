"""The coordinator of nearfield.ray.Cluster and actors that do not answer: its own pauses do not count, and the last
server of a shard is not ended for silence."""

from __future__ import annotations

import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import nearfield
import pytest

pytest.importorskip("pyarrow")
ray = pytest.importorskip("ray")

from nearfield.ray import _server, _slot  # noqa: E402
from ray_fakes import LATE, FakeReplica, FakeSlot, Mute, commit, raise_or_return, shown  # noqa: E402


class Waiting:
    """ray.wait, and the clock: each call lasts as long as `seconds` says next, then its timeout. A reply comes with
    the call `reply_at`."""

    def __init__(self, *seconds: float, reply_at: int = 10**9) -> None:
        self.now, self.calls = 1000.0, 0
        self._seconds = list(seconds)
        self._reply_at = reply_at

    def wait(self, replies: list[Any], num_returns: int, timeout: float) -> tuple[list[Any], list[Any]]:
        self.calls += 1
        self.now += self._seconds.pop(0) if self._seconds else timeout
        return (replies, []) if self.calls >= self._reply_at else ([], replies)


@pytest.fixture
def ask(monkeypatch) -> Any:
    """Returns what Slot.ask returns with a timeout of 3 s and this ray.wait."""

    def call(waiting: Waiting) -> Any:
        slot = _slot.Slot(_server.Settings("docs", 1, 1, "", "", "", 1, 0, {}, 1.0, 4096), 1, 1, 0, 1, 0)
        monkeypatch.setattr(time, "monotonic", lambda: waiting.now)
        monkeypatch.setattr(_slot.ray, "wait", waiting.wait)
        monkeypatch.setattr(_slot.ray, "get", lambda reply: reply)
        return slot.ask("alive", 3.0)

    return call


def test_a_pause_of_the_coordinator_does_not_count_against_an_actor(ask):
    """After 40 s in which the coordinator stood still, all actors and servers were ended, and loaded their rows again."""
    for pauses in ([40.0], [0.1, 40.0], [40.0] * 29):
        assert ask(Waiting(*pauses, reply_at=30)) == "alive"


def test_an_actor_that_does_not_answer_in_time_is_noticed(ask):
    waiting = Waiting()
    with pytest.raises(nearfield.Unavailable, match="has not answered for 3 s"):
        ask(waiting)
    assert 3.0 <= waiting.now - 1000.0 < 3.2


def test_the_last_server_of_a_shard_is_not_ended_for_silence(coordinator, monkeypatch):
    """Clients search it without its actor. Commits do not wait for it, and go on when the actor answers."""
    first, last = coordinator._slots[:2]
    assert coordinator.may_end(first) and shown(coordinator)[0] == 1
    coordinator.leave(first)
    signs = [_slot._NoAnswer("no answer for 3 s"), _slot._NoAnswer("no answer for 3 s"), None]
    seen = []

    def ask(slot: Any, reply: Any, timeout: Any = None) -> Any:
        if reply != "sign":
            return raise_or_return(reply)
        seen.append((slot.silent, shown(coordinator)))
        if slot.silent:
            assert "last server" in slot.error
            with pytest.raises(nearfield.Unavailable, match="shard 0 of 2 has no server that answers"):
                commit(coordinator, "refused")
        return raise_or_return(signs.pop(0))

    monkeypatch.setattr(FakeSlot, "ask", ask)
    last._watch(coordinator, "sign", 3.0)
    assert seen == [(False, (1, [1, 2])), (True, (1, [1, 2])), (True, (1, [1, 2]))]
    assert not last.silent and not last.error
    assert commit(coordinator) == [2, 2] and shown(coordinator) == (2, [1, 2])


def test_a_silent_server_is_ended_once_another_one_is_there(coordinator):
    first, last = coordinator._slots[:2]
    coordinator.leave(first)
    assert not coordinator.may_end(last) and shown(coordinator) == (1, [1, 2])
    last.silent = True
    coordinator.enter(first, 0)
    assert coordinator.may_end(last) and not last.ready


def test_two_servers_that_are_silent_at_the_same_time_are_not_both_ended(coordinator):
    pair = coordinator._slots[:2]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(50):
            together = threading.Barrier(2)

            def decide(slot: Any, together=together) -> bool:
                together.wait(30)
                return coordinator.may_end(slot)

            assert sorted(pool.map(decide, pair)) == [False, True]
            for each in pair:
                each.ready = True


@pytest.mark.parametrize("call", ["stage", "apply"])
def test_a_last_server_that_becomes_silent_in_a_commit_stays_in_the_view(coordinator, call):
    """The commit ends, so that other replicas can enter. The server follows when its actor answers."""
    coordinator.leave(coordinator._slots[0])
    last = coordinator._slots[1]
    last.actor = Mute(last, call)
    with pytest.raises(nearfield.Unavailable, match="committed" if call == "apply" else "no server that answers"):
        commit(coordinator)
    assert last.ready and shown(coordinator) == (1, [1, 2])
    last.silent, last.pending, last.actor = False, "it has ended", FakeReplica()
    last.actor.rows = int(call == "apply")
    with coordinator._committing():
        pass
    assert shown(coordinator) == ((2, [1, 2]) if call == "apply" else (1, [1, 2]))
    assert commit(coordinator) == [2, 2] and shown(coordinator) == (2, [1, 2])


@pytest.mark.parametrize("call", ["stage", "apply", "sync"])
def test_a_replica_that_is_late_is_left_out_until_it_has_caught_up(coordinator, call):
    """Commits and fresh reads waited for a node that was cut off, for up to 3 times hang_timeout."""
    late = coordinator._slots[3]
    late.actor.answers[call] = LATE
    if call == "sync":
        coordinator._log.head = replace(coordinator._log.head, number=2)
        with coordinator._committing():
            pass
    else:
        assert commit(coordinator) == [2, 2]
    assert shown(coordinator) == (2, [2, 1]) and late.ready and late.late
    assert not coordinator.status()["servers"][3]["ready"]
    with pytest.raises(nearfield.Unavailable, match="fake-1-1-1: it is late"):
        coordinator.ready(0.01)
    calls = len(late.actor.calls)
    assert commit(coordinator, "next") == [3, 2] and shown(coordinator) == (3, [2, 1])
    assert len(late.actor.calls) == calls
    late.actor.answers[call], late.pending = None, "it has ended"
    late.actor.rows = coordinator._slots[2].actor.rows
    with coordinator._committing():
        pass
    assert late.actor.calls[-1] == "sync" and shown(coordinator) == (3, [2, 2])
    coordinator.ready(0.01)


def test_a_late_server_is_not_ended_in_the_place_of_the_last_one(coordinator):
    """Both are in the view; the one that is late may be cut off."""
    late, last = coordinator._slots[:2]
    late.pending = LATE
    assert shown(coordinator) == (1, [2, 2])
    assert not coordinator.may_end(last) and coordinator.may_end(late)


def test_a_server_that_answers_again_in_the_middle_of_a_commit_has_not_staged_it(coordinator):
    """The other one of its shard was asked, and failed. The commit ended with a KeyError."""
    back, asked = coordinator._slots[:2]
    back.silent = True

    class Failing(FakeReplica):
        def __getattr__(self, name: str) -> Any:
            def remote(*_: Any) -> Any:
                back.silent = False
                return nearfield.Unavailable("gone")

            return types.SimpleNamespace(remote=remote) if name == "stage" else super().__getattr__(name)

    asked.actor = Failing()
    with pytest.raises(nearfield.Unavailable, match="a shard has no server that has staged it"):
        commit(coordinator)
    assert shown(coordinator) == (1, [1, 2]) and coordinator._slots[2].actor.calls[-1] == "abandon"
    assert commit(coordinator) == [2, 2]


@pytest.mark.parametrize("fresh", [True, False])
def test_an_actor_that_hangs_at_a_start_is_ended(coordinator, monkeypatch, fresh):
    """Also if its server had failed before: it was waited for, for ever."""
    slot = coordinator._slots[0]
    slot.place, limits, killed = {}, [], []

    def ask(slot: Any, reply: Any, timeout: float = float("inf")) -> Any:
        limits.append(timeout)
        raise _slot._NoAnswer("no answer")

    monkeypatch.setattr(FakeSlot, "ask", ask)
    monkeypatch.setattr(FakeSlot, "_find", lambda *_: True)
    monkeypatch.setattr(FakeSlot, "_kill", lambda *_: killed.append(1))
    with pytest.raises(nearfield.Unavailable, match="no answer"):
        slot._run(coordinator, fresh)
    assert killed == [1] and limits[0] < 60
