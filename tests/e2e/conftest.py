"""Options, fixtures and helpers: stubs generated from proto/, server processes on free loopback
ports, the command, short forms of calls, the random seed."""

from __future__ import annotations

import importlib
import json
import os
import random
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace

import grpc
import numpy as np
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))

from server import ServerEnded, ServerProcess  # noqa: E402, F401

DEADLINE_S = 60


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--server", required=True, help="the nearfield-server program")
    parser.addoption("--cli", required=True, help="the nearfield command")
    parser.addoption("--fault-library", help="library of tests/fault to preload: simulates crashes and power losses at chosen calls")
    parser.addoption("--nvml-library", help="library of tests/server that stands for NVML")
    parser.addoption("--crash-points", type=int, default=50, help="number of deaths in test_crash.py and of failed allocations in test_out_of_memory.py")
    parser.addoption("--soak-minutes", type=float, default=0.75, help="duration of test_soak.py")
    parser.addoption("--soak-receipt", type=Path, help="file for the figures of test_soak.py")
    parser.addoption("--export-rows", type=int, default=20_000, help="number of rows of the timed run in test_export.py")
    parser.addoption("--picture", type=Path, help="file for a picture of the page of the operations port (test_page.py)")
    parser.addoption("--bare", action="store_true", help="test_edge.py: attack the server itself, without the edge")
    parser.addoption("--seed", type=int, default=int(os.environ.get("NEARFIELD_TEST_SEED", random.randrange(2**32))))


def pytest_report_header(config: pytest.Config) -> str:
    return f"random seed {config.getoption('--seed')} (repeat with --seed)"


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A new generator with this run's seed for each test."""
    return np.random.default_rng(request.config.getoption("--seed"))


def make_stubs(out: Path) -> SimpleNamespace:
    """Generates the messages and stubs of nearfield.v1 in the folder, and imports them."""
    names = ["common", "retrieval", "ingest", "admin"]
    files = [f"nearfield/v1/{name}.proto" for name in names]
    code = protoc.main(["protoc", f"-I{ROOT}/proto", f"--python_out={out}", f"--grpc_python_out={out}", *files])
    assert code == 0
    sys.path.insert(0, str(out))
    found: dict[str, object] = {}
    for name in names:
        for suffix in ("_pb2", "_pb2_grpc"):
            module = importlib.import_module(f"nearfield.v1.{name}{suffix}")
            found.update({key: value for key, value in vars(module).items() if not key.startswith("_")})
    return SimpleNamespace(**found)


