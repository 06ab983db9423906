"""The coordinator of nearfield.ray.Cluster with replicas that fail on demand: whatever fails, the view has one
manifest, what is acknowledged is in the log, and nothing restarts that need not."""

from __future__ import annotations

import json
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import nearfield
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("ray")

from nearfield.ray import _coordinator, _fleet, _server  # noqa: E402
from nearfield.ray._fleet import Fleet  # noqa: E402
from nearfield.ray._log import KEPT, Log, newest_number, object_name  # noqa: E402
from nearfield.ray._manifest import Manifest  # noqa: E402
from nearfield.ray._operations import Coordinator  # noqa: E402
from nearfield.ray._steps import run  # noqa: E402
from nearfield.ray._store import Store  # noqa: E402
from ray_fakes import (  # noqa: E402
    DECLARED,
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


class EmptyReplica:
    """A replica that takes every operation, of which none changes the number of rows. before: called before an
    apply."""

    before: Any = None

    def __getattr__(self, name: str) -> Any:
        return types.SimpleNamespace(remote=getattr(self, f"_{name}"))

    def _stage(self, *_: Any) -> dict[str, int]:
        return {"rows": 0, "changed": 1}

    def _abandon(self, *_: Any) -> None:
        pass

    def _apply(self, *_: Any) -> Any:
        return {"rows": 0, "epoch": 9} if self.before is None else self.before()

    def _sync(self, opened: int, encoded: bytes, *_: Any) -> dict[str, Any]:
        return {name: {"rows": 0, "epoch": 9} for name in Manifest.decode(encoded).collections}


@pytest.fixture
def opened(store, monkeypatch) -> Any:
    """Returns a coordinator that has opened the storage, of a cluster of its own, whose replicas never fail."""

    def start(self: Any, slots: list[Any]) -> None:
        self._slots = self._slots + slots
        for slot in slots:
            slot.actor, slot.place = EmptyReplica(), {"address": slot.name}
            self.enter(slot, 0)

    monkeypatch.setattr(_coordinator, "end_others", lambda *_: None)
    monkeypatch.setattr(Fleet, "_start", start)
    monkeypatch.setattr(Fleet, "_stop", lambda self, slots: setattr(self, "_slots", [each for each in self._slots if each not in slots]))
    monkeypatch.setattr(_fleet, "Slot", FakeSlot)

    def make(cluster: str) -> Any:
        made = object.__new__(Coordinator)
        Fleet.__init__(made, _server.Settings(cluster, 2, 1, store.uri, "", "", 1, 0, {}, 1.0, 4096, cluster))
        made._committers, made._operation, made._address = threading.Semaphore(4), threading.Lock(), f"{cluster}:1"
        made._open()
        return made

    return make


def create(coordinator: Any) -> None:
    coordinator.commit("docs", {"kind": "create", "declared": DECLARED}, "create")


def operations(coordinator: Any) -> list[str]:
    return [each["filter"] for each in coordinator._newest().collections["docs"].tail]


def delete(coordinator: Any, what: str, token: str | None = None) -> int:
    return int(coordinator.commit("docs", {"kind": "filter", "filter": what}, token or what).number)


def test_two_coordinators_commit_to_one_storage(opened):
    """The one that loses the race for a manifest follows the other one, and commits after it."""
    first, second = opened("first"), opened("second")
    create(first)
    numbers = [delete(each, f"{turn} {each._settings.name}") for turn in range(20) for each in (first, second)]
    assert numbers == sorted(set(numbers))
    for each in (first, second):
        each._follow_others()
    assert operations(first) == operations(second) == [f"{turn} {name}" for turn in range(20) for name in ("first", "second")]
    assert first.view()["number"] == second.view()["number"]


def test_a_commit_that_is_repeated_at_another_coordinator_takes_place_once(opened):
    """It is acknowledged only when its author can no longer withdraw it."""
    first, second = opened("first"), opened("second")
    create(first)
    number = delete(first, "x == 1", "once")
    assert delete(second, "x == 1", "once") == number and operations(second) == ["x == 1"]
    assert second._log.head.number > number and second._log.head.author == second._log.author


def test_what_another_coordinator_relies_on_is_not_withdrawn(opened):
    first, second = opened("first"), opened("second")
    create(first)

    def refuse() -> Exception:
        delete(second, "x == 1", "once")
        return nearfield.ResourceExhausted("full")

    first._slots[0].actor.before = refuse
    with pytest.raises(nearfield.Unavailable, match="committed, but a shard refuses it: .*full"):
        delete(first, "x == 1", "once")
    assert operations(first) == ["x == 1"]


def test_a_coordinator_follows_another_number_of_shards(opened):
    first, second = opened("first"), opened("second")
    create(first)
    first._replace_servers(3, 1.0)
    layout = first._log.head.layout
    assert [(slot.layout, slot.shard, slot.shards) for slot in first._slots] == [(layout, shard, 3) for shard in range(3)]
    second._follow_others()
    assert shown(second) == (first._log.head.number, [1, 1, 1])
    second._stop_over()
    assert [slot.name for slot in second._slots] == [f"second-{layout}-{shard}-0" for shard in range(3)]


def test_of_two_resizes_at_the_same_time_one_counts(opened):
    """Both took the same number for their servers: answers lacked the rows of a shard."""
    first, second = opened("first"), opened("second")
    create(first)
    wait = second._wait_ready

    def wait_and_lose(*arguments: Any) -> None:
        wait(*arguments)
        first._replace_servers(4, 1.0)

    second._wait_ready = wait_and_lose
    with pytest.raises(nearfield.Aborted, match="another coordinator has changed the shards"):
        second._replace_servers(3, 1.0)
    for each in (first, second):
        each._follow_others()
        each._stop_over()
        assert shown(each) == (first._log.head.number, [1] * 4)
        assert {(slot.layout, slot.shards) for slot in each._slots} == {(each._log.head.layout, 4)}


def test_a_resize_goes_on_while_another_coordinator_commits(opened):
    first, second = opened("first"), opened("second")
    create(first)
    wait = second._wait_ready

    def wait_and_commit(*arguments: Any) -> None:
        wait(*arguments)
        delete(first, "x == 1")

    second._wait_ready = wait_and_commit
    second._replace_servers(3, 1.0)
    assert second._log.head.shards == 3 and operations(second) == ["x == 1"]


def test_clients_find_the_coordinator_that_came_last_first(opened, store):
    first, second = opened("first"), opened("second")
    cards = [json.loads(data) for data in store.get_all(store.list("coordinators"))]
    assert {(card["address"], card["opened"]) for card in cards} == {
        (f"{each._settings.name}:1", each._log.opened) for each in (first, second)}
    assert first._log.opened < second._log.opened
    opened("first")  # the next one of this cluster
    assert len(store.list("coordinators")) == 2


def test_old_manifests_become_empty_but_keep_their_names(opened, store):
    """A name that was free again would let a writer that was paused commit there."""
    coordinator = opened("first")
    create(coordinator)
    for number in range(30):
        delete(coordinator, f"x == {number}")
        run(coordinator._log.retire(), store=store)
    newest = coordinator._log.head.number
    sizes = [len(store.get(object_name(number))) for number in range(1, newest + 1)]
    assert len(store.list("commits")) == newest and [size > 0 for size in sizes] == [number > newest - KEPT for number in range(1, newest + 1)]
    paused = Log("paused")
    paused.head = Manifest(3, 1, 2)
    assert run(paused.append(paused.head), store=store) is False
    run(paused.follow(), store=store)
    assert paused.head == coordinator._log.head and run(newest_number(3), store=store) == newest


def test_a_coordinator_whose_address_could_not_be_written_writes_it_again(opened, store, monkeypatch):
    """It served, but no client found it."""
    put, failed = Store.put, []

    def failing(self: Store, name: str, data: bytes) -> None:
        if name.startswith("coordinators/") and not failed:
            failed.append(name)
            raise OSError("no answer")
        put(self, name, data)

    monkeypatch.setattr(Store, "put", failing)
    open_once = Coordinator._open

    def open_twice(made: Any) -> None:
        with pytest.raises(OSError, match="no answer"):
            open_once(made)
        open_once(made)

    monkeypatch.setattr(Coordinator, "_open", open_twice)
    made = opened("first")
    assert store.list("coordinators") == failed == ["coordinators/first.json"] and made._log.head.number == 1


def set_ready(coordinator: Any, ready: bool) -> None:
    for slot in coordinator._slots:
        slot.ready, slot.held = ready, {}


class TestWithdraw:
    """An operation that no server can load, after its coordinator has ended."""

    @pytest.fixture
    def refused(self, opened) -> Any:
        """A coordinator whose servers hold nothing, after commits to docs and other."""
        first = opened("first")
        create(first)
        first.commit("other", {"kind": "create", "declared": DECLARED}, "create other")
        for what in ("x == 0", "x == 1"):
            delete(first, what)
        with pytest.raises(nearfield.FailedPrecondition, match="'docs': all shards have servers"):
            first.withdraw("docs")
        second = opened("second")
        set_ready(second, False)
        return second

    def test_it_is_withdrawn_once(self, refused):
        refused.withdraw("docs")
        assert operations(refused) == ["x == 0"]
        set_ready(refused, False)
        with pytest.raises(nearfield.FailedPrecondition, match="what was before its last commit is not known"):
            refused.withdraw("docs")
        with pytest.raises(nearfield.NotFound):
            refused.withdraw("none")

    def test_its_token_is_free_again_and_no_other(self, refused):
        refused.withdraw("docs")
        number = refused._log.head.number
        set_ready(refused, True)
        assert delete(refused, "x == 0") < number and delete(refused, "x == 1") > number
        assert operations(refused) == ["x == 0", "x == 1"]
        created = refused.commit("other", {"kind": "create", "declared": DECLARED}, "create other")
        assert created.number < number

    @pytest.mark.parametrize("how", ["compaction", "resize"])
    def test_it_is_refused_if_the_rows_before_are_not_known(self, refused, how):
        log = refused._log
        if how == "resize":
            set_ready(refused, True)
            refused._replace_servers(3, 1.0)
        else:
            made = refused._compacted("docs", log.head.collections["docs"], [], log.head)
            refused._perform(log.append(made))
        set_ready(refused, False)
        with pytest.raises(nearfield.FailedPrecondition, match="not known"):
            refused.withdraw("docs")


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
