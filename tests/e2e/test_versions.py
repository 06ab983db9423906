"""Data directories that earlier versions wrote open, answer as they did, and stay writable. Data
directories of later versions are refused, with both format numbers."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import grpc
import pytest
import version_data

ARCHIVES = sorted((Path(__file__).parent / "data").glob("*.tar.xz"))


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def written(request, tmp_path) -> Path:
    """A folder with the unpacked archive of one version."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


@pytest.fixture
def serve(start, api):
    """serve(folder, data) -> an Api of a server on that data directory of the folder."""
    def serve_one(folder: Path, data: str):
        return api(start("--backend", "cpu", "--data-dir", str(folder / data), "--snapshot-dir", str(folder / "snapshots")))
    return serve_one


def expected(folder: Path, part: str) -> dict:
    return json.loads((folder / "expected.json").read_text())[part]


def as_json(recorded: dict) -> dict:
    return json.loads(json.dumps(recorded))


def test_there_is_an_archive_of_the_first_version():
    assert "0.1.0.tar.xz" in [path.name for path in ARCHIVES]


def test_a_data_directory_of_an_earlier_version_answers_as_it_did_and_stays_writable(written, serve, offline):
    client = serve(written, "data")
    pb = client.pb
    before = expected(written, "data")
    assert as_json(version_data.record(client)) == before
    # A second start reads what the first one wrote, even if it upgraded the catalog.
    client.server.kill()
    client = serve(written, "data")
    assert as_json(version_data.record(client)) == before

    # The unfinished upload continues after the blocks that the earlier version made durable.
    begin, *blocks, commit = version_data.open_upload(client)
    replies = client.send(begin, blocks[-1], commit)
    assert replies[0].accepted.next_block == len(blocks) - 1
    epochs = {info["name"]: info["epoch"] for info in before["collections"]}
    assert replies[-1].committed.epoch == epochs[version_data.OPEN_COLLECTION] + 1
    # Committed tokens are remembered: no second commit.
    done = version_data.upload(client, "cosine_float32", range(20, 45), 7, "REPLACE", version_data.COMMITTED)
    assert done.epoch == before["uploads"]["committed"]["epoch"]
    # Every collection takes rows, deletes and a compaction.
    for name in version_data.names():
        info = client.server.admin.GetCollection(pb.GetCollectionRequest(name=name)).collection
        assert version_data.upload(client, name, range(200, 210), 1, "UPSERT").epoch == info.epoch + 1
        version_data.delete(client, name, [0, 200])
        client.server.admin.Compact(pb.CompactRequest(collection=name))
    client.server.admin.CreateSnapshot(pb.CreateSnapshotRequest(name="after"))
    after = version_data.record(client)
    client.server.kill()
    assert version_data.record(serve(written, "data")) == after
    for name in ("before", "after"):
        assert offline("--restore-from", written / "snapshots" / name, "--data-dir", written / name).returncode == 0


def test_a_snapshot_of_an_earlier_version_is_listed_and_restored(written, serve, offline):
    client = serve(written, "data")
    listed = client.server.admin.ListSnapshots(client.pb.ListSnapshotsRequest()).snapshots
    assert [(info.name, info.error) for info in listed] == [("before", "")]
    restored = offline("--restore-from", written / "snapshots/before", "--data-dir", written / "restored")
    assert restored.returncode == 0, restored.stderr
    # Open uploads are not part of a snapshot.
    wanted = expected(written, "snapshot") | {"uploads": {
        **expected(written, "snapshot")["uploads"], "open": {"code": grpc.StatusCode.NOT_FOUND.name}}}
    assert as_json(version_data.record(serve(written, "restored"))) == wanted
    client.server.admin.DeleteSnapshot(client.pb.DeleteSnapshotRequest(name="before"))
    assert as_json(version_data.record(client)) == expected(written, "data")


def formats(database: Path) -> int:
    with closing(sqlite3.connect(database)) as catalog:
        return catalog.execute("PRAGMA user_version").fetchone()[0]


def test_a_data_directory_of_a_later_version_is_refused_with_both_formats(start, tmp_path, offline):
    data = tmp_path / "data"
    start("--data-dir", str(data)).terminate()
    own = formats(data / "catalog.db")
    with closing(sqlite3.connect(data / "catalog.db")) as catalog:
        catalog.execute(f"PRAGMA user_version={own + 1}")
    kept = {path.name: path.read_bytes() for path in data.iterdir() if path.is_file()}
    wanted = [f"catalog format {own + 1}", f"reads formats 1 .. {own}", "restore a snapshot"]
    for arguments in (["--listen", "127.0.0.1:0"], ["--check-data-dir"]):
        refused = offline(*arguments, "--data-dir", data)
        assert refused.returncode == 2
        assert all(part in refused.stderr for part in wanted), refused.stderr
    # The refusal changed nothing: the later version continues with it.
    assert kept.items() <= {path.name: path.read_bytes() for path in data.iterdir() if path.is_file()}.items()


def test_a_snapshot_of_a_later_version_is_refused_with_both_formats(start, tmp_path, offline, api):
    client = api(start("--data-dir", str(tmp_path / "data"), "--snapshot-dir", str(tmp_path)))
    admin, pb = client.server.admin, client.pb
    admin.CreateSnapshot(pb.CreateSnapshotRequest(name="s"))
    manifest = tmp_path / "s/MANIFEST"
    title, *files = manifest.read_text().splitlines()[:-1]
    own = int(title.split()[-1])
    later = "\n".join([f"nearfield snapshot {own + 1}", *files, ""])
    manifest.write_text(f"{later}sha256 {hashlib.sha256(later.encode()).hexdigest()}\n")
    refused = offline("--restore-from", tmp_path / "s", "--data-dir", tmp_path / "new")
    assert refused.returncode == 2 and not (tmp_path / "new").exists()
    (info,) = admin.ListSnapshots(pb.ListSnapshotsRequest()).snapshots
    for text in (refused.stderr, info.error):
        assert f"{manifest}: snapshot format {own + 1}" in text and f".. {own}" in text
