"""The client through the proxy of deploy/haproxy, over TLS with an API key, against a real server."""

from __future__ import annotations

import json
from pathlib import Path

import nearfield
import numpy as np
import pytest
from conftest import answer
from edge import PROGRAM, Edge
from test_identity import new_key

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs haproxy")

DIM = 64


@pytest.fixture
def through_edge(start, connect, tmp_path: Path):
    """A client whose calls go through the edge."""
    text, entry = new_key(["search", "read", "write", "admin"])
    (tmp_path / "token").write_text(text + "\n")
    (tmp_path / "keys.json").write_text(json.dumps({"format": 1, "keys": [entry]}))
    server = start("--key-file", str(tmp_path / "keys.json"), "--ops-listen", "127.0.0.1:0", "--backend", "cpu", "--memory-bytes", "64MiB")
    edge = Edge(tmp_path, server.address, server.ops_address())
    yield connect(edge.address, ca=str(edge.ca), token_file=str(tmp_path / "token"))
    edge.close()


def test_rows_and_answers_pass_unchanged(through_edge, rng):
    # Small integers: their products have no rounding, so the scores are exact in every order.
    rows = rng.integers(-9, 10, (12_000, DIM)).astype(np.float32)
    docs = through_edge.create_collection("docs", dim=DIM, metric="dot")
    docs.upload(rows, payloads=[b"p%d" % i for i in range(len(rows))])
    for query in rng.integers(-9, 10, (5, DIM)).astype(np.float32):
        scores = rows @ query
        best = np.lexsort((np.arange(len(rows)), -scores))[:100]
        expected = [(int(i), int(scores[i].view(np.uint32))) for i in best]
        assert answer(docs.search(query, k=100)) == expected
    got = docs.fetch(list(range(10_000)), vectors=True)  # 2.6 MB in one message
    assert np.array_equal(got.vectors, rows[:10_000])
    assert sum(len(page) for page in docs.scan()) == len(rows)
    assert docs.delete(list(range(100))).rows_deleted == 100


def test_a_stream_that_the_server_refuses_keeps_its_status(through_edge):
    """HAProxy 2.6 resets a stream after the server's final status if the client has not ended its side. gRPC then reports
    CANCELLED."""
    docs = through_edge.create_collection("docs", dim=1024, metric="dot")
    docs.upload(np.zeros((1, 1024), np.float32), ids=[1])
    for _ in range(5):
        with pytest.raises(nearfield.ResourceExhausted) as refused:
            docs.upload(np.zeros((20_000, 1024), np.float32))  # the memory has 64 MiB
        assert refused.value.request_id
        with pytest.raises(nearfield.NotFound, match="2"):
            list(docs.search_stream(ids=[1, 2, 1]))
