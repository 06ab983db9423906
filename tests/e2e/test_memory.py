"""Under abuse, memory stays within the sum that --check-config announces, and honest callers
continue to be served.

Each abuse runs in a separate process, bounded in count and time, against a server with small
limits. Without its bounds the server would exceed the sum in each of them.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
from pathlib import Path

import grpc
import numpy as np
import pytest
from calls import Api
from conftest import start_server
from honest import BASE_S_MIN, DIM, LIMITS, ROWS, Honest, announced_sum, gzip_bomb, peak_bytes

ABUSE = Path(__file__).with_name("abuse.py")
MIB = 1 << 20
REQUEST_BYTES_MAX = 16 * MIB  # as in LIMITS


class Abuse:
    """A running abuse.py."""

    def __init__(self, kind: str, server, path: str, message: bytes, count: int, folder: Path) -> None:
        file = folder / f"{kind}.message"
        file.write_bytes(message)
        port = server.address.rpartition(":")[2]
        self.process = subprocess.Popen([sys.executable, str(ABUSE), kind, port, path, str(file), str(count)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "held\n"

    def end(self) -> dict[str, int]:
        """Ends the abuse; returns the number of calls by grpc-status."""
        out, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0
        return json.loads(out)


@pytest.fixture(scope="module")
def limited(request, pb, tmp_path_factory):
    """A server with small limits and 64 rows, the sum that it announces, and an honest caller's p99
    while it is idle."""
    server = start_server(request, tmp_path_factory.mktemp("limited"), *LIMITS)
    client = Api(server)
    client.create("c", DIM)
    server.honest = Honest(pb, server.channel, np.random.default_rng(request.config.getoption("--seed")), [("nearfield-caller", "honest")])
    client.upload("c", list(range(1, ROWS + 1)), server.honest.rows)
    server.honest.p99()
    server.base = max(server.honest.p99(), BASE_S_MIN)
    server.sum = announced_sum(request.config.getoption("--server"))
    return server


def fetches_done(server, pb) -> int:
    counters = server.admin.GetCounters(pb.GetCountersRequest(), timeout=20)
    return sum(each.calls_count for each in counters.calls if each.method == "Fetch")


def check(server, pb, kind: str, path: str, message: bytes, count: int, folder: Path) -> dict[str, int]:
    """Runs one abuse together with honest callers; returns its calls by status."""
    abuse = Abuse(kind, server, path, message, count, folder)
    deadline = time.monotonic() + 30
    while path == FETCH and fetches_done(server, pb) < count and time.monotonic() < deadline:
        pass  # the fetches are done, or they are refused
    p99 = server.honest.p99()
    statuses = abuse.end()
    assert p99 <= 10 * server.base, f"p99 {p99:.3f} s, base {server.base:.3f} s; {statuses}"
    assert peak_bytes(server.process) <= server.sum, f"{peak_bytes(server.process) / MIB:.0f} MiB of {server.sum / MIB:.0f}; {statuses}"
    return statuses


FETCH = "/nearfield.v1.Retrieval/Fetch"
SEARCH = "/nearfield.v1.Retrieval/Search"
EXHAUSTED = "8"


def test_fetches_that_nobody_reads_stay_within_the_ledger(limited, pb, tmp_path):
    """Regression: 48 Fetches with repeated ids held 3.4 GB under a limit of 64 MiB, because their
    replies were not counted."""
    request = pb.FetchRequest(collection="c", ids=pb.IdList(numbers=[1] * 3900))  # 15.2 MiB of rows
    statuses = check(limited, pb, "unread", FETCH, request.SerializeToString(), 48, tmp_path)
    assert statuses.get(EXHAUSTED, 0) > 0, statuses


def test_searches_that_nobody_reads_are_cancelled_and_block_nobody(limited, pb, tmp_path):
    """Regression: 40 connections that never opened their window caused every caller to be refused
    for as long as they stayed."""
    # By id, so that the request fits the first window; 15 MiB of rows.
    request = pb.SearchRequest(collection="c", queries=[pb.Query(row_id=pb.Id(number=1))] * 60, k=ROWS, with_vectors=True)
    check(limited, pb, "unread", SEARCH, request.SerializeToString(), 40, tmp_path)
    limited.honest.p99()
    deadline = time.monotonic() + 60
    # a large reply also finds room after the replies of the silent readers are cancelled
    while True:
        try:
            limited.retrieval.Search(request, timeout=20)
            break
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and time.monotonic() < deadline, error


def test_messages_without_an_end_stay_within_the_transport(limited, pb, tmp_path):
    """Regression: 40 unfinished messages held 2.6 GB, because nothing limited the part that gRPC
    keeps."""
    check(limited, pb, "unfinished", SEARCH, str(REQUEST_BYTES_MAX - 64).encode(), 64, tmp_path)


def test_a_compressed_message_is_refused_before_it_grows(limited, pb, tmp_path):
    """Regression: 1 MiB of gzip became 1.1 GB before its size was checked."""
    with_gzip = limited.channel.unary_unary(SEARCH, request_serializer=lambda data: data)
    statuses = check(limited, pb, "gzip", SEARCH, gzip_bomb(), 1, tmp_path)
    assert statuses.get("12", 0) == 1, statuses
    with pytest.raises(grpc.RpcError) as caught:
        with_gzip(bytes(MIB), compression=grpc.Compression.Gzip, timeout=20)
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED, caught.value


def frame(message: bytes) -> bytes:
    return struct.pack(">BI", 0, len(message)) + message


def empties(*fields: int) -> bytes:
    """Returns a message of 8 MiB: a path of fields, with the last one repeated and empty."""
    message = bytes([fields[-1] << 3 | 2, 0]) * (4 * MIB)
    for field in reversed(fields[:-1]):
        message = pb_bytes(field, message)
    return message


def pb_bytes(field: int, content: bytes) -> bytes:
    size, length = bytearray(), len(content)
    while length > 127:
        size.append(length & 127 | 128)
        length >>= 7
    return bytes([field << 3 | 2, *size, length]) + content


@pytest.mark.parametrize(("path", "fields"), [
    (SEARCH, (2,)),  # queries
    (FETCH, (2, 2)),  # ids.texts
    ("/nearfield.v1.Ingest/Upload", (2, 1, 2)),  # block.ids.texts
    ("/nearfield.v1.Ingest/Upload", (2, 4)),  # block.attributes
    ("/grpc.health.v1.Health/Check", (2,)),  # an unknown field
])
def test_messages_that_grow_when_they_are_decoded_stay_within_the_ledger(limited, pb, tmp_path, path, fields):
    """8 MiB of empty texts took 200 MB once decoded, and gRPC decoded them before the server saw the message."""
    abuse = Abuse("frames", limited, path, frame(empties(*fields)), 3, tmp_path)
    p99 = limited.honest.p99()
    statuses = abuse.end()
    assert statuses.get(EXHAUSTED, 0) > 0, statuses
    assert p99 <= 10 * limited.base, f"p99 {p99:.3f} s, base {limited.base:.3f} s; {statuses}"
    assert peak_bytes(limited.process) <= limited.sum, f"{peak_bytes(limited.process) / MIB:.0f} MiB of {limited.sum / MIB:.0f}"


def test_an_upload_whose_progress_nobody_takes_is_cancelled(start, pb, tmp_path):
    """A client that sent blocks and never took a progress message kept its place forever."""
    server = start(*LIMITS, "--upload-idle-ms", "86400000")
    client = Api(server)
    client.create("u", 1)
    blocks = 12_000  # their progress exceeds the buffers of the transport
    row = np.zeros((1, 1), dtype=np.float32)
    messages = [client.begin("u", blocks), *(client.block([i], row) for i in range(blocks))]
    abuse = Abuse("frames", server, "/nearfield.v1.Ingest/Upload",
                  b"".join(frame(each.SerializeToString()) for each in messages), 1, tmp_path)
    deadline = time.monotonic() + 30
    ended: list[str] = []
    while not ended and time.monotonic() < deadline:
        counters = server.admin.GetCounters(pb.GetCountersRequest(), timeout=20)
        ended = [each.status for each in counters.calls if each.method == "Upload"]
    abuse.end()
    assert ended, "the upload keeps its place"


@pytest.mark.parametrize(("kind", "count"), [("half_open", 300), ("slow", 200), ("cancels", 400)])
def test_connections_and_cancels_cost_what_is_announced(limited, pb, tmp_path, kind, count):
    """Silent connections, requests that stop in the middle, calls that are cancelled
    immediately."""
    request = pb.SearchRequest(collection="c", queries=[pb.Query(row_id=pb.Id(number=1))], k=3)
    check(limited, pb, kind, SEARCH, request.SerializeToString(), count, tmp_path)
