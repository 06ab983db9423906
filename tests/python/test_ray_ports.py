"""The ports of a cluster: its processes listen in the range that was given, and nowhere else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import nearfield
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("ray")

from nearfield.ray import Cluster, _server  # noqa: E402
from nearfield.ray._rpc import serve  # noqa: E402
from nearfield.ray._server import ServerProcess, Settings, port_range  # noqa: E402
from ray_model import SETTINGS, free_range  # noqa: E402

LOOPBACK = "127.0.0.1"


@pytest.fixture
def start(request) -> Iterator[Callable[..., ServerProcess]]:
    """Starts a server with a range of ports and the port that it had before."""
    made: list[ServerProcess] = []
    program = request.config.getoption("--server")
    settings = Settings("fake", 1, 1, "", program, "", 1, 0, SETTINGS, 1.0, 4096)

    def start(ports: range, port: int = 0) -> ServerProcess:
        some = replace(settings, ports=f"{ports[0]}-{ports[-1]}", port=port)
        made.append(ServerProcess(some, LOOPBACK, {"backend": "cpu", **SETTINGS}))
        return made[-1]

    yield start
    for each in made:
        each.kill()


def ports_of(*servers: ServerProcess) -> set[int]:
    return {int(each.address().rpartition(":")[2]) for each in servers}


@pytest.mark.parametrize("ports", ["50100", "50100-", "-5", "a-b", "1-2-3", " 1-2", "0-9", "9-8", "1-65536", "50100-50199,"])
def test_a_range_that_is_none_is_refused(ports, tmp_path):
    with pytest.raises(ValueError, match=f"ports: '{ports}', must be "):
        Cluster(str(tmp_path / "storage"), ports=ports)
    assert not list(tmp_path.iterdir())


def test_the_ends_of_a_range_belong_to_it():
    assert (list(port_range("7-7")), port_range("1-65535")) == ([7], range(1, 65536))


def test_servers_that_start_at_once_share_a_range(start, monkeypatch):
    """Each finds all ports free, as in a race, and moves on when the server that it started has none."""
    monkeypatch.setattr(_server, "_is_free", lambda *_: True)
    ports = free_range(3)
    first, second, third = (start(ports) for _ in ports)
    assert ports_of(first, second, third) == set(ports)
    with pytest.raises(nearfield.Unavailable, match=f"ports: none of {ports[0]}-{ports[-1]} is free at {LOOPBACK}$"):
        start(ports).address()


def test_a_server_gets_the_port_that_it_had(start, monkeypatch):
    ports = free_range(3)
    assert ports_of(start(ports, ports[1])) == {ports[1]}
    monkeypatch.setattr(_server.subprocess, "Popen", lambda *_, **__: pytest.fail("a port that was taken was tried"))
    with pytest.raises(nearfield.Unavailable):
        start(ports[1:2], ports[1]).address()
    monkeypatch.undo()
    assert ports_of(start(ports, ports[1])) == {ports[0]}  # it is taken
    assert ports_of(start(ports, ports[-1] + 1)) == {ports[2]}  # it is outside


def test_a_server_that_is_killed_while_it_looks_for_a_port_starts_no_more(start, monkeypatch):
    looks, goes_on = threading.Event(), threading.Event()

    def look(*_: Any) -> bool:
        looks.set()
        return goes_on.wait(30)

    monkeypatch.setattr(_server, "_is_free", look)
    server = start(free_range(2))
    assert looks.wait(30)
    killing = threading.Thread(target=server.kill)
    killing.start()
    while not server._killed:
        killing.join(0.01)
    goes_on.set()
    killing.join(30)
    assert server.ended.is_set() and server.pid == 0


def test_two_coordinators_never_share_a_port():
    """gRPC sets SO_REUSEPORT, with which the kernel would give each a part of the calls."""
    ports = free_range(2)
    servers: list[Any] = []
    try:
        for port in ports:
            server, address = serve({}, LOOPBACK, ports)
            servers.append(server)
            assert address == f"{LOOPBACK}:{port}"
        with pytest.raises(nearfield.Unavailable, match=f"ports: none of {ports[0]}-{ports[-1]} is free at {LOOPBACK}"):
            serve({}, LOOPBACK, ports)
    finally:
        for server in servers:
            server.stop(0).wait()
