"""The parts of nearfield.ray.Cluster, each alone, without Ray: segments, calls, a replica with a real
server, the views of a client."""

from __future__ import annotations

import contextlib
import time
import types
from pathlib import Path
from dataclasses import replace
from typing import Any

import nearfield
import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
ray = pytest.importorskip("ray")

from nearfield.ray import _server, _slot  # noqa: E402
from nearfield.ray._manifest import CollectionState, Manifest  # noqa: E402
from nearfield.ray._replica import ReplicaProcess  # noqa: E402
from nearfield.ray._rpc import Caller, Unreachable, serve  # noqa: E402
from nearfield.ray._segment import encode_segment, ids_of, partition_range, partitions_of, put_tables, read_segment  # noqa: E402
from nearfield.ray._store import Store  # noqa: E402
from ray_model import DIM, SETTINGS, draw_vectors  # noqa: E402

DECLARED = {"dim": DIM, "metric": "dot"}


def rows_table(ids: Any, vectors: Any) -> Any:
    flat = pa.array(np.ascontiguousarray(vectors, np.float32).reshape(-1))
    return pa.table({
        "id": pa.array(np.asarray(ids, np.uint64)), "vector": pa.FixedSizeListArray.from_arrays(flat, DIM),
        "payload": pa.array([b""] * len(ids), pa.binary())})  # fmt: skip


# Segments.


