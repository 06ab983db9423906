"""Documents of the vector store of LangChain: what their metadata may hold, filters as dicts, rows of
other programs, many ids, and scores between 0 and 1."""

from __future__ import annotations

import asyncio
import datetime as dt
import decimal
import enum
import math
import pathlib
import uuid
import warnings

import nearfield
import numpy as np
import pandas as pd
import pytest
from langchain_core.documents import Document
from nearfield import F
from nearfield.langchain import NearfieldVectorStore
from test_langchain import Letters, ids_of, outcome

UTC = dt.timezone.utc
ATTRIBUTES = {"year": int, "price": float, "draft": bool, "lang": str, "tags": [str], "made": dt.datetime}


@pytest.fixture
def client(shared):
    with nearfield.connect(shared.address) as made:
        yield made


@pytest.fixture
def store(client, name):
    return NearfieldVectorStore.create(client, name, Letters(), attributes=ATTRIBUTES)


class Color(enum.Enum):
    RED = "red"


def test_metadata_of_none_failed_with_declared_attributes(store):
    assert outcome(store, "add_texts", ["a", "b"], [{"year": 1}, None], ids=["a", "b"]) == ["a", "b"]
    assert [each.metadata for each in store.get_by_ids(["a", "b"])] == [{"year": 1}, {}]


