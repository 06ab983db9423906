"""Several coordinators of nearfield.ray.Cluster on one storage, whose replicas never fail: each follows the other, no
commit is lost or takes place twice, and one number of shards counts."""

from __future__ import annotations

import json
import threading
import types
from functools import partial
from typing import Any

import nearfield
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("ray")

from nearfield.ray import _coordinator, _fleet, _server, _tokens  # noqa: E402
from nearfield.ray._fleet import Fleet  # noqa: E402
from nearfield.ray._log import KEPT, Log, compacted, newest_number, object_name  # noqa: E402
from nearfield.ray._manifest import TAIL_MAX, Manifest  # noqa: E402
from nearfield.ray._operations import Coordinator  # noqa: E402
from nearfield.ray._steps import run  # noqa: E402
from nearfield.ray._store import Store  # noqa: E402
from ray_fakes import DECLARED, FakeSlot, shown, without_ray  # noqa: E402


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

    without_ray(monkeypatch)
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


def test_a_coordinator_deletes_only_what_its_own_commits_made_unused(opened, store, monkeypatch):
    """The last commit of another one may be withdrawn: then the manifest after it names the file of tokens again."""
    monkeypatch.setattr(_tokens, "TOKENS_MAX", 2)
    monkeypatch.setattr(_tokens, "TOKEN_PAGES_MAX", 1)
    first, second = opened("first"), opened("second")
    create(first)
    delete(first, "x == 0")
    delete(first, "x == 1")
    second._follow_others()
    pages = first._log.head.token_pages
    number = delete(first, "x == 2")

    def refuse() -> Exception:
        assert first._log.head.token_pages != pages
        assert delete(second, "x == 2") == number and second._log.head.author == first._log.author
        return nearfield.ResourceExhausted("full")

    first._slots[0].actor.before = refuse
    with pytest.raises(nearfield.ResourceExhausted):
        delete(first, "x == 3")
    assert first._log.head.token_pages == pages and store.get(pages[0][0])
    assert delete(opened("third"), "x == 0") < number


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
    wait = second.ready

    def wait_and_lose(*arguments: Any) -> None:
        wait(*arguments)
        first._replace_servers(4, 1.0)

    second.ready = wait_and_lose
    with pytest.raises(nearfield.Aborted, match="another coordinator has changed the shards"):
        second._replace_servers(3, 1.0)
    for each in (first, second):
        each._follow_others()
        each._stop_over()
        assert shown(each) == (first._log.head.number, [1] * 4)
        assert {(slot.layout, slot.shards) for slot in each._slots} == {(each._log.head.layout, 4)}


def test_a_resize_in_doubt_keeps_its_servers(opened, monkeypatch):
    """Its manifest may be there; then only they can answer."""
    coordinator = opened("first")
    create(coordinator)
    put, shards = Store.put_new, Manifest.decode

    def failing(self: Store, name: str, data: bytes) -> bool:
        put(self, name, data)
        if shards(data).shards == 3:
            raise OSError("no answer")
        return True

    monkeypatch.setattr(Store, "put_new", failing)
    with pytest.raises(nearfield.Unavailable, match="may take effect"):
        coordinator._replace_servers(3, 1.0)
    assert sorted({slot.shards for slot in coordinator._slots}) == [2, 3]
    monkeypatch.setattr(Store, "put_new", put)
    delete(coordinator, "x == 1")
    coordinator._stop_over()
    assert shown(coordinator) == (coordinator._log.head.number, [1, 1, 1]) and len(coordinator._slots) == 3


def test_a_resize_goes_on_while_another_coordinator_commits(opened):
    first, second = opened("first"), opened("second")
    create(first)
    wait = second.ready

    def wait_and_commit(*arguments: Any) -> None:
        wait(*arguments)
        delete(first, "x == 1")

    second.ready = wait_and_commit
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
        with pytest.raises(nearfield.NotFound, match="'none'"):
            first.withdraw("none")
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
            refused._change(partial(compacted, "docs", log.head.collections["docs"], [], "by"))
        set_ready(refused, False)
        with pytest.raises(nearfield.FailedPrecondition, match="not known"):
            refused.withdraw("docs")

    def test_it_is_refused_once_a_compaction_has_moved_it_into_an_object(self, refused):
        """It stayed there, next to the state before it."""
        set_ready(refused, True)
        log, state = refused._log, refused._log.head.collections["docs"]
        for number in range(TAIL_MAX - 1):  # with what takes the place of the operations before, the tail is full
            delete(refused, f"x == {9 + number}")
        refused._change(partial(compacted, "docs", state, [], "by"))
        assert (len(log.head.collections["docs"].pages), log.head.collections["docs"].tail) == (1, [])
        set_ready(refused, False)
        with pytest.raises(nearfield.FailedPrecondition, match="not known"):
            refused.withdraw("docs")
