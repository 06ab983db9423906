"""Small mistakes in calls: the error names the argument, its value and what is accepted."""

from __future__ import annotations

import operator
from typing import Any

import nearfield
import numpy as np
import pytest
from nearfield import F


@pytest.fixture
def docs(client, name):
    docs = client.create_collection(name, 2, metric="dot", attributes={"owner": str, "year": int, "good": bool, "tags": [str]})
    docs.upload([
        {"id": 1, "vector": [1, 0], "payload": {"a": 1}, "owner": "x", "year": 2020, "good": True, "tags": []},
        {"id": 2, "vector": [0, 1]}])
    return docs


@pytest.mark.parametrize(("options", "kind", "words"), [
    ({"k": -1}, ValueError, r"k = -1, must be 1 \.\. Limits.k_max"),
    ({"k": 2**40}, ValueError, r"k = 1099511627776, must be 1 \.\."),
    ({"k": 2.0}, TypeError, r"k: 2.0; a whole number is needed, 1 \.\. Limits.k_max"),
    ({"k": True}, TypeError, "k: True; a whole number"),
    ({"k": "10"}, TypeError, "k: '10'; a whole number"),
    ({"k": 5000}, nearfield.InvalidArgument, r"k = 5000, must be 1 \.\. 4096"),
    ({"k": 0}, nearfield.InvalidArgument, r"k = 0, must be 1 \.\. 4096"),
    ({"score_threshold": "0.5"}, TypeError, "score_threshold: '0.5'; a number is needed"),
    ({"min_epoch": -1}, ValueError, "min_epoch = -1, must be"),
    ({"at_epoch": 1.0}, TypeError, "at_epoch: 1.0; a whole number"),
    ({"cursor": "abc"}, TypeError, "cursor: 'abc'; the next_cursor of a page"),
    ({"timeout": "3"}, TypeError, "timeout: '3'; a number is needed"),
    ({"filter": 7}, TypeError, "filter: .*an expression such as F.year"),
])
def test_a_number_of_a_wrong_type_raised_an_error_of_protobuf(docs, options, kind, words):
    """Such as "Value out of range: -1", which does not name the argument."""
    with pytest.raises(kind, match=words):
        docs.search([1, 0], **options)
    assert docs.search([1, 0], k=np.int64(1), score_threshold=np.float32(0.5), min_epoch=np.uint64(1)).ids.tolist() == [1]


def test_numbers_of_other_calls_are_named(client, docs, name):
    for call, kind, words in (
        (lambda: client.create_collection(name + "-2", "2", metric="dot"), TypeError, r"dim: '2'; a whole number is needed, 1 \.\."),
        (lambda: client.create_collection(name + "-2", -2, metric="dot"), ValueError, "dim = -2, must be 1"),
        (lambda: client.create_collection(name + "-2", 2.0, metric="dot"), TypeError, "dim: 2.0"),
        (lambda: client.create_collection(name + "-2", 2, metric="dot", devices=-1), ValueError, "devices = -1"),
        (lambda: docs.fetch([1], at_epoch=-1), ValueError, "at_epoch = -1"),
        (lambda: docs.count(min_epoch="1"), TypeError, "min_epoch: '1'"),
        (lambda: list(docs.scan(rows_max=-1)), ValueError, "rows_max = -1, must be 1 or more"),
        (lambda: list(docs.search_all([1, 0], results_max=2.5)), TypeError, "results_max: 2.5"),
        (lambda: docs.verify([1, 0], k=-1), ValueError, "k = -1"),
        (lambda: docs.verify([1, 0], k=1, skip=-1), ValueError, "skip = -1"),
        (lambda: docs.count(timeout="1"), TypeError, "timeout: '1'"),
    ):
        with pytest.raises(kind, match=words):
            call()


@pytest.mark.parametrize("vector", ["who sells tea?", ["who", "sells"], np.array(["tea"]), [["a", 1.0]]])
def test_a_text_as_vector_was_called_u11(docs, vector):
    with pytest.raises(TypeError, match="vector: a text; give the numbers that an embedding model makes of it"):
        docs.search(vector)
    with pytest.raises(TypeError, match=r"row 0 \(id 3\): vector: .*a list of numbers"):
        docs.upload([{"id": 3, "vector": vector if isinstance(vector, str) else ["a", "b"]}])


@pytest.mark.parametrize("sign", ["&", "|"])
def test_an_operator_without_parentheses_was_an_error_about_an_int_and_a_field(sign):
    combine = {"&": operator.and_, "|": operator.or_}[sign]
    words = rf"write parentheses around comparisons, as in \(F.year >= 2020\) \{sign} \(F.price < 5\)"
    for call in (
        lambda: eval(f"F.a > 1 {sign} F.b < 4"),
        lambda: eval(f"F.a == 1 {sign} (F.b == 2)"),
        lambda: eval(f"F.a == True {sign} F.id == 7"),
        lambda: combine(F.a, F.b > 1), lambda: combine(F.b > 1, F.a), lambda: combine(F.b > 1, 1), lambda: combine(F.a, 1),
        lambda: combine(F.id, F.a), lambda: combine(1, F.id),
    ):
        with pytest.raises(TypeError, match=words):
            call()
    with pytest.raises(TypeError, match="~F.good: compare first, for a bool F.good == False"):
        ~F.good  # noqa: B018
    assert repr(F.year) == "F.year" and repr(F.id) == "F.id"


