"""Calls through the HAProxy configuration of deploy/haproxy: the command, long streams, refusals, a restart of the
server."""

from __future__ import annotations

import os
import subprocess
import threading
import time

import grpc
import numpy as np
import pytest
from calls import Api
from conftest import ROOT
from edge import PROGRAM, Edge
from edge_site import search_by_id, site  # noqa: F401
from grpc_health.v1 import health_pb2, health_pb2_grpc
from honest import DIM, LIMITS, ROWS

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs haproxy")


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
        api = Api(site.server)
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
    assert dict(refused.value.trailing_metadata())["grpc-retry-pushback-ms"] == "1000"


def test_a_restart_of_the_server_is_a_pause(start, site, pb, tmp_path):
    """Calls during a drain and a restart succeed or are UNAVAILABLE. The server listens on a Unix socket."""
    codes: list[grpc.StatusCode] = []

    arguments = ["--listen", f"unix:{tmp_path}/grpc.sock", "--data-dir", "none", *LIMITS]

    def call(stub) -> bool:
        try:
            stub.ListCollections(pb.ListCollectionsRequest(), timeout=20)
            codes.append(grpc.StatusCode.OK)
        except grpc.RpcError as error:
            codes.append(error.code())
        return codes[-1] is grpc.StatusCode.OK

    server = start(*arguments, "--ops-listen", "127.0.0.1:0")
    ops = server.ops_address()
    edge = Edge(tmp_path, f"unix@{tmp_path}/grpc.sock", ops)
    try:
        with site.channel_to(edge) as channel:
            stub = pb.AdminStub(channel)
            assert call(stub)
            stopping = threading.Thread(target=server.terminate)
            stopping.start()
            while stopping.is_alive():
                call(stub)
            assert server.process.returncode == 0 and not call(stub), codes
            start(*arguments, "--ops-listen", ops)
            deadline = time.monotonic() + 20
            while not call(stub):
                assert time.monotonic() < deadline, codes
    finally:
        edge.close()
    assert set(codes) == {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}, codes


def test_a_missing_server_is_unavailable_and_a_missing_certificate_is_named(site, pb, tmp_path):
    edge = Edge(tmp_path, "127.0.0.1:1", "127.0.0.1:1")
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
