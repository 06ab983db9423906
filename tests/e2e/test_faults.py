"""Faults around a server that no other file covers: signals at any time, an unread log, a
read-only disk, a data directory that vanishes, ports that are taken, files that are damaged when
they are read again, a network that is cut without a word. tests/fault/README.md lists all faults."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import pytest
from canonical import best
from conftest import DEADLINE_S, Server, start_server
from edge import new_certificate

DIM, ROWS, K = 8, 50, 5
STARTS = 24


@pytest.fixture
def rows(rng) -> np.ndarray:
    return rng.standard_normal((ROWS, DIM)).astype("<f4")


def fill(api, server, rows: np.ndarray) -> None:
    each = api(server)
    each.create("c", DIM)
    each.upload("c", list(range(ROWS)), rows)


def check(api, server, rows: np.ndarray) -> None:
    """The answer must be that of the contract."""
    each = api(server)
    answer = each.answer(each.search("c", rows[0], K).results[0])
    assert answer == best("dot", rows[0], rows, list(range(ROWS)), K)


def test_sigterm_at_any_moment_of_a_start_ends_it_and_harms_nothing(start, api, rows, tmp_path, request, rng):
    data = tmp_path / "data"
    server = start("--data-dir", str(data))
    fill(api, server, rows)
    assert server.terminate() == 0
    program = request.config.getoption("--server")
    arguments = [program, "--listen", "127.0.0.1:0", "--ops-listen", "none", "--http-listen", "none", "--data-dir", str(data)]
    codes = set()
    for _ in range(STARTS):
        with subprocess.Popen(arguments, stderr=subprocess.PIPE) as process:
            # The signal follows one of the first lines of the log, or comes before them.
            for _ in range(int(rng.integers(0, 8))):
                assert process.stderr.readline()
            process.terminate()
            process.communicate(timeout=DEADLINE_S)
        codes.add(process.returncode)
    # -15: before the program could set its handler.
    assert codes <= {0, -signal.SIGTERM} and 0 in codes, codes
    check(api, start("--data-dir", str(data)), rows)


def test_a_storm_of_signals_neither_ends_nor_stops_a_server(start, api, rows):
    server = start()
    fill(api, server, rows)
    done = threading.Event()

    def storm() -> None:
        while not done.is_set():
            for number in (signal.SIGHUP, signal.SIGPIPE):
                server.process.send_signal(number)

    sender = threading.Thread(target=storm)
    sender.start()
    try:
        for _ in range(200):
            check(api, server, rows)
    finally:
        done.set()
        sender.join()
    assert server.terminate() == 0


def test_a_log_without_a_reader_ends_no_server(request, api, rows, tmp_path):
    """The reader of the log dies: writes fail with EPIPE."""
    read, write = os.pipe()
    log = tmp_path / "server.log"
    log.symlink_to(f"/proc/self/fd/{write}")
    server = Server(request.config.getoption("--server"), tmp_path, ["--log-requests", "all"])
    try:
        os.close(write)
        with open(read, encoding="utf-8") as lines:
            watchdog = threading.Timer(DEADLINE_S, server.kill)  # the end of the server ends the lines
            watchdog.start()
            told = list(itertools.takewhile(lambda line: "serving on" not in line, lines))
            watchdog.cancel()
        listening = re.search(r'listening on ([^"]+)', "".join(told))
        assert listening, told
        server.address = listening[1]
        fill(api, server, rows)
        for _ in range(50):
            check(api, server, rows)
        assert server.terminate() == 0
    finally:
        server.close()


def test_a_read_only_disk_is_refused_at_the_start_with_its_path(start, api, request, rows, tmp_path):
    data = tmp_path / "data"
    server = start("--data-dir", str(data))
    fill(api, server, rows)
    assert server.terminate() == 0
    before = {path.name: path.read_bytes() for path in data.iterdir() if path.is_file()}
    mount = "mount --bind {0} {0} && mount -o remount,bind,ro {0} && exec {1} --listen 127.0.0.1:0 --ops-listen none --data-dir {0}"
    program = request.config.getoption("--server")
    done = subprocess.run(["unshare", "--mount", "sh", "-c", mount.format(data, program)], capture_output=True, text=True,
                          timeout=DEADLINE_S, check=False)
    if re.search("unshare|mount", done.stderr):
        pytest.skip(f"needs the right to mount: {done.stderr.strip()}")
    assert done.returncode == 2 and str(data) in done.stderr, done.stderr
    assert {path.name: path.read_bytes() for path in data.iterdir() if path.is_file()} == before
    check(api, start("--data-dir", str(data)), rows)


def test_a_data_directory_that_vanishes_ends_no_search(start, api, refused, rows, tmp_path):
    data = tmp_path / "data"
    server = start("--data-dir", str(data))
    fill(api, server, rows)
    shutil.rmtree(data)
    check(api, server, rows)
    with pytest.raises(grpc.RpcError):
        api(server).upload("c", [1000], rows[:1])
    # Nothing that was not stored is served: the server answers as before, or it ends.
    try:
        check(api, server, rows)
    except grpc.RpcError:
        assert server.process.wait(timeout=60) != 0


def test_ports_that_are_taken_are_named_and_leave_no_data_directory(offline, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for setting, other in (("--listen", "--ops-listen"), ("--ops-listen", "--listen")):
            done = offline(setting, address, other, "127.0.0.1:0", "--data-dir", tmp_path / "data")
            assert done.returncode == 2 and address in done.stderr, done.stderr
            assert not (tmp_path / "data").exists()


class Secured:
    """A server with TLS and keys, one open channel to it, and calls over new connections."""

    def __init__(self, request, pb, folder: Path) -> None:
        new_certificate(folder, "ca")
        new_certificate(folder, "server", "ca")
        self.certificate, self.key, self.keys = folder / "server.pem", folder / "server.key", folder / "keys.json"
        made = subprocess.run([request.config.getoption("--cli"), "keys", "create", "all", "--scopes", "search,read,write,admin"],
                              env={**os.environ, "NEARFIELD_KEY_FILE": str(self.keys)}, capture_output=True, text=True, check=True)
        self.pb, self.folder = pb, folder
        self.metadata = [("authorization", f"Bearer {made.stdout.strip()}")]
        self.server = start_server(request, folder, "--data-dir", "none", "--tls-cert", str(self.certificate), "--tls-key", str(self.key),
                                   "--tls-reload-s", "1", "--key-file", str(self.keys))
        self.address = self.server.address
        self.open = self.connect()

    def log(self) -> str:
        return (self.folder / "server.log").read_text()

    def connect(self) -> grpc.Channel:
        credentials = grpc.ssl_channel_credentials((self.folder / "ca.pem").read_bytes())
        return grpc.secure_channel(self.address, credentials, options=[("grpc.use_local_subchannel_pool", 1)])

    def call(self, channel: grpc.Channel) -> None:
        self.pb.AdminStub(channel).ListCollections(self.pb.ListCollectionsRequest(), metadata=self.metadata, timeout=DEADLINE_S)

    def works_anew(self) -> bool:
        with self.connect() as channel:
            try:
                self.call(channel)
                return True
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.UNAVAILABLE, error
                return False


@pytest.fixture
def secured(request, pb, tmp_path):
    made = Secured(request, pb, tmp_path)
    yield made
    made.open.close()


DAMAGED = [b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", b'{"format": 1, "keys": [{}]}']


def test_a_damaged_key_file_leaves_the_keys_in_force(secured):
    for number, damage in enumerate(DAMAGED):
        secured.keys.write_bytes(damage)
        secured.server.process.send_signal(signal.SIGHUP)
        secured.server.wait_for(lambda number=number: secured.log().count("keys are not reloaded") > number or None)
        secured.call(secured.open)
        assert secured.works_anew()


def test_a_damaged_certificate_leaves_the_one_in_force(secured):
    """Every handshake failed, until the file was whole again."""
    def reload_until(text: str, count: int) -> None:
        secured.server.process.send_signal(signal.SIGHUP)
        secured.server.wait_for(lambda: secured.log().count(text) >= count or None)

    for number, path in enumerate((secured.certificate, secured.key), start=1):
        whole = path.read_bytes()
        path.write_bytes(DAMAGED[1])
        reload_until("certificate is not reloaded", number)
        secured.call(secured.open)
        assert secured.works_anew()
        path.write_bytes(whole)
        reload_until("certificate loaded", number)
        assert secured.works_anew()


class Cut:
    """A relay to a server. After cut() both sides hear nothing more, and no connection is closed."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self.to = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.is_cut = threading.Event()
        self.sockets: list[socket.socket] = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            far = socket.create_connection(self.to)
            self.sockets += [near, far]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self.relay, args=(source, target), daemon=True).start()

    def relay(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                if not self.is_cut.is_set():
                    target.sendall(data)
        except OSError:
            pass

    def close(self) -> None:
        self.listener.close()
        for each in self.sockets:
            each.close()


def test_a_network_that_is_cut_without_a_word_holds_nothing_for_long(start, api, pb, rows):
    server = start("--keepalive-ms", "1000", "--keepalive-timeout-ms", "500", "--uploads-max", "1")
    fill(api, server, rows)
    cut = Cut(server.address)
    try:
        with grpc.insecure_channel(cut.address) as channel:
            begun = threading.Event()

            def requests():
                yield api(server).begin("c", 10)
                begun.wait()

            replies = pb.IngestStub(channel).Upload(requests(), timeout=DEADLINE_S)
            assert next(iter(replies)).WhichOneof("message") == "accepted"
            with pytest.raises(grpc.RpcError) as full:
                api(server).upload("c", [1000], rows[:1])
            assert full.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            cut.is_cut.set()

            def upload_again() -> None:
                while True:
                    try:
                        api(server).upload("c", [1000], -rows[:1])
                        return
                    except grpc.RpcError as error:
                        assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, error

            with ThreadPoolExecutor(1) as pool:
                # Less than upload_idle_ms, 30 s: the place came back because the probe failed.
                pool.submit(upload_again).result(timeout=15)
            begun.set()
            replies.cancel()
    finally:
        cut.close()
