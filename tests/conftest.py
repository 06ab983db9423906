"""Options, fixtures and helpers of the end-to-end tests and of the tests of the Python client. Only the
fixtures of tests/python import the client."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import os
import random
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "scripts" / "lib"), str(ROOT / "tests" / "e2e")]

from server import ServerEnded, ServerProcess  # noqa: E402, F401

DEADLINE_S = 60


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--server", required=True, help="the nearfield-server program")
    parser.addoption("--cli", help="the nearfield command [next to the server]")
    parser.addoption("--fault-library", help="library of tests/fault to preload: simulates crashes and power losses at chosen calls")
    parser.addoption("--nvml-library", help="library of tests/server that stands for NVML")
    parser.addoption("--crash-points", type=int, default=50, help="number of deaths in test_crash.py and of failed allocations in test_out_of_memory.py")
    parser.addoption("--soak-minutes", type=float, default=0.75, help="duration of test_soak.py")
    parser.addoption("--soak-receipt", type=Path, help="file for the figures of test_soak.py")
    parser.addoption("--export-rows", type=int, default=20_000, help="number of rows of the timed run in test_export.py")
    parser.addoption("--picture", type=Path, help="file for a picture of the page of the operations port (test_page.py)")
    parser.addoption("--bare", action="store_true", help="test_edge.py: attack the server itself, without the edge")
    parser.addoption("--ray-rounds", type=int, default=11, help="rounds of test_ray_faults.py")
    parser.addoption("--ray-minutes", type=float, default=float("inf"), help="time after which test_ray_faults.py begins no round")
    parser.addoption("--ray-partitions", action="store_true", help="test_ray_faults.py: nodes in network namespaces, whose connections are cut")
    parser.addoption("--ray-receipt", type=Path, help="file for the figures of test_ray_faults.py")
    parser.addoption("--seed", type=int, default=int(os.environ.get("NEARFIELD_TEST_SEED", random.randrange(2**32))))


def pytest_configure(config: pytest.Config) -> None:
    """The libraries of nearfield.open and nearfield.topk are those of the server's build folder."""
    server = Path(config.option.server).resolve()
    config.option.cli = str(config.option.cli or server.with_name("nearfield"))
    os.environ.setdefault("NEARFIELD_LIBRARY", str(server.parents[1] / "lib" / "libnearfield.so"))
    os.environ.setdefault("NEARFIELD_TOPK_LIBRARY", str(server.parents[1] / "lib" / "libnearfield_topk.so"))


def pytest_report_header(config: pytest.Config) -> str:
    return f"random seed {config.getoption('--seed')} (repeat with --seed)"


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A new generator with this run's seed for each test."""
    return np.random.default_rng(request.config.getoption("--seed"))


@pytest.fixture
def draw(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.config.getoption("--seed"))


def free_port(*, twin: int = 0) -> int:
    """Returns a port of loopback that nothing listens on, nor on the port that is `twin` higher. It lies
    below the ports that the system gives to connections and to listeners on port 0 (32,768 and up), so
    that no other test has taken it when the server binds it."""
    while True:
        port = random.SystemRandom().randrange(30_000 - twin, 32_700 - twin)
        with contextlib.suppress(OSError):
            for each in {port, port + twin}:
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", each))
            return port


class Server(ServerProcess):
    """A running nearfield-server, perhaps not ready yet, and stubs for it."""

    def __init__(self, program: str, folder: Path, arguments: Iterable[str], environment: dict[str, str] | None = None) -> None:
        command = [program, *arguments]
        for option, value in (("--listen", "127.0.0.1:0"), ("--ops-listen", "none"), ("--http-listen", "none"),
                              ("--data-dir", str(folder / "data")), ("--log-format", "json")):
            if option not in command:
                command += [option, value]
        super().__init__(command, folder / "server.log", {**os.environ, **(environment or {})})

    def logged(self, pattern: str) -> str:
        """Returns the first group of the pattern, once the log has it."""
        return self.wait_for(lambda: re.search(pattern, self.log.read_text("utf-8", "replace")))[1]

    @functools.cached_property
    def address(self) -> str:
        """host:port or unix:/path, once the server listens."""
        return self.logged(r'listening on ([^\s"]+)')

    def wait_serving(self) -> None:
        self.logged("(serving on)")

    def ops_address(self) -> str:
        """Returns the address of its operations port, once the log has it."""
        return self.logged(r'"operations port".*"address":"([^"]+)"')

    def http_address(self) -> str:
        """Returns the address of its HTTP port, once the log has it."""
        return self.logged(r'"HTTP port".*"address":"([^"]+)"')

    @functools.cached_property
    def channel(self) -> grpc.Channel:
        return grpc.insecure_channel(self.address, options=[("grpc.max_receive_message_length", -1),
                                                            ("grpc.max_send_message_length", -1)])

    @property
    def pb(self) -> SimpleNamespace:
        """Messages and stubs of nearfield.v1."""
        from calls import messages

        return messages()

    @functools.cached_property
    def health(self) -> Any:
        from grpc_health.v1.health_pb2_grpc import HealthStub

        return HealthStub(self.channel)

    def __getattr__(self, name: str) -> Any:
        """Returns the stub of a service: retrieval, ingest or admin."""
        if name not in ("retrieval", "ingest", "admin"):
            raise AttributeError(name)
        setattr(self, name, getattr(self.pb, f"{name.capitalize()}Stub")(self.channel))
        return getattr(self, name)

    def close(self) -> None:
        if "channel" in vars(self):
            self.channel.close()
        if self.process.poll() is None:
            self.kill()


def start_server(request: pytest.FixtureRequest, folder: Path, *arguments: str, environment: dict[str, str] | None = None) -> Server:
    """Returns a server that serves, and is killed with the scope of the request."""
    server = Server(request.config.getoption("--server"), folder, arguments, environment)
    request.addfinalizer(server.close)
    server.wait_serving()
    return server


