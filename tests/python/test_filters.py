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
        (F.count == 2.0, r"\$1: 2.0 is a double, count is an int64"),
        (F.count == True, "True is a bool, count is an int64"),  # noqa: E712
        (F.price == 2**53 + 1, "not exactly a double"),
        (F.price == "3", "'3' is a keyword, price is a double"),
        (F.made == "2024-05", "is not a time"),
        (F.word.isin([1]), "1 is an int64, word is a keyword"),
        (F.wrod == "a", 'no attribute "wrod"; it declares count:int64, price:double'),
        (F["a` or `b"] == 1, 'no attribute "a` or `b"'),
        (F.numbers.isin([1]), "numbers is a list: ask with any or all"),
    ):
        with pytest.raises(nearfield.InvalidArgument, match=words):
            docs.count(condition)
    for condition, kind, words in (
        (lambda: F.count == 2**63, ValueError, "F.count: 9223372036854775808 does not fit into int64"),
        (lambda: F.price.isin([0.5, 2**53 + 1]), ValueError, "not exactly a double"),
        (lambda: F.made == dt.datetime(2024, 5, 17), ValueError, "F.made: .* has no zone"),
        (lambda: F.word.isin(["a", 1]), TypeError, "F.word: .*; the values are of several types"),
        (lambda: F.word == b"a", TypeError, "F.word: b'a'; give a bool, int, float, str, datetime or date"),
        (lambda: F.word == ["a"], TypeError, "give one value, or use isin, any or all"),
        (lambda: F.word.isin([None]), TypeError, "F.word: None; give a bool"),
    ):
        with pytest.raises(kind, match=words):
            condition()
    with pytest.raises(nearfield.InvalidArgument) as caught:
        docs.count(F.price == float("nan"))
    assert caught.value.field == "filter_args[0].values[0]"


def test_a_text_with_values_is_the_expression(client, name):
    """Values of strangers were built into texts, with their quotes."""
    docs = client.create_collection(name, 2, metric="dot", attributes={"year": int, "lang": str, "tags": [str]})
    stranger = "x' or exists(year) or lang == '$1"
    docs.upload(np.eye(2, dtype=np.float32), attributes={"year": [2020, 2024], "lang": ["de", stranger], "tags": [["a"], []]})

    def ids(condition) -> list[int]:
        return sorted(docs.search([1, 1], filter=condition).ids.tolist())

    assert ids(F("lang == $1", stranger)) == ids(F.lang == stranger) == [1]
    assert ids(F("year >= $1 and lang in $2", 2020, ["de", "fr"])) == [0]
    assert ids(F("id in $1 or tags any $2", [1], ["a"])) == [0, 1]
    either = F("year == $1 or lang == '$1'", 2024)
    assert ids(either) == [1] and ids(either & (F.id == 0)) == [] and ids(~either) == [0]
    assert ids((F.id == 0) | either | F("`lang` == 'de'")) == [0, 1]
    assert repr(either & (F.id == 0)) == "<filter (year == $1 or lang == '$1') and id in $2>"
    for mistake, words in (
        (lambda: F("year == $1"), r"filter: \$1 in 'year == \$1': 0 values given"),
        (lambda: F("year == $2", 1), "1 value given"),
        (lambda: F("year == $x", 1), r"\$x"),
        (lambda: F("year == 1", 2), r"filter: 2: the text 'year == 1' has no \$1"),
    ):
        with pytest.raises(ValueError, match=words):
            mistake()


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
