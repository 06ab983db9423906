"""Administration of a server in use: aliases, snapshots, restore, checks, compaction."""

from __future__ import annotations

import shutil
import threading
from functools import partial

import grpc
import numpy as np
import pytest
from conftest import damage, run_together

INVALID = grpc.StatusCode.INVALID_ARGUMENT
PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
DIM = 16


def rows_of(rng, count: int) -> np.ndarray:
    return rng.standard_normal((count, DIM), dtype=np.float32)


def everything(client, name: str, queries) -> tuple:
    """Returns the epoch, ids, score bits and payloads of all rows, for each query."""
    reply = client.search(name, queries, 4096, with_payload=True)
    return reply.epoch, [client.answer(result) for result in reply.results], [list(r.payloads) for r in reply.results]


class Places:
    """A data directory and a snapshot directory, for several servers one after another."""

    def __init__(self, start, api, folder) -> None:
        self.start_server, self.api, self.folder = start, api, folder
        self.snapshots = folder / "snapshots"

    def serve(self, data: str = "data"):
        return self.api(self.start_server("--data-dir", str(self.folder / data), "--snapshot-dir", str(self.snapshots)))


@pytest.fixture
def places(start, api, tmp_path):
    return Places(start, api, tmp_path)


def test_an_alias_moves_under_searches_and_every_answer_is_of_one_collection(places, rng):
    client = places.serve()
    pb, admin = client.pb, client.server.admin
    query = rows_of(rng, 1)
    answers = {}
    for name in ("blue", "green"):
        client.create(name, DIM)
        client.upload(name, list(range(500)), rows_of(rng, 500))
        answers[name] = client.answer(client.search(name, query, 100).results[0])
    assert answers["blue"] != answers["green"]
    admin.SetAlias(pb.SetAliasRequest(alias="live", collection="blue"))
    done, failures, seen = threading.Event(), [], set()

    def search() -> None:
        try:
            while not done.is_set():
                answer = client.answer(client.search("live", query, 100).results[0])
                seen.update(name for name in answers if answers[name] == answer)
                assert answer in answers.values()
        except Exception as error:  # noqa: BLE001: reported by the test
            failures.append(error)

    searchers = [threading.Thread(target=search) for _ in range(4)]
    for thread in searchers:
        thread.start()
    moves = 0
    while not failures and (moves < 400 or len(seen) < 2):
        name = ("green", "blue")[moves % 2]
        reply = admin.SetAlias(pb.SetAliasRequest(alias="live", collection=name))
        assert (reply.collection.name, reply.collection_before) == (name, ("blue", "green")[moves % 2])
        moves += 1
    done.set()
    for thread in searchers:
        thread.join()
    assert not failures, failures[0]
    assert seen == {"blue", "green"}


def test_aliases_outlive_the_process_and_names_are_strict(places, refused, rng, nearfield):
    client = places.serve()
    client.create("a", DIM)
    client.create("b", DIM)
    client.upload("b", [1, 2], rows_of(rng, 2))
    assert nearfield(client.server, "alias", "set", "live", "a", "--json").json == [
        {"alias": "live", "collection": "a", "collection_before": ""}]
    assert nearfield(client.server, "alias", "set", "live", "b", "--json").json[0]["collection_before"] == "a"
    client.server.kill()
    client = places.serve()
    pb, admin = client.pb, client.server.admin
    assert [list(info.aliases) for info in admin.ListCollections(pb.ListCollectionsRequest()).collections] == [[], ["live"]]
    assert client.server.retrieval.Count(pb.CountRequest(collection="live")).rows_count == 2
    for name in ("", "..", "a/b", "/a", "a\n", "-a", "x" * 64):
        refused(INVALID, lambda: admin.SetAlias(pb.SetAliasRequest(alias=name, collection="a")), "alias")
    refused(grpc.StatusCode.ALREADY_EXISTS, lambda: client.create("live", DIM), "alias")
    refused(grpc.StatusCode.ALREADY_EXISTS, lambda: admin.SetAlias(pb.SetAliasRequest(alias="a", collection="b")))
    refused(PRECONDITION, lambda: admin.DropCollection(pb.DropCollectionRequest(name="live")), "alias", "b")
    assert nearfield(client.server, "alias", "drop", "live", "--json").json == [{"alias": "live", "collection": "b"}]
    refused(grpc.StatusCode.NOT_FOUND, lambda: client.search("live", rows_of(rng, 1)))


