"""The runbook of deploy/README.md: its sizes are those of a server, and its commands work."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace

import grpc
import numpy as np
import pytest
from conftest import ROOT, start_server
from edge import new_certificate

RUNBOOK = (ROOT / "deploy/README.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return re.split(r"\n##+ ", RUNBOOK.split(f"\n{title}\n", 1)[1], maxsplit=1)[0]


def commands(title: str) -> str:
    """Returns the only block of commands of a section."""
    (block,) = re.findall(r"```sh\n(.*?)```", section(title), re.DOTALL)
    return block


def commands_of_keys() -> str:
    """Returns the block that makes the first keys."""
    return re.search(r"```sh\n(.*?)```", section("## Certificates and keys"), re.DOTALL)[1]


def number(pattern: str) -> float:
    """Returns the number in the example of the section about sizes."""
    return float(re.search(pattern, " ".join(section("## Sizing").split()))[1].replace(",", ""))


def test_the_sizes_of_the_example_are_those_of_a_server(start, api, rng):
    rows, dim, payload = 20_000, 768, 200
    assert re.search(rf"dimension {dim} as float16, with payloads of {payload} bytes", section("## Sizing"))
    client = api(start("--backend", "cpu", "--memory-bytes", "128MiB", "--host-memory-bytes", "64MiB"))
    client.create("docs", dim, dtype="FLOAT16")

    def held() -> np.ndarray:
        capacity = client.server.admin.GetCapacity(client.pb.GetCapacityRequest())
        data = Path(client.server.log).parent / "data"
        return np.array([capacity.device_bytes_used, capacity.host_bytes_used,
                         sum(file.stat().st_size for file in data.glob("*.seg"))])

    before = held()
    vectors = rng.standard_normal((rows, dim), dtype=np.float32).astype(np.float16)
    client.upload("docs", list(range(rows)), vectors, [b"x" * payload] * rows)
    device, host, disk = (held() - before) / rows
    assert device == number(r"([\d,]+) bytes of device memory")
    assert abs(host / number(r"([\d,]+) bytes of host memory") - 1) < 0.02
    assert abs(disk / number(r"([\d,]+) bytes of disk") - 1) < 0.02


@pytest.fixture
def guarded(request: pytest.FixtureRequest, tmp_path: Path):
    """A server with TLS and keys in the folder of the test, and run(block) for commands of the runbook there."""
    new_certificate(tmp_path, "ca")
    for name in ("server", "new"):
        new_certificate(tmp_path, name, "ca")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, option in (("nearfield-server", "--server"), ("nearfield", "--cli")):
        (programs / name).symlink_to(Path(request.config.getoption(option)).resolve())
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NEARFIELD_")}
    environment |= {"PATH": f"{programs}:{os.environ['PATH']}", "NEARFIELD_KEY_FILE": str(tmp_path / "keys.json"),
                    "NEARFIELD_CA": str(tmp_path / "ca.pem")}

    def run(block: str, **more: str) -> str:
        done = subprocess.run(["bash", "-c", f"set -euo pipefail\n{block}"], cwd=tmp_path, env=environment | more,
                              capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("nearfield keys create pipeline --scopes search,write --collections 'docs-*' --out pipeline.token\n"
        "nearfield keys create operator --scopes search,admin --out operator.token\n"
        "openssl x509 -in new.pem -outform DER -out server.der")
    server = start_server(request, tmp_path, "--data-dir", "none", "--tls-cert", str(tmp_path / "server.pem"),
                          "--tls-key", str(tmp_path / "server.key"), "--tls-reload-s", "1", "--key-file", str(tmp_path / "keys.json"))
    environment |= {"NEARFIELD_ADDRESS": server.address, "NEARFIELD_TOKEN_FILE": str(tmp_path / "operator.token"),
                    "RELOAD": f"kill -HUP {server.process.pid}"}
    run("nearfield collections create docs-a --dim 2 --metric dot")
    return SimpleNamespace(run=run, folder=tmp_path, address=server.address, server=server)


class Caller:
    """Calls with one key without a pause: on one open connection, and each time on a new one."""

    def __init__(self, guarded: SimpleNamespace, pb: SimpleNamespace, token: str) -> None:
        self.guarded, self.pb, self.token = guarded, pb, (guarded.folder / token).read_text().strip()
        self.open = self._connect()
        self.calls, self.failures, self.ends = 0, [], threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _connect(self) -> grpc.Channel:
        credentials = grpc.ssl_channel_credentials((self.guarded.folder / "ca.pem").read_bytes())
        return grpc.secure_channel(self.guarded.address, credentials, options=[("grpc.use_local_subchannel_pool", 1)])

    def _run(self) -> None:
        while not self.ends.is_set():
            fresh = self._connect()
            for channel in (self.open, fresh):
                try:
                    self.pb.RetrievalStub(channel).Count(self.pb.CountRequest(collection="docs-a"), timeout=60,
                                                         metadata=[("authorization", f"Bearer {self.token}")])
                    self.calls += 1
                except grpc.RpcError as error:
                    self.failures.append(error)
            fresh.close()

    def stop(self) -> None:
        self.ends.set()
        self.thread.join()
        self.open.close()


def test_the_certificate_of_the_document_is_one_that_clients_verify(request, start, pb, tmp_path):
    """The documented command makes the files of a TLS server. A client that has the certificate verifies each of its names;
    one that has another certificate, or asks for another name, does not."""
    block = commands("### Make a certificate")
    for folder in ("server", "other"):
        (tmp_path / folder).mkdir()
        subprocess.run(["sh", "-euc", block], cwd=tmp_path / folder, check=True, capture_output=True)
    files = tmp_path / "server"
    assert (files / "server.key").stat().st_mode & 0o777 == 0o600
    names = re.search(r"subjectAltName=(\S+)", block)[1].split(",")
    assert {"DNS:server.example", "DNS:localhost", "IP:127.0.0.1"} == set(names)
    address = start("--data-dir", "none", "--tls-cert", str(files / "server.pem"), "--tls-key", str(files / "server.key")).address

    def count(name: str, folder: str) -> int:
        credentials = grpc.ssl_channel_credentials((tmp_path / folder / "server.pem").read_bytes())
        with grpc.secure_channel(address, credentials, options=[("grpc.ssl_target_name_override", name)]) as channel:
            return len(pb.AdminStub(channel).ListCollections(pb.ListCollectionsRequest(), timeout=60).collections)

    for name in names:
        assert count(name.partition(":")[2], "server") == 0
    for name, folder in (("elsewhere.example", "server"), ("server.example", "other")):
        with pytest.raises(grpc.RpcError) as caught:
            count(name, folder)
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    command = [request.config.getoption("--cli"), "--address", address, "health", "--ca"]
    assert subprocess.run([*command, files / "server.pem"], capture_output=True, check=False).returncode == 0
    assert subprocess.run([*command, tmp_path / "other/server.pem"], capture_output=True, check=False).returncode == 1


def test_the_keys_of_the_document_do_what_it_says(guarded):
    """The pipeline's key makes its collection with the upload, and drops none; both keys are read from their files."""
    first = commands_of_keys()
    folder = guarded.folder
    for name in ("operator", "pipeline"):
        (folder / f"{name}.token").unlink()
    guarded.run(re.sub(r"(?m)^export NEARFIELD_KEY_FILE=.*\n", "", first) + "\n$RELOAD")
    loaded = folder / "server.log"
    guarded.server.wait_for(lambda: loaded.read_text().count("keys loaded") == 2 or None)
    for name in ("operator", "pipeline"):
        assert (folder / f"{name}.token").stat().st_mode & 0o777 == 0o600
    (folder / "rows.jsonl").write_text('{"id": 1, "vector": [1, 0]}\n')
    pipeline = "nearfield --token-file pipeline.token"
    guarded.run(f"{pipeline} upload docs-b rows.jsonl --create --if-missing --metric dot --mode upsert")
    guarded.run(f"{pipeline} upload docs-b rows.jsonl --create --if-missing --metric dot --mode upsert")
    refused = guarded.run(f"{pipeline} collections drop docs-b --yes 2>&1 && exit 1 || echo $?")
    assert refused.endswith("3\n") and "this call needs one of admin" in refused
    refused = guarded.run(f"{pipeline} upload other rows.jsonl --create --metric dot 2>&1 && exit 1 || echo $?")
    assert refused.endswith("3\n") and 'is for the collections "docs-*"' in refused
    assert guarded.run("nearfield count docs-b") == "1\n"


