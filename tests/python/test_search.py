"""Answers through both clients equal the contract as computed by other code, to the bit."""

from __future__ import annotations

import threading

import canonical
import nearfield
import numpy as np
import pytest
from conftest import answer

METRICS = ["dot", "cosine", "l2"]
DTYPES = {"float32": np.float32, "float16": np.float16}


def quantized(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Returns small multiples of 1/8: ties are common, squared differences exact in fp64."""
    return (rng.integers(-40, 41, shape) / 8).astype(np.float32)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_search_equals_the_contract(client, name, rng, metric, dtype):
    docs = client.create_collection(name, 70, metric=metric, dtype=dtype)
    rows = quantized(rng, (1500, 70)).astype(DTYPES[dtype])
    rows[7] = rows[3]
    ids = rng.permutation(2**40 + np.arange(1500)).astype(np.uint64)
    for begin, end in ((0, 1), (1, 700), (700, 1500)):
        docs.upload(rows[begin:end], ids=ids[begin:end])
    queries = quantized(rng, (4, 70)) + np.float32(1 / 8)
    expected = [canonical.best(metric, query, rows, ids.tolist(), 1500) for query in queries]
    for k in (1, 10, 1500, 4000):
        together = docs.search(queries, k=k, with_digest=True)
        assert together.epoch == 3
        assert [answer(hits) for hits in together.queries] == [best[:k] for best in expected]
        streamed = list(docs.search_stream(queries, k=k))
        assert [answer(each) for each in streamed] == [best[:k] for best in expected]
    pages = list(docs.search_all(queries[0].tolist(), k=400))
    assert [hit for page in pages for hit in answer(page)] == expected[0]
    assert [len(page) for page in pages] == [400, 400, 400, 300]
    some = list(docs.search_all(queries[0], k=400, results_max=500))
    assert [hit for page in some for hit in answer(page)] == expected[0][:500]
    assert some[-1].next_cursor
    assert docs.verify(queries[0], claim=docs.search(queries[0], k=20)).equal


def test_a_query_may_be_a_list_an_array_or_a_stored_id(client, name, rng):
    docs = client.create_collection(name, 16, metric="dot", id_type="string")
    rows = quantized(rng, (50, 16))
    ids = [f"ä{i:02}" for i in range(50)]
    docs.upload(rows, ids=ids)
    expected = canonical.best("dot", rows[4], rows, ids, 10)
    for query in (rows[4], rows[4].tolist(), rows[4].astype(np.float64), rows[4].astype(np.float16)):
        assert answer(docs.search(query)) == expected
    others = [i for i in range(50) if i != 4]
    by_id = canonical.best("dot", rows[4], rows[others], [ids[i] for i in others], 10)
    assert answer(docs.search(id="ä04")) == by_id
    assert answer(docs.search(ids=["ä09", "ä04"]).queries[1]) == by_id
    assert answer(next(iter(docs.search_stream(["ä04"])))) == by_id
    with pytest.raises(TypeError, match="give one of"):
        docs.search(rows[4], id="ä04")
    with pytest.raises(TypeError, match=r"with_payload: no argument of a search; did you mean payload\?"):
        docs.search(rows[4], with_payload=True)


def test_a_bfloat16_collection_rounds_to_nearest_even_and_returns_its_bits(client, name, rng):
    docs = client.create_collection(name, 64, metric="dot", dtype="bfloat16")
    single = np.concatenate([
        rng.standard_normal((200, 64), dtype=np.float32),
        # Halfway cases in both directions, denormals, and the largest value that does not overflow.
        np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x00000001, 0x7F7F7FFF] * 64, np.uint32)
        .view(np.float32).reshape(5, 64),
    ])
    docs.upload(single)
    stored = docs.fetch(np.arange(len(single))).vectors
    upper = single.view(np.uint32) >> 16 << 16
    above, low = upper + 0x10000, single.view(np.uint32) & 0xFFFF
    odd = (upper >> 16 & 1).astype(bool)
    expected = np.where((low > 0x8000) | ((low == 0x8000) & odd), above, upper)
    assert (stored.view(np.uint32) == expected).all()
    # The bits of a bfloat16, as a file holds them.
    again = client.create_collection(name + "-bits", 64, metric="dot", dtype="bfloat16")
    again.upload((expected >> 16).astype(np.uint16))
    assert (again.fetch([3, 204]).vectors == stored[[3, 204]]).all()


def test_pages_continue_in_their_epoch_while_rows_are_added(client, name, rng):
    docs = client.create_collection(name, 8, metric="dot")
    rows = quantized(rng, (60, 8))
    docs.upload(rows[:50])
    first = docs.search(rows[0], k=20, with_cursor=True)
    docs.upload(rows[50:], ids=np.arange(50, 60))
    second = docs.search(rows[0], k=20, cursor=first.next_cursor)
    assert (second.epoch, first.epoch) == (1, 1)
    assert answer(first) + answer(second) == canonical.best("dot", rows[0], rows[:50], list(range(50)), 40)
    assert docs.search(rows[0]).epoch == 2


def test_reads_wait_for_own_writes(shared, connect, name, rng):
    client = connect(shared.address, timeout=20)
    docs = client.create_collection(name, 4, metric="dot")
    written = docs.upload(quantized(rng, (5, 4)))
    assert docs.count().epoch == written.epoch == 1
    deleted = docs.delete([0, 1])
    assert docs.search([1, 2, 3, 4]).epoch == deleted.epoch == 2
    # The name belongs to another collection now, whose epochs begin again.
    other = connect(shared.address)
    other.drop_collection(name)
    again = other.create_collection(name, 4, metric="dot")
    again.upload(quantized(rng, (3, 4)))
    assert [each.epoch for each in docs.search_stream([[1, 2, 3, 4]] * 3)] == [1, 1, 1]
    assert docs.count().rows_count == 3
    assert docs.search([1, 2, 3, 4]).epoch == 1
    with pytest.raises(nearfield.FailedPrecondition, match="min_epoch"):
        docs.count(min_epoch=9, timeout=0.2)


def test_a_client_serves_many_threads(client, name, rng):
    docs = client.create_collection(name, 32, metric="l2")
    rows = quantized(rng, (300, 32))
    docs.upload(rows)
    expected = [canonical.best("l2", rows[i], rows, list(range(300)), 5) for i in range(40)]
    found: list[list] = [[] for _ in range(40)]

    def ask(first: int) -> None:
        for i in range(first, 40, 8):
            found[i] = answer(docs.search(rows[i], k=5))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected


def test_hits_have_what_was_requested(client, name):
    docs = client.create_collection(name, 2, metric="dot")
    docs.upload([[1, 0], [0, 1]], payloads=[{"a": [1, "ü"]}, None])
    found = docs.search([2, 1], payload=True, vectors=True)
    assert [hit.json() for hit in found] == [{"a": [1, "ü"]}, None]
    assert found.payloads == ['{"a":[1,"ü"]}'.encode(), b""]
    assert found.vectors.tolist() == [[1, 0], [0, 1]]
    assert [hit.score for hit in found] == [2, 1]
    plain = docs.search([2, 1])
    assert (plain.payloads, plain.vectors, plain[0].payload) == ([], None, None)
    with pytest.raises(ValueError, match="of 2 queries"):
        _ = docs.search([[2, 1], [1, 2]]).ids
    words = docs.explain([2, 1])
    assert words.startswith("epoch 1; path ") and "batch of 1" in words


@pytest.mark.parametrize("text", [False, True])
def test_answers_become_arrays(client, name, text):
    docs = client.create_collection(name, 2, metric="dot", id_type="string" if text else "uint64")
    docs.upload([[1, 0], [0, 1], [1, 1]], ids=["a", "b", "ü"] if text else [7, 8, 2**64 - 1])
    for result in (docs.search([[2, 1], [-2, -1], [1, 5]], k=5, score_threshold=1.5), docs.search([2, 1], k=2)):
        ids, scores, counts = result.to_numpy()
        assert list(ids) == [each for hits in result.queries for each in hits.ids]
        assert isinstance(ids, list) if text else ids.dtype == np.uint64
        assert scores.tobytes() == b"".join(hits.scores.tobytes() for hits in result.queries)
        assert counts.tolist() == [len(hits) for hits in result.queries]
        merged = nearfield.SearchResult(result.queries, result.epoch, result.incarnation, result.cost)
        assert [np.asarray(each).tolist() for each in merged.to_numpy()] == [list(ids), scores.tolist(), counts.tolist()]


@pytest.mark.parametrize("text", [False, True])
def test_packed_answers_have_the_bits_of_ordinary_ones(client, name, rng, text):
    """A search asks for a packed answer; the digest makes it an ordinary one."""
    docs = client.create_collection(name, 12, metric="dot", id_type="string" if text else "uint64")
    rows, queries = quantized(rng, (400, 12)), quantized(rng, (9, 12))
    numbers = rng.permutation(2**64 - 1 - np.arange(400, dtype=np.uint64))
    for count in (0, 3, 397):
        if count:
            docs.upload(rows[:count], ids=[str(each) for each in numbers[:count]] if text else numbers[:count], mode="upsert")
        for options in ({"k": 1}, {"k": 5, "score_threshold": 20.0}, {"k": 1000}):
            packed = docs.search(queries, **options)
            ordinary = docs.search(queries, with_digest=True, **options)
            if "_message" in vars(packed):
                assert vars(packed)["_message"].HasField("packed") == (not text)
            assert [answer(each) for each in packed.queries] == [answer(each) for each in ordinary.queries]
            for one, other in zip(packed.to_numpy(), ordinary.to_numpy(), strict=True):
                assert np.asarray(one).tolist() == np.asarray(other).tolist()
            assert (packed.epoch, packed.incarnation) == (ordinary.epoch, ordinary.incarnation)
            assert all(each.matched_rows is each.next_cursor is each.vectors is None for each in packed.queries)
            streamed = list(docs.search_stream(queries, **options))
            assert [answer(each) for each in streamed] == [answer(each) for each in packed.queries]


def test_answers_become_arrow_tables(client, name):
    pytest.importorskip("pyarrow")
    docs = client.create_collection(name, 2, metric="dot")
    docs.upload([[1, 0], [0, 1]], payloads=[{"a": 1}, None])
    table = docs.search([2, 1], payload=True, vectors=True).to_arrow()
    assert table.column_names == ["id", "score", "vector", "payload"]
    assert table.column("vector").to_pylist() == [[1, 0], [0, 1]]
    both = docs.search([[2, 1], [1, 2]]).to_arrow()
    assert both.column("query").to_pylist() == [0, 0, 1, 1]
    assert both.column("id").to_pylist() == [0, 1, 1, 0]