def test_a_time_that_the_store_returned_was_refused(store):
    """It comes back as ISO text, which a declared time did not accept."""
    made = dt.datetime(2024, 5, 17, 12, 30, 0, 123456, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    for number, value in enumerate((made, made.isoformat(), "2024-05-17T10:30:00.123456Z")):
        store.add_texts(["a"], [{"made": value, "free": dt.datetime(2020, 1, 1), "day": dt.date(2020, 1, 1)}], ids=[f"a{number}"])
    store.add_texts(["b"], [{"made": dt.date(2024, 5, 18)}], ids=["day"])
    documents = store.get_by_ids(["a0", "a1", "a2", "day"])
    assert documents[0].metadata == {"made": made.isoformat(), "free": "2020-01-01T00:00:00", "day": "2020-01-01"}
    assert store.add_documents(documents) == ["a0", "a1", "a2", "day"] and store.get_by_ids(["a0"]) == documents[:1]
    found = store.similarity_search("a", k=9, filter={"made": made})
    assert sorted(each.id for each in found) == ["a0", "a1", "a2"]
    midnight = dt.datetime(2024, 5, 18, tzinfo=UTC)
    assert [each.id for each in store.similarity_search("a", filter=F.made == midnight)] == ["day"]


@pytest.mark.parametrize(("metadata", "words"), [
    ({"price": math.nan}, "price: nan has no form in JSON"), ({"free": {"x": [1.0, -math.inf]}}, "free: x[1]: -inf"),
    ({"free": np.float32("nan")}, "free: nan"), ({"free": decimal.Decimal("1.5")}, "free: Decimal('1.5') (Decimal)"),
    ({"free": {1, 2}}, "free: {1, 2} (set)"), ({"free": object}, "free: <class 'object'>"), ({"free": b"x"}, "free: b'x' (bytes)"),
    ({"free": np.datetime64("2020-01-01")}, "free: np.datetime64('2020-01-01')"), ({"free": {1: 2}}, "free: the key 1 is no text"),
    ({1: "x"}, "the key 1 is no text"), ("x", "'x', must be a dict or None"),
    ({"year": "3"}, "year: '3'; the attribute is declared int64"), ({"year": 3.0}, "year: 3.0; the attribute is declared int64"),
    ({"tags": "x"}, "tags: 'x'; the attribute is declared keyword[]"), ({"tags": ["x", 1]}, "tags: 1; the attribute is declared"),
    ({"made": "yesterday"}, "made: 'yesterday' is not a time; write it as"), ({"made": dt.datetime(2020, 1, 1)}, "made: '2020-01-01T00:00:00' has no offset from UTC"),
    ({"made": pd.NaT}, "made: NaT (NaTType)"), ({"free": pd.NaT}, "free: NaT"), ({"free": np.array(["2020-01-01"], "M8[ns]")}, "free: array(["),
    ({"free": np.timedelta64(5, "ns")}, "free: np.timedelta64"), ({"lang": "x" * 1025}, "lang: 1025 bytes; the server accepts 1024"),
    ({"tags": ["x"] * 1025}, "tags: 1025 values; the server accepts 1024"), ({"free": "\ud83d"}, "'utf-8' codec"),
    ({"free": "x" * 70_000}, "70035 bytes with the text; the server accepts 65536"),
])  # fmt: skip
def test_a_document_that_cannot_be_stored_was_refused_after_its_embedding(store, metadata, words):
    """And the error named neither the document nor the key."""
    store.embeddings.calls.clear()
    kind, text = outcome(store, "add_texts", ["a", "b"], [{}, metadata], ids=["1", "second"])
    assert kind in (TypeError, ValueError) and text.startswith(f"metadatas[1] (id 'second'): {words}"), text
    assert store.embeddings.calls == [] and ids_of(store) == []


def test_texts_and_ids_that_cannot_be_stored_are_refused_before_their_embedding(store):
    store.embeddings.calls.clear()
    long = "x" * 70_000
    for texts, ids, words in (
        (["a", 7], None, "texts[1]: 7, must be a text"), (["a", "b"], ["x", 7], "ids[1]: 7, must be a text"),
        (["a", long], ["x", "y"], "texts[1]: 70000 bytes; the server accepts 65536"),
        (["\ud83d", "b"], ["x", "y"], "texts[0]: 'utf-8' codec"),
        (["a"], ["\ud83d"], "ids[0]: 'utf-8' codec"), (["a"], ["x" * 513], "ids[0]: 513 bytes; the server accepts 512"),
    ):
        assert outcome(store, "add_texts", texts, ids=ids)[1].startswith(words)
    assert store.embeddings.calls == [] and ids_of(store) == []


def test_values_with_one_meaning_in_json_are_stored(store):
    key, path = uuid.uuid4(), pathlib.PurePosixPath("/a/b.md")
    store.add_texts(["a"], [{
        "key": key, "path": path, "color": Color.RED, "pair": (1, 2), "at": dt.time(12), "rows": np.arange(2), "none": None,
        "year": np.int64(7), "price": np.float32(0.5), "draft": np.True_, "lang": "en", "tags": ("x", "y")}], ids=["a"])  # fmt: skip
    (found,) = store.get_by_ids(["a"])
    assert found.metadata == {
        "key": str(key), "path": "/a/b.md", "color": "red", "pair": [1, 2], "at": "12:00:00", "rows": [0, 1], "none": None,
        "year": 7, "price": 0.5, "draft": True, "lang": "en", "tags": ["x", "y"]}  # fmt: skip
    assert store.similarity_search("a", filter=(F.year == 7) & (F.price == 0.5) & (F.draft == True) & F.tags.all(["x"]))  # noqa: E712


@pytest.mark.parametrize(("given", "expected"), [
    ({"year": 2020}, "a"), ({"year": {"$eq": 2020}}, "a"), ({"year": {"$ne": 2020}}, "b"), ({"year": {"$gt": 2020}}, "b"),
    ({"year": {"$gte": 2020}}, "ab"), ({"year": {"$lt": 2021}}, "a"), ({"year": {"$lte": 2020}}, "a"),
    ({"year": {"$gte": 2020, "$lt": 2024}}, "a"), ({"year": {"$in": [2020, 2024]}}, "ab"), ({"year": {"$in": []}}, ""),
    ({"year": {"$nin": [2020]}}, "b"), ({"year": None}, "c"), ({"year": {"$exists": False}}, "c"), ({"year": {"$exists": True}}, "ab"),
    ({"year": {"$ne": None}}, "ab"), ({"tags": "x"}, "ab"), ({"tags": {"$ne": "y"}}, "a"), ({"tags": {"$in": ["y", "z"]}}, "b"),
    ({"tags": {"$nin": ["y"]}}, "a"), ({"tags": {"$all": ["x", "y"]}}, "b"), ({"tags": {"$in": []}}, ""),
    ({"lang": "en", "year": 2020}, "a"), ({"$and": [{"lang": "en"}, {"year": 2024}]}, ""), ({"$or": [{"year": 2020}, {"lang": "de"}]}, "ab"),
    ({"$not": {"year": 2020}}, "bc"), ({"$or": [{"$not": {"tags": "x"}}, {"$and": [{"year": 2024}, {"lang": "de"}]}]}, "bc"),
    (F.year.isin([]), ""), (F.tags.any([]), ""), (F.tags.all([]), "ab"), ({"$not": F.year.isin([])}, "abc"),
    (F.id.isin([]), ""), (~F.id.isin([]), "abc"), ({"year": {"$in": np.array([2020, 2024])}}, "ab"), ({"year": {"$in": range(2020, 2022)}}, "a"),
    ({"made": {"$gte": "2024-05-17"}}, "b"), ({"made": {"$in": ["2024-05-17T14:00:00+02:00", dt.date(2020, 1, 1)]}}, "ab"),
])  # fmt: skip
def test_filters_as_dicts(store, given, expected):
    """Other vector stores take {"year": 2020}; it was a TypeError."""
    metadatas = [{"year": 2020, "lang": "en", "tags": ["x"], "made": "2020-01-01"},
                 {"year": 2024, "lang": "de", "tags": ["x", "y"], "made": "2024-05-17T12:00Z"}, {}]
    store.add_texts(["a", "ab", "b"], metadatas, ids=["a", "b", "c"])
    assert "".join(sorted(each.id for each in store.similarity_search("a", filter=given))) == expected
    docs = nearfield.Collection(store._blocking)
    assert docs.count(given).rows_count == len(expected)
    assert outcome(store, "delete", filter=given) is True and len(ids_of(store)) == 3 - len(expected)


@pytest.mark.parametrize(("given", "words"), [
    ({}, "{} has no condition"), ({"year": {}}, "year: {} has no condition"), ({"year": {"$regex": "x"}}, "'$regex' is no operator; the operators are"),
    ({"$nor": []}, "$nor"), ({"year": [2020]}, "$eq compares with one value"), ({"year": {"$in": 2020}}, "$in compares with a list"),
    ({"$or": []}, "give a list of filters"), ({"$not": []}, "an expression such as"), ({"year": {"$exists": 1}}, "True or False"),
    ({"year": "2020"}, "'2020' is a keyword, year is an int64"), ({"page": 1}, 'declares no attribute "page"; it declares year:int64'), (7, "a dict such as"),
    ({1: 2}, "filter: 1; the keys are names"), ({"made": "May"}, '"May" is not a time; write it as'),
])  # fmt: skip
def test_a_dict_that_is_no_filter_is_refused(store, given, words):
    for method, arguments in (("similarity_search", ["a"]), ("delete", [])):
        kind, text = outcome(store, method, *arguments, filter=given)
        assert issubclass(kind, (TypeError, ValueError)) and words in text, text


def test_rows_of_other_programs_failed_with_a_key_error(client, name):
    """KeyError: 'text', or JSONDecodeError, without the id of the row."""
    docs = client.create_collection(name, 3, metric="cosine", id_type="string", attributes=ATTRIBUTES)

    def read(text_key: str = "text", **row: object) -> Document:
        docs.upload([{"id": "r", "vector": [1, 0, 0], **row}], mode="upsert")
        store = NearfieldVectorStore(docs, Letters(), text_key=text_key)
        (found,) = store.similarity_search("a", k=1)
        assert store.get_by_ids(["r"]) == [found] == asyncio.run(store.aget_by_ids(["r"]))
        return found

    made = dt.datetime(2024, 1, 1, tzinfo=UTC)
    assert read(payload="hello", year=7, made=made) == Document("hello", id="r", metadata={"year": 7, "made": made})
    assert read(payload=b"[1, 2]").page_content == "[1, 2]"
    assert read("body", payload={"body": "b", "title": "t", "metadata": {"x": 1}}) == Document(
        "b", id="r", metadata={"title": "t", "x": 1})
    assert read(payload={"text": "t", "metadata": 7}).metadata == {"metadata": 7}
    for row, words in (
        ({"payload": {"title": "t", "body": "b"}}, "row 'r': its payload has no text 'text'; the members are title, body: name"),
        ({}, "row 'r': it has no payload"), ({"payload": b"\xff"}, "row 'r': its payload is no text of UTF-8"),
    ):
        with pytest.raises(ValueError, match=words):
            read(**row)
    numbers = client.create_collection(f"{name}-numbers", 3, metric="cosine")
    numbers.upload([[1, 0, 0]], payloads=["hello"])
    store = NearfieldVectorStore(numbers, Letters())
    assert store.similarity_search("a") == [Document("hello", id="0")]
    assert "ids of type uint64; documents need string" in outcome(store, "add_texts", ["a"])[1] and store.embeddings.calls == []


def test_a_store_over_a_client_failed_at_its_first_call(client, shared, name):
    for given in (client, nearfield.AsyncClient(shared.address), name):
        with pytest.raises(TypeError, match=r"^collection: .*give a handle, client.collection\(name\)"):
            NearfieldVectorStore(given, Letters())
    with pytest.raises(ValueError, match="text_key: 'metadata' is the member"):  # which would replace the text
        NearfieldVectorStore(client.collection(name), Letters(), text_key="metadata")
    with pytest.raises(TypeError, match="async_collection: Collection"):
        NearfieldVectorStore(client.collection(name), Letters(), async_collection=client.collection(name))


def test_documents_make_a_store_in_one_call(client, shared, name, monkeypatch):
    """from_documents(documents, embedding) had no way to a collection, and create() asked for the dim."""
    monkeypatch.setenv("NEARFIELD_ADDRESS", shared.address)
    documents = [Document("a", metadata={"year": 2020, "free": 1}, id="a"), Document("b", id="b")]
    for made in (
        NearfieldVectorStore.from_documents(documents, Letters(), name=name, attributes={"year": int}),
        asyncio.run(NearfieldVectorStore.afrom_documents(documents, Letters(), name=name, client=client, attributes={"year": int})),
        NearfieldVectorStore.from_texts(["a"], Letters(), [{"year": 2020, "free": 1}], ids=["a"], collection=client.collection(name)),
    ):
        assert made.similarity_search("a", filter={"year": 2020}) == documents[:1]
    assert client.get_collection(name).dim == 3 and client.get_collection(name).metric == "cosine"
    for options in ({}, {"collection": client.collection(name), "metric": "dot"}):
        with pytest.raises(TypeError, match="name"):
            NearfieldVectorStore.from_texts(["a"], Letters(), **options)


@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
def test_relevance_is_between_0_and_1(client, name, metric):
    """It was an error for dot and l2, and -inf for a row of zeros under cosine."""
    class Vectors(Letters):
        def embed_query(self, text: str) -> list[float]:
            return {"": [0.0, 0.0], "far": [-3.0, 4.0], "near": [1.0, 0.0], "large": [30.0, 0.0], "opposite": [-1.0, 0.0]}[text]

    store = NearfieldVectorStore.create(client, name, Vectors(), metric=metric, dim=2)
    names = ["", "far", "near", "large", "opposite"]
    store.add_texts(names, ids=[each or "zeros" for each in names])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # LangChain warns of scores below 0 or above 1
        found = dict((each.id, score) for each, score in store.similarity_search_with_relevance_scores("near", k=9))
        again = asyncio.run(store.asimilarity_search_with_relevance_scores("near", k=9))
    assert found == {each.id: score for each, score in again} and len(found) == 5
    assert list(found.values()) == sorted(found.values(), reverse=True) and found["near"] == 1.0
    assert found["opposite"] == {"cosine": 0.0, "dot": 0.0, "l2": 1 / 3}[metric] and found["zeros"] == {"cosine": 0, "dot": 0.5, "l2": 0.5}[metric]
    assert len(store.search("near", "similarity_score_threshold", score_threshold=0.9)) == (1 if metric == "l2" else 2)


def test_any_number_of_ids_is_read_and_deleted(client, name):
    """More than 10,000 ids were INVALID_ARGUMENT."""
    store = NearfieldVectorStore.create(client, name, Letters(), dim=3)
    ids = [f"{i:05}" for i in range(12_000)]
    store.add_texts(["a", "b", "c"], ids=[ids[0], ids[7000], ids[-1]])
    assert [each.page_content for each in outcome(store, "get_by_ids", ids)] == ["a", "b", "c"]
    assert outcome(store, "delete", ids) is True and ids_of(store) == []
    assert store.get_by_ids([]) == []


def test_long_documents_are_read_in_parts(client, name):
    """A reply of 1,200 documents of 60,000 bytes exceeds the server's limit."""
    store = NearfieldVectorStore.create(client, name, Letters(), dim=3)
    ids = [str(i) for i in range(1200)]
    store.add_texts(["a" * 60_000] * len(ids), ids=ids)
    assert [each.id for each in store.get_by_ids(ids)] == ids


def test_diverse_documents_by_vector(store):
    """The method was missing."""
    store.add_texts(["aaa", "aaab", "c"], ids=["a", "b", "c"])
    vector = store.embeddings.embed_query("aa")
    for found in (
        store.max_marginal_relevance_search_by_vector(vector, k=2, fetch_k=3, lambda_mult=0.1),
        asyncio.run(store.amax_marginal_relevance_search_by_vector(vector, k=2, fetch_k=3, lambda_mult=0.1)),
    ):
        assert [each.id for each in found] == ["a", "c"]
    assert [each.id for each in store.max_marginal_relevance_search_by_vector(vector, k=2, fetch_k=1)] == ["a"]


def test_embeddings_are_made_in_batches_with_progress(store, capsys):
    """100,000 texts were one call of the embedding, without a sign of life."""
    store.embeddings.calls.clear()
    seen: list[tuple[int, int]] = []
    store.add_texts(["a"] * 2500, progress=lambda done, total: seen.append((done, total)))
    assert store.embeddings.calls == [1000, 1000, 500] and seen == [(1000, 2500), (2000, 2500), (2500, 2500)]
    asyncio.run(store.aadd_texts(["a"] * 5, batch_size=2, progress=True))
    assert "5/5" in capsys.readouterr().err
    store.embeddings.embed_documents = lambda texts: [[1.0, 2.0, 3.0]]
    with pytest.raises(ValueError, match=r"shape \[1, 3\] of 2 texts"):
        store.add_texts(["a", "b"])
