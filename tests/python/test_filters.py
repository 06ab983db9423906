"""Filters and attributes through the client equal the model of tests/e2e/attributes.py."""

from __future__ import annotations

import datetime as dt
import operator

import attributes as model
import nearfield
import numpy as np
import pytest
from nearfield import F

UTC = dt.timezone.utc
DECLARED = {
    "year": int, "price": float, "good": bool, "language": str, "made": dt.datetime, "tags": [str],
}
OPERATORS = {
    "EQUAL": operator.eq, "NOT_EQUAL": operator.ne, "LESS": operator.lt,
    "LESS_EQUAL": operator.le, "GREATER": operator.gt, "GREATER_EQUAL": operator.ge,
}


def expression(tree: tuple) -> nearfield.Filter:
    """Returns the expression of F for a filter that the model has drawn."""
    kind = tree[0]
    if kind in ("and", "or"):
        parts = [expression(each) for each in tree[1]]
        found = parts[0]
        for each in parts[1:]:
            found = found & each if kind == "and" else found | each
        return found
    if kind == "not":
        return ~expression(tree[1][0])
    if kind == "exists":
        return F[tree[1]].exists()
    if kind == "has_id":
        return F.id.isin(tree[1])
    values = tree[-1]
    if tree[1] == "made":  # microseconds become datetimes with different zones
        zone = dt.timezone(dt.timedelta(hours=-7))
        epoch = dt.datetime(1970, 1, 1, tzinfo=UTC)
        times = [epoch + dt.timedelta(microseconds=each)
                 for each in (values if isinstance(values, list) else [values])]
        values = [each.astimezone(zone) for each in times]
        values = values if isinstance(tree[-1], list) else values[0]
    if kind == "comparison":
        return OPERATORS[tree[2]](getattr(F, tree[1]), values)
    names = {"in": "isin", "list_any": "any", "list_all": "all"}
    return getattr(getattr(F, tree[1]), names[kind])(values)


def test_filters_select_the_rows_of_the_model(client, name, rng, draw):
    docs = client.create_collection(name, 8, metric="dot", attributes=DECLARED)
    rows = [model.draw_row(draw) for _ in range(400)]
    columns = {each: [row.get(each) for row in rows] for each in DECLARED}
    columns["made"] = [None if each is None else dt.datetime.fromtimestamp(each / 1e6, UTC)
                       for each in columns["made"]]
    vectors = rng.standard_normal((400, 8), dtype=np.float32)
    docs.upload(vectors, attributes=columns)
    for _ in range(150):
        tree = model.draw_filter(draw, list(range(400)))
        wanted = {i for i, row in enumerate(rows) if model.passes(tree, row, i)}
        found = docs.search(vectors[0], k=400, filter=expression(tree))
        assert set(found.ids.tolist()) == wanted, tree
        assert found.matched_rows == len(wanted) == docs.count(expression(tree)).rows_count
    gone = docs.delete(filter=(F.year >= 2022) & ~F.price.exists())
    assert gone.rows_deleted == sum(row.get("year", 0) >= 2022 and "price" not in row for row in rows)


def test_values_get_the_declared_type_or_are_refused(client, name):
    docs = client.create_collection(
        name, 2, metric="dot",
        attributes={"count": "int64", "price": "double", "made": "timestamp", "ok": "bool",
                    "word": "keyword", "numbers": "int64[]"},
    )
    docs.upload(np.eye(2, dtype=np.float32), attributes={
        "count": np.array([2**62, -5]), "price": [3, None], "ok": np.array([True, False]),
        "made": np.array(["2024-05-17T09:30:00.25", "NaT"], "datetime64[us]"),
        "word": ["", None], "numbers": [[1, 2], []],
    })

    def count(condition) -> int:
        return docs.count(condition).rows_count

    assert count(F.price == 3) == count(F.price == 3.0) == count(F.price == np.float32(3)) == 1
    assert count(F.count == np.int64(2**62)) == 1
    zone = dt.timezone(dt.timedelta(hours=2))
    assert count(F.made == dt.datetime(2024, 5, 17, 11, 30, 0, 250000, zone)) == 1
    assert count(F.made > dt.date(2024, 5, 17)) == count(~(F.made > dt.date(2024, 5, 18))) - 1 == 1
    assert count(F.word == "") == 1
    assert count(F.numbers.any([2, 9])) == count(F.numbers.all([1, 2])) == 1
    assert count(F.numbers.exists()) == 2
    assert count(F.id == 1) == count(F.id != 0) == count(F["count"] < 0) == 1
    assert count(F.id.isin([])) == count(F.word.isin([])) == 0 and count(~F.id.isin([])) == 2
    for condition, words in (
        (F.count == 2.0, "F.count: 2.0; the attribute is declared int64"),
        (F.count == True, "F.count: True; the attribute is declared int64"),  # noqa: E712
        (F.count == 2**63, "does not fit into int64"),
        (F.price == 2**53 + 1, "not exactly a double"),
        (F.price == "3", "F.price: '3'; the attribute is declared double"),
        (F.made == dt.datetime(2024, 5, 17), "has no zone"),
        (F.made == "2024-05-17", "declared timestamp"),
        (F.word.isin([1]), "F.word: 1; the attribute is declared keyword"),
        (F.wrod == "a", "no such attribute; it has count:int64, price:double"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            docs.count(condition)
    with pytest.raises(nearfield.InvalidArgument) as caught:
        docs.count(F.price == float("nan"))
    assert caught.value.field == "filter.comparison.value"


def test_mistakes_with_python_operators_are_caught():
    for mistake in (
        lambda: (F.a == 1) and (F.b == 2),
        lambda: (F.a == 1) or (F.b == 2),
        lambda: not (F.a == 1),
        lambda: 1 <= F.a < 5,
        lambda: bool(F.a),
    ):
        with pytest.raises(TypeError, match="truth value"):
            mistake()
    with pytest.raises(TypeError, match="is not a filter"):
        (F.a == 1) & F.b  # noqa: B018
    with pytest.raises(TypeError, match="give a list"):
        F.a.isin("abc")


def test_a_declaration_is_requested_again_if_the_collection_was_created_again(connect, shared, name):
    client = connect(shared.address)
    docs = client.create_collection(name, 2, metric="dot", attributes={"a": int})
    docs.upload([[1, 2]], attributes={"a": [7]})
    assert docs.count(F.a == 7).rows_count == 1
    other = connect(shared.address)
    other.drop_collection(name)
    other.create_collection(name, 2, metric="dot", attributes={"b": str}).upload(
        [[1, 2]], attributes={"b": ["x"]})
    assert docs.count(F.b == "x").rows_count == 1
