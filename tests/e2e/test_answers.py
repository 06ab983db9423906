"""Answers of a real server equal the contract as computed by other code, to the bit."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import canonical
from conftest import run_together

METRICS = ["dot", "cosine", "l2"]
# All choices of what a collection's scans read, with all placements of its rows.
SCANS = [("AUTO", "DEVICE"), ("INT8", "DEVICE"), ("ROWS", "DEVICE"), ("AUTO", "HOST"), ("INT8", "HOST"),
         ("INT16", "DEVICE"), ("INT16", "HOST")]


def quantized(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Returns small multiples of 1/8: ties are common, and squared differences are exact in
    fp64."""
    return (rng.integers(-40, 41, shape) / 8).astype(np.float32)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", ["FLOAT32", "FLOAT16"])
def test_search_equals_the_contract(shared, api, rng, metric, dtype):
    client = api(shared)
    name = f"answers-{metric}-{dtype}"
    client.create(name, 70, metric.upper(), dtype)
    rows = quantized(rng, (1500, 70)).astype(np.float32 if dtype == "FLOAT32" else np.float16)
    rows[7] = rows[3]
    ids = [int(i) for i in rng.permutation(2**40 + np.arange(1500))]
    cuts = [0, 1, 700, 1500]
    for begin, end in zip(cuts, cuts[1:]):
        client.upload(name, ids[begin:end], rows[begin:end])
    queries = quantized(rng, (5, 70)) + np.float32(1 / 8)
    for k in (1, 10, 1499, 1500, 4000):
        reply = client.search(name, queries, k)
        assert reply.epoch == 3
        for query, result in zip(queries, reply.results):
            assert client.answer(result) == canonical.best(metric, query, rows, ids, k)


def test_gaussian_rows_equal_the_contract(shared, api, rng):
    client = api(shared)
    client.create("gauss", 384, "COSINE")
    rows = rng.standard_normal((3000, 384), dtype=np.float32)
    rows[10] = 0
    ids = list(range(3000))
    client.upload("gauss", ids, rows)
    queries = rng.standard_normal((3, 384), dtype=np.float32)
    reply = client.search("gauss", queries, 3000)
    for query, result in zip(queries, reply.results):
        answer = client.answer(result)
        assert answer == canonical.best("cosine", query, rows, ids, 3000)
        assert answer[-1] == (10, 0xFF800000)


@pytest.mark.parametrize("metric", METRICS)
def test_every_scan_choice_gives_the_same_answers(shared, api, pb, rng, metric):
    """Half of the rows are Gaussian with a few dominant dimensions; half are small multiples of
    1/8, with many ties."""
    client = api(shared)
    rows = np.vstack([rng.standard_normal((1000, 100), dtype=np.float32), quantized(rng, (1000, 100))])
    rows[:1000, :3] *= 50
    rows[1500:1510] = rows[3]
    ids = [int(i) for i in rng.permutation(2000)]
    queries = np.vstack([rows[3:5], rng.standard_normal((3, 100), dtype=np.float32), quantized(rng, (2, 100))])
    expected = [canonical.best(metric, query, rows, ids, 2000) for query in queries]
    for scan, home in SCANS:
        name = f"scan-{metric}-{scan}-{home}"
        info = client.create(name, 100, metric.upper(), scan=f"SCAN_CHOICE_{scan}", rows=f"ROW_HOME_{home}")
        assert (info.scan, info.rows) == (pb.ScanChoice.Value(f"SCAN_CHOICE_{scan}"), pb.RowHome.Value(f"ROW_HOME_{home}"))
        for begin, end in ((0, 900), (900, 901), (901, 2000)):
            client.upload(name, ids[begin:end], rows[begin:end])
        for k in (1, 10, 200, 2000):
            reply = client.search(name, queries, k)
            assert [client.answer(result) for result in reply.results] == [best[:k] for best in expected], (scan, home, k)
            if scan == "ROWS":
                assert reply.cost.scan_precision == pb.SCAN_PRECISION_ROWS
        fetched = shared.retrieval.Fetch(pb.FetchRequest(collection=name, ids=pb.IdList(numbers=ids[:50])))
        assert fetched.vectors.data == rows[:50].tobytes()
        claim = pb.VerifyRequest(collection=name, query=client.query(queries[2]), k=200)
        assert shared.admin.Verify(claim).equal


def test_string_ids_payloads_vectors_and_fetch(shared, api, pb, rng):
    client = api(shared)
    client.create("strings", 33, "DOT", "FLOAT16", "STRING")
    ids = ["b", "a", "ab", "ä", "Z", "zz", "é" * 20]
    rows = np.ones((len(ids), 33), dtype=np.float16)
    payloads = [identity.encode() * 2 for identity in ids]
    payloads[2] = b""
    client.upload("strings", ids, rows, payloads)
    reply = client.search("strings", np.ones(33, dtype=np.float32), 10, with_payload=True, with_vectors=True)
    order = sorted(ids, key=lambda identity: identity.encode())
    result = reply.results[0]
    assert list(result.ids.texts) == order
    assert list(result.payloads) == [payloads[ids.index(identity)] for identity in order]
    assert result.vectors.data == rows.tobytes()
    fetched = shared.retrieval.Fetch(pb.FetchRequest(collection="strings", ids=pb.IdList(texts=["zz", "nope", "a"])))
    assert list(fetched.ids.texts) == ["zz", "a"]
    assert list(fetched.missing.texts) == ["nope"]
    assert list(fetched.payloads) == [b"zzzz", b"aa"]
    assert fetched.vectors.data == rows[:2].tobytes()


