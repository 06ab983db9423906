"""Start, health, drain, restart, interrupted uploads, deadlines, the command."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from pathlib import Path

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVICES = ["", "nearfield.v1.Retrieval", "nearfield.v1.Ingest", "nearfield.v1.Admin"]


def test_health_has_a_status_per_service(shared):
    for service in SERVICES:
        assert shared.health.Check(health_pb2.HealthCheckRequest(service=service)).status == SERVING
    with pytest.raises(grpc.RpcError) as caught:
        shared.health.Check(health_pb2.HealthCheckRequest(service="nearfield.v1.Nothing"))
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND


def test_without_a_data_directory_a_restart_starts_empty(start, api):
    first = start("--data-dir", "none")
    client = api(first)
    assert not client.create("gone", 4).durable
    client.upload("gone", [1], np.ones((1, 4), dtype=np.float32))
    assert first.terminate() == 0
    second = start("--data-dir", "none")
    assert list(second.admin.ListCollections(client.pb.ListCollectionsRequest()).collections) == []


def test_sigterm_drains(start, api):
    """Health becomes NOT_SERVING first; an upload in flight gets time to finish; the exit code is
    0."""
    server = start("--drain-ms", "30000")
    client = api(server)
    client.create("drain", 4)
    go_on, accepted = threading.Event(), threading.Event()

    def requests():
        yield client.begin("drain", 2)
        go_on.wait(60)
        yield client.block([1, 2], np.ones((2, 4), dtype=np.float32))
        yield client.commit()

    replies: list = []

    def upload() -> None:
        for reply in server.ingest.Upload(requests(), timeout=60):
            replies.append(reply)
            accepted.set()

    thread = threading.Thread(target=upload)
    thread.start()
    assert accepted.wait(60)
    updates = server.health.Watch(health_pb2.HealthCheckRequest(), timeout=60)
    assert next(updates).status == SERVING
    server.process.terminate()
    assert next(updates).status == NOT_SERVING
    go_on.set()
    thread.join(60)
    assert replies[-1].committed.rows_count == 2
    updates.cancel()
    assert server.process.wait(timeout=60) == 0


def test_a_drain_is_bounded(start, api):
    """An upload that never ends does not keep the process alive."""
    server = start("--drain-ms", "200")
    client = api(server)
    client.create("stuck", 4)
    forever = threading.Event()

    def requests():
        yield client.begin("stuck", 2)
        forever.wait(60)

    call = server.ingest.Upload(requests(), timeout=60)
    assert next(call).WhichOneof("message") == "accepted"
    assert server.terminate() == 0
    forever.set()


def test_an_upload_broken_off_leaves_nothing(start, api):
    server = start()
    client = api(server)
    client.create("broken", 64)
    capacity = lambda: server.admin.GetCapacity(client.pb.GetCapacityRequest())  # noqa: E731
    before = capacity()
    stop = threading.Event()

    def requests():
        yield client.begin("broken", 100_000, 1000)
        yield client.block(list(range(1000)), np.ones((1000, 64), dtype=np.float32))
        stop.wait(60)

    call = server.ingest.Upload(requests(), timeout=60)
    assert next(call).WhichOneof("message") == "accepted"
    assert capacity().device_bytes_used > before.device_bytes_used
    call.cancel()
    stop.set()
    # No row of it is visible, its ids are free, and the process ends cleanly.
    client.upload("broken", list(range(1000)), np.ones((1000, 64), dtype=np.float32))
    count = server.retrieval.Count(client.pb.CountRequest(collection="broken"))
    assert (count.epoch, count.rows_count) == (1, 1000)
    server.admin.DropCollection(client.pb.DropCollectionRequest(name="broken"))
    waited = threading.Event()
    deadline = 300
    while capacity().device_bytes_used != before.device_bytes_used and deadline > 0:
        waited.wait(0.1)
        deadline -= 1
    assert capacity().device_bytes_used == before.device_bytes_used


def test_a_passed_deadline_is_reported_and_the_server_goes_on(shared, api, rng):
    client = api(shared)
    client.create("late", 512)
    client.upload("late", list(range(2000)), rng.standard_normal((2000, 512), dtype=np.float32))
    request = client.pb.SearchRequest(collection="late", queries=[client.query(np.ones(512))] * 64, k=100)
    with pytest.raises(grpc.RpcError) as caught:
        shared.retrieval.Search(request, timeout=0.0001)
    assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert len(shared.retrieval.Search(request, timeout=60).results) == 64


def test_the_reply_names_its_path_and_cost(shared, api, rng):
    client = api(shared)
    client.create("cost", 32)
    client.upload("cost", list(range(100)), rng.standard_normal((100, 32), dtype=np.float32))
    cost = client.search("cost", np.ones(32), 5).cost
    assert cost.backend in (client.pb.BACKEND_CPU, client.pb.BACKEND_GPU)
    assert cost.scan_precision in (client.pb.SCAN_PRECISION_ROWS, client.pb.SCAN_PRECISION_INT8)
    assert cost.rows_scanned == 100
    assert cost.bytes_read >= 100 * 32  # at least the codes
    assert cost.escalations.tighter <= 1
    assert cost.escalations.canonical <= 1
    assert cost.batch_size >= 1
    assert cost.total_us >= cost.device_us


def test_request_ids_are_echoed_or_made(shared, api):
    client = api(shared)
    call = shared.retrieval.GetLimits.with_call
    _, given = call(client.pb.GetLimitsRequest(), metadata=[("x-request-id", "abc-123")])
    assert dict(given.trailing_metadata())["nearfield-request-id"] == "abc-123"
    _, made = call(client.pb.GetLimitsRequest())
    assert dict(made.trailing_metadata())["nearfield-request-id"]


def test_the_allocator_gives_memory_back(shared):
    """Regression: glibc's allocator keeps freed memory, so the resident size stayed at its
    maximum."""
    assert "libjemalloc" in Path(f"/proc/{shared.process.pid}/maps").read_text()


def test_reflection_is_off_unless_asked_for(shared, start):
    with pytest.raises(grpc.RpcError) as caught:
        list(ProtoReflectionDescriptorDatabase(shared.channel).get_services())
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
    server = start("--reflection")
    assert "nearfield.v1.Retrieval" in ProtoReflectionDescriptorDatabase(server.channel).get_services()


def test_the_log_holds_one_json_line_a_request_and_no_vectors(start, api, rng):
    server = start("--log-requests", "all")
    client = api(server)
    client.create("logged", 4)
    client.upload("logged", [1], np.full((1, 4), 0.123456, dtype=np.float32))
    client.server.retrieval.Search(
        client.pb.SearchRequest(collection="logged", queries=[client.query(np.full(4, 0.654321))], k=1),
        metadata=[("x-request-id", "find-me")])
    assert server.terminate() == 0
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    found = [line for line in lines if line.get("request_id") == "find-me"]
    assert len(found) == 1
    assert found[0]["scan"] in ("rows", "int8")
    assert found[0]["escalations_tighter"] in (0, 1)
    assert found[0]["escalations_canonical"] in (0, 1)
    assert "0.6543" not in server.log.read_text()


def test_a_command_waits_for_a_server_that_is_not_there_yet(request, start):
    """The command meets a port that answers nothing, then none, then a server that starts, and ends once it serves."""
    with socket.create_server(("127.0.0.1", 0)) as port:
        address = f"127.0.0.1:{port.getsockname()[1]}"
        waiting = subprocess.Popen([request.config.getoption("--cli"), "--address", address, "health", "--wait", "120"],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
        port.accept()[0].close()
    try:
        start("--listen", address, "--data-dir", "none")
        out, _ = waiting.communicate(timeout=120)
        assert (waiting.returncode, out) == (0, "SERVING\n")
    finally:
        waiting.kill()


@pytest.mark.parametrize(("arguments", "word"), [
    (["--listen", "nonsense"], "listen"), (["--k-max", "0"], "k-max"), (["--backend", "tpu"], "backend"),
    (["--no-such-setting"], "no-such-setting")])
def test_a_configuration_error_exits_with_2(offline, arguments, word):
    done = offline("--check-config", *arguments)
    assert done.returncode == 2
    assert word in (done.stderr + done.stdout).replace("_", "-")


def test_the_demo_is_loaded_once_the_server_serves(start, nearfield, tmp_path):
    """--demo runs the command next to the server. Over data that has the corpus it loads nothing."""
    for loaded in ("uploaded 5,000 rows", "packages is loaded: 5,000 rows"):
        server = start("--demo", "--data-dir", str(tmp_path / "data"))
        server.wait_for(lambda: "Three searches to try" in server.log.read_text() or None)
        assert loaded in server.log.read_text()
        assert nearfield(server, "count", "packages").out == "5000\n"
        assert server.terminate() == 0


def test_the_command_finds_and_verifies(start, nearfield, tmp_path, rng):
    server = start()
    rows = rng.standard_normal((300, 48), dtype=np.float32)
    np.save(tmp_path / "rows.npy", rows)
    np.save(tmp_path / "queries.npy", rows[:3])
    nearfield(server, "health")
    nearfield(server, "upload", "cli", tmp_path / "rows.npy", "--create", "--metric", "cosine", "--scan", "rows")
    assert nearfield(server, "collections", "show", "cli", "--json").json[0]["scan"] == "rows"
    assert "300" in nearfield(server, "count", "cli").out
    found = nearfield(server, "search", "cli", "--queries", tmp_path / "queries.npy", "-k", "4", "--json", "--verify").json
    assert [reply["neighbors"][0]["id"] for reply in found] == [0, 1, 2]
    nearfield(server, "verify", "cli", "--sample", "5")
    explained = nearfield(server, "search", "cli", "--id", "7", "--explain").out
    for words in ("/rows; ", " candidates of 300 rows scanned, ", " read; escalations none", "device "):
        assert words in explained
    cost = nearfield(server, "search", "cli", "--id", "7", "--explain", "--json").json[0]["cost"]
    assert (cost["scan_precision"], cost["escalations"]) == ("rows", {"tighter": 0, "canonical": 0})
    assert (cost["read_limit_share"] is None) == (cost["read_ns_min"] == 0 or cost["device_us"] == 0)
    nearfield(server, "search", "nowhere", "--id", "1", code=1)


def test_the_default_data_directory_does_not_depend_on_the_working_directory(offline, tmp_path):
    share = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    expected = "/var/lib/nearfield" if os.geteuid() == 0 else f"{share}/nearfield"
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        done = offline("--check-config", "--snapshot-dir", "s", cwd=tmp_path / name)
        assert f'data_dir = "{expected}"  # default\n' in done.stdout, done.stderr
        assert f'snapshot_dir = "{tmp_path / name / "s"}"  # flag\n' in done.stdout


@pytest.mark.parametrize(("arguments", "word"), [(["--memory-bytes", "16TiB"], "memory_bytes"), (["--listen", "{used}"], "in use")])
def test_a_start_that_fails_leaves_nothing(shared, offline, tmp_path, arguments, word):
    done = offline("--data-dir", "data", *(each.format(used=shared.address) for each in arguments), cwd=tmp_path)
    assert done.returncode == 2 and word in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_state_of_a_server_that_serves(shared, nearfield):
    state = shared.admin.GetServerState(shared.pb.GetServerStateRequest(), timeout=60)
    assert (state.phase, state.reason, state.HasField("loading")) == (shared.pb.SERVER_PHASE_SERVING, "", False)
    assert nearfield(shared, "health", "--json").json == [{"service": "", "status": "SERVING"}]
