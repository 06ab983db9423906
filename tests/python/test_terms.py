"""Searches with row terms through both clients, and in this process, equal a model to the bit."""

from __future__ import annotations

import asyncio
import datetime as dt

import canonical
import nearfield
import numpy as np
import pytest
import term_model as model
from nearfield import Clamped, F, HalfLife, Is, Linear

ROWS = 300
DIM = 8
NOW = dt.datetime(2026, 11, 30, 17, tzinfo=dt.timezone.utc)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
MICROSECOND = dt.timedelta(microseconds=1)
DECLARED = {"written": "timestamp", "importance": float, "uses": int, "pinned": bool, "kind": str, "tags": [str]}


def make_rows(rng):
    vectors = (rng.integers(-20, 21, (ROWS, DIM)) / 8).astype(np.float32)
    columns = {
        "written": [NOW - dt.timedelta(minutes=37 * i * i) if i % 9 else None for i in range(ROWS)],
        "importance": [(0.1 * (i % 11), -0.0, float("inf"))[i % 7 // 3] for i in range(ROWS)],
        "uses": [2**53 + i if i % 5 == 0 else i % 4 for i in range(ROWS)],
        "pinned": [i % 13 == 0 for i in range(ROWS)],
        "kind": ["note" if i % 3 else "task" for i in range(ROWS)],
        "tags": [["a"] for _ in range(ROWS)],
    }
    return vectors, columns


def fill(client, name, rng):
    memory = client.create_collection(name, DIM, metric="dot", attributes=DECLARED)
    vectors, columns = make_rows(rng)
    memory.upload(vectors, ids=np.arange(ROWS, dtype=np.uint64), attributes=columns)
    return memory, vectors, columns


@pytest.fixture
def filled(client, name, rng):
    return fill(client, name, rng)


def us(time):
    return (time - EPOCH) // MICROSECOND


# Terms, and for each the model's term of row i, given the columns.
TERMS = [
    (HalfLife("written", half_life=dt.timedelta(days=30), origin=NOW, weight=0.3, offset=dt.timedelta(hours=5), missing=0.25),
     lambda c, i: model.half_life(30 * 86400e6, us(NOW), weight=0.3, offset=5 * 3600e6, missing=0.25)(
         None if c["written"][i] is None else us(c["written"][i]))),
    (Linear("importance", weight=0.1, origin=0.05, scale=3.0),
     lambda c, i: model.linear(weight=0.1, origin=0.05, scale=3.0)(c["importance"][i])),
    (Clamped("uses", low=-1.5, high=2.5, weight=-0.7, scale=1.1, origin=1),
     lambda c, i: model.clamped(-1.5, 2.5, weight=-0.7, scale=1.1, origin=1.0)(float(c["uses"][i]))),
    (Linear("pinned", weight=5), lambda c, i: model.linear(weight=5.0)(float(c["pinned"][i]))),
    (Is((F.kind == "note") & (F.uses < 3), weight=0.0625),
     lambda c, i: 0.0625 * float(c["kind"][i] == "note" and c["uses"][i] < 3)),
]


def expected(query, vectors, columns, chosen, score_weight):
    """Returns the scores of all rows, the sums of their terms, and the final scores."""
    scores = canonical.scores("dot", query, vectors)
    sums = [model.term_sum([TERMS[at][1](columns, i) for at in chosen]) for i in range(ROWS)]
    return scores, sums, model.final(scores, sums, score_weight)


def found(hits):
    return [(int(id), int(score.view(np.uint32))) for id, score in zip(hits.ids, hits.scores, strict=True)]


def check(memory, vectors, columns, query, chosen, score_weight):
    terms = [TERMS[at][0] for at in chosen]
    answer = memory.search(query, k=40, terms=terms, score_weight=score_weight, parts=True, verify=True, with_digest=True)
    scores, sums, finals = expected(query, vectors, columns, chosen, score_weight)
    best = model.best(finals, 40)
    assert found(answer) == best
    assert answer.parts.scores.tolist() == [scores[id] for id, _ in best]
    assert answer.parts.terms.tolist() == [sums[id] for id, _ in best]
    assert answer[0].parts == nearfield.Parts(answer.parts.scores[0], answer.parts.terms[0])


@pytest.mark.parametrize("chosen", [[0], [1], [2], [3], [4], [0, 1, 2, 3, 4], [4, 2, 0], []])
def test_final_scores_are_those_of_the_model(filled, rng, chosen):
    for score_weight in (1.0, 0.3):
        check(*filled, (rng.integers(-20, 21, DIM) / 8).astype(np.float32), chosen, score_weight)


def test_an_engine_in_this_process_answers_the_same(tmp_path, rng):
    with nearfield.open(tmp_path / "data", memory_bytes="64MiB") as client:
        check(*fill(client, "memory", rng), (rng.integers(-20, 21, DIM) / 8).astype(np.float32), [0, 1, 4], 0.5)


def test_batches_streams_pages_and_groups(filled, rng):
    memory, vectors, columns = filled
    queries = (rng.integers(-20, 21, (3, DIM)) / 8).astype(np.float32)
    options = {"terms": [TERMS[at][0] for at in (0, 4)], "score_weight": 2.0}
    finals = [expected(query, vectors, columns, (0, 4), 2.0)[2] for query in queries]
    wanted = [model.best(each, ROWS) for each in finals]
    assert [found(hits)[:7] for hits in memory.search(queries, k=7, **options).queries] == [each[:7] for each in wanted]
    streamed = [found(answer) for answer in memory.search_stream(queries, k=7, **options)]
    assert streamed == [each[:7] for each in wanted]
    pages = [row for page in memory.search_all(queries[0], k=64, **options) for row in found(page)]
    assert pages == wanted[0]
    page = memory.search(queries[0], k=5, with_cursor=True, **options)
    following = memory.search(queries[0], k=5, cursor=page.next_cursor, **options)
    assert found(page) + found(following) == wanted[0][:10]
    with pytest.raises(nearfield.InvalidArgument, match="cursor: of another search"):
        memory.search(queries[0], k=5, cursor=page.next_cursor)
    grouped = memory.search(queries[0], k=2, group_by="kind", parts=True, **options)
    firsts = {kind: next(row for row in wanted[0] if columns["kind"][row[0]] == kind) for kind in ("note", "task")}
    assert sorted(found(grouped.hits)) == sorted(firsts.values())
    assert [hit.parts.score for group in grouped.groups for hit in group.hits] == grouped.parts.scores.tolist()
    threshold = float(finals[0][wanted[0][19][0]])
    facets = memory.facets("*", vector=queries[0], score_threshold=threshold, **options)
    assert facets.rows_count == int((finals[0] >= np.float32(threshold)).sum())
    claim = memory.search(queries[0], k=9, **options)
    assert memory.verify(queries[0], claim=claim, **options).equal
    assert not memory.verify(queries[0], claim=claim).equal


@pytest.mark.parametrize("span", [np.timedelta64(30 * 86400 * 10**9, "ns"), np.timedelta64(30, "D"), 30 * 86400e6])
def test_spans_of_any_unit_are_equal(filled, span):
    memory, vectors, _ = filled
    terms = [HalfLife("written", half_life=each, origin=NOW) for each in (span, dt.timedelta(days=30))]
    one, other = (memory.search(vectors[0], k=ROWS, terms=each, with_digest=True) for each in terms)
    assert one.digest == other.digest


def test_it_works_with_asyncio(shared, filled, name, rng):
    _, vectors, columns = filled
    query = (rng.integers(-20, 21, DIM) / 8).astype(np.float32)

    async def search():
        async with nearfield.AsyncClient(shared.address) as client:
            return await client.collection(name).search(query, k=3, terms=TERMS[0][0])

    assert found(asyncio.run(search())) == model.best(expected(query, vectors, columns, [0], 1.0)[2], 3)


def test_parts_of_a_search_without_terms(filled, rng):
    memory, vectors, _ = filled
    answer = memory.search(vectors[0], k=3, parts=True)
    assert answer.parts.scores.tolist() == answer.scores.tolist()
    assert answer.parts.terms.tolist() == [0, 0, 0]
    assert memory.search(vectors[0], k=3).parts is None
    assert memory.search(vectors[0], k=3)[0].parts is None
    assert memory.search(vectors[0], k=3, filter=F.uses == -1, parts=True).parts is None


@pytest.mark.parametrize(("terms", "kind", "words"), [
    ("importance", TypeError, "terms: 'importance'; give Linear, Clamped, HalfLife and Is"),
    ([F.kind == "note"], TypeError, "terms[0]: "),
    ([Linear(7)], TypeError, "terms[0].attribute: 7; the name"),
    ([Linear("uses", weight="2")], TypeError, "terms[0].weight: '2'; a number is needed"),
    ([Linear("written", origin=dt.datetime(2026, 1, 1))], ValueError, "terms[0].origin: "),
    ([HalfLife("written", half_life="30d", origin=NOW)], TypeError, "terms[0].half_life: '30d'; a number"),
    ([Linear("none")], nearfield.InvalidArgument, 'terms.terms[0].attribute: "none" is no attribute'),
    ([Linear("tags")], nearfield.InvalidArgument, "is a list of keyword"),
    ([HalfLife("written", half_life=0, origin=NOW)], nearfield.InvalidArgument, "half_life.half_life = 0, must be"),
    ([Linear("\ud800")], ValueError, "terms[0].attribute: '\\ud800' has"),
    ([Linear("uses", weight=10**400)], ValueError, "terms[0].weight: 1000"),
    ([Linear("uses", weight=np.array([0.3, 0.4]))], TypeError, "terms[0].weight: array("),
    ([Linear("uses", weight=np.timedelta64(5, "ns"))], TypeError, "terms[0].weight: "),
    ([Clamped("uses", low=0, high=np.datetime64(5, "ns"))], TypeError, "terms[0].high: "),
    ([Is(5)], TypeError, "terms[0].filter: 5; an expression"),
    ([HalfLife("written", half_life=np.timedelta64(1, "Y"), origin=NOW)], ValueError, "terms[0].half_life: "),
    ([HalfLife("written", half_life=np.timedelta64("NaT"), origin=NOW)], ValueError, "terms[0].half_life: NaT"),
    ([HalfLife("written", half_life=1, origin=np.datetime64("9999999-01-01"))], ValueError, "terms[0].origin: times beyond"),
    ([Linear("uses")] * 17, nearfield.InvalidArgument, "terms.terms = 17 terms, must be at most 16"),
])
def test_mistakes_name_the_argument(filled, terms, kind, words):
    memory, vectors, _ = filled
    with pytest.raises(kind) as raised:
        memory.search(vectors[0], terms=terms)
    assert words in str(raised.value)