def test_a_query_by_id_leaves_that_row_out(shared, api, pb, rng):
    client = api(shared)
    client.create("byid", 16, "L2")
    rows = quantized(rng, (200, 16))
    ids = list(range(1000, 1200))
    client.upload("byid", ids, rows)
    reply = shared.retrieval.Search(pb.SearchRequest(
        collection="byid", queries=[pb.Query(row_id=pb.Id(number=1042))], k=20))
    rest = [i for i in range(200) if ids[i] != 1042]
    expected = canonical.best("l2", rows[42], rows[rest], [ids[i] for i in rest], 20)
    assert client.answer(reply.results[0]) == expected


def test_deleted_rows_are_gone_and_an_id_can_come_back(shared, api, pb, rng):
    client = api(shared)
    client.create("deletes", 24)
    rows = quantized(rng, (300, 24))
    ids = list(range(300))
    client.upload("deletes", ids, rows)
    gone = shared.ingest.Delete(pb.DeleteRequest(collection="deletes", ids=pb.IdList(numbers=[*range(0, 300, 3), 9999])))
    assert (gone.rows_deleted, gone.epoch) == (100, 2)
    query = quantized(rng, (1, 24))[0]
    left = [i for i in ids if i % 3 != 0]
    reply = client.search("deletes", query, 300)
    assert client.answer(reply.results[0]) == canonical.best("dot", query, rows[left], left, 300)
    client.upload("deletes", [0], rows[:1])
    reply = client.search("deletes", query, 300)
    left.append(0)
    assert client.answer(reply.results[0]) == canonical.best("dot", query, rows[left], left, 300)
    assert shared.retrieval.Count(pb.CountRequest(collection="deletes")).rows_count == 201


def test_verify_proves_an_answer_and_finds_a_wrong_one(shared, api, pb, rng):
    client = api(shared)
    client.create("proof", 50)
    client.upload("proof", list(range(400)), quantized(rng, (400, 50)))
    query = quantized(rng, (1, 50))[0]
    reply = client.search("proof", query, 10)
    claim = pb.VerifyRequest(collection="proof", query=client.query(query), k=10, epoch=reply.epoch, claim=reply.results[0])
    verdict = shared.admin.Verify(claim)
    assert verdict.equal and verdict.rows_checked == 400 and verdict.first_difference == -1
    bits = np.array([claim.claim.scores[4]], dtype=np.float32).view(np.uint32) + np.uint32(1)
    claim.claim.scores[4] = float(bits.view(np.float32)[0])
    verdict = shared.admin.Verify(claim)
    assert not verdict.equal and verdict.first_difference == 4 and verdict.explanation
    assert client.answer(verdict.expected) == client.answer(reply.results[0])


def test_an_empty_corpus_and_k_beyond_its_rows(shared, api, rng):
    client = api(shared)
    client.create("small", 8)
    assert client.answer(client.search("small", np.ones(8), 5).results[0]) == []
    client.upload("small", [3, 1, 2], np.ones((3, 8), dtype=np.float32))
    assert [identity for identity, _ in client.answer(client.search("small", np.ones(8), 4096).results[0])] == [1, 2, 3]
    assert len(client.search("small", np.ones(8)).results[0].scores) == 3


def test_sixteen_clients_at_once_get_the_answers_of_one(shared, api, pb, rng):
    client = api(shared)
    client.create("crowd", 128)
    rows = rng.standard_normal((4000, 128), dtype=np.float32)
    client.upload("crowd", list(range(4000)), rows)
    queries = rng.standard_normal((16, 128), dtype=np.float32)
    alone = [client.answer(client.search("crowd", query, 25).results[0]) for query in queries]
    together = client.search("crowd", queries, 25)
    assert [client.answer(result) for result in together.results] == alone
    wrong: list[int] = []

    def work(worker: int) -> None:
        for turn in range(20):
            at = (worker + turn) % 16
            if client.answer(client.search("crowd", queries[at], 25).results[0]) != alone[at]:
                wrong.append(at)

    run_together(partial(work, worker) for worker in range(16))
    assert wrong == []


def test_a_search_stream_answers_in_order(shared, api, pb, rng):
    client = api(shared)
    client.create("stream", 20)
    rows = quantized(rng, (500, 20))
    client.upload("stream", list(range(500)), rows)
    queries = quantized(rng, (30, 20))
    requests = [pb.SearchRequest(collection="stream", queries=[client.query(query)], k=7) for query in queries]
    replies = list(shared.retrieval.SearchStream(iter(requests), timeout=60))
    assert [client.answer(reply.results[0]) for reply in replies] == [
        canonical.best("dot", query, rows, list(range(500)), 7) for query in queries]
