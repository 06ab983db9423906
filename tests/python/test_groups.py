"""Groups and facets through both clients equal those of a loop over all rows."""

from __future__ import annotations

import datetime as dt

import canonical
import nearfield
import numpy as np
import pytest
from nearfield import F

ROWS = 400
DECLARED = {"author": str, "year": int, "level": float, "kept": bool, "made": "timestamp", "tags": [str]}
DAY = dt.datetime(2024, 5, 17, tzinfo=dt.timezone.utc)


@pytest.fixture
def filled(client, name, rng):
    """A collection of rows with attributes, its vectors and its columns."""
    docs = client.create_collection(name, 8, metric="dot", attributes=DECLARED)
    vectors = (rng.integers(-20, 21, (ROWS, 8)) / 8).astype(np.float32)
    columns = {
        # One author has half of the rows; some rows have none.
        "author": ["a0" if i % 2 else (f"a{i % 37}" if i % 10 else None) for i in range(ROWS)],
        "year": [2000 + i * i % 30 for i in range(ROWS)],
        "level": [(-0.0, 0.0, 1.5)[i % 3] for i in range(ROWS)],
        "kept": [i % 7 == 0 for i in range(ROWS)],
        "made": [DAY + dt.timedelta(hours=i % 5) for i in range(ROWS)],
        "tags": [["x"] * (i % 2) + [f"t{i % 4}", "all"] for i in range(ROWS)],
    }
    docs.upload(vectors, ids=np.arange(ROWS, dtype=np.uint64), attributes=columns)
    return docs, vectors, columns


def grouped(query, vectors, values, size):
    """Returns the groups of all rows: value, and (id, score bits) of each row."""
    groups: dict = {}
    for id, bits in canonical.best("dot", query, vectors, list(range(ROWS)), ROWS):
        if values[id] is not None:
            groups.setdefault(values[id], []).append((id, bits))
    return [(value, rows[:size]) for value, rows in groups.items()]


def found(hits):
    def bits(score):
        return int(np.float32(score).view(np.uint32))

    return [(group.value, [(hit.id, bits(hit.score)) for hit in group.hits]) for group in hits.groups]


@pytest.mark.parametrize("attribute", ["author", "year", "level", "kept", "made"])
def test_groups_are_those_of_all_rows(filled, rng, attribute):
    docs, vectors, columns = filled
    queries = (rng.integers(-20, 21, (2, 8)) / 8).astype(np.float32)
    expected = [grouped(query, vectors, columns[attribute], 3) for query in queries]
    answer = docs.search(queries, k=5, group_by=attribute, group_rows=3, with_digest=True)
    assert [found(hits) for hits in answer.queries] == [each[:5] for each in expected]
    assert answer.queries[0].matched_rows == ROWS - columns[attribute].count(None)
    page, pages = docs.search(queries[0], k=7, group_by=attribute, group_rows=3, with_cursor=True), []
    pages += found(page.hits)
    while page.next_cursor:
        page = docs.search(queries[0], k=7, group_by=attribute, group_rows=3, cursor=page.next_cursor)
        pages += found(page.hits)
    assert pages == expected[0]


