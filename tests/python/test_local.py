"""nearfield.open: a data directory in this process answers as a server does, to the bit; its lock,
its durability, its end, and the symbols of its library."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import nearfield
import numpy as np
import pytest
from conftest import answer
from nearfield import F
from nearfield import _methods as methods
from nearfield._blocking import run
from nearfield._core import Core
from nearfield.topk._dlpack import DeviceArray
from nearfield._errors import from_rpc_error
from nearfield._library import LIBRARY_VARIABLE
from nearfield._proto import admin_pb2 as admin
from nearfield._proto import ingest_pb2 as ingest
from nearfield._proto import common_pb2 as common
from nearfield._proto import retrieval_pb2 as retrieval

SMALL = {"memory_bytes": "64MiB", "host_memory_bytes": "64MiB", "backend": "cpu", "threads": 1,
         "reply_unread_ms": 86400000}
ROWS, DIM = 3000, 24


def flags(settings: dict[str, Any]) -> list[str]:
    return [part for key, value in settings.items() for part in (f"--{key.replace('_', '-')}", str(value))]


def core_of(client: nearfield.Client) -> Core:
    return client._inner._core


def fill(client: nearfield.Client, rng: np.random.Generator) -> np.ndarray:
    """Makes "docs", with two commits and deleted rows. Returns its vectors."""
    vectors = rng.integers(-3, 4, (ROWS, DIM)).astype(np.float32)  # many equal scores
    docs = client.create_collection("docs", DIM, metric="dot", attributes={"year": int, "tag": str})
    for part in (slice(0, 2000), slice(2000, ROWS)):
        ids = np.arange(ROWS, dtype=np.uint64)[part]
        docs.upload(
            vectors[part], ids=ids, payloads=[f"row {each} ".encode() * 60 for each in ids],
            attributes={"year": [int(each) % 40 for each in ids], "tag": [f"t{each % 7}" for each in ids]})
    docs.delete(filter=F.year == 3)
    docs.delete(list(range(100, 120)))
    return vectors


def without_times(message: Any) -> bytes:
    if isinstance(message, retrieval.SearchResponse):
        for field in ("queue_us", "device_us", "total_us"):
            message.cost.ClearField(field)
    return message.SerializeToString(deterministic=True)


def outcome(client: nearfield.Client, method: methods.Method, *requests: Any) -> list[Any]:
    """Returns the bytes of every reply to a call, and the error that it ended with."""
    transport = core_of(client).transport
    found: list[Any] = []
    try:
        if method in (methods.SEARCH_STREAM, methods.UPLOAD):
            duplex = transport.duplex(method, 60, ())
            for request in requests:
                run(duplex.write(request))
                if method is methods.SEARCH_STREAM:  # one at a time, so that none share a pass
                    found.append(without_times(run(duplex.read())))
            run(duplex.finish_writing())
            while (reply := run(duplex.read())) is not None:
                found.append(without_times(reply))
        elif method in (methods.SEARCH_ALL, methods.SCAN):
            stream = transport.stream(method, requests[0], 60, ())
            while (reply := run(stream.read())) is not None:
                found.append(without_times(reply))
        else:
            found.append(without_times(run(transport.unary(method, method.serialize(requests[0]), 60, ()))[0]))
    except grpc.RpcError as error:
        details = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
        failed = from_rpc_error(error)
        # The details hold a map, whose order changes from call to call.
        found.append((failed.code, failed.message, failed.field, failed.value, failed.limit, sorted(details), failed.retry_after))
    return found


def searches(vectors: np.ndarray) -> list[retrieval.SearchRequest]:
    plain = [
        {},
        {"k": 1},
        {"k": 4000, "with_payload": True, "with_vectors": True, "with_digest": True},
        {"k": 30, "with_cursor": True, "attributes": ["year", "tag"]},
        {"filter_text": 'year < 9 and tag in ("t1", "t5")', "k": 25},
        {"filter_text": "year > 100", "k": 25},
        {"score_threshold": 10.0, "with_cursor": True, "k": 5},
        {"verify": True},
        {"k": 5000},
        {"collection": "unknown"},
        {"filter_text": "year <"},
        {"filter_text": "none == 1"},
        {"min_epoch": 2, "k": 3},
        {"cursor": b"broken"},
        {"attributes": ["none"]},
    ]
    found = []
    for number, fields in enumerate(plain):
        request = retrieval.SearchRequest(**{"collection": "docs", "k": 10, **fields})
        request.queries.add().vector.values.extend(vectors[number])
        found.append(request)
    many = retrieval.SearchRequest(collection="docs", k=7)
    for vector in vectors[50:60]:
        many.queries.add().vector.values.extend(vector)
    many.queries.add().row_id.number = 7
    wrong = retrieval.SearchRequest(collection="docs", k=7)
    wrong.queries.add().encoded.data = b"123"
    return [*found, many, wrong]


def answers(client: nearfield.Client, vectors: np.ndarray) -> dict[str, list[Any]]:
    """Returns the outcome of one call after the other: of every kind that reads."""
    found: dict[str, list[Any]] = {}

    def ask(method: methods.Method, *requests: Any) -> None:
        key = f"{len(found)} {method.path} {str(requests[0])[:60] if requests else ''}"
        found[key] = outcome(client, method, *requests)

    requests = searches(vectors)
    for request in requests:
        ask(methods.SEARCH, request)
    ask(methods.SEARCH_STREAM, *requests[:6])
    ask(methods.SEARCH_ALL, retrieval.SearchAllRequest(search=requests[0], results_max=900))
    ask(methods.SEARCH_ALL, retrieval.SearchAllRequest(search=requests[1]))
    ask(methods.SEARCH_ALL, retrieval.SearchAllRequest(search=requests[9]))
    ask(methods.SCAN, retrieval.ScanRequest(collection="docs", with_vectors=True, with_payload=True))
    ask(methods.SCAN, retrieval.ScanRequest(collection="docs", filter_text='tag == "t2"', rows_max=100))
    ask(methods.SCAN, retrieval.ScanRequest(collection="unknown"))
    for ids in ([5, 1, 110, 9999], [], [1, 1]):
        ask(methods.FETCH, retrieval.FetchRequest(collection="docs", ids={"numbers": ids}))
    for text in ("year == 5", "year ==", ""):
        ask(methods.COUNT, retrieval.CountRequest(collection="docs", filter_text=text))
    ask(methods.GET_LIMITS, common.GetLimitsRequest())
    ask(methods.LIST_COLLECTIONS, admin.ListCollectionsRequest())
    ask(methods.GET_COLLECTION, admin.GetCollectionRequest(name="none"))
    ask(methods.CREATE_COLLECTION, admin.CreateCollectionRequest(name="docs"))
    ask(methods.UPLOAD, ingest.UploadRequest(begin={"collection": "unknown", "rows_max": 1}))
    ask(methods.UPLOAD)
    ask(methods.DELETE, ingest.DeleteRequest(collection="docs", ids={"numbers": []}))
    ask(methods.GET_UPLOAD, ingest.GetUploadRequest(upload_token=b"none"))
    ask(methods.DROP_ALIAS, admin.DropAliasRequest(alias="none"))
    return found


def test_it_answers_as_a_server_to_the_bit(start, tmp_path, rng):
    """Both read what the other one wrote: every reply and every error has the same bytes."""
    folder = tmp_path / "data"

    def served(use: Callable[[nearfield.Client], Any]) -> Any:
        server = start("--data-dir", str(folder), *flags(SMALL))
        with nearfield.connect(server.address) as client:
            found = use(client)
        assert server.terminate() == 0
        return found

    vectors = served(lambda client: fill(client, rng))
    by_server = served(lambda client: answers(client, vectors))
    with nearfield.open(folder, **SMALL) as client:
        in_process = answers(client, vectors)
        assert in_process.keys() == by_server.keys()
        for call, found in in_process.items():
            assert found == by_server[call], call
        assert client.health() == "SERVING"
        assert client.health("nearfield.v1.Collection/docs") == "SERVING"
        with pytest.raises(nearfield.NotFound):
            client.health("none")
        docs = client.collection("docs")
        docs.upload(vectors[:500] + 1, ids=range(10_000, 10_500), token="t", mode="upsert")
        docs.delete(filter=F.tag == "t4")
    # The layout of the rows in memory, and so the costs, depend on the history of a process.
    with nearfield.open(folder, **SMALL) as client:
        written = answers(client, vectors)
    assert written != in_process
    for call, found in served(lambda client: answers(client, vectors)).items():
        assert found == written[call], call


def test_a_directory_is_opened_once(start, tmp_path):
    folder = tmp_path / "data"
    with nearfield.open(folder, **SMALL) as client:
        client.create_collection("docs", 2, metric="dot")
        with pytest.raises(nearfield.FailedPrecondition, match="in use"):
            nearfield.open(folder, **SMALL)
        with pytest.raises(Exception, match="in use"):
            start("--data-dir", str(folder), *flags(SMALL))
    server = start("--data-dir", str(folder), *flags(SMALL))
    with pytest.raises(nearfield.FailedPrecondition, match=str(folder)):
        nearfield.open(folder, **SMALL)
    assert server.terminate() == 0
    with nearfield.open(folder, **SMALL) as client:
        assert [each.name for each in client.list_collections()] == ["docs"]


@pytest.mark.parametrize(("settings", "named"), [
    ({"k_max": 0}, "k_max"), ({"no_such": 1}, "no_such"), ({"memory_bytes": "1TiB"}, "memory"),
])
def test_wrong_settings_are_named(tmp_path, settings, named):
    with pytest.raises(nearfield.Error, match=named):
        nearfield.open(tmp_path / "data", **{**SMALL, **settings})
    assert not (tmp_path / "data").exists()
    with pytest.raises(ValueError, match="port_file"):
        nearfield.open(None, port_file='"')


def test_threads_search_at_once(rng):
    with nearfield.open(None, **SMALL) as client:
        vectors = fill(client, rng)
        docs = client.collection("docs")
        expected = [answer(docs.search(each, k=20)) for each in vectors[:40]]
        with ThreadPoolExecutor(8) as pool:
            for _ in range(5):
                found = list(pool.map(lambda each: answer(docs.search(each, k=20)), vectors[:40]))
                assert found == expected


def test_closing_ends_the_calls_in_flight(tmp_path, rng):
    """Calls that wait, streams without a reader and an upload in progress all end with Cancelled,
    and the directory can be opened again at once."""
    client = nearfield.open(tmp_path / "data", **SMALL)
    vectors = fill(client, rng)
    docs = client.collection("docs")
    pages, scan = docs.search_all(vectors[0], k=10), docs.scan()
    next(pages), next(scan)
    transport = core_of(client).transport
    upload = transport.duplex(methods.UPLOAD, None, ())
    begin = {"collection": "docs", "rows_max": 10, "payload_bytes_max": 0, "mode": ingest.UPLOAD_MODE_INSERT}
    run(upload.write(ingest.UploadRequest(begin=begin)))
    run(upload.read())  # the upload has begun
    waiting = [
        retrieval.CountRequest(collection="docs", min_epoch=1 << 40),
        retrieval.FetchRequest(collection="docs", min_epoch=1 << 40, ids={"numbers": [1]}),
    ]
    errors: list[nearfield.Error] = []

    def call(method: methods.Method, request: Any) -> None:
        try:
            run(core_of(client).call(method, request, None))
        except nearfield.Error as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=each) for each in zip((methods.COUNT, methods.FETCH), waiting, strict=True)]
    for thread in threads:
        thread.start()
    searching = ThreadPoolExecutor(4)
    results = [searching.submit(lambda: [docs.search(vectors[i % ROWS]) for i in range(10**9)]) for _ in range(4)]
    client.close()
    for thread in threads:
        thread.join()
    assert [type(each) for each in errors] == [nearfield.Cancelled] * 2
    for result in results:
        assert isinstance(result.exception(), nearfield.Cancelled)
    with pytest.raises(nearfield.Cancelled):
        list(pages)
    with pytest.raises(nearfield.Cancelled):
        list(scan)
    with pytest.raises(grpc.RpcError):
        while run(upload.read()) is not None:
            pass
    client.close()
    with nearfield.open(tmp_path / "data", **SMALL) as again:
        assert again.collection("docs").count().rows_count > 0


def test_a_client_that_is_dropped_closes_its_directory(tmp_path):
    for _ in range(3):
        client = nearfield.open(tmp_path / "data", **SMALL)
        client.list_collections()
        del client


WRITER = """
import sys, nearfield
client = nearfield.open(sys.argv[1], memory_bytes="64MiB", host_memory_bytes="64MiB", backend="cpu", threads=1)
docs = client.create_collection("docs", 2, metric="dot")
for commit in range(10**6):
    docs.upload([[1, row] for row in range(50)], ids=range(50 * commit, 50 * commit + 50))
    print(commit, flush=True)