def test_a_certificate_is_replaced_without_a_failed_call(guarded, pb):
    caller = Caller(guarded, pb, "operator.token")
    try:
        assert "serving" in guarded.run(commands("### Replace a certificate")).lower()
    finally:
        caller.stop()
    assert caller.calls > 0 and not caller.failures, caller.failures
    # A pair that does not match is not used.
    shutil.copy(guarded.folder / "ca.key", guarded.folder / "other.key")
    os.replace(guarded.folder / "other.key", guarded.folder / "server.key")
    guarded.run("nearfield health")


def test_a_key_is_replaced_without_a_failed_call(guarded, pb):
    old = (guarded.folder / "pipeline.token").read_text()
    block = commands("### Replace a key")
    before, after = re.split(r"(?m)^# Give the new key .*\n", block)
    caller = Caller(guarded, pb, "pipeline.token")
    try:
        guarded.run(before)
    finally:
        caller.stop()
    assert caller.calls > 0 and not caller.failures, caller.failures
    caller = Caller(guarded, pb, "new.token")
    try:
        guarded.run("old=$(cut -d_ -f2 pipeline.token)\n" + after)
        guarded.server.wait_for(lambda: (guarded.folder / "server.log").read_text().count("keys loaded") == 3 or None)
    finally:
        caller.stop()
    assert caller.calls > 0 and not caller.failures, caller.failures
    (guarded.folder / "old.token").write_text(old)
    assert "UNAUTHENTICATED" in guarded.run("nearfield --token-file old.token collections list 2>&1 || true")
    assert "docs-a" in guarded.run("nearfield --token-file pipeline.token collections list")


def test_a_limit_of_device_memory_is_in_force_from_the_reload_on(guarded):
    (guarded.folder / "rows.jsonl").write_text("".join(f'{{"id": {row}, "vector": [1, {row}]}}\n' for row in range(100)))
    upload = "nearfield --token-file pipeline.token upload docs-a rows.jsonl"
    assert "device_bytes=12,000" in guarded.run("nearfield keys limit operator --device-bytes 12kB")
    guarded.run("$RELOAD")
    loaded = guarded.folder / "server.log"
    guarded.server.wait_for(lambda: loaded.read_text().count("keys loaded") == 2 or None)
    refused = guarded.run(f"{upload} 2>&1 && exit 1 || echo $?")  # 140 bytes for each row
    assert refused.endswith("3\n") and "14000 bytes" in refused and "principal operator" in refused
    guarded.run("nearfield keys limit operator --device-bytes 0 && nearfield keys limit operator --device-bytes 14kB && $RELOAD")
    guarded.server.wait_for(lambda: loaded.read_text().count("keys loaded") == 3 or None)
    guarded.run(upload)
    assert re.search(r"principal operator device_bytes +14\.0 kB of 14\.0 kB \(100%\)", guarded.run("nearfield capacity"))
    assert guarded.run("nearfield keys list").count("14,000") == 1
