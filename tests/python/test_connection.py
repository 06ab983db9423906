"""Connections: addresses with mistakes, event loops, servers that restart, and TLS that does not fit."""

from __future__ import annotations

import asyncio
import math
import re
import socket
import threading
from pathlib import Path

import grpc
import nearfield
import numpy as np
import pytest
from conftest import Server
from edge import new_certificate
from nearfield._proto import retrieval_pb2 as retrieval
from nearfield._retry import AsyncClock, BlockingClock, RetryPolicy
from scripted import Refusal

AWAY = Refusal(grpc.StatusCode.UNAVAILABLE, "draining")
COUNTED = retrieval.CountResponse(rows_count=7)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for name in ("NEARFIELD_ADDRESS", "NEARFIELD_CALLER", "NEARFIELD_CA"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(("address", "meant"), [
    ("http://127.0.0.1:50051", "127.0.0.1:50051"), ("https://host.example:443/", "host.example:443"),
    ("grpc://host.example", "host.example:50051"), ("127.0.0.1", "127.0.0.1:50051"), ("localhost", "localhost:50051"),
    ("127.0.0.1:50051/", "127.0.0.1:50051"), ("host.example/path", "host.example:50051"), ("50051", "127.0.0.1:50051"),
    ("::1:50051", "[::1]:50051"), ("::1", "[::1]:50051"), ("[::1]", "[::1]:50051"), ("fe80::1:8080", "[fe80::1:8080]:50051"),
    ("", "127.0.0.1:50051"), ("host:", "host:50051"), (":50051", "127.0.0.1:50051"), (" host:51 ", "host:51"), ("host:notaport", "host:50051"),
    ("127.0.0.1:1,127.0.0.2:2", "127.0.0.1:50051"), ("dns:///host.example", "host.example:50051"), ("ipv4:127.0.0.1:1,127.0.0.2", "127.0.0.2:50051"),
])
def test_an_address_with_a_mistake_was_tried_as_another_one(address, meant):
    """127.0.0.1 tried port 443, and http://... was "Misformatted domain name" after the tries."""
    for make in (nearfield.connect, nearfield.AsyncClient):
        with pytest.raises(ValueError, match=f"^address: .*host:port, such as {re.escape(meant)}$"):
            make(address)


@pytest.mark.parametrize("address", [
    "127.0.0.1:50051", "host.example:1", "[::1]:50051", "[fe80::1%eth0]:65535", "host:http", "unix:/tmp/x.sock", "unix:x.sock",
    "unix-abstract:name", "vsock:2:5", "dns:///host.example:50051", "dns:host.example:50051", "dns://10.0.0.2/host.example:50051",
    "ipv4:10.0.0.2:50051,10.0.0.3:50051", "ipv6:[::1]:50051", "ipv6:%5B::1%5D:50051",
])  # fmt: skip
def test_addresses_that_grpc_understands_are_taken(address):
    nearfield.connect(address).close()


def test_an_address_that_is_no_text_or_has_a_port_that_cannot_be_is_refused():
    for address, kind, words in ((5, TypeError, "address: 5; give a text host:port"), ("host:99999", ValueError, "port 99999 of host:port")):
        with pytest.raises(kind, match=words):
            nearfield.connect(address)


def test_the_environment_names_the_server_and_the_caller(connect, scripted, monkeypatch):
    scripted.script["Count"] = [COUNTED] * 3
    monkeypatch.setenv("NEARFIELD_ADDRESS", scripted.address)
    monkeypatch.setenv("NEARFIELD_CALLER", "nightly")
    connect(None).collection("d").count()
    connect(None, caller="").collection("d").count()
    monkeypatch.setenv("NEARFIELD_ADDRESS", "127.0.0.1:1")
    connect(scripted.address, caller="me").collection("d").count()
    assert [sent.get("nearfield-caller") for _, _, sent in scripted.calls] == ["nightly", None, "me"]
    monkeypatch.setenv("NEARFIELD_ADDRESS", "http://x:1")
    with pytest.raises(ValueError, match="such as x:1"):
        nearfield.connect()


def test_an_async_client_in_a_second_loop_said_that_the_loop_is_closed(shared, name):
    """The first call bound the client to its event loop."""
    with nearfield.connect(shared.address) as client:
        client.create_collection(name, 2, metric="dot").upload([[1, 0], [0, 1]])
    both = nearfield.AsyncClient(shared.address)

    async def use() -> None:
        docs = both.collection(name)
        assert (await docs.count()).rows_count == 2
        assert [each.ids.tolist() async for each in docs.search_stream([[1, 0]], k=1)] == [[0]]
        assert [page.ids.tolist() async for page in docs.scan()] == [[0, 1]]
        assert (await docs.upload([[1, 0]], mode="upsert")).rows_count == 1

    async def in_two_loops() -> None:
        await use()
        await asyncio.gather(use(), asyncio.to_thread(asyncio.run, use()))
        await use()

    asyncio.run(use())
    asyncio.run(in_two_loops())
    assert len(both._core.transport._stubs) <= 2  # those of closed loops are dropped
    asyncio.run(both.close())
    with pytest.raises(ValueError, match="this client is closed"):
        asyncio.run(use())


# A server that restarts.


def test_a_call_gave_up_0_3_s_after_the_server_was_gone(scripted, connect, clock):
    scripted.script["Count"] = [COUNTED, *[AWAY] * 12, COUNTED]
    docs = connect(scripted.address, _clock=clock).collection("d")
    docs.count()
    assert docs.count().rows_count == 7
    assert len(clock.waits) == 12 and max(clock.waits) <= 2


@pytest.mark.parametrize(("timeout", "policy", "low", "high"), [
    (None, RetryPolicy(), 29.8, 30), (90, RetryPolicy(), 89.8, 90), (1, RetryPolicy(), 0.8, 1), (math.inf, RetryPolicy(), 30, 32),
    (90, RetryPolicy(unavailable_max=8), 8, 10), (math.inf, RetryPolicy(unavailable_max=90), 90, 92),
    (9, RetryPolicy(backoff_first=0), 8.9, 9), (90, RetryPolicy(unavailable_max=0), 0.1, 0.4), (90, RetryPolicy(tries_max=1), 0, 0),
])
def test_a_call_waits_for_a_server_until_its_deadline(scripted, connect, clock, timeout, policy, low, high):
    scripted.script["Count"] = [COUNTED, *[AWAY] * 999]
    docs = connect(scripted.address, _clock=clock, retry=policy).collection("d")
    docs.count()
    with pytest.raises(nearfield.Unavailable, match="draining"):
        docs.count(timeout=timeout)
    assert low <= sum(clock.waits) <= high
    assert all(wait >= 0.02 for wait in clock.waits)


def test_a_server_that_never_answered_is_not_waited_for(connect, clock):
    """A wrong address is reported within 0.4 s. An answer of a server that is starting counts."""
    with pytest.raises(nearfield.Unavailable, match=r"cannot reach 127\.0\.0\.1:1: is nearfield-server running\?"):
        connect("127.0.0.1:1", _clock=clock).collection("d").count()
    assert len(clock.waits) == 3 and sum(clock.waits) < 0.4
    with pytest.raises(ValueError, match="unavailable_max"):
        RetryPolicy(unavailable_max=-1)


def test_a_server_that_is_starting_is_waited_for(scripted, connect, clock):
    scripted.script["Count"] = [*[AWAY] * 9, COUNTED]
    assert connect(scripted.address, _clock=clock).collection("d").count().rows_count == 7


class Restart:
    """Starts the server again in the sixth wait for it: a client with four tries has stopped."""

    def __init__(self, start, tmp_path: Path) -> None:
        self.address = f"unix:{tmp_path}/server.sock"
        self._start = lambda: start("--data-dir", str(tmp_path / "data"), "--listen", self.address)
        self._server: Server | None = self._start()
        self._waits = 0

    def kill(self) -> None:
        if self._server is not None and self._waits == 0:
            self._server.kill()
            self._server = None

    def on_wait(self) -> None:
        self._waits += self._server is None
        if self._waits == 6 and self._server is None:
            self._server = self._start()

    def clock(self, connect) -> BlockingClock:
        kind: type = BlockingClock if "blocking" in str(connect) else AsyncClock
        restart = self

        class Clock(kind):  # type: ignore[misc, valid-type]
            async def sleep(self, seconds: float) -> None:  # tidy: allow(sleep): the wait of the client
                restart.on_wait()
                await super().sleep(seconds)  # tidy: allow(sleep): the wait of the client

        return Clock()


@pytest.fixture
def restart(start, tmp_path):
    return Restart(start, tmp_path)


def test_a_restart_failed_the_calls_in_it(restart, connect, request, name):
    client = connect(restart.address, timeout=60, _clock=restart.clock(request.node.name))
    docs = client.create_collection(name, 2, metric="dot")
    docs.upload(np.eye(2))
    restart.kill()
    assert docs.count().rows_count == 2
    restart._waits = 0
    restart.kill()
    assert [len(page) for page in docs.scan(timeout=60)] == [2]


def test_a_restart_failed_a_resumable_upload(restart, connect, request, name, rng):
    rows = rng.standard_normal((20_000, 384), dtype=np.float32)  # more than a connection holds in flight
    docs = connect(restart.address, _clock=restart.clock(request.node.name)).create_collection(name, 384, metric="dot")
    done = docs.upload(rows, token=name, block_bytes=100_000, progress=lambda now: now.rows_received >= 5000 and restart.kill())
    assert done.rows_count == len(rows) and restart._waits >= 6
    assert (docs.fetch(np.arange(9000), payload=False).vectors == rows[:9000]).all()


# A connection that cannot work says why.


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    for name, authority in (("ca", None), ("other", None), ("server", "ca")):
        new_certificate(folder, name, authority)
    (folder / "text.pem").write_text("no certificate")
    return folder


def refusal(connect, address: str, **options: str) -> str:
    """Returns the message of the error of a first call."""
    with pytest.raises(nearfield.Unavailable) as caught:
        connect(address, **options).list_collections()
    assert caught.value.unreachable
    return caught.value.message


def test_tls_that_does_not_fit_was_told_as_a_closed_socket(start, connect, files):
    pair = ("--tls-cert", str(files / "server.pem"), "--tls-key", str(files / "server.key"))
    tls, mutual = start(*pair), start(*pair, "--tls-client-ca", str(files / "ca.pem"))
    ca = str(files / "ca.pem")
    unnamed = start("--tls-cert", ca, "--tls-key", str(files / "ca.key")).address  # its certificate has no address
    assert refusal(connect, tls.address).startswith(
        f"cannot reach {tls.address}: the server ended the connection at once: if it uses TLS, give ca (")
    assert "it may require client_cert" in refusal(connect, mutual.address, ca=ca)
    assert f"cannot reach {unnamed}: the certificate of the server is not for this name" in refusal(connect, unnamed, ca=ca)
    local = tls.address.replace("127.0.0.1", "localhost")  # of which gRPC may also try ::1, and report only that
    for _ in range(3):
        assert f"cannot reach {local}: the certificate of the server is not for this name" in refusal(connect, local, ca=ca)
    for other in (str(files / "other.pem"), "system"):
        assert "the authorities in ca did not sign it" in refusal(connect, tls.address, ca=other)
    with pytest.raises(ValueError, match=r"ca: .*text\.pem: has no certificate in PEM"):
        connect(tls.address, ca=str(files / "text.pem"))
    connect(tls.address, ca=ca).list_collections()


def test_the_operations_port_was_told_as_a_fault_of_http2(start, connect, files):
    server = start("--ops-listen", "127.0.0.1:0")
    ops = server.ops_address()
    assert f"cannot reach {ops}: this port speaks HTTP/1, as the operations port (9464) does" in refusal(connect, ops)
    for address in (server.address, ops):
        assert "this port does not use TLS: leave out ca" in refusal(connect, address, ca=str(files / "ca.pem"))


def test_a_server_that_does_not_answer_in_time_is_named(connect):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(nearfield.DeadlineExceeded, match=f"no answer from {address}"):
            connect(address, timeout=0.3).list_collections()


def test_a_lost_connection_names_the_server(start, connect, name):
    server = start()
    client = connect(server.address, retry=RetryPolicy(tries_max=1))
    client.create_collection(name, 2, metric="dot")
    thread = threading.Thread(target=server.kill)
    thread.start()
    with pytest.raises(nearfield.Unavailable, match=rf"(no answer from|cannot reach) {server.address}"):
        client.collection(name).count(min_epoch=99, timeout=20)
    thread.join()
