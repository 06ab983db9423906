"""Backups as an operator makes them: the drill of deploy/README.md, retention, deletion."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import grpc
import numpy as np
import pytest
from conftest import ROOT, free_port, run_together

DIM = 8
DRILL_S = 300


def rows_of(rng, count: int) -> np.ndarray:
    return rng.standard_normal((count, DIM), dtype=np.float32)


def drill() -> str:
    """Returns the commands of deploy/README.md, "The drill"."""
    section = (ROOT / "deploy/README.md").read_text(encoding="utf-8").split("### The drill", 1)[1]
    return re.search(r"```sh\n(.*?)```", section, re.DOTALL)[1]


@pytest.fixture
def client(start, api, tmp_path):
    return api(start("--data-dir", str(tmp_path / "data"), "--snapshot-dir", str(tmp_path / "snapshots")))


def snapshots(client) -> list[str]:
    return [info.name for info in client.server.admin.ListSnapshots(client.pb.ListSnapshotsRequest()).snapshots]


def test_the_drill_of_the_document_brings_every_answer_back(request, start, api, client, rng, tmp_path):
    client.create("docs", DIM, "COSINE", embedding_model="some/model")
    client.upload("docs", list(range(500)), rows_of(rng, 500), [b"row %d" % i for i in range(500)])
    client.server.ingest.Delete(client.pb.DeleteRequest(collection="docs", ids=client.ids(list(range(50)))))
    queries = rows_of(rng, 4)
    np.save(tmp_path / "queries.npy", queries)
    before = client.search("docs", queries, 1000, with_payload=True, with_digest=True)
    assert client.server.terminate() == 0
    programs, backup = tmp_path / "bin", tmp_path / "backup"
    for folder in (programs, backup):
        folder.mkdir()
    for name, option in (("nearfield-server", "--server"), ("nearfield", "--cli")):
        (programs / name).symlink_to(Path(request.config.getoption(option)).resolve())
    address = f"127.0.0.1:{free_port()}"
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "BACKUP": str(backup),
                   "NEARFIELD_LISTEN": address, "NEARFIELD_ADDRESS": address, "NEARFIELD_DATA_DIR": str(tmp_path / "data"),
                   "NEARFIELD_SNAPSHOT_DIR": str(tmp_path / "snapshots")}
    # No server outlives a drill that fails.
    script = f"set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{drill()}"
    ran = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True,
                         timeout=DRILL_S, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "every byte checked" in ran.stdout and "deleted drill" in ran.stdout
    assert len((backup / "before.jsonl").read_text().splitlines()) == len(queries)
    assert not (tmp_path / "data.lost").exists()
    after = api(start("--data-dir", str(tmp_path / "data"), "--snapshot-dir", str(tmp_path / "snapshots")))
    found = after.search("docs", queries, 1000, with_payload=True, with_digest=True)
    assert (found.epoch, found.result_digest) == (before.epoch, before.result_digest)
    assert [list(result.payloads) for result in found.results] == [list(result.payloads) for result in before.results]
    assert found.incarnation != before.incarnation
    assert after.server.admin.GetCollection(after.pb.GetCollectionRequest(name="docs")).collection.embedding_model == "some/model"
    assert snapshots(after) == []


def test_the_drill_stops_at_a_copy_with_a_changed_byte(offline, client, tmp_path, rng):
    client.create("docs", DIM)
    client.upload("docs", list(range(100)), rows_of(rng, 100))
    client.server.admin.CreateSnapshot(client.pb.CreateSnapshotRequest(name="drill"))
    copy = next((tmp_path / "snapshots/drill").glob("*.seg"))
    content = bytearray(copy.read_bytes())
    content[len(content) // 2] ^= 1
    copy.unlink()  # a hard link of the server's file
    copy.write_bytes(content)
    done = offline("--restore-from", tmp_path / "snapshots/drill", "--data-dir", tmp_path / "new")
    assert done.returncode == 5 and copy.name in done.stderr and not (tmp_path / "new").exists()


def test_keep_leaves_the_newest_and_names_what_it_deletes(client, nearfield, rng):
    client.create("docs", DIM)
    client.upload("docs", list(range(100)), rows_of(rng, 100))
    nearfield(client.server, "snapshot", "create", "before-upgrade")
    for day in range(1, 5):
        line = ["snapshot", "create", f"nightly-{day}", "--keep", "2", "--keep-prefix", "nightly-", "--json"]
        created, *deleted = nearfield(client.server, *line).json
        assert created["name"] == f"nightly-{day}" and "deleted" not in created
        assert [(each["name"], each["deleted"]) for each in deleted] == [(f"nightly-{day - 2}", True)] * (day > 2)
    assert snapshots(client) == ["before-upgrade", "nightly-3", "nightly-4"]
    # A snapshot that fails deletes nothing.
    nearfield(client.server, "snapshot", "create", "nightly-4", "--keep", "1", code=3)
    assert snapshots(client) == ["before-upgrade", "nightly-3", "nightly-4"]
    assert "deleted nightly-3, created 20" in nearfield(client.server, "snapshot", "delete", "nightly-3").out
    nearfield(client.server, "snapshot", "delete", "nightly-3", code=1)
    assert snapshots(client) == ["before-upgrade", "nightly-4"]


def test_deletions_and_creations_at_once_leave_only_complete_snapshots(client, offline, tmp_path, rng):
    """Each call is done as a whole, or refused with a retry delay, or finds nothing to delete."""
    client.create("docs", DIM)
    client.upload("docs", list(range(1000)), rows_of(rng, 1000))
    admin, pb = client.server.admin, client.pb
    failures: list = []

    def change(number: int) -> None:
        for step in range(20):
            name = f"s{(number + step) % 3}"
            try:
                if (number + step) % 2:
                    admin.CreateSnapshot(pb.CreateSnapshotRequest(name=name), timeout=60)
                else:
                    admin.DeleteSnapshot(pb.DeleteSnapshotRequest(name=name), timeout=60)
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED:
                    if not dict(error.trailing_metadata()).get("grpc-retry-pushback-ms"):
                        failures.append(error)
                elif error.code() not in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.ALREADY_EXISTS):
                    failures.append(error)

    run_together([lambda number=number: change(number) for number in range(4)])
    assert not failures, failures
    left = snapshots(client)
    assert sorted(entry.name for entry in (tmp_path / "snapshots").iterdir()) == left
    for name in left:
        done = offline("--restore-from", tmp_path / "snapshots" / name, "--data-dir", tmp_path / f"new-{name}")
        assert done.returncode == 0, done.stderr
