"""The coordinator of nearfield.ray.Cluster with replicas that fail on demand: whatever fails, the view has one
manifest, what is acknowledged is in the log, and nothing restarts that need not."""

from __future__ import annotations

import threading
import types
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import nearfield
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("ray")

from nearfield.ray._log import object_name  # noqa: E402
from nearfield.ray._store import Store  # noqa: E402
from ray_fakes import (  # noqa: E402
    FakeReplica,
    FakeSlot,
    commit,
    raise_or_return,
    shown,
)


def test_a_commit_is_shown_and_happens_once(coordinator):
    assert commit(coordinator) == [2, 2] == commit(coordinator)
    assert shown(coordinator) == (2, [2, 2])
    assert [slot.actor.calls for slot in coordinator._slots] == [["stage", "apply"]] * 4


def test_a_token_is_of_one_operation(coordinator):
    """An upload with the token of another one must not be acknowledged without a commit."""
    commit(coordinator)
    for name, kind in (("docs", "upsert"), ("other", "insert")):
        with pytest.raises(nearfield.FailedPrecondition, match="token"):
            coordinator.commit(name, {"kind": kind, "segments": []}, "once")
    assert coordinator._log.head.number == 2


@pytest.mark.parametrize("name", ["../victim", "terms/1-a.json", "segments/../terms/1", "segments/" + 31 * "a", 5])
def test_the_log_takes_no_names_of_other_objects(coordinator, name):
    """The objects of an operation are deleted with its collection."""
    with pytest.raises(nearfield.InvalidArgument):
        coordinator.commit("docs", {"kind": "insert", "segments": [{"name": name, "rows": 1, "index": [0, 1, ""]}]}, "t")
    with pytest.raises(nearfield.InvalidArgument):
        coordinator.commit("docs", {"kind": "truncate"}, "t")
    with pytest.raises(ValueError, match="name"):
        coordinator._store.delete("segments/../victim")
    segment = {"name": "segments/" + 32 * "a", "rows": 1, "index": [0, 1, ""]}
    coordinator.commit("docs", {"kind": "filter", "filter": "x == 1", "segments": [segment], "id": "c"}, "t")
    (operation,) = coordinator._log.head.collections["docs"].tail
    assert operation.keys() == {"id", "kind", "filter"} and operation["id"] != "c"


def test_an_upload_does_not_go_into_another_collection_of_the_name(coordinator):
    with pytest.raises(nearfield.Aborted, match="another one"):
        coordinator.commit("docs", {"kind": "insert", "segments": []}, "t", created=2)


def test_a_refused_operation_restarts_nothing(coordinator):
    coordinator._slots[3].actor.answers["stage"] = nearfield.ResourceExhausted("full")
    with pytest.raises(nearfield.ResourceExhausted):
        commit(coordinator)
    assert shown(coordinator) == (1, [2, 2]) and all(slot.ready for slot in coordinator._slots)
    assert coordinator._store.list("commits") == []
    assert all(slot.actor.calls[-1] == "abandon" for slot in coordinator._slots)


def test_a_replica_that_fails_is_left_out_alone(coordinator):
    coordinator._slots[0].actor.answers["stage"] = nearfield.Unavailable("gone")
    coordinator._slots[3].actor.answers["apply"] = nearfield.Internal("other rows")
    assert commit(coordinator) == [2, 2]
    assert shown(coordinator) == (2, [1, 1])
    assert [slot.ready for slot in coordinator._slots] == [False, True, True, False]


def test_a_shard_without_a_server_shows_the_manifest_before(coordinator):
    """The operation is in the log: it is acknowledged when a replica has loaded it, not earlier."""
    for slot in coordinator._slots[:2]:
        slot.actor.answers["apply"] = nearfield.Unavailable("gone")
    with pytest.raises(nearfield.Unavailable, match="committed"):
        commit(coordinator)
    assert shown(coordinator) == (1, [0, 2])
    back = coordinator._slots[0]
    back.actor.rows = 1
    back._failed.clear()
    coordinator.enter(back, 0)
    assert shown(coordinator) == (2, [1, 2])
    assert commit(coordinator) == [2, 2]


def test_an_operation_that_a_shard_refuses_after_all_is_withdrawn(coordinator):
    for slot in coordinator._slots[:2]:
        slot.actor.answers["apply"] = nearfield.ResourceExhausted("full")
    for slot in coordinator._slots[2:]:
        slot.actor.answers["sync"] = nearfield.Internal("an operation that is in no manifest")
    with pytest.raises(nearfield.ResourceExhausted):
        commit(coordinator)
    assert coordinator._log.head.number == 3 and not coordinator._log.head.collections["docs"].tail
    for slot in coordinator._slots[2:]:  # they have applied it, so they load their rows again
        assert not slot.ready
        slot.actor.answers.clear()
        slot.actor.rows = 0
        slot._failed.clear()
        coordinator.enter(slot, 0)
    for slot in coordinator._slots:
        slot.actor.answers.clear()
    assert shown(coordinator) == (3, [2, 2])
    assert commit(coordinator) == [4, 2]


