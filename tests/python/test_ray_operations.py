"""The operations of a cluster, requested and in the background, with replicas that are not real: restart, compaction, and
the deletion of files that no manifest names."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import nearfield
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("ray")

from nearfield.ray import _fleet, _operations, _slot  # noqa: E402
from nearfield.ray._manifest import TAIL_MAX, operations_after  # noqa: E402
from nearfield.ray._steps import run  # noqa: E402
from nearfield.ray._store import Store  # noqa: E402
from ray_fakes import FakeSlot, Mute, raise_or_return, shown  # noqa: E402


@pytest.fixture
def kept(monkeypatch) -> list[Any]:
    """The settings that the coordinator has put into the store of Ray."""
    made: list[Any] = []
    monkeypatch.setattr(_operations.internal_kv, "_internal_kv_put", lambda _, value, **__: made.append(json.loads(value)))
    return made


def test_a_restart_leaves_each_shard_a_server(coordinator, monkeypatch):
    """A replica that failed is waited for, before and between."""
    taken = []

    def leave(slot: Any) -> None:
        threading.Timer(0.05, back, (slot,)).start()

    def fail(slot: Any, why: str) -> None:
        taken.append([each.ready for each in coordinator._slots])
        _slot.Slot.fail(slot, why)

    def back(slot: Any) -> None:
        with coordinator._changed:
            slot.ready = True
            coordinator._changed.notify_all()

    monkeypatch.setattr(FakeSlot, "fail", fail)
    monkeypatch.setattr(coordinator, "leave", leave)
    coordinator._slots[1].ready = False
    threading.Timer(0.1, back, (coordinator._slots[1],)).start()
    assert coordinator.restart(30) == 4
    assert taken == [[True] * 4] * 4


@pytest.fixture
def restarts(coordinator, monkeypatch) -> list[tuple[str, str]]:
    """The servers that were started again, in their order, with their setting k_max. One with k_max 13 does not start."""
    made: list[tuple[str, str]] = []

    def fail(slot: Any, why: str) -> None:
        k_max = slot._settings.settings.get("k_max", "")
        made.append((slot.name, k_max))
        _slot.Slot.fail(slot, why)

    def leave(slot: Any) -> None:
        slot.ready = slot._settings.settings.get("k_max", "") != "13"

    monkeypatch.setattr(FakeSlot, "fail", fail)
    monkeypatch.setattr(coordinator, "leave", leave)
    coordinator._settings = coordinator._settings.changed({"k_max": "9"})
    for slot in coordinator._slots:
        slot.use(coordinator._settings)
    return made


def test_a_restart_changes_settings(coordinator, restarts, kept):
    """Others stay, and an empty one goes. The store of Ray gets what the next coordinator starts with."""
    assert coordinator.restart(30, {"k-max": "7", "threads": 2}) == 4
    assert restarts == [(slot.name, "7") for slot in coordinator._slots]
    assert coordinator.status()["settings"] == {"k_max": "7", "threads": "2"}
    coordinator.restart(30, {"threads": ""})
    coordinator.restart(30)
    assert kept == [{"k_max": "7", "threads": 2}, {"k_max": "7"}]
    assert len(restarts) == 12 and coordinator.status()["settings"] == {"k_max": "7"}


@pytest.mark.parametrize("given, error", [
    ({"ops-listen": "127.0.0.1:1"}, "settings: ops_listen is set by the cluster"),
    ({"k_max": "abc"}, "settings: k_max must be 1 .. 4096"),
])  # fmt: skip
def test_wrong_settings_end_no_server(coordinator, restarts, kept, given, error):
    """Also if only the last of the nodes refuses them."""
    coordinator._slots[3].actor.answers["check"] = nearfield.InvalidArgument("settings: k_max must be 1 .. 4096")
    with pytest.raises(nearfield.InvalidArgument, match=error):
        coordinator.restart(30, given)
    assert not restarts and not kept and coordinator.status()["settings"] == {"k_max": "9"}


def test_a_server_that_does_not_start_with_new_settings_gets_the_old_ones(coordinator, restarts, kept, monkeypatch):
    """The program has accepted them, but the device refuses. The servers that have started with them are restarted, too."""
    wait, name = coordinator.ready, coordinator._slots[1].name
    monkeypatch.setattr(coordinator, "ready", lambda _, some: wait(1, some))
    changed = type(coordinator._slots[1]).use

    def use(slot: Any, settings: Any) -> None:
        refuses = slot.name == name and settings.settings["k_max"] == "8"
        changed(slot, settings.changed({"k_max": "13"}) if refuses else settings)

    monkeypatch.setattr(FakeSlot, "use", use)
    with pytest.raises(nearfield.Unavailable, match=f"not ready after 1 s: {name}"):
        coordinator.restart(30, {"k_max": "8"})
    first, second = (slot.name for slot in coordinator._slots[:2])
    assert restarts == [(first, "8"), (second, "13"), (second, "9"), (first, "9")]
    assert not kept and coordinator.status()["settings"] == {"k_max": "9"}
    assert {slot._settings.settings["k_max"] for slot in coordinator._slots} == {"9"}


@pytest.mark.parametrize("error", [None, nearfield.Unavailable("no GPU is free")])
def test_with_one_replica_the_new_servers_have_the_settings(coordinator, kept, monkeypatch, error):
    """They are started next to the others, which stay with theirs after an error."""
    coordinator._settings = replace(coordinator._settings, replicas=1)
    made = []

    def replace_servers(*_: Any) -> None:
        made.append(coordinator._new_slots(2, 2))
        raise_or_return(error)

    monkeypatch.setattr(coordinator, "_replace_servers", replace_servers)
    with pytest.raises(nearfield.Unavailable) if error else contextlib.nullcontext():
        coordinator.restart(30, {"k_max": "7"})
    assert [slot._settings.settings for slot in made[0]] == [{"k_max": "7"}] * 2
    assert coordinator.status()["settings"] == ({} if error else {"k_max": "7"}) and len(kept) == (error is None)


def test_only_the_replicas_that_there_are_must_be_ready(coordinator):
    """The servers of a resize that fails meanwhile are gone."""
    new = FakeSlot(coordinator._settings, 1, 2, 0, 1, 0)
    coordinator._slots.append(new)
    with pytest.raises(nearfield.Unavailable, match="fake-2-0-0"):
        coordinator.ready(0.05)
    threading.Timer(0.1, coordinator._stop, ([new],)).start()
    coordinator.ready(30)


@pytest.mark.parametrize("nodes, free, reason", [
    ([2], 0, "16 CPUs wanted, 2 in the cluster"),
    ([8, 7], 9, "16 CPUs wanted, 15 in the cluster"),
    ([3, 3, 3, 3, 3, 3], 18, "4 CPUs wanted for a server, 3 on the largest node"),
    ([16], 3, "8 CPUs wanted, 3 of 16 free"),
    ([16], 9, "its process starts, or no node has enough that is free"),
])  # fmt: skip
def test_a_start_that_waits_reports_what_ray_lacks(coordinator, monkeypatch, nodes, free, reason):
    """A start of more servers than there are cores was silent for 600 s, and `status` had no error."""
    coordinator._settings = replace(coordinator._settings, num_cpus=4)
    monkeypatch.setattr(_fleet, "live_nodes", lambda: [{"Resources": {"CPU": float(each)}} for each in nodes])
    monkeypatch.setattr(_fleet.ray, "cluster_resources", lambda: {"CPU": float(sum(nodes))})
    monkeypatch.setattr(_fleet.ray, "available_resources", lambda: {"CPU": float(free)})
    for slot in coordinator._slots[2:]:
        slot.ready, slot.waits = False, True
    expected = f"fake-1-1-0, fake-1-1-1: it waits for Ray: {reason}"
    assert coordinator.waiting() == expected
    assert [each["error"] for each in coordinator.status()["servers"]] == ["", "", *[f"it waits for Ray: {reason}"] * 2]
    with pytest.raises(nearfield.Unavailable, match=f"not ready after 0.05 s: {expected}"):
        coordinator.ready(0.05)
    for slot in coordinator._slots[2:]:
        slot.ready, slot.waits = True, False
    assert coordinator.waiting() == ""


def segment(store: Store, letter: str, days: float = 0, rows: int = 1) -> dict[str, Any]:
    """Returns a reference of a segment that was written some days ago."""
    name = f"segments/{letter * 32}"
    store.put(name, b"rows")
    path = Path(store.uri.removeprefix("file://"), name)
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime - days * 86400))
    return {"name": name, "rows": rows, "index": [0, 4, ""]}


def test_old_files_that_no_manifest_names_are_deleted(coordinator, store):
    """An upload that was not committed leaves some; one that still runs has its files for a week."""
    for letter, days in (("a", 9), ("b", 9), ("c", 6), ("d", 0)):
        made = segment(store, letter, days)
        if letter == "a":
            coordinator.commit("docs", {"kind": "insert", "segments": [made]}, "a")
    kept = [f"segments/{letter * 32}" for letter in "acd"]
    assert (coordinator.clean(), store.list("segments")) == (1, kept)
    for number in range(TAIL_MAX):  # the tail moves into a page
        coordinator.commit("docs", {"kind": "insert", "segments": []}, f"{number}")
    assert len(coordinator._log.head.collections["docs"].pages) == 1
    assert coordinator.clean(age_seconds_min=-1) == 2
    assert store.list("segments") == kept[:1] and len(store.list("log")) == 1


def test_many_unnamed_files_are_deleted_in_several_turns(coordinator, store, monkeypatch):
    monkeypatch.setattr(_operations, "_DELETES_MAX", 2)
    for letter in "abcde":
        segment(store, letter, 9)
    assert (coordinator.clean(), coordinator.clean(), store.list("segments")) == (5, 0, [])


def test_a_collection_with_many_commits_is_compacted(coordinator, store):
    coordinator._settings = replace(coordinator._settings, compact_after=3)
    for number in range(3):
        assert coordinator._maintain(clean=True)
        assert coordinator._log.head.collections["docs"].count == number
        coordinator.commit("docs", {"kind": "insert", "segments": []}, f"{number}")
    for slot in coordinator._slots:
        slot.actor.answers["export"] = [segment(store, "abcd"[slot.shard], rows=3)]
    coordinator._slots[0].ready = False  # it reads the files that a compaction deletes
    assert coordinator._maintain(clean=False) and coordinator._log.head.collections["docs"].count == 3
    coordinator._slots[0].ready = True
    assert coordinator._maintain(clean=False)
    state = coordinator._log.head.collections["docs"]
    assert [each["kind"] for each in state.tail] == ["replace"] and len(state.tail[0]["segments"]) == 2
    assert shown(coordinator) == (5, [2, 2])


def test_a_part_of_the_maintenance_that_fails_does_not_stop_the_others(coordinator, store):
    """A collection that cannot be compacted, and a file that another program left."""
    coordinator._settings = replace(coordinator._settings, compact_after=2)
    for number in range(2):
        coordinator.commit("docs", {"kind": "insert", "segments": []}, f"{number}")
    for slot in coordinator._slots:
        slot.actor.answers["export"] = OSError("full") if slot.shard else [segment(store, "e")]
    segment(store, "b", 9)
    Path(store.uri.removeprefix("file://"), "segments", "copy (1)").write_bytes(b"")
    assert not coordinator._maintain(clean=True)
    assert store.list("segments") == []  # also what the other shard exported


def test_a_compaction_without_the_rows_of_a_silent_server_is_none(coordinator, store):
    """It took the place of all rows, and the files with those of the silent server were deleted."""
    made = segment(store, "a")
    coordinator.commit("docs", {"kind": "insert", "segments": [made]}, "once")
    coordinator.leave(coordinator._slots[3])
    for slot in coordinator._slots[:2]:
        slot.actor.answers["export"] = [segment(store, "b")]
    last = coordinator._slots[2]
    last.actor = Mute(last, "export")
    state = coordinator._log.head.collections["docs"]
    with pytest.raises(nearfield.Unavailable, match="docs: 1 of 2 rows were written: a server does not answer"):
        coordinator.compact("docs")
    assert coordinator._log.head.collections["docs"] == state and store.list("segments") == [made["name"]]


@pytest.mark.parametrize("when", ["in doubt", "after it"])
def test_a_compaction_that_fails_deletes_nothing_that_a_manifest_names(coordinator, store, monkeypatch, when):
    """Another call settled the manifest in doubt before the files were deleted."""
    coordinator.commit("docs", {"kind": "insert", "segments": []}, "once")
    for slot in coordinator._slots:
        slot.actor.answers["export"] = [segment(store, "ab"[slot.shard])]
    put, failures = Store.put_new, ["in doubt"] if when == "in doubt" else []

    def doubtful(self: Store, name: str, data: bytes) -> bool:
        done = put(self, name, data)
        if failures:
            raise OSError(failures.pop())
        return done

    change = coordinator._change

    def change_then_settle(make: Any) -> Any:
        try:
            changed = change(make)
            raise RuntimeError(f"after {changed}")
        finally:
            with coordinator._committing():
                assert coordinator._log.pending is None

    monkeypatch.setattr(Store, "put_new", doubtful)
    monkeypatch.setattr(coordinator, "_change", change_then_settle)
    with pytest.raises((nearfield.Unavailable, RuntimeError), match=when.partition(" ")[0]):
        coordinator.compact("docs")
    (base,) = coordinator._log.head.collections["docs"].tail
    assert sorted(each["name"] for each in base["segments"]) == store.list("segments") != []


def test_what_was_committed_during_a_compaction_stays(coordinator, store, monkeypatch):
    """Also more than the tail of a manifest takes."""
    made = [segment(store, letter) for letter in "ab"]
    coordinator.commit("docs", {"kind": "insert", "segments": made[:1]}, "first")

    def export(name: str, holders: Any, segments: list[Any]) -> None:
        for number in range(TAIL_MAX):
            coordinator.commit("docs", {"kind": "insert", "segments": []}, f"{number}")
        coordinator.commit("docs", {"kind": "insert", "segments": made[1:]}, "last")
        segments.append(segment(store, "c"))

    monkeypatch.setattr(coordinator, "_export", export)
    assert coordinator.compact("docs") == 0
    state = coordinator._log.head.collections["docs"]
    assert (state.count, len(state.pages), len(state.tail)) == (TAIL_MAX + 2, 1, 2)
    assert store.list("segments") == [f"segments/{letter * 32}" for letter in "bc"]
    kinds = [each["kind"] for each in run(operations_after(state, ""), store=store)]
    assert kinds == ["replace"] + ["insert"] * (TAIL_MAX + 1)
