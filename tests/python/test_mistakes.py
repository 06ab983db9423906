"""Small mistakes in calls: the error names the argument, its value and what is accepted."""

from __future__ import annotations

import operator
from typing import Any

import nearfield
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
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
    ({"payload": "text"}, TypeError, "payload: 'text'; True or False is needed"),
    ({"filter": {"$where": "x"}}, ValueError, r"filter: '\$where' is no operator"),
    ({"top_k": 3}, TypeError, r"top_k: no argument of a search; did you mean k\? .*\bid, ids,.*vector"),
    ({"limit": 3}, TypeError, r"limit: .*; did you mean k\?"),
    ({"n_results": 3}, TypeError, r"n_results: .*; did you mean k\?"),
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
    with pytest.raises(ValueError, match='declares no attribute "onwer"'):
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


@pytest.mark.parametrize("vector", [[1, 0, 0, 0], [0.5, 0, 0, 0], np.array([1, 0, 0, 0]), np.array([1.0, 0, 0, 0])])
def test_a_stream_of_one_vector_was_one_of_the_ids_1_and_0(client, name, vector):
    docs = client.create_collection(name, 4, metric="dot")
    docs.upload(np.eye(4))
    with pytest.raises(TypeError, match=r"queries: .* is a number; .* for one vector write \[\[...\]\], for stored rows ids="):
        list(docs.search_stream(vector, k=2))
    assert [each.ids.tolist() for each in docs.search_stream(ids=[1, np.uint64(0)], k=1)] == [[0], [1]]
    for wrong in ({}, {"queries": [[1, 0, 0, 0]], "ids": [1]}):
        with pytest.raises(TypeError, match="give one of: queries, ids="):
            list(docs.search_stream(**wrong))
    with pytest.raises(TypeError, match="ids: 'abc'; give a list"):
        list(docs.search_stream(ids="abc"))


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "npy", "parquet"])
def test_an_empty_file_replaced_all_rows(client, name, tmp_path, suffix):
    docs = client.create_collection(name, 2, metric="dot")
    docs.upload(np.eye(2))
    path = tmp_path / f"rows.{suffix}"
    if suffix == "npy":
        np.save(path, np.zeros((0, 2), np.float32))
    elif suffix == "parquet":
        pq.write_table(docs.search([1, 0]).to_arrow().select(["id"]).append_column("vector", pa.array([[1.0, 0], [0, 1]])).slice(0, 0), path)
    else:
        path.write_text("id,vector\n" if suffix == "csv" else "\n")
    with pytest.raises(ValueError, match=rf"rows\.{suffix}: holds no row"):
        docs.upload(path, mode="replace")
    assert docs.count().rows_count == 2
    docs.upload([], mode="replace")
    assert docs.count().rows_count == 0