def test_a_snapshot_under_load_restores_one_epoch_to_the_bit(places, rng, offline, nearfield):
    """Uploads and deletes run meanwhile. The restored server answers as the old one did at the
    snapshot's epoch."""
    client = places.serve()
    pb = client.pb
    client.create("a", DIM, "COSINE")
    client.create("names", DIM, ids="STRING")
    client.upload("names", ["x", "y"], rows_of(rng, 2), [b"one", b"two"])
    client.server.admin.SetAlias(pb.SetAliasRequest(alias="live", collection="a"))
    queries = rows_of(rng, 3)
    answers: dict[int, tuple] = {0: everything(client, "a", queries)}
    done, failures = threading.Event(), []

    def change() -> None:
        try:
            for step in range(10_000):
                if done.is_set():
                    return
                ids = list(range(step * 30, step * 30 + 30))
                client.upload("a", ids, rows_of(rng, 30), [b"p%d" % i for i in ids])
                answers[2 * step + 1] = everything(client, "a", queries)
                client.server.ingest.Delete(pb.DeleteRequest(collection="a", ids=client.ids(ids[:20])))
                answers[2 * step + 2] = everything(client, "a", queries)
        except Exception as error:  # noqa: BLE001: reported by the test
            failures.append(error)

    changer = threading.Thread(target=change)
    changer.start()
    made = []
    while not failures and len(made) < 5:
        before = len(answers)
        made += nearfield(client.server, "snapshot", "create", f"s{len(made)}", "--json").json
        while not failures and len(answers) < before + 3:
            client.server.retrieval.Count(pb.CountRequest(collection="a"))
    done.set()
    changer.join()
    assert not failures, failures[0]
    listed = nearfield(client.server, "snapshot", "list", "--json").json
    assert [(info["name"], info["files_count"], info["error"]) for info in listed] == [
        (info["name"], info["files_count"], "") for info in made]
    last = everything(client, "names", queries)
    assert client.server.terminate() == 0
    for name in ("s1", "s4"):
        restored = offline("--restore-from", places.snapshots / name, "--data-dir", places.folder / f"new-{name}")
        assert restored.returncode == 0, restored.stderr
        assert "every byte checked" in restored.stdout and "alias live" in restored.stdout
        checked = offline("--check-data-dir", "--data-dir", places.folder / f"new-{name}")
        assert checked.returncode == 0 and "good: 2 collections" in checked.stdout, checked.stderr
        again = places.serve(f"new-{name}")
        epoch, *_ = found = everything(again, "live", queries)
        assert epoch > 0
        assert found == answers[epoch]
        assert everything(again, "names", queries) == last
        verdict = again.server.admin.Verify(pb.VerifyRequest(collection="a", query=again.query(queries[0]), k=50))
        assert verdict.equal, verdict.explanation
        # The restored server continues from that epoch.
        assert again.upload("a", [10**9], rows_of(rng, 1)).epoch == epoch + 1


def test_snapshots_are_refused_as_the_contract_says(places, start, api, refused):
    client = places.serve()
    pb, admin = client.pb, client.server.admin
    client.create("a", DIM)
    for name in ("", ".", "..", "../a", "a/b", "/tmp/a", "a\0b", "a.partial", "a.partial.catalog", "-a", "x" * 64):
        refused(INVALID, lambda: admin.CreateSnapshot(pb.CreateSnapshotRequest(name=name)), "name")
    assert not places.snapshots.exists()
    # Makes many concurrently: each one is made, or refused with a retry delay.
    codes: list = []

    def create(number: int) -> None:
        try:
            admin.CreateSnapshot(pb.CreateSnapshotRequest(name=f"s{number}"))
            codes.append("made")
        except grpc.RpcError as error:
            assert dict(error.trailing_metadata()).get("grpc-retry-pushback-ms"), error
            codes.append(error.code())

    run_together(partial(create, number) for number in range(12))
    assert set(codes) <= {"made", grpc.StatusCode.RESOURCE_EXHAUSTED}
    listed = admin.ListSnapshots(pb.ListSnapshotsRequest()).snapshots
    assert len(listed) == codes.count("made") >= 1
    refused(grpc.StatusCode.ALREADY_EXISTS,
            lambda: admin.CreateSnapshot(pb.CreateSnapshotRequest(name=listed[0].name)), listed[0].name)
    without = api(start())
    refused(PRECONDITION, lambda: without.server.admin.CreateSnapshot(pb.CreateSnapshotRequest(name="a")), "snapshot_dir")
    refused(PRECONDITION, lambda: without.server.admin.ListSnapshots(pb.ListSnapshotsRequest()), "snapshot_dir")
    memory = api(start("--data-dir", "none", "--snapshot-dir", str(places.folder / "none")))
    refused(PRECONDITION, lambda: memory.server.admin.CreateSnapshot(pb.CreateSnapshotRequest(name="a")), "data_dir")