"""


def test_a_killed_process_loses_no_acknowledged_row(tmp_path, draw):
    folder = tmp_path / "data"
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True)
    wanted = draw.randrange(3, 30)
    acknowledged = -1
    for line in process.stdout:
        acknowledged = int(line)
        if acknowledged == wanted:
            process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL and acknowledged >= wanted
    with nearfield.open(folder, **SMALL) as client:
        docs = client.collection("docs")
        rows = docs.count().rows_count
        # The commit in progress is there as a whole, or not at all.
        assert rows in (50 * (acknowledged + 1), 50 * (acknowledged + 2))
        assert len(docs.fetch(range(rows)).missing) == 0


INTERRUPTED = """
import sys, threading, nearfield, numpy as np
client = nearfield.open(None, memory_bytes="64MiB", host_memory_bytes="64MiB", backend="cpu", threads=1)
docs = client.create_collection("docs", 64, metric="dot")
rows = np.random.default_rng(1).standard_normal((20_000, 64), dtype=np.float32)
docs.upload(rows)
calls = {
    "wait": lambda: docs.count(min_epoch=1 << 40, timeout=float("inf")),
    "stream": lambda: list(docs.search_all(rows[0], min_epoch=1 << 40)),
    "pass": lambda: [docs.search(np.tile(rows[:64], (16, 1)), k=10) for _ in range(10**6)],
    "upload": lambda: [docs.upload(rows, ids=range(len(rows)), mode="upsert") for _ in range(10**6)],
}
def begun():
    # The main thread is in its call once another thread gets the interpreter's lock for a while.
    print("begun", flush=True)