def test_arguments_of_other_clients_are_answered_with_their_names_here(client, docs, name):
    """Python's message has the name of an internal class, and no similar name."""
    for call, words in (
        (lambda: docs.upload([], metadata=[]), r"metadata: no argument of upload\(\); did you mean payloads\? \(known: .*\bmode"),
        (lambda: docs.delete(all=True), r"all: no argument of delete\(\) \(known: filter, ids, timeout\)"),
        (lambda: client.create_collection(name + "-2", 2, metric="dot", attribute={}), r"did you mean attributes\?"),
        (lambda: docs.upload([], token=5), "token: 5; a text is needed"),
        (lambda: docs.upload([], progress=5), "progress: 5; True or False is needed"),
        (lambda: docs.fetch([1], payload="text"), "payload: 'text'; True or False"),
        (lambda: client.collection(docs), "name: <.*; the name of a collection is a text"),
        (lambda: client.collection(None), "name: None; the name"),
        (lambda: client.create_collection(name + "-2", 5, metric="dot", like=[{"id": 1, "vector": [1, 2]}]), "dim: 5; like= has vectors of 2"),
        (lambda: docs.delete(filter={}), "filter: {} has no condition: it does not say which rows pass"),
        (lambda: F.year.isin(2000), "F.year: 2000; give a list of values"),
        (lambda: "x" in F.tags, r"'x' in F.tags: for a list write F.tags.any\(\['x'\]\)"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            call()


def test_a_part_of_a_hit_that_was_not_requested_was_a_bare_name(docs):
    hit = docs.search([1, 0], k=1)[0]
    with pytest.raises(KeyError, match=r"the attribute 'year' was not requested; search with attributes="):
        hit.attributes["year"]
    docs.upload([{"id": 9, "vector": [5, 5], "payload": "plain text"}])
    with pytest.raises(ValueError, match="id 9: the payload b'plain text' is no JSON .*; use .payload"):
        docs.search([1, 1], k=1, payload=True)[0].json()


@pytest.mark.parametrize(("given", "words"), [
    ({"retry": 3}, "retry: 3; give nearfield.RetryPolicy"),
    ({"retry": 0}, "retry: 0; give nearfield.RetryPolicy"),
    ({"ca": True}, "ca: True; the name of a file is needed"),
    ({"ca": "k.pem"}, "ca: k.pem: has no certificate in PEM"),
    ({"token_file": 5}, "token_file: 5; the name of a file"),
    ({"caller": 5}, "caller: 5; a text is needed"),
    ({"metadata": "a=b"}, 'metadata: str; give a dict {"name": "value"}'),
    ({"metadata": {"a": 1}}, "metadata: 'a': names and values are texts"),
    ({"port": 50051}, r"port: no argument of connect\(\); did you mean address\?"),
    ({"token": "x"}, r"token: .*; did you mean token_file\?"),
    ({"api_key": "x"}, r"api_key: .*; did you mean token_file\?"),
])
def test_an_argument_of_connect_of_a_wrong_kind_is_named(given, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.pem").write_text("-----BEGIN PRIVATE KEY-----\nMIGH\n-----END PRIVATE KEY-----\n")
    for connect in (nearfield.connect, nearfield.AsyncClient):
        with pytest.raises((TypeError, ValueError), match=words.replace("connect", connect.__name__)):
            connect("127.0.0.1:1", **given)


def test_a_key_given_as_the_name_of_its_file_was_printed():
    with pytest.raises(ValueError, match="^token_file: this is a key, not the name of a file$"):
        nearfield.connect("127.0.0.1:1", token_file="nf_a1b2_c2VjcmV0")


def test_a_call_after_close_was_an_error_of_grpc(shared, name):
    client = nearfield.connect(shared.address)
    docs = client.create_collection(name, 2, metric="dot")
    client.close()
    for call in (docs.count, lambda: docs.upload([[1, 0]]), lambda: list(docs.scan()), lambda: list(docs.search_stream([[1, 0]]))):
        with pytest.raises(ValueError, match="^this client is closed$"):
            call()


def test_errors_of_the_server_had_the_names_of_the_protocol(client, name):
    numbers = client.create_collection(name, 4, metric="cosine")
    texts = client.create_collection(f"{name}-texts", 4, metric="dot", id_type="string")
    numbers.upload(np.eye(4))
    texts.upload(np.eye(4), ids=list("abcd"))
    dim, of_texts, of_numbers = f"vector: 3 values; the collection '{name}' has dim 4", f"; the collection '{name}-texts' has ids of type string", f"; the collection '{name}' has ids of type uint64"
    for call, words in (
        (lambda: numbers.search([1, 2, 3]), dim),
        (lambda: list(numbers.search_all([1, 2, 3])), dim),
        (lambda: list(numbers.search_stream([[1, 2, 3]])), dim),
        (lambda: numbers.verify([1, 2, 3]), dim),
        (lambda: numbers.search([0, 0, 0, 0]), "vector: all values are 0"),
        (lambda: numbers.search([[1, 0, 0, 0], [0, 0, 0, 0]]), r"vector\[1\]: all values are 0"),
        (lambda: numbers.search([np.nan, 0, 0, 0]), "vector: value 0 is nan"),
        (lambda: texts.search(id=5), "id: 5" + of_texts),
        (lambda: texts.search(ids=[5, 6]), "id: 5" + of_texts),
        (lambda: numbers.search(id="x"), "id: 'x'" + of_numbers),
        (lambda: numbers.search(id=77), "id = 77 names no row"),
        (lambda: texts.fetch([5]), "ids: 5" + of_texts),
        (lambda: texts.delete([5]), "ids: 5" + of_texts),
        (lambda: texts.count(F.id.isin([5])), "F.id: numbers" + of_texts),
        (lambda: numbers.search([1, 0, 0, 0], filter=(F.id == "5") & (F.id == "6")), "F.id: texts" + of_numbers),
    ):
        with pytest.raises(nearfield.Error, match=words):
            call()


@pytest.mark.parametrize("rows", [[[1, 0], [0, 1]], [{"vector": [1, 0]}]])
def test_a_second_upload_without_ids_did_not_say_where_its_ids_come_from(client, name, rows):
    docs = client.create_collection(name, 2, metric="dot")
    docs.upload(rows)
    with pytest.raises(nearfield.AlreadyExists, match='no ids were given, so they are 0, 1, ...: give ids=, or mode="upsert"'):
        docs.upload(rows)
    with pytest.raises(nearfield.AlreadyExists) as caught:
        docs.upload([[1, 0]], ids=[0])
    assert "no ids were given" not in str(caught.value)


def test_a_misspelled_vector_was_a_row_in_the_message(client, docs, name):
    with pytest.raises(TypeError, match=r"row 1: no member vector; is vektor meant\?"):
        docs.upload([{"id": 7, "vector": [1, 0]}, {"id": 8, "vektor": [1, 0]}])
    for wrong, words in (
        ({"id": [1], "embedding": [[1.0, 0]]}, """no column 'vector'; the columns are id, embedding; name it with vectors="...\""""),
        ({"doc_id": [1], "vector": [[1.0, 0]]}, """no column 'id'; the columns are doc_id, vector; name it with ids="...\""""),
    ):
        for call in (lambda: docs.upload(pa.table(wrong)), lambda: client.create_collection(name + "-2", metric="dot", like=pa.table(wrong))):  # noqa: B023
            with pytest.raises(ValueError, match=words):
                call()


def test_a_value_of_another_type_in_a_frame_was_an_error_of_arrow_without_its_row(docs):
    frame = pandas.DataFrame({"id": [1, 2], "vector": [[1.0, 0]] * 2, "year": [1, "2"]})
    with pytest.raises((TypeError, ValueError), match="^row 1: column 'year': .*'2'"):
        docs.upload(frame)


@pytest.mark.parametrize(("cut", "words"), [
    (slice(0), r"byte 0: not a .npy file: it must begin with .x93NUMPY"),
    (slice(1, None), r"byte 0: not a .npy file"),
    (slice(300), "300 bytes; its header says more"),
])
def test_a_damaged_file_of_numpy_was_an_advice_to_allow_pickle(docs, tmp_path, cut, words):
    path = tmp_path / "rows.npy"
    np.save(path, np.ones((100, 2), np.float32))
    path.write_bytes(path.read_bytes()[cut])
    with pytest.raises(ValueError, match=rf"rows\.npy: {words}"):
        docs.upload(path)