def test_a_comparison_with_none_did_not_mention_exists(docs):
    with pytest.raises(TypeError, match=r"F.owner == None: .*; write ~F.owner.exists\(\)"):
        docs.search([1, 0], filter=F.owner == None)  # noqa: E711
    with pytest.raises(TypeError, match=r"F.owner != None: .*; write F.owner.exists\(\)"):
        docs.count(F.owner != None)  # noqa: E711


def test_an_empty_list_was_an_error_of_the_server(client, docs, name):
    """An agent that has no owners, or no ids to delete, needed a case of its own."""
    rows = docs.count().rows_count
    for none in (F.owner.isin([]), F.tags.any([]), F.id.isin([]), F.id.isin(np.zeros(0, np.uint64)), F.good.isin(())):
        assert docs.count(none).rows_count == 0 and docs.count(~none).rows_count == rows
        assert docs.search([1, 0], filter=(F.year == 2020) | none).ids.tolist() == [1]
    assert docs.count(F.tags.all([])).rows_count == 1  # the rows with a list
    with pytest.raises(ValueError, match="F.onwer: the collection declares no such attribute"):
        docs.count(F.onwer.isin([]))
    found = docs.fetch([], attributes="*")
    assert (len(found), found.epoch, len(found.missing), found.payloads) == (0, 1, 0, [])
    assert docs.fetch([], at_epoch=1).epoch == 1
    deleted = docs.delete([])
    assert (deleted.rows_deleted, deleted.epoch, docs.count().rows_count) == (0, 1, rows)
    texts = client.create_collection(name + "-texts", 2, metric="dot", id_type="string")
    texts.upload([[1, 0]], ids=["a"])
    assert texts.count(F.id.isin([])).rows_count == 0 and texts.count(~F.id.isin([])).rows_count == 1
    for call in (lambda: client.collection(name + "-none").fetch([]), lambda: client.collection(name + "-none").delete([])):
        with pytest.raises(nearfield.NotFound):
            call()


def test_json_of_a_hit_without_payload_was_none(docs):
    """The next line then failed with "'NoneType' object is not subscriptable"."""
    with pytest.raises(ValueError, match="id 1: no payload was requested; search with payload=True"):
        docs.search([1, 0], k=1)[0].json()
    hits = docs.search([1, 1], k=2, payload=True)
    assert [hit.json() for hit in hits] == [{"a": 1}, None]


def test_texts_of_numpy_were_no_ids(client, name):
    docs = client.create_collection(name, 2, metric="dot", id_type="string")
    ids: list[Any] = list(np.array(["a", "b"]))
    docs.upload([[1, 0], [0, 1]], ids=ids)
    docs.upload([{"id": np.str_("c"), "vector": [1, 1]}])
    assert docs.fetch([*ids, "c"]).ids == ["a", "b", "c"]
    assert docs.count(F.id.isin(ids)).rows_count == 2 and docs.search(id=ids[0], k=1).ids == ["c"]
    assert docs.delete(ids).rows_deleted == 2
    with pytest.raises(TypeError, match=r"ids\[1\]: 7 after texts; ids are all int or all str"):
        docs.fetch(["a", 7])
    with pytest.raises(ValueError, match="ids: '.ud83d' has half of a surrogate pair"):
        docs.fetch(["\ud83d"])


def test_a_misspelled_collection_is_answered_with_a_similar_one(client, name):
    client.create_collection(f"packages-{name}", 2, metric="dot")
    client.set_alias(f"currently-{name}", f"packages-{name}")
    for call in (
        lambda: client.collection(f"pakages-{name}").search([1, 0]),
        lambda: client.collection(f"pakages-{name}").upload([[1, 0]]),
        lambda: list(client.collection(f"pakages-{name}").scan()),
        lambda: client.get_collection(f"pakages-{name}"),
        lambda: client.drop_collection(f"pakages-{name}"),
    ):
        with pytest.raises(nearfield.NotFound, match=f'did you mean "packages-{name}"\\?'):
            call()
    with pytest.raises(nearfield.NotFound, match=f'did you mean "currently-{name}"\\?'):
        client.collection(f"curently-{name}").count()
    with pytest.raises(nearfield.NotFound) as caught:
        client.collection("x").count()
    assert "did you mean" not in str(caught.value)


def test_a_payload_over_its_limit_is_named_by_its_id(client, name):
    """The error named the place in the block: block.payloads[0]."""
    docs = client.create_collection(name, 2, metric="dot", id_type="string")
    with pytest.raises(nearfield.InvalidArgument, match=r'row 1 \(id "b"\): payload: 200000 bytes, must be at most 65536') as caught:
        docs.upload([[1, 0], [0, 1]], ids=["a", "b"], payloads=["", "x" * 200_000])
    assert (caught.value.field, caught.value.value, caught.value.limit) == ("payload", "200000 bytes", "65536")
