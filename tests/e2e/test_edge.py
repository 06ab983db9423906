"""Abuse through the HAProxy configuration of deploy/haproxy: honest callers are served, memory and descriptors stay bounded, the
attacker is cut off or limited. And what must pass through it: the command, long streams, refusals.

Each attack comes from a loopback address of its own, in a separate process with a lower priority. With --bare the attacks hit
the server itself, and only the honest callers, their answers and the memory are checked: some then fail, which
deploy/README.md, "The edge", lists.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
from conftest import ROOT, Api, Server
from edge import PROGRAM, Edge, ops_port
from grpc_health.v1 import health_pb2, health_pb2_grpc
from honest import BASE_S_MIN, DIM, LIMITS, ROWS, Honest, announced_sum, forget_peak, gzip_bomb, peak_bytes

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs haproxy")

FLOOD = Path(__file__).with_name("flood.py")
MIB = 1 << 20
EDGE_BYTES_MAX = 96 * MIB
# The limits of haproxy.cfg.
CONNECTIONS_MAX = 64
CONNECTIONS_PER_10S_MAX = 200
CALLS_MAX = 200
UNANSWERED_MAX = 1000


class Site:
    """A server with keys, the edge in front of it, and honest callers through the edge."""

    def __init__(self, request: pytest.FixtureRequest, pb, folder: Path) -> None:
        self.bare = request.config.getoption("--bare")
        self.program = Path(request.config.getoption("--cli")).resolve()
        self.folder = folder
        self.seed = request.config.getoption("--seed")
        key_file = folder / "keys.json"
        self.token_file = folder / "token"
        self.token_file.write_text(self.command("keys", "create", "operator", "--scopes", "search,read,write,admin", NEARFIELD_KEY_FILE=key_file))
        self.metadata = [("authorization", "Bearer " + self.token_file.read_text().strip())]
        self.server = Server(request.config.getoption("--server"), pb, folder,
                             [*LIMITS, "--ops-listen", "127.0.0.1:0", "--key-file", str(key_file)])
        self.server.wait_serving()
        self.edge: Edge | None = None
        self.address = self.server.address
        self.channel = self.server.channel
        if not self.bare:
            self.edge = self.new_edge(folder)
            self.address = self.edge.address
            self.channel = self.channel_to(self.edge)
        self.admin = pb.AdminStub(self.channel)
        self.pb = pb

    def new_edge(self, folder: Path, changes: dict[str, str] | None = None) -> Edge:
        return Edge(folder, self.server.address, ops_port(self.server), changes)

    def channel_to(self, edge: Edge) -> grpc.Channel:
        return grpc.secure_channel(edge.address, grpc.ssl_channel_credentials(edge.ca.read_bytes()))

    def command(self, *arguments: object, code: int = 0, **environment: object) -> str:
        done = subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False,
                              stdin=subprocess.DEVNULL, cwd=self.folder,
                              env={**os.environ, **{name: str(value) for name, value in environment.items()}})
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def through(self, *arguments: object, code: int = 0) -> str:
        """Runs the command with the address and the key of this site."""
        tls = {} if self.edge is None else {"NEARFIELD_CA": self.edge.ca}
        return self.command(*arguments, code=code, NEARFIELD_ADDRESS=self.address, NEARFIELD_TOKEN_FILE=self.token_file, **tls)

    def searches(self) -> int:
        """Returns the number of searches that reached the server, whatever their status."""
        counters = self.admin.GetCounters(self.pb.GetCountersRequest(), timeout=20, metadata=self.metadata)
        return sum(each.calls_count for each in counters.calls if each.method == "Search")

    def descriptors(self) -> list[int]:
        processes = [self.server.process] + ([self.edge.process] if self.edge else [])
        return [len(os.listdir(f"/proc/{each.pid}/fd")) for each in processes]

    def close(self) -> None:
        self.channel.close()
        if self.edge:
            self.edge.close()
        self.server.close()


@pytest.fixture(scope="module")
def site(request, pb, tmp_path_factory):
    site = Site(request, pb, tmp_path_factory.mktemp("site"))
    site.honest = Honest(pb, site.channel, np.random.default_rng(site.seed), site.metadata)
    np.save(site.folder / "rows.npy", site.honest.rows)
    np.save(site.folder / "ids.npy", np.arange(1, ROWS + 1, dtype=np.uint64))
    site.through("upload", "c", "rows.npy", "--ids", "ids.npy", "--create", "--metric", "dot")
    site.honest.p99()
    site.base = max(site.honest.p99(), BASE_S_MIN)
    site.sum = announced_sum(request.config.getoption("--server"))
    yield site
    site.close()


_sources: Iterator[int] = iter(range(2, 250))


class Flood:
    """A running flood.py, from an address of its own."""

    def __init__(self, site: Site, kind: str, connections: int, seconds: float, *, message: bytes = b"", until: tuple[str, int] | None = None,
                 source: str | None = None) -> None:
        self.source = source or f"127.0.0.{next(_sources)}"
        self.connections = connections
        arguments = [kind, site.address.rpartition(":")[2], str(connections), str(seconds), str(site.seed), "--source", self.source,
                     "--token", str(site.token_file)]
        if site.edge:
            arguments += ["--ca", str(site.edge.ca)]
        if message:
            (site.folder / kind).write_bytes(message)
            arguments += ["--message", str(site.folder / kind)]
        if until:
            arguments += ["--until", until[0], str(until[1])]
        self.process = subprocess.Popen([sys.executable, str(FLOOD), *arguments], stdout=subprocess.PIPE, text=True)

    def running(self) -> bool:
        return self.process.poll() is None

    def end(self) -> dict[str, int]:
        out, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0
        return {"opened": 0, "refused": 0, "ended": 0, "bytes_sent": 0, **json.loads(out)}


def check(site: Site, *floods: Flood) -> list[dict[str, int]]:
    """Measures the honest callers while the floods run; returns what the attackers saw."""
    forget_peak(site.server.process)
    p99 = site.honest.p99(lambda: any(flood.running() for flood in floods))
    seen = [flood.end() for flood in floods]
    server = peak_bytes(site.server.process)
    edge = peak_bytes(site.edge.process) if site.edge else 0
    print(f"\n  p99 {p99 * 1000:.1f} ms, base {site.base * 1000:.1f} ms; peak of the server {server / MIB:.0f} MiB of {site.sum / MIB:.0f}, "
          f"of the edge {edge / MIB:.0f} MiB\n  {seen}")
    assert p99 <= 10 * site.base, f"p99 {p99:.3f} s, base {site.base:.3f} s; {seen}"
    assert server <= site.sum, f"{server / MIB:.0f} MiB of {site.sum / MIB:.0f}; {seen}"
    assert edge <= EDGE_BYTES_MAX, f"{edge / MIB:.0f} MiB; {seen}"
    assert site.server.process.poll() is None and (site.edge is None or site.edge.process.poll() is None)
    return seen


def is_shut_out(site: Site, flood: Flood) -> bool:
    """Returns whether the edge closes new connections of this attacker before the TLS handshake."""
    late = Flood(site, "churn", 1, 0.3, source=flood.source).end()
    return late["opened"] == 0 and late["refused"] > 0


def search_by_id(pb) -> bytes:
    return pb.SearchRequest(collection="c", queries=[pb.Query(row_id=pb.Id(number=1))], k=3).SerializeToString()


@pytest.mark.parametrize("kind", ["headers", "continuations"])
def test_a_connection_with_endless_headers_is_cut(site, kind):
    """60 KB of metadata for each call; one header block that never ends. The bare server kept 930 MB of the latter."""
    (seen,) = check(site, Flood(site, kind, 4, 4))
    if not site.bare:
        assert seen["ended"] >= 4 and seen["bytes_sent"] / seen["opened"] < 4 * MIB, seen
        assert seen["opened"] <= CONNECTIONS_PER_10S_MAX + 4, seen


def test_calls_reset_at_once_do_not_reach_the_server(site):
    """Rapid reset: the bare server kept 1.7 GB, and honest callers waited for 20 s."""
    before = site.searches()
    mine = 0

    def count(number: int, call=site.honest.call) -> None:
        nonlocal mine
        mine += 1
        call(number)

    site.honest.call = count
    try:
        flood = Flood(site, "resets", 4, 4)
        check(site, flood)
    finally:
        del site.honest.call
    if not site.bare:
        assert site.searches() - before - mine <= UNANSWERED_MAX + 4 * CALLS_MAX
        assert is_shut_out(site, flood)


def test_a_storm_of_cancelled_searches_is_cut(site, pb):
    flood = Flood(site, "cancels", 4, 4, message=search_by_id(pb))
    (seen,) = check(site, flood)
    if not site.bare:
        assert seen.get("goaway_11", 0) >= 1, seen  # ENHANCE_YOUR_CALM
        assert is_shut_out(site, flood)


def test_answers_that_nobody_takes_are_limited(site, pb):
    """Calls whose window never opens: 16 KiB each in the edge."""
    (seen,) = check(site, Flood(site, "unread", 6, 4, message=search_by_id(pb)))
    if not site.bare:
        assert seen.get("grpc_status_8", 0) >= 600 - CALLS_MAX, seen


def test_slow_and_pointless_connections_are_closed(site, pb):
    """Headers byte by byte, frames that make no call, calls whose message never ends."""
    seconds = 8 if site.bare else 40  # each ends earlier, when all of its connections were closed
    kinds = {"slow_headers": 30, "empty_continuations": 2, "pings": 2, "settings": 2}
    floods = [Flood(site, kind, count, seconds, until=("ended", count)) for kind, count in kinds.items()]
    floods.append(Flood(site, "slow_bodies", CONNECTIONS_MAX + 10, seconds, message=search_by_id(pb),
                        until=("grpc_status_4", CONNECTIONS_MAX)))
    *seen, bodies = check(site, *floods)
    if not site.bare:
        for flood, each in zip(floods[:-1], seen, strict=True):
            assert each["ended"] >= flood.connections, each
        assert bodies["open"] == bodies["grpc_status_4"] == CONNECTIONS_MAX and bodies["refused"] > 0, bodies


def test_churning_connections_are_refused_before_their_handshake(site):
    (seen,) = check(site, Flood(site, "churn", 1, 4 if site.bare else 20, until=("refused", 100)))
    if not site.bare:
        assert 0 < seen["opened"] <= CONNECTIONS_PER_10S_MAX / 10 < seen["refused"], seen


def test_a_gzip_bomb_is_refused_packed(site):
    (seen,) = check(site, Flood(site, "gzip", 4, 3, message=gzip_bomb()))
    assert seen.get("grpc_status_12", 0) == 4, seen  # UNIMPLEMENTED


def test_garbage_ends_its_connection_only(site):
    (seen,) = check(site, Flood(site, "garbage", 4, 4))
    if not site.bare:
        assert seen["ended"] > 4, seen


def test_descriptors_return_to_their_number_before_the_floods(site):
    """The edge closes the connections to the server that it needs no more."""
    deadline = time.monotonic() + 60
    while (now := site.descriptors()) and max(now) > 40:  # 20 each when idle
        assert time.monotonic() < deadline, now
        site.honest.p99()


def test_the_command_works_through_the_edge(site):
    site.through("health")
    data = ROOT / "scripts" / "data"
    site.through("upload", "packages", data / "packages.fp16.npy", "--create", "--metric", "dot", "--payloads", data / "packages.jsonl",
                 "--id-field", "id", "--attribute", "section:keyword", "--attributes", data / "packages.jsonl")
    assert "verified" in site.through("search", "packages", "--id", "gimp", "-k", "5", "--fields", "summary", "--verify")
    assert site.through("count", "packages", "--filter", 'section == "games"').strip() == "476"
    site.through("export", "packages", "out.jsonl")
    assert "ALREADY_EXISTS" in site.through("upload", "c", "rows.npy", "--ids", "ids.npy", code=3)
    assert "NOT_FOUND" in site.through("search", "nothing", "--id", "1", code=1)


def test_an_upload_that_is_refused_at_its_begin_keeps_its_status(site):
    """HAProxy 2.6 resets a stream after the server's final status if the client has not ended its side. gRPC then reports
    CANCELLED."""
    np.lib.format.open_memmap(site.folder / "large.npy", mode="w+", dtype=np.float32, shape=(20_000, DIM))  # the memory has 64 MiB
    refused = site.through("upload", "c", "large.npy", code=3)
    assert "RESOURCE_EXHAUSTED" in refused and "request " in refused, refused


@pytest.fixture
def own_edge(site, tmp_path):
    """own_edge(changes) -> another edge in front of the server."""
    edges: list[Edge] = []

    def make(changes: dict[str, str]) -> Edge:
        edges.append(site.new_edge(tmp_path, changes))
        return edges[-1]

    yield make
    for edge in edges:
        edge.close()


def test_silent_streams_outlive_the_time_limit_of_clients(site, pb, own_edge):
    edge = own_edge({"timeout client 30s": "timeout client 500ms", "timeout http-keep-alive 5m": "timeout http-keep-alive 500ms",
                     "timeout http-request 5s": "timeout http-request 500ms"})
    never = threading.Event()
    with site.channel_to(edge) as channel:
        api = Api(pb, site.server)
        retrieval, ingest = pb.RetrievalStub(channel), pb.IngestStub(channel)
        health = health_pb2_grpc.HealthStub(channel)
        search = pb.SearchRequest.FromString(search_by_id(pb))

        def searches():
            yield search
            never.wait(2)
            yield search

        def blocks():
            yield api.begin("c", 1)
            never.wait(2)
            yield api.block([ROWS + 1], np.zeros((1, DIM), dtype=np.float32))
            yield api.commit(1)

        with pytest.raises(grpc.RpcError) as watched:
            list(health.Watch(health_pb2.HealthCheckRequest(), timeout=2))
        assert watched.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED, watched.value
        assert len(list(retrieval.SearchStream(searches(), metadata=site.metadata, timeout=30))) == 2
        assert list(ingest.Upload(blocks(), metadata=site.metadata, timeout=30))[-1].WhichOneof("message") == "committed"
        ingest.Delete(pb.DeleteRequest(collection="c", ids=pb.IdList(numbers=[ROWS + 1])), metadata=site.metadata, timeout=30)


def test_what_the_edge_refuses_is_a_grpc_status(site, pb, own_edge):
    admins = "  http-request deny if { path_beg /nearfield.v1.Admin/ } !{ src 10.0.0.0/8 }\n"
    edge = own_edge({"sc1_conn_cur gt 200": "sc1_conn_cur gt 1", "  default_backend nearfield\n": admins + "  default_backend nearfield\n"})
    with site.channel_to(edge) as channel:
        health, retrieval = health_pb2_grpc.HealthStub(channel), pb.RetrievalStub(channel)
        with pytest.raises(grpc.RpcError) as denied:
            pb.AdminStub(channel).GetCapacity(pb.GetCapacityRequest(), metadata=site.metadata, timeout=20)
        assert denied.value.code() == grpc.StatusCode.PERMISSION_DENIED and "edge: not allowed" in denied.value.details(), denied.value
        watch = health.Watch(health_pb2.HealthCheckRequest(), timeout=60)
        next(watch)
        with pytest.raises(grpc.RpcError) as refused:
            retrieval.GetLimits(pb.GetLimitsRequest(), metadata=site.metadata, timeout=20)
        watch.cancel()
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "200 calls at the same time" in refused.value.details()
    assert dict(refused.value.trailing_metadata())["retry-after-ms"] == "1000"


def test_a_missing_server_is_unavailable_and_a_missing_certificate_is_named(site, pb, tmp_path):
    edge = Edge(tmp_path, "127.0.0.1:1", 1)
    try:
        with site.channel_to(edge) as channel, pytest.raises(grpc.RpcError) as refused:
            pb.RetrievalStub(channel).GetLimits(pb.GetLimitsRequest(), timeout=20)
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        assert "edge: the server cannot be reached" in refused.value.details()
    finally:
        edge.close()
    (tmp_path / "both.pem").unlink()
    done = subprocess.run([PROGRAM, "-c", "-f", tmp_path / "haproxy.cfg"], capture_output=True, text=True, check=False,
                          env={**os.environ, "EDGE_LISTEN": "127.0.0.1:1", "EDGE_CERT": str(tmp_path / "both.pem")})
    assert done.returncode != 0 and f"'{tmp_path / 'both.pem'}'" in done.stderr, done.stderr
