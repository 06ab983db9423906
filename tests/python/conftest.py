"""Fixtures of the tests of the Python client: servers, clients of both kinds, names, the seed."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import os
import random
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nearfield
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts" / "lib"), str(ROOT / "tests" / "e2e")]

from server import ServerProcess  # noqa: E402

KINDS = ["blocking", "asyncio"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--server", required=True, help="the nearfield-server program")
    parser.addoption(
        "--seed",
        type=int,
        default=int(os.environ.get("NEARFIELD_TEST_SEED", random.randrange(2**32))),
    )
    parser.addoption("--ray-rounds", type=int, default=8, help="rounds of test_ray_faults.py")
    parser.addoption("--ray-receipt", type=Path, help="file for the figures of test_ray_faults.py")


def pytest_configure(config: pytest.Config) -> None:
    """The libraries of nearfield.open and nearfield.topk are those of the server's build folder."""
    folder = Path(config.getoption("--server")).resolve().parents[1]
    os.environ.setdefault("NEARFIELD_LIBRARY", str(folder / "lib" / "libnearfield.so"))
    os.environ.setdefault("NEARFIELD_TOPK_LIBRARY", str(folder / "lib" / "libnearfield_topk.so"))


def pytest_report_header(config: pytest.Config) -> str:
    return f"random seed {config.getoption('--seed')} (repeat with --seed)"


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A new generator with this run's seed for each test."""
    return np.random.default_rng(request.config.getoption("--seed"))


@pytest.fixture
def draw(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.config.getoption("--seed"))


class Server(ServerProcess):
    """A running nearfield-server."""

    def __init__(self, program: str, folder: Path, arguments: list[str]) -> None:
        if "--data-dir" not in arguments:
            arguments = [*arguments, "--data-dir", str(folder / "data")]
        if "--listen" not in arguments:
            arguments = [*arguments, "--listen", "127.0.0.1:0"]
        if "--ops-listen" not in arguments:  # the default port is one for all servers
            arguments = [*arguments, "--ops-listen", "none"]
        super().__init__([program, *arguments], folder / "server.log")
        self.address = self.wait_for(self._address)

    def _address(self) -> str | None:
        """Returns the address, host:port or unix:/path, once the server serves."""
        found = re.search(r"serving on (\S+)\n", self.log.read_text("utf-8"))
        return found[1] if found else None

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()


@pytest.fixture
def start(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """start(*arguments) -> a Server that serves. All are killed at the end of the test."""
    servers: list[Server] = []

    def start_one(*arguments: str) -> Server:
        folder = tmp_path_factory.mktemp("server")
        servers.append(Server(request.config.getoption("--server"), folder, list(arguments)))
        return servers[-1]

    yield start_one
    for server in servers:
        server.close()


@pytest.fixture(scope="session")
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """One server for those tests that do not disturb each other."""
    folder = tmp_path_factory.mktemp("server")
    snapshots = folder / "snapshots"
    snapshots.mkdir()
    server = Server(
        request.config.getoption("--server"), folder, ["--snapshot-dir", str(snapshots)]
    )
    yield server
    server.close()


class Waiting:
    """An AsyncClient, or a handle of one, used like its blocking twin: calls run on `loop`."""

    def __init__(self, inner: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._inner = inner
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            result = found(*args, **kwargs)
            if inspect.isasyncgen(result):
                return self._iterate(result)
            return self._wrap(self._wait(result) if inspect.isawaitable(result) else result)

        return call

    def _wait(self, awaitable: Any) -> Any:
        async def run() -> Any:
            return await awaitable

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(120)

    def _wrap(self, value: Any) -> Any:
        is_handle = isinstance(value, nearfield.AsyncCollection)
        return Waiting(value, self._loop) if is_handle else value

    def _iterate(self, generator: Any) -> Iterator[Any]:
        try:
            while True:
                try:
                    item = self._wait(generator.__anext__())
                except StopAsyncIteration:
                    return
                yield item
        finally:
            self._wait(generator.aclose())


@pytest.fixture(scope="session")
def loop():
    """An event loop on a thread of its own."""
    running = asyncio.new_event_loop()
    thread = threading.Thread(target=running.run_forever, daemon=True)
    thread.start()
    yield running
    running.call_soon_threadsafe(running.stop)
    thread.join()
    running.close()


@pytest.fixture(params=KINDS)
def connect(request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop):
    """connect(address, **options) -> a client of each kind in turn, used in the same way."""
    clients: list[Any] = []

    def make(address: str, **options: Any) -> Any:
        if request.param == "blocking":
            client: Any = nearfield.connect(address, **options)
        else:
            client = Waiting(nearfield.AsyncClient(address, **options), loop)
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(connect: Callable[..., Any], shared: Server) -> Any:
    return connect(shared.address)


_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    """A new name of a collection."""
    return f"docs-{next(_numbers)}"


@pytest.fixture
def create(client: Any, name: str) -> Any:
    """create(dim, ...) -> a new collection, which is dropped after the test."""
    made: list[str] = []

    def make(dim: int | None = 2, **options: Any) -> Any:
        made.append(f"{name}-{len(made)}")
        return client.create_collection(made[-1], dim, **{"metric": "l2", **options})

    yield make
    for each in made:
        with contextlib.suppress(nearfield.NotFound):
            client.drop_collection(each)


@pytest.fixture
def command(request: pytest.FixtureRequest, shared: Server) -> Any:
    """command(*arguments) -> the finished command `nearfield`."""
    program = Path(request.config.getoption("--server")).with_name("nearfield")
    if not program.exists():
        pytest.skip("the command is not built")

    def run(*arguments: Any) -> subprocess.CompletedProcess[str]:
        line = [program, "--address", shared.address, *map(str, arguments)]
        return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)

    return run


def bits(scores: Any) -> list[int]:
    return np.asarray(scores, np.float32).view(np.uint32).tolist()


def answer(hits: Any) -> list[tuple[Any, int]]:
    """Returns the (id, score bits) of an answer."""
    return list(zip(list(hits.ids), bits(hits.scores), strict=True))


@pytest.fixture
def store(tmp_path: Path) -> Any:
    """A storage of nearfield.ray.Cluster in a folder."""
    from nearfield.ray._store import Store

    made = Store(str(tmp_path / "storage"))
    made.create()
    return made


@pytest.fixture
def coordinator(store: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A coordinator of a cluster with replicas that fail on demand."""
    from ray_fakes import fake_coordinator

    return fake_coordinator(store, monkeypatch)


@pytest.fixture
def scripted() -> Iterator[Any]:
    """A server that answers as a test says."""
    from scripted import ScriptedServer

    server = ScriptedServer()
    yield server
    server.close()


@pytest.fixture
def clock() -> Any:
    """A clock that runs only while a client waits."""
    from scripted import FakeClock

    return FakeClock()