def test_group_rows_is_1_and_the_parts_come_along(filled):
    docs, vectors, columns = filled
    filter = (F.year >= 2010) & F.tags.any(["t1"])
    answer = docs.search(id=5, k=4, group_by="author", filter=filter, attributes=["author"], vectors=True, verify=True)
    assert [group.value for group in answer.groups] == answer.attributes["author"]
    assert [len(group.hits) for group in answer.groups] == [1] * len(answer)
    assert (answer.vectors == vectors[answer.ids.astype(int)]).all()
    with pytest.raises(ValueError, match="group_by"):
        docs.search(id=5).hits.groups
    with pytest.raises(TypeError, match="group_by: 7; the name of an attribute"):
        docs.search(id=5, group_by=7)
    with pytest.raises(nearfield.InvalidArgument, match="list of keyword"):
        docs.search(id=5, group_by="tags")


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("near", [False, True])
def test_facets_are_those_of_all_rows(filled, filtered, near):
    docs, vectors, columns = filled
    chosen = [i for i in range(ROWS) if not filtered or columns["year"][i] >= 2010]
    options = {"filter": F.year >= 2010} if filtered else {}
    if near:
        scores = canonical.scores("dot", vectors[3], vectors)
        chosen = [i for i in chosen if i != 3 and scores[i] >= 2.5]
        options |= {"id": 3, "score_threshold": 2.5}
    answer = docs.facets("*", values_max=6, **options)
    assert answer.rows_count == len(chosen)
    for attribute in DECLARED:
        counts: dict = {}
        for i in chosen:
            value = columns[attribute][i]
            for each in sorted(set(value)) if isinstance(value, list) else [] if value is None else [value]:
                counts[each] = counts.get(each, 0) + 1
        ordered = sorted(sorted(counts.items()), key=lambda pair: -pair[1])
        facet = answer[attribute]
        assert list(facet.counts.items()) == ordered[:6], attribute
        assert facet.values_count == len(counts)
        assert facet.rows_missing == sum(columns[attribute][i] is None for i in chosen)


def test_facets_name_what_is_wrong(filled):
    docs, *_ = filled
    with pytest.raises(nearfield.InvalidArgument, match='"yaer" is no attribute'):
        docs.facets(["yaer"])
    with pytest.raises(nearfield.InvalidArgument, match="score_threshold: absent"):
        docs.facets("year", id=3)
    with pytest.raises(ValueError, match="2 queries; facets have at most one"):
        docs.facets("year", vector=np.zeros((2, 8)), score_threshold=1)
    with pytest.raises(TypeError, match="values_max: 'x'; a whole number is needed"):
        docs.facets("year", values_max="x")
    for attributes, words in ((5, "attributes: 5; a list"), ([5], "attributes[0]: 5; the name"), (b"year", "attributes: b'year'; a list"),
                              ([F.year], "attributes[0]: "), (F.year, "attributes: ")):  # fmt: skip
        for call in (lambda: docs.facets(attributes), lambda: docs.search(np.zeros(8), attributes=attributes)):
            with pytest.raises(TypeError) as raised:
                call()
            assert words in str(raised.value)


def test_searches_for_groups_name_what_is_wrong(filled):
    docs, *_ = filled
    query = np.ones(8, np.float32)
    with pytest.raises(ValueError, match=r"group_rows = 4294967296, must be 1 \.\. 2\*\*32 - 1"):
        docs.search(query, group_by="year", group_rows=2**32)
    with pytest.raises(ValueError, match="group_by: .* has a half of a surrogate pair"):
        docs.search(query, group_by="\ud800")
    with pytest.raises(ValueError, match="score_threshold = 1e.39, must fit into 32 bits"):
        docs.search(query, score_threshold=1e39)
    with pytest.raises(ValueError, match="claim: an answer of groups"):
        docs.verify(query, claim=docs.search(query, group_by="year"))


def test_the_least_time_is_a_value_like_any(client, name):
    """numpy has no such time: it is NaT there."""
    docs = client.create_collection(name, 1, metric="dot", attributes={"made": "timestamp"})
    docs.upload(np.ones((2, 1), np.float32), ids=np.arange(2, dtype=np.uint64), attributes={"made": [-(2**63), DAY]})
    groups = docs.search([1], group_by="made", with_digest=True).groups
    assert [group.value for group in groups] == [-(2**63), DAY]
    assert docs.count(filter=F.made == -(2**63)).rows_count == 1
    assert docs.fetch([0], attributes="made").attributes["made"] == [-(2**63)]
    assert list(docs.facets("made")["made"].counts) == [-(2**63), DAY]


def test_a_cluster_has_no_groups_and_facets_yet():
    pytest.importorskip("ray")
    from nearfield.ray._collection import ClusterCollection

    docs = ClusterCollection(None, "docs")  # refused before a call
    for call in (lambda: docs.search([1], group_by="author"), lambda: docs.search([1], group_rows=2), lambda: docs.facets("*")):
        with pytest.raises(nearfield.Unimplemented, match="a cluster cannot group or count"):
            call()