@pytest.fixture(scope="session")
def pb(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Messages and stubs of nearfield.v1."""
    return make_stubs(tmp_path_factory.mktemp("stubs"))


def free_port() -> int:
    """Returns a port of loopback that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server(ServerProcess):
    """A running nearfield-server and stubs for it."""

    def __init__(self, program: str, pb: SimpleNamespace, folder: Path, arguments: list[str],
                 environment: dict[str, str] | None = None) -> None:
        port_file = folder / "port"
        if "--data-dir" not in arguments:
            arguments = [*arguments, "--data-dir", str(folder / "data")]
        if "--ops-listen" not in arguments:
            arguments = [*arguments, "--ops-listen", "none"]
        super().__init__(
            [program, "--listen", "127.0.0.1:0", "--port-file", str(port_file), "--log-format", "json", *arguments],
            folder / "server.log", environment={**os.environ, **(environment or {})})
        # The server writes the port file atomically once it listens.
        port = self.wait_for(lambda: port_file.read_text() if port_file.exists() else None, DEADLINE_S)
        self.address = f"127.0.0.1:{int(port)}"
        self.channel = grpc.insecure_channel(self.address, options=[("grpc.max_receive_message_length", -1),
                                                                    ("grpc.max_send_message_length", -1)])
        self.health = health_pb2_grpc.HealthStub(self.channel)
        self.retrieval = pb.RetrievalStub(self.channel)
        self.ingest = pb.IngestStub(self.channel)
        self.admin = pb.AdminStub(self.channel)
        self.pb = pb

    def wait_serving(self) -> None:
        """Watches grpc.health.v1 until SERVING. The server already listens, so a failed connection
        means that the process ended."""
        for update in self.health.Watch(health_pb2.HealthCheckRequest(), timeout=DEADLINE_S):
            if update.status == health_pb2.HealthCheckResponse.SERVING:
                return
        raise AssertionError("the health stream ended before SERVING")

    def ops_address(self) -> str:
        """Returns the address of its operations port, once the log has it."""
        line = re.compile(r'"operations port".*"address":"([^"]+)"')
        return self.wait_for(lambda: line.search(self.log.read_text()), DEADLINE_S)[1]

    def close(self) -> None:
        self.channel.close()
        if self.process.poll() is None:
            self.kill()


@pytest.fixture
def start(request: pytest.FixtureRequest, pb: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory):
    """start(*arguments) -> a Server that serves. All servers are killed at the end of the test."""
    servers: list[Server] = []

    def start_one(*arguments: str) -> Server:
        server = Server(request.config.getoption("--server"), pb, tmp_path_factory.mktemp("server"), list(arguments))
        servers.append(server)
        server.wait_serving()
        return server

    yield start_one
    for server in servers:
        server.close()


@pytest.fixture(scope="module")
def shared(request: pytest.FixtureRequest, pb: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory):
    """One server for those tests of a module that do not disturb each other."""
    server = Server(request.config.getoption("--server"), pb, tmp_path_factory.mktemp("server"), [])
    server.wait_serving()
    yield server
    server.close()


@pytest.fixture
def nearfield(request: pytest.FixtureRequest, tmp_path: Path):
    """nearfield(server, *arguments, code=0, timeout=120) -> the output of the command, which must end with that
    exit code; `json` has its lines if --json is given."""
    program = Path(request.config.getoption("--cli")).resolve()

    def run(server, *arguments, code: int = 0, timeout: float = 120) -> SimpleNamespace:
        done = subprocess.run([program, "--address", server.address, *map(str, arguments)], timeout=timeout,
                              capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, cwd=tmp_path)
        assert done.returncode == code, done.stdout + done.stderr
        return SimpleNamespace(out=done.stdout, err=done.stderr,
                               json=[json.loads(line) for line in done.stdout.splitlines()] if "--json" in arguments else None)
    return run


@pytest.fixture
def offline(request: pytest.FixtureRequest):
    """offline(*arguments, cwd=None) -> the finished process of the server program, which must end by
    itself."""
    program = Path(request.config.getoption("--server")).resolve()

    def run(*arguments, cwd: Path | None = None) -> subprocess.CompletedProcess:
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


class Api:
    """Short forms of the calls that most tests make."""

    def __init__(self, pb: SimpleNamespace, server: Server) -> None:
        self.pb = pb
        self.server = server

    def create(self, name: str, dim: int, metric: str = "DOT", dtype: str = "FLOAT32", ids: str = "UINT64", **more):
        """Creates a collection and returns its CollectionInfo; `more` are further fields of the
        request."""
        pb = self.pb
        return self.server.admin.CreateCollection(pb.CreateCollectionRequest(
            name=name, dim=dim, metric=pb.Metric.Value(f"METRIC_{metric}"), dtype=pb.DataType.Value(f"DATA_TYPE_{dtype}"),
            id_type=pb.IdType.Value(f"ID_TYPE_{ids}"), **more), timeout=DEADLINE_S).collection

    def ids(self, ids: list):
        texts = bool(ids) and isinstance(ids[0], str)
        return self.pb.IdList(texts=ids) if texts else self.pb.IdList(numbers=ids)

    def begin(self, name: str, rows_max: int, payload_bytes_max: int = 0, mode: str = "INSERT", token: bytes | None = None):
        return self.pb.UploadRequest(begin=self.pb.UploadBegin(
            collection=name, mode=self.pb.UploadMode.Value(f"UPLOAD_MODE_{mode}"), rows_max=rows_max,
            payload_bytes_max=payload_bytes_max, upload_token=token))

    def commit(self, rows_count: int | None = None):
        return self.pb.UploadRequest(commit=self.pb.UploadCommit(rows_count=rows_count))

    def send(self, *requests) -> list:
        """Sends the messages of one upload; returns the replies."""
        return list(self.server.ingest.Upload(iter(requests), timeout=DEADLINE_S))

    def block(self, ids: list, rows: np.ndarray, payloads: list[bytes] | None = None):
        # bfloat16 rows are given as their bits.
        dtype = {np.dtype("<f4"): self.pb.DATA_TYPE_FLOAT32, np.dtype("<f2"): self.pb.DATA_TYPE_FLOAT16,
                 np.dtype("<u2"): self.pb.DATA_TYPE_BFLOAT16}[rows.dtype]
        return self.pb.UploadRequest(block=self.pb.UploadBlock(
            ids=self.ids(ids), vectors=self.pb.VectorBlock(dtype=dtype, data=rows.tobytes()), payloads=payloads or []))

    def upload(self, name: str, ids: list, rows: np.ndarray, payloads: list[bytes] | None = None, block_rows: int = 500):
        """Uploads all rows in blocks, rows of zeros too; returns UploadCommitted."""
        blocks = (self.block(ids[at:at + block_rows], rows[at:at + block_rows], payloads[at:at + block_rows] if payloads else None)
                  for at in range(0, len(ids), block_rows))
        begin = self.begin(name, len(ids), sum(len(p) for p in payloads or []))
        begin.begin.zero_rows = self.pb.ZERO_ROWS_ACCEPT
        replies = self.send(begin, *blocks, self.commit(len(ids)))
        assert replies[-1].WhichOneof("message") == "committed"
        return replies[-1].committed

    def query(self, vector: np.ndarray):
        return self.pb.Query(vector=self.pb.FloatVector(values=vector.tolist()))

    def search(self, name: str, queries, k: int | None = None, **more):
        vectors = [self.query(vector) for vector in np.atleast_2d(queries)]
        return self.server.retrieval.Search(
            self.pb.SearchRequest(collection=name, queries=vectors, k=k, **more), timeout=DEADLINE_S)

    def answer(self, result) -> list[tuple[object, int]]:
        """Returns the (id, score bits) of a QueryResult."""
        ids = list(result.ids.texts) or list(result.ids.numbers)
        bits = np.array(result.scores, dtype=np.float32).view(np.uint32)
        assert len(ids) == len(bits)
        return [(identity, int(value)) for identity, value in zip(ids, bits)]


@pytest.fixture
def api(pb: SimpleNamespace):
    """api(server) -> Api"""
    return lambda server: Api(pb, server)


@pytest.fixture
def refused():
    """refused(code, call, *words): the call must fail with this status and a message that contains
    the words."""
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