@pytest.fixture
def start(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """start(*arguments) -> a Server that serves. All are killed at the end of the test."""
    return lambda *arguments: start_server(request, tmp_path_factory.mktemp("server"), *arguments)


@pytest.fixture(scope="module")
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """One server for those tests of a module that do not disturb each other."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "snapshots").mkdir()
    return start_server(request, folder, "--snapshot-dir", str(folder / "snapshots"))


@pytest.fixture
def nearfield(request: pytest.FixtureRequest, tmp_path: Path):
    """nearfield(server, *arguments, code=0, timeout=120) -> the output of the command, which must end with that
    exit code; `json` has its lines if --json is given."""
    program = Path(request.config.getoption("--cli")).resolve()

    def run(server: Any, *arguments: Any, code: int = 0, timeout: float = 120) -> SimpleNamespace:
        done = subprocess.run([program, "--address", server.address, *map(str, arguments)], timeout=timeout,
                              capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, cwd=tmp_path)
        assert done.returncode == code, done.stdout + done.stderr
        return SimpleNamespace(out=done.stdout, err=done.stderr,
                               json=[json.loads(line) for line in done.stdout.splitlines()] if "--json" in arguments else None)
    return run


@pytest.fixture
def command(request: pytest.FixtureRequest, shared: Server) -> Any:
    """command(*arguments) -> the finished command `nearfield`, which calls the shared server."""
    start = [request.config.getoption("--cli"), "--address", shared.address]
    return lambda *arguments: subprocess.run([*start, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def offline(request: pytest.FixtureRequest):
    """offline(*arguments, cwd=None) -> the finished process of the server program, which must end by
    itself."""
    program = Path(request.config.getoption("--server")).resolve()

    def run(*arguments: Any, cwd: Path | None = None) -> subprocess.CompletedProcess:
        return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=DEADLINE_S, check=False,
                              cwd=cwd)
    return run


def damage(path: Path) -> None:
    """Changes one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def run_together(calls: Iterable[Callable[[], None]]) -> None:
    """Runs each call on its own thread and waits for all."""
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def bits(scores: Any) -> list[int]:
    return np.asarray(scores, np.float32).view(np.uint32).tolist()


def answer(hits: Any) -> list[tuple[Any, int]]:
    """Returns the (id, score bits) of an answer."""
    return list(zip(list(hits.ids), bits(hits.scores), strict=True))


# Fixtures of tests/e2e.


@pytest.fixture(scope="session")
def pb() -> SimpleNamespace:
    """Messages and stubs of nearfield.v1."""
    from calls import messages

    return messages()


@pytest.fixture
def api():
    """api(server) -> Api"""
    from calls import Api

    return Api


@pytest.fixture
def refused():
    """refused(code, call, *words): the call must fail with this status and a message that contains
    the words."""
    from google.rpc import error_details_pb2
    from grpc_status import rpc_status

    def check(code: grpc.StatusCode, call, *words: str) -> grpc.RpcError:
        with pytest.raises(grpc.RpcError) as caught:
            call()
        assert caught.value.code() == code, caught.value
        for word in words:
            assert word in caught.value.details(), caught.value.details()
        metadata = dict(caught.value.trailing_metadata() or ())
        assert metadata.get("nearfield-request-id"), "every error carries a request id"
        details = rpc_status.from_call(caught.value)
        assert details is not None, "every error carries details"
        if code == grpc.StatusCode.INVALID_ARGUMENT:
            bad = error_details_pb2.BadRequest()
            assert any(each.Unpack(bad) for each in details.details) and bad.field_violations[0].field, details
        return caught.value
    return check


# Fixtures of tests/python.


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


@pytest.fixture(params=["blocking", "asyncio"])
def connect(request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop):
    """connect(address, **options) -> a client of each kind in turn, used in the same way."""
    from waiting import Waiting

    import nearfield

    with contextlib.ExitStack() as clients:

        def make(address: str, **options: Any) -> Any:
            if request.param == "blocking":
                client: Any = nearfield.connect(address, **options)
            else:
                client = Waiting(nearfield.AsyncClient(address, **options), loop)
            clients.callback(client.close)
            return client

        yield make


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
    import nearfield

    made: list[str] = []

    def make(dim: int | None = 2, **options: Any) -> Any:
        made.append(f"{name}-{len(made)}")
        return client.create_collection(made[-1], dim, **{"metric": "l2", **options})

    yield make
    for each in made:
        with contextlib.suppress(nearfield.NotFound):
            client.drop_collection(each)


@pytest.fixture
def store(tmp_path: Path) -> Any:
    """A storage of nearfield.ray.Cluster in a folder."""
    from nearfield.ray._store import Store

    made = Store(str(tmp_path / "storage"))
    made.prepare()
    return made


@pytest.fixture(scope="session")
def local_ray() -> Iterator[str]:
    """The address of a Ray on this machine with more cores than it may have, which all files of a run share."""
    import ray
    from ray_model import RAY

    os.environ["RAY_DATA_DISABLE_PROGRESS_BARS"] = "1"
    ray.init(num_cpus=4, **RAY)
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


@pytest.fixture
def coordinator(store: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A coordinator of a cluster with replicas that fail on demand."""
    from ray_fakes import fake_coordinator

    return fake_coordinator(store, monkeypatch)


@pytest.fixture
def scripted() -> Iterator[Any]:
    """A server that answers as a test says."""
    from scripted import ScriptedServer

    with contextlib.closing(ScriptedServer()) as server:
        yield server


@pytest.fixture
def clock() -> Any:
    """A clock that runs only while a client waits."""
    from scripted import FakeClock

    return FakeClock()