try:
    threading.Thread(target=begun).start()
    calls[sys.argv[1]]()
except KeyboardInterrupt:
    assert docs.count().rows_count == len(rows)  # the client is usable
    client.close()
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("call", ["wait", "stream", "pass", "upload"])
def test_ctrl_c_ends_a_call(call):
    process = subprocess.Popen([sys.executable, "-c", INTERRUPTED, call], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    # The calls would never end.
    assert process.communicate(timeout=60)[0] == "interrupted\n"
    assert process.returncode == 0


def test_a_forked_process_is_refused(tmp_path):
    program = """
import os, sys, nearfield
client = nearfield.open(None, memory_bytes="64MiB", host_memory_bytes="64MiB", backend="cpu", threads=1)
child = os.fork()
if child == 0:
    try:
        client.list_collections()
    except nearfield.FailedPrecondition as error:
        os._exit(7 if "fork" in str(error) else 8)
    os._exit(9)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 7


def test_a_search_on_the_device_needs_a_gpu_and_an_engine_in_this_process(start, rng):
    queries = DeviceArray(None, 4096, (1, DIM), "float32", 0)
    with nearfield.open(None, **SMALL) as client:
        fill(client, rng)
        docs = client.collection("docs")
        out = tuple(DeviceArray(None, 4096, *form, 0) for form in (((1, 3), "float32"), ((1, 3), "uint64"), ((1,), "int32")))
        for given in (None, out):
            with pytest.raises(nearfield.Unimplemented, match="CPU backend"):
                docs.search_device(queries, 3, out=given)
        with pytest.raises(nearfield.InvalidArgument, match="filter_text"):
            docs.search_device(queries, 3, out=out, filter_text="year ==")
        with pytest.raises(nearfield.NotFound, match="none"):
            client.collection("none").search_device(queries, 3, out=out)
    with pytest.raises(nearfield.Cancelled, match="not open"):
        docs.search_device(queries, 3, out=out)
    with nearfield.connect(start().address) as client, pytest.raises(TypeError, match="connected to a server"):
        client.collection("docs").search_device(queries)


def test_only_the_functions_of_the_header_are_exported():
    library = Path(os.environ[LIBRARY_VARIABLE])
    symbols = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    exported = {line.split()[-1] for line in symbols.splitlines()}
    headers = [path.read_text() for path in (Path(__file__).parents[2] / "server" / "c_abi").glob("nearfield*.h")]
    assert exported == {name for header in headers for name in re.findall(r"NF_API .*?(nf_\w+)\(", header)}
    linked = subprocess.run(["ldd", library], capture_output=True, text=True, check=True).stdout
    assert "grpc" not in linked and "libprotobuf" in linked


def test_it_names_the_package_that_is_missing():
    program = "import nearfield; nearfield.open(None)"
    environment = {key: value for key, value in os.environ.items() if key != LIBRARY_VARIABLE}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert "ImportError" in done.stderr and "scripts/wheels --native BUILD_DIR makes its wheel" in done.stderr