def test_a_damaged_snapshot_restores_nothing_and_is_named(places, rng, offline):
    client = places.serve()
    client.create("a", DIM)
    client.upload("a", list(range(400)), rows_of(rng, 400))
    client.server.admin.CreateSnapshot(client.pb.CreateSnapshotRequest(name="good"))
    assert client.server.terminate() == 0
    new = places.folder / "new"
    for number, file in enumerate(sorted((places.snapshots / "good").iterdir())):
        hurt = places.snapshots / f"hurt{number}"
        shutil.copytree(places.snapshots / "good", hurt)
        content = bytearray(file.read_bytes())
        content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        (hurt / file.name).write_bytes(content)
        done = offline("--restore-from", hurt, "--data-dir", new)
        assert done.returncode == 5, done.stderr
        assert file.name in done.stderr and not new.exists()
    missing = places.snapshots / "missing"
    shutil.copytree(places.snapshots / "good", missing)
    next(missing.glob("*.seg")).unlink()
    assert offline("--restore-from", missing, "--data-dir", new).returncode != 0
    assert not new.exists()
    # Wrong use is not damage.
    for arguments in (("--restore-from", places.snapshots / "nothing", "--data-dir", new),
                      ("--restore-from", places.snapshots / "good", "--data-dir", places.folder / "data"),
                      ("--restore-from", places.snapshots / "good", "--data-dir", "none"),
                      ("--check-data-dir", "--data-dir", new)):
        done = offline(*arguments)
        assert done.returncode == 2 and done.stderr, arguments
        assert not new.exists()
    assert offline("--restore-from", places.snapshots / "good", "--data-dir", new).returncode == 0


def test_too_little_memory_is_a_wrong_setting_and_no_fault_of_the_machine(offline):
    done = offline("--data-dir", "none", "--backend", "cpu", "--listen", "127.0.0.1:0", "--memory-bytes", "20000")
    assert done.returncode == 2 and "memory_bytes" in done.stderr and "20000" in done.stderr, done.stderr


def test_a_check_finds_a_changed_byte_and_wants_the_directory_for_itself(places, rng, offline):
    client = places.serve()
    client.create("a", DIM)
    client.upload("a", list(range(400)), rows_of(rng, 400))
    data = places.folder / "data"
    used = offline("--check-data-dir", "--data-dir", data)
    assert used.returncode == 2 and str(data) in used.stderr
    client.server.kill()
    assert offline("--check-data-dir", "--data-dir", data).returncode == 0
    segment = next(data.glob("*.seg"))
    damage(segment)
    hurt = offline("--check-data-dir", "--data-dir", data)
    assert hurt.returncode == 5 and segment.name in hurt.stderr


def test_a_kill_during_a_snapshot_leaves_a_server_that_works(places, rng):
    client = places.serve()
    pb = client.pb
    client.create("a", DIM)
    ids = list(range(200_000))
    client.upload("a", ids, rows_of(rng, len(ids)), block_rows=50_000)
    query = rows_of(rng, 1)
    before = everything(client, "a", query)

    def create() -> None:
        try:
            client.server.admin.CreateSnapshot(pb.CreateSnapshotRequest(name="s"))
        except grpc.RpcError:
            pass

    caller = threading.Thread(target=create)
    caller.start()
    while caller.is_alive() and not (places.snapshots / "s.partial").exists():
        pass
    client.server.kill()
    caller.join()
    client = places.serve()
    assert everything(client, "a", query) == before
    names = [info.name for info in client.server.admin.ListSnapshots(pb.ListSnapshotsRequest()).snapshots]
    assert names in ([], ["s"])
    if not names:
        client.server.admin.CreateSnapshot(pb.CreateSnapshotRequest(name="s"))
    assert [entry.name for entry in places.snapshots.iterdir()] == ["s"]


def test_compact_gives_back_memory_and_disk_and_no_answer_changes(places, rng, nearfield):
    client = places.serve()
    pb = client.pb
    client.create("a", DIM)
    client.upload("a", list(range(2000)), rows_of(rng, 2000))
    client.server.ingest.Delete(pb.DeleteRequest(collection="a", ids=client.ids(list(range(100)))))
    queries = rows_of(rng, 2)
    before = everything(client, "a", queries)
    size = sum(file.stat().st_size for file in (places.folder / "data").glob("*.seg"))
    given = nearfield(client.server, "compact", "a", "--json").json[0]
    assert (given["rows_given_back"], given["stored_rows_given_back"]) == (100, 100)
    assert given["stored_bytes_given_back"] == size - sum(
        file.stat().st_size for file in (places.folder / "data").glob("*.seg"))
    assert everything(client, "a", queries) == before
    info = client.server.admin.GetCollection(pb.GetCollectionRequest(name="a")).collection
    assert (info.rows_count, info.rows_deleted) == (1900, 0)
    client.server.kill()
    assert everything(places.serve(), "a", queries) == before