def test_a_segment_has_the_rows_of_every_range(store, rng):
    ids = rng.integers(0, 2**63, 9_000, dtype=np.uint64)
    table = pa.table({"id": pa.array(ids), "place": pa.array(np.arange(9_000))})
    (reference,) = put_tables(store.put, [table])
    for shards in (1, 2, 3, 7, 4096):
        found = []
        for shard in sorted({0, shards // 2, shards - 1} if shards > 7 else range(shards)):
            begin, end = partition_range(shard, shards)
            part = read_segment(store, reference, begin, end)
            partitions = partitions_of(ids_of(part))
            assert ((partitions >= begin) & (partitions < end)).all()
            found += part.column("place").to_pylist()
        if shards <= 7:
            assert sorted(found) == list(range(9_000))
    assert not len(read_segment(store, put_tables(store.put, [table.slice(0, 0)])[0], 0, 4096))


def test_a_damaged_byte_of_a_segment_is_found(store, rng):
    data, reference = encode_segment(rows_table(np.arange(5_000), draw_vectors(rng, 5_000)))
    for place in rng.integers(0, len(data), 20).tolist():
        broken = bytearray(data)
        broken[place] ^= 1 << int(rng.integers(8))
        store.put(reference["name"], bytes(broken))
        with pytest.raises(nearfield.DataLoss, match="checksum"):
            read_segment(store, reference, 0, 4096)
    store.put(reference["name"], data[:-1])
    with pytest.raises(nearfield.DataLoss, match="checksum"):
        read_segment(store, reference, 0, 4096)


def test_small_tables_become_one_segment(store, rng):
    tables = [rows_table([n], draw_vectors(rng, 1)) for n in range(50)]
    (reference,) = put_tables(store.put, tables)
    assert reference["rows"] == 50 and len(store.list("segments")) == 1


# Calls.


def test_a_call_raises_the_error_of_its_method():
    """Also one of a class of its own."""

    class Own(nearfield.Unavailable):
        pass

    def fail(name: str) -> None:
        raise {"own": Own("gone"), "storage": OSError("full"), "bug": KeyError("x")}.get(name) or getattr(nearfield, name)("why")

    server, address = serve({"fail": fail}, "127.0.0.1")
    expected = {"own": nearfield.Unavailable, "storage": nearfield.Unavailable, "bug": nearfield.Internal}
    expected |= {kind.__name__: kind for kind in (nearfield.NotFound, nearfield.DataLoss, nearfield.AlreadyExists)}
    try:
        with contextlib.closing(Caller(address)) as caller:
            for name, kind in expected.items():
                with pytest.raises(nearfield.Error) as caught:
                    caller.call("fail", 10, name=name)
                assert type(caught.value) is kind and str(caught.value) == f"{caught.value.code.name}: {caught.value.message}"
    finally:
        server.stop(0).wait()
    gone = Unreachable("gone")
    assert gone.unreachable and str(gone) == "UNAVAILABLE: gone"


# A replica.


@pytest.fixture
def replica(request, store, monkeypatch):
    """All partitions, with the collection docs, which has the id "c", and no row."""
    monkeypatch.setattr(_server, "live_nodes", lambda: [{}])
    context = types.SimpleNamespace(get_node_id=lambda: "node")
    monkeypatch.setattr(ray, "get_runtime_context", lambda: context)
    program, options = request.config.getoption("--server"), {"backend": "cpu", **SETTINGS}
    made = ReplicaProcess(_server.Settings("docs", 1, 1, store.uri, program, "127.0.0.1", 1, 0, options, 5.0, 4096))
    made.start(1, False)
    made.place()
    made.sync(1, empty().encode(), 0, 1)
    yield made
    made._server.kill()


def empty() -> Manifest:
    return Manifest(number=1, layout=1, shards=1, collections={"docs": CollectionState("c", 1, DECLARED, [0])})


def error_of(call: Any, *arguments: Any) -> Exception:
    """Returns the error of a call, which must have one."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        call(*arguments)
    return caught.value


def insert_of(store: Store, ids: Any, vectors: Any, name: str = "one", kind: str = "insert") -> dict[str, Any]:
    return {"id": name, "kind": kind, "segments": put_tables(store.put, [rows_table(ids, vectors)])}


def test_a_staged_operation_is_invisible_until_it_is_applied(replica, store, rng):
    operation = insert_of(store, range(30), draw_vectors(rng, 30))
    assert replica.stage(1, "docs", ("c", ""), operation) == {"rows": 30, "changed": 30}
    assert replica._docs("docs").count().rows_count == 0
    assert replica.apply(1, "docs", "one")["rows"] == 30
    upsert = insert_of(store, range(20, 45), draw_vectors(rng, 25), "two", "upsert")
    assert replica.stage(1, "docs", ("c", "one"), upsert) == {"rows": 45, "changed": 25}
    assert replica.apply(1, "docs", "two")["rows"] == 45
    gone = {"id": "three", "kind": "delete", "segments": put_tables(store.put, [pa.table({"id": pa.array([1, 2, 99], pa.uint64())})])}
    assert replica.stage(1, "docs", ("c", "two"), gone) == {"rows": 43, "changed": 2}
    assert replica.apply(1, "docs", "three")["rows"] == 43
    over = insert_of(store, [7, 8], draw_vectors(rng, 2), "four", "replace")
    assert replica.stage(1, "docs", ("c", "three"), over) == {"rows": 2, "changed": 2}
    assert replica.apply(1, "docs", "four")["rows"] == 2


def test_an_upload_that_was_received_is_staged_after_other_commits(replica, store, rng, monkeypatch):
    """Other commits waited until all its rows were there."""
    large = insert_of(store, range(100, 130), draw_vectors(rng, 30), "two")
    replica.receive(1, "docs", large)
    replica.stage(1, "docs", ("c", ""), insert_of(store, range(9), draw_vectors(rng, 9)))
    assert replica.apply(1, "docs", "one")["rows"] == 9
    monkeypatch.setattr(replica, "_read", None)  # the rows are not read again
    assert replica.stage(1, "docs", ("c", "one"), large) == {"rows": 39, "changed": 30}
    assert replica.apply(1, "docs", "two")["rows"] == 39 and not replica._incoming


def test_an_upload_that_was_received_is_checked_when_its_turn_comes(replica, store, rng):
    large = insert_of(store, range(5, 30), draw_vectors(rng, 25), "two")
    replica.receive(1, "docs", large)
    replica.stage(1, "docs", ("c", ""), insert_of(store, range(9), draw_vectors(rng, 9)))
    replica.apply(1, "docs", "one")
    refused = error_of(replica.stage, 1, "docs", ("c", "one"), large)
    assert isinstance(refused, nearfield.AlreadyExists) and "id 5 is already in the collection" in refused.message
    assert replica._docs("docs").count().rows_count == 9 and not replica._incoming


@pytest.mark.parametrize("how", ["discard", "fence", "start"])
def test_an_upload_that_is_not_committed_is_discarded(replica, store, rng, how):
    large = insert_of(store, range(30), draw_vectors(rng, 30))
    replica.receive(1, "docs", large)
    (incoming,) = replica._incoming.values()
    assert incoming._thread.is_alive()
    if how == "discard":
        replica.discard(1, "docs", large)
    elif how == "fence":  # the coordinator has ended; the next one does not know of the upload
        replica.abandon(2, "another")
    else:
        replica.start(1, True)
    assert not incoming._thread.is_alive() and not replica._incoming
    if how != "start":
        assert replica._docs("docs").count().rows_count == 0


@pytest.mark.parametrize("how", ["apply", "sync"])
def test_an_epoch_is_kept_although_it_was_shown_for_long(replica, store, rng, how):
    """It was pinned when it began; the time for which it is kept had passed when the next commit came."""
    replica._server.kill()
    replica._settings.settings["cursor_ms"] = 200
    replica.start(1, True)
    replica.place()
    state = replica.sync(1, empty().encode(), 0, 1)["docs"]
    time.sleep(0.5)  # tidy: allow(sleep): nothing happens at the end of the time
    operation = insert_of(store, range(9), draw_vectors(rng, 9))
    if how == "apply":
        replica.stage(1, "docs", ("c", ""), operation)
        replica.apply(1, "docs", "one")
    else:
        manifest = Manifest(2, 1, 1, {"docs": CollectionState("c", 1, DECLARED, [9], "one", [], [operation])})
        replica.sync(1, manifest.encode(), 0, 1)
    assert replica._docs("docs").count(at_epoch=state["epoch"], incarnation=state["incarnation"]).rows_count == 0


@pytest.mark.parametrize("kind", ["insert", "upsert", "replace"])
def test_staging_finds_rows_that_the_server_refuses(replica, store, rng, kind):
    """A small upload fits into one block, and was once committed without the server's confirmation of it: the
    refusal came after the decision."""
    vectors = draw_vectors(rng, 3)
    vectors[1, 2] = np.nan
    error = error_of(replica.stage, 1, "docs", ("c", ""), insert_of(store, [1, 2, 3], vectors, kind=kind))
    assert isinstance(error, nearfield.InvalidArgument)
    assert not replica._server.ended.is_set() and replica._staged is None
    replica.stage(1, "docs", ("c", ""), insert_of(store, [1, 2, 3], draw_vectors(rng, 3)))


def test_an_old_coordinator_is_refused(replica, store, rng):
    operation = insert_of(store, [1], draw_vectors(rng, 1))
    replica.stage(1, "docs", ("c", ""), operation)
    assert isinstance(error_of(replica.apply, 2, "docs", "one"), nearfield.Aborted)  # the new one abandons what is staged
    for call in (
        lambda: replica.stage(1, "docs", ("c", ""), operation),
        lambda: replica.apply(1, "docs", "one"),
        lambda: replica.abandon(1, "one"),
        lambda: replica.sync(1, empty().encode(), 0, 1),
        lambda: replica.start(1, True),
    ):
        error = error_of(call)
        assert isinstance(error, nearfield.Aborted) and "later coordinator" in error.message
    assert not replica._server.ended.is_set()
    replica.stage(2, "docs", ("c", ""), operation)
    assert replica.apply(2, "docs", "one")["rows"] == 1


def test_only_the_operation_that_is_meant_is_abandoned(replica, store, rng):
    """The call for the one before may arrive late."""
    replica.stage(1, "docs", ("c", ""), insert_of(store, [1], draw_vectors(rng, 1)))
    replica.abandon(1, "before")
    assert replica._staged is not None
    replica.abandon(1, "one")
    assert replica._staged is None


def test_a_part_of_a_withdrawn_operation_is_not_kept(replica, store, rng):
    """Also if it has only replaced rows, so that their number is right."""
    vectors = draw_vectors(rng, 9)
    rows = insert_of(store, range(9), vectors)
    parts = [put_tables(store.put, [rows_table([each], draw_vectors(rng, 1))])[0] for each in (3, 5)]
    upsert = {"id": "two", "kind": "upsert", "segments": parts}
    state = CollectionState("c", 1, DECLARED, [9], "one", [], [rows])
    before = Manifest(2, 1, 1, {"docs": state})
    replica.sync(1, before.encode(), 0, 1)
    with_upsert = Manifest(3, 1, 1, {"docs": replace(state, last="two", tail=[rows, upsert])})
    path = Path(store.uri.removeprefix("file://"), parts[1]["name"])
    path.rename(path.with_suffix(".away"))
    assert isinstance(error_of(replica.sync, 1, with_upsert.encode(), 0, 1), OSError)
    replica.sync(1, replace(before, number=4).encode(), 0, 1)
    assert (replica._docs("docs").fetch(range(9)).vectors == vectors).all()
    path.with_suffix(".away").rename(path)
    assert replica.sync(1, with_upsert.encode(), 0, 1)["docs"]["rows"] == 9
    assert replica._held["docs"].last == "two" and not replica._held["docs"].begun


def test_a_server_that_is_too_slow_is_no_storage_that_fails(replica, store, rng, monkeypatch):
    """DeadlineExceeded is an OSError, after which a replica goes on with the server as it is."""
    operation = insert_of(store, [1], draw_vectors(rng, 1))
    manifest = Manifest(2, 1, 1, {"docs": CollectionState("c", 1, DECLARED, [1], "one", [], [operation])})
    slow = nearfield.DeadlineExceeded("600 s")

    def docs(name: str) -> Any:
        raise slow

    monkeypatch.setattr(replica, "_docs", docs)
    assert isinstance(error_of(replica.stage, 1, "docs", ("c", ""), operation), nearfield.Unavailable)
    assert not replica._server.ended.is_set()
    assert isinstance(error_of(replica.sync, 1, manifest.encode(), 0, 1), nearfield.Unavailable)
    assert replica._server.ended.wait(30)


def test_an_operation_follows_the_one_before(replica, store, rng):
    operation = insert_of(store, [1], draw_vectors(rng, 1))
    for of in (("c", "another"), ("another", "")):
        assert isinstance(error_of(replica.stage, 1, "docs", of, operation), nearfield.Aborted)
    assert isinstance(error_of(replica.apply, 1, "docs", "one"), nearfield.Aborted)  # nothing is staged
    replica.stage(1, "docs", ("c", ""), operation)
    assert isinstance(error_of(replica.apply, 1, "docs", "another"), nearfield.Aborted)


def test_a_manifest_brings_a_replica_to_its_rows(replica, store, rng):
    """Whatever it has: an abandoned collection, one of the name, operations that were withdrawn or compacted."""
    operations = [insert_of(store, range(n, n + 9), draw_vectors(rng, 9), f"{n}") for n in (0, 100)]
    replica.stage(1, "docs", ("c", ""), operations[0])
    replica.apply(1, "docs", "0")
    created = {"id": "d", "kind": "create", "declared": DECLARED}
    replica.stage(1, "more", ("", ""), created)
    state = CollectionState("c", 1, DECLARED, [18], "100", [], operations)
    manifest = Manifest(3, 1, 1, {"docs": state})
    assert replica.sync(1, manifest.encode(), 0, 1)["docs"]["rows"] == 18
    assert [each.name for each in replica._client.list_collections()] == ["docs"]
    other = Manifest(4, 1, 1, {"docs": replace(state, id="new", tail=operations[1:])})
    assert replica.sync(1, other.encode(), 0, 1)["docs"]["rows"] == 9
    orphan = Manifest(5, 1, 1, {"docs": replace(state, id="new", last="", tail=[])})
    state = replica.sync(1, other.encode(), 0, 1)["docs"]
    assert replica.sync(1, orphan.encode(), 0, 1)["docs"]["rows"] == 0
    compacted = {"id": "200", "kind": "replace", "segments": insert_of(store, range(30), draw_vectors(rng, 30))["segments"]}
    newest = Manifest(6, 1, 1, {"docs": CollectionState("new", 1, DECLARED, [30], "200", [], [compacted])})
    assert replica.sync(1, newest.encode(), 0, 1)["docs"]["rows"] == 30
    assert replica._docs("docs").count(at_epoch=state["epoch"], incarnation=state["incarnation"]).rows_count == 9
    assert not replica._server.ended.is_set()


def test_an_upload_that_is_repeated_is_received_once(replica, store, rng):
    """The one before held its rows for half an hour."""
    large = insert_of(store, range(30), draw_vectors(rng, 30))
    replica.receive(1, "docs", large)
    (first,) = replica._incoming.values()
    replica.receive(1, "docs", large)
    assert not first._thread.is_alive() and len(replica._incoming) == 1


def test_an_upload_that_lost_a_race_is_staged_again(replica, store, rng, monkeypatch):
    """Its rows are not sent again, else it would lose the next race, too."""
    large = insert_of(store, range(30), draw_vectors(rng, 30))
    replica.stage(1, "docs", ("c", ""), large)
    replica.abandon(1, "one", True)
    monkeypatch.setattr(replica, "_read", None)
    assert replica.stage(1, "docs", ("c", ""), {**large, "id": "two"})["rows"] == 30
    assert replica.apply(1, "docs", "two")["rows"] == 30


def test_a_server_that_has_ended_is_noticed(replica):
    replica._server._process.kill()
    assert isinstance(error_of(replica.watch, 30.0), nearfield.Unavailable)


def test_a_server_does_not_report_the_variable_that_named_it(replica, monkeypatch, capfd):
    monkeypatch.setenv(_server.PROGRAM_VARIABLE, replica._settings.program)
    replica.start(1, True)
    replica.place()
    assert "serving on" in (log := capfd.readouterr().err) and _server.PROGRAM_VARIABLE not in log


def test_a_replica_that_cannot_read_the_storage_keeps_what_it_has_loaded(monkeypatch):
    slot = _slot.Slot(_server.Settings("docs", 1, 1, "", "", "", 1, 0, {}, 1.0, 4096), 1, 1, 0, 1, 0)
    monkeypatch.setattr(_slot, "_STORE_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(slot, "ask", lambda reply: reply)
    slot.actor = types.SimpleNamespace(place=types.SimpleNamespace(remote=lambda: {"node": ""}))
    tries: list[str] = []

    def enter(_: Any, life: int) -> None:
        tries.append(slot.error)
        if len(tries) < 4:
            raise OSError("the storage does not answer")

    fleet: Any = types.SimpleNamespace(enter=enter)
    slot._load(fleet, 0)
    assert len(tries) == 4 and "storage" in tries[-1]
    assert slot.lives(0) and not slot.error
    slot._failed.set()
    tries.clear()
    slot._load(fleet, 0)  # of a server that has ended in between
    assert len(tries) == 1


# Names and addresses.


def test_only_replicas_of_this_cluster_end(monkeypatch):
    names = ["docs-1-0-0", "docs-1-1-0", "docs-2-1-0-0", "docs-a-1-0-0", "docs", "docs-2-10-3", "docs-1-0"]
    ended = []
    monkeypatch.setattr(_slot.ray.util, "list_named_actors", lambda **_: [{"name": each, "namespace": "nearfield"} for each in names])
    monkeypatch.setattr(_slot.ray, "get_actor", lambda name, _: name)
    monkeypatch.setattr(_slot.ray, "kill", ended.append)
    _slot.end_others("docs", {"docs-1-1-0"})
    assert ended == ["docs-1-0-0", "docs-2-10-3"]


def test_each_process_decides_where_it_listens(monkeypatch):
    monkeypatch.setattr(_server.ray.util, "get_node_ip_address", lambda: "10.0.0.7")
    nodes = [{"Alive": True}, {"Alive": False}]
    monkeypatch.setattr(_server.ray, "nodes", lambda: nodes)
    assert _server.listen_host("") == "127.0.0.1" and not _server.must_move("", "127.0.0.1:5")
    nodes.append({"Alive": True})
    assert _server.listen_host("") == "10.0.0.7" and _server.must_move("", "127.0.0.1:5")
    assert _server.listen_host("127.0.0.1") == "127.0.0.1" and not _server.must_move("127.0.0.1", "127.0.0.1:5")
    assert not _server.must_move("", "10.0.0.7:5")