def test_an_operation_that_is_withdrawn_is_never_shown(coordinator, monkeypatch):
    """The withdrawal is in doubt when a replica enters with the operation."""
    for slot in coordinator._slots[:2]:
        slot.actor.answers["apply"] = nearfield.ResourceExhausted("full")
    put = Store.put_new

    def failing(self: Store, name: str, data: bytes) -> bool:
        if name == object_name(3):
            raise OSError("no answer")
        return put(self, name, data)

    monkeypatch.setattr(Store, "put_new", failing)
    with pytest.raises(nearfield.Unavailable):
        commit(coordinator)
    back = coordinator._slots[0]
    coordinator.leave(back)
    back.actor.rows = 1
    back._failed.clear()
    coordinator.enter(back, 0)
    assert back.ready and shown(coordinator)[0] == 1 and coordinator._log.pending.number == 3


def test_a_replica_that_fell_behind_is_brought_to_the_newest_manifest(coordinator):
    """Ray itself failed in the middle of a commit, which is in the log then."""
    broken = FakeReplica()
    broken.answers["stage"] = {"rows": 1, "changed": 1}
    coordinator._slots[3].actor = types.SimpleNamespace(stage=broken.stage, sync=broken.sync)  # without apply
    with pytest.raises(AttributeError):
        commit(coordinator)
    assert coordinator._log.head.number == 2 and len(coordinator._behind()) == 4
    for slot in coordinator._slots:
        slot.actor.rows = 1
    broken.rows = 1
    with coordinator._committing():
        pass
    assert shown(coordinator) == (2, [2, 2])


def test_replicas_are_brought_to_a_manifest_at_the_same_time_and_without_a_limit(coordinator, monkeypatch):
    """A large upload whose manifest was in doubt is loaded for longer than other calls last."""
    coordinator._log.head = replace(coordinator._log.head, number=2)
    order = []

    def ask(slot: Any, reply: Any, timeout: Any = None) -> Any:
        assert timeout is None
        order.append([each.actor.calls for each in coordinator._slots])
        return raise_or_return(reply)

    monkeypatch.setattr(FakeSlot, "ask", ask)
    with coordinator._committing():
        pass
    assert order[0] == [["sync"]] * 4 and shown(coordinator) == (2, [2, 2])


def test_a_doubtful_manifest_is_settled_before_the_next_commit(coordinator, monkeypatch):
    """Whatever fails in between, the view has one manifest, and no error hides a commit that is there."""
    put = Store.put_new

    def failing(self: Store, name: str, data: bytes) -> bool:
        put(self, name, data)
        raise OSError("no answer")

    monkeypatch.setattr(Store, "put_new", failing)
    with pytest.raises(nearfield.Unavailable, match="may take effect"):
        commit(coordinator)
    assert shown(coordinator) == (1, [2, 2]) and all(slot.ready for slot in coordinator._slots)
    monkeypatch.setattr(Store, "put_new", put)
    for slot in coordinator._slots:
        slot.actor.rows = 1
        slot.actor.answers["sync"] = OSError("the storage cannot be read yet")
    with coordinator._committing():
        pass
    assert shown(coordinator) == (1, [2, 2]) and all(slot.ready for slot in coordinator._slots)
    for slot in coordinator._slots:
        del slot.actor.answers["sync"]
    coordinator._slots[1].actor.answers["sync"] = nearfield.Unavailable("gone")
    assert commit(coordinator, "another") == [3, 2]
    assert shown(coordinator) == (3, [1, 2])
    assert commit(coordinator) == [2, 2]


def test_a_large_upload_does_not_hold_other_commits(coordinator):
    """They waited for it for 25 s, and failed."""
    arrived, done = threading.Event(), threading.Event()

    def receive(*_: Any) -> None:
        arrived.set()
        assert done.wait(30)

    for slot in coordinator._slots:
        slot.actor.receive = types.SimpleNamespace(remote=receive)
    large = {"kind": "insert", "segments": [{"name": "segments/" + 32 * "a", "rows": 10_000, "index": [0, 1, ""]}]}
    with ThreadPoolExecutor(1) as pool:
        upload = pool.submit(coordinator.commit, "docs", large, "large")
        assert arrived.wait(30)
        assert commit(coordinator) == [2, 2]
        done.set()
        assert upload.result(30).number == 3
    assert [slot.actor.calls for slot in coordinator._slots] == [["stage", "apply", "stage", "apply", "discard"]] * 4


def test_a_commit_does_not_wait_for_ever(coordinator):
    held = threading.Event()
    done = threading.Event()

    def hold() -> None:
        with coordinator._commit:
            held.set()
            done.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    with pytest.raises(nearfield.Unavailable, match="another commit"):
        commit(coordinator)
    done.set()
    thread.join()
