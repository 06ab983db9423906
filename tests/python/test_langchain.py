"""The vector store of LangChain passes LangChain's own suite, and what that suite does not test."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import re
from typing import Any

import nearfield
import pytest
from conftest import run_together
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, aindex, index
from langchain_tests.integration_tests.vectorstores import EMBEDDING_SIZE, VectorStoreIntegrationTests
from nearfield import F
from nearfield.langchain import NearfieldVectorStore

_numbers = itertools.count()


class TestStore(VectorStoreIntegrationTests):
    """Synchronous methods, and asynchronous ones on threads."""

    @pytest.fixture
    def vectorstore(self, shared):
        with nearfield.connect(shared.address) as client:
            name = f"langchain-{next(_numbers)}"
            yield NearfieldVectorStore.create(client, name, self.get_embeddings(), dim=EMBEDDING_SIZE)
            client.drop_collection(name)


class TestAsyncStore(VectorStoreIntegrationTests):
    """Asynchronous methods over an AsyncClient, and again the synchronous ones."""

    @pytest.fixture
    def vectorstore(self, shared):
        with nearfield.connect(shared.address) as client:
            name = f"langchain-{next(_numbers)}"
            made = client.create_collection(name, EMBEDDING_SIZE, metric="cosine", id_type="string")
            handle = nearfield.AsyncClient(shared.address).collection(name)
            yield NearfieldVectorStore(made, self.get_embeddings(), async_collection=handle)
            client.drop_collection(name)


class Letters:
    """An embedding whose vectors are easy to predict: how often a, b and c occur."""

    def __init__(self) -> None:
        self.calls: list[int] = []  # texts of each call of embed_documents

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.calls.append(len(texts))
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [text.count(letter) + 0.01 for letter in "abc"]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.embed_documents(texts)

    async def aembed_query(self, text: str) -> list[float]:
        return self.embed_query(text)


@pytest.fixture
def store(shared, name):
    with nearfield.connect(shared.address) as client:
        made = NearfieldVectorStore.create(client, name, Letters(), dim=3, attributes={"year": int})
        made.add_documents([
            Document(id="a", page_content="aaa", metadata={"year": 2020, "free": {"x": [1]}}),
            Document(id="aab", page_content="aab", metadata={"year": 2024}),
            Document(id="aaab", page_content="aaab", metadata={"year": 2024}),
            Document(id="c", page_content="c"),
        ])
        yield made
        client.drop_collection(name)


def test_filters_scores_and_metadata(store):
    found = store.similarity_search("aa", k=2)
    assert [each.id for each in found] == ["a", "aaab"]
    assert found[0].metadata == {"year": 2020, "free": {"x": [1]}}
    for condition in (F.year >= 2021, "year >= 2021"):
        assert [each.id for each in store.similarity_search("aa", filter=condition)] == ["aaab", "aab"]
    scored = store.similarity_search_with_score("aa", k=4)
    assert [score for _, score in scored] == sorted((score for _, score in scored), reverse=True)
    relevant = store.similarity_search_with_relevance_scores("aa", k=1)
    assert relevant[0][1] == (1 + scored[0][1]) / 2
    retriever = store.as_retriever(search_kwargs={"k": 1, "filter": F.year == 2024})
    assert [each.id for each in retriever.invoke("aa")] == ["aaab"]
    recent = [nearfield.HalfLife("year", half_life=1, origin=2025)]
    assert [each.id for each in store.similarity_search("aa", k=2, terms=recent)] == ["aaab", "aab"]


def test_diverse_documents_delete_all_and_vectors(store):
    diverse = store.max_marginal_relevance_search("aa", k=2, lambda_mult=0.1)
    assert [each.id for each in diverse] == ["a", "c"]
    assert asyncio.run(store.amax_marginal_relevance_search("aa", k=2, lambda_mult=0.1)) == diverse
    assert [each.id for each in store.similarity_search_by_vector([0, 0, 1], k=1)] == ["c"]
    assert store.delete(all=True) and store.similarity_search("aa") == []
    assert store.add_texts(["ccc"], [{"year": 1}], ids=["c"]) == ["c"]
    assert store.get_by_ids(["c", "a"]) == [Document(id="c", page_content="ccc", metadata={"year": 1})]


def outcome(store: NearfieldVectorStore, method: str, *args: Any, **kwargs: Any) -> Any:
    """Calls a method, and its asynchronous twin if there is one. Both must have the same outcome."""
    found = []
    for call in (getattr(store, method), getattr(store, "a" + method, None)):
        if call is None:
            continue
        try:
            result = call(*args, **kwargs)
            found.append(asyncio.run(result) if inspect.isawaitable(result) else result)
        except (TypeError, ValueError) as error:
            found.append((type(error), re.sub(r"\ba(?=(add_texts|delete)\()| \(request \w+\)$", "", str(error))))
    assert all(each == found[0] for each in found), found
    return found[0]


def ids_of(store: NearfieldVectorStore) -> list[str]:
    return sorted(each.id for each in store.similarity_search("a", k=100))


ALL = ["a", "aaab", "aab", "c"]


@pytest.mark.parametrize("given", [
    {"id": "a"}, {"filters": F.year == 2024}, {"where": {"year": 2024}}, {"ids": ["a"], "hard": True},
    {}, {"ids": None}, {"filter": None}, {"all": False}, {"all": "no"},
    {"ids": ["a"], "filter": F.year == 2024}, {"ids": [], "all": True}, {"filter": F.year == 2024, "all": True},
])
def test_a_delete_with_a_wrong_argument_deleted_every_document(store, given):
    """delete(id="a") and delete(filter=...) dropped what they did not know, and no ids meant all."""
    kind, text = outcome(store, "delete", **given)
    assert kind is TypeError and ids_of(store) == ALL
    unknown = given.keys() - {"ids", "filter", "all"}
    assert all(word in text for word in (*unknown, *(("ids", "filter") if unknown else ()), "all")), text


def test_a_delete_deletes_what_is_chosen(store):
    assert outcome(store, "delete", ids=[]) is True and ids_of(store) == ALL
    assert outcome(store, "delete", filter="year > 3000") is True and ids_of(store) == ALL
    assert outcome(store, "delete", filter=F.year == 2024) is True and ids_of(store) == ["a", "c"]
    assert outcome(store, "delete", ["a", "zz"]) is True and ids_of(store) == ["c"]
    assert outcome(store, "delete", all=True) is True and ids_of(store) == []


def test_the_metadata_of_stored_documents_changes(store):
    """Members are added or replaced; the text is not embedded again."""
    store.embeddings.calls.clear()
    ranked = [each.id for each in store.similarity_search("aa", k=9)]
    assert outcome(store, "update_metadata", ["a", "zz", "c"], [{"year": 2030, "new": [1]}, {"year": 1}, {}]) == ["a", "c"]
    assert store.get_by_ids(["a", "c"]) == [
        Document(id="a", page_content="aaa", metadata={"year": 2030, "free": {"x": [1]}, "new": [1]}), Document(id="c", page_content="c")]
    assert [each.id for each in store.similarity_search("aa", filter=F.year == 2030)] == ["a"]
    assert outcome(store, "update_metadata", ["a"], [{"year": None}]) == ["a"] and store.similarity_search("aa", filter=F.year == 2030) == []
    assert store.embeddings.calls == [] and [each.id for each in store.similarity_search("aa", k=9)] == ranked


@pytest.mark.parametrize(("ids", "metadatas", "kind", "words"), [
    ("a", [{}], TypeError, "ids: 'a' is one value; give a list"), (["a"], {"year": 1}, TypeError, "metadatas: {'year': 1} is one value"),
    (["a"], [], ValueError, "metadatas: 0 for 1 ids"), (["a"], [7], TypeError, r"metadatas[0] (id 'a'): 7, must be a dict"),
    (["a", "a"], [{}, {}], ValueError, "ids: 'a' twice"), (["c", "a"], [{}, {"year": "x"}], TypeError, "(id 'a'): year: 'x'; the attribute is declared int64"),
    (["a"], [{"free": float("nan")}], ValueError, "(id 'a'): free: nan has no form in JSON"),
])
def test_metadata_that_cannot_be_stored_changes_nothing(store, ids, metadatas, kind, words):
    before = store.get_by_ids(ALL)
    found, text = outcome(store, "update_metadata", ids, metadatas)
    assert found is kind and words in text and store.get_by_ids(ALL) == before


def test_no_change_of_metadata_is_lost(store, shared):
    """Each of several programs changes its own key of the same documents, while another one stores documents."""
    ids, rounds = ["a", "c"], 8

    def change(program: int) -> None:
        with nearfield.connect(shared.address) as client:
            other = NearfieldVectorStore(client.collection(store._blocking.name), Letters())
            for number in range(rounds):
                other.update_metadata(ids, [{f"p{program}": number}] * 2)

    def add() -> None:
        for number in range(rounds):
            store.add_texts(["b"], [{"year": number}], ids=[f"b{number}"])

    run_together([add, *(lambda program=program: change(program) for program in range(3))])
    for each in store.get_by_ids(ids):
        assert {each.metadata[f"p{program}"] for program in range(3)} == {rounds - 1}


def test_a_misspelled_argument_dropped_the_metadata(store):
    assert outcome(store, "add_texts", ["b"], metadata=[{"year": 1}]) == (
        TypeError, "metadata: no argument of add_texts(); did you mean metadatas? (known: batch_size, ids, metadatas, progress, texts)")
    documents = [Document(id="b", page_content="b")]
    assert outcome(store, "add_documents", documents, id=["b"])[0] is TypeError
    for field, given in (("metadatas", {"metadatas": [{}]}), ("metadatas", {"metadatas": []}), ("ids", {"ids": []})):
        assert outcome(store, "add_texts", ["b", "bb"], **given) == (
            ValueError, f"{field}: {len(given[field])} for 2 texts")
    assert ids_of(store) == ALL


DOCUMENT = Document(page_content="hello")


@pytest.mark.parametrize(("method", "arguments", "words"), [
    ("add_texts", {"texts": "hello"}, "texts: 'hello' is one value; give a list"), ("add_texts", {"texts": 7}, "texts: 7; give a list"),
    ("add_texts", {"texts": ["b", "c"], "ids": "bc"}, "ids: 'bc' is one value"), ("add_texts", {"texts": ["b"], "metadatas": {"year": 1}}, "metadatas: {'year': 1} is one value"),
    ("add_documents", {"documents": DOCUMENT}, "is one value; give a list"), ("add_documents", {"documents": ["hello"]}, "documents[0]: 'hello'; give a Document"),
    ("from_texts", {"texts": "hello", "embedding": Letters(), "name": "other"}, "texts: 'hello' is one value"),
    ("from_documents", {"documents": DOCUMENT, "embedding": Letters(), "name": "other"}, "documents: "),
    ("delete", {"ids": "ac"}, "ids: 'ac' is one value"), ("get_by_ids", "ac", "ids: 'ac' is one value"),
    ("add_texts", {"texts": ["b"], "batch_size": "5"}, "batch_size: '5'; a whole number is needed"),
    ("similarity_search", {"query": None}, "query: None; give a text"), ("max_marginal_relevance_search", {"query": None}, "query: None; give a text"),
    ("from_texts", {"texts": ["b"], "embedding": Letters(), "name": "other", "client": "127.0.0.1:50191"}, "client: '127.0.0.1:50191'; give a Client"),
    ("from_texts", {"texts": ["b"], "embedding": None, "name": "other"}, "embedding: None has no embed_query()"),
])
def test_one_value_in_place_of_a_list_was_stored_letter_by_letter(store, shared, monkeypatch, method, arguments, words):
    monkeypatch.setenv("NEARFIELD_ADDRESS", shared.address)
    args, kwargs = ((arguments,), {}) if isinstance(arguments, str) else ((), arguments)
    kind, text = outcome(store, method, *args, **kwargs)
    assert kind is TypeError and words in text and ids_of(store) == ALL


@pytest.mark.parametrize("embedding", [None, len, Letters, "model"])
def test_a_store_without_an_embedding_was_made(store, embedding):
    collection = nearfield.connect("127.0.0.1:1").collection("docs")
    with pytest.raises(TypeError, match=r"^embedding: .* has no embed_query\(\); give Embeddings"):
        NearfieldVectorStore(collection, embedding)


def test_texts_for_a_collection_with_other_attributes_did_not_say_what_to_give(store, shared, name):
    with nearfield.connect(shared.address) as client, pytest.raises(
        nearfield.AlreadyExists, match=f"other attributes: year:int64: give collection=client.collection.'{name}'., or the same dim=, metric= and attributes="):
        NearfieldVectorStore.from_texts(["b"], Letters(), name=name, client=client)


def calls_of(store: NearfieldVectorStore):
    """Yields each public method with the arguments that it requires."""
    given = {"query": "a", "texts": ["a"], "documents": [Document(page_content="a")], "embedding": [1, 0, 0],
             "search_type": "mmr", "ids": ["a"], "metadatas": [{"year": 1}], "client": None, "name": "x"}  # fmt: skip
    for name in dir(NearfieldVectorStore):
        method = getattr(store, name)
        if name.startswith("_") or not callable(method):
            continue
        parameters = inspect.signature(method).parameters.values()
        kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        needed = [each for each in parameters if each.default is each.empty and each.kind not in kinds]
        positional = [each for each in needed if each.kind is each.POSITIONAL_ONLY]
        yield method, [given[each.name] for each in positional], {
            each.name: given[each.name] for each in needed if each not in positional}


def test_no_method_drops_an_argument_that_it_does_not_have(store):
    names = []
    for method, args, kwargs in calls_of(store):
        with pytest.raises(TypeError, match="filtre"):
            result = method(*args, **kwargs, filtre=F.year == 2024)
            asyncio.run(result) if inspect.isawaitable(result) else None
        names.append(method.__name__)
    assert {"afrom_documents", "adelete", "asearch", "as_retriever"} <= set(names) and len(names) >= 26, names
    assert ids_of(store) == ALL


def test_searches_name_the_arguments_that_they_have(store):
    for method, given, words in (
        ("similarity_search", {"filters": F.year == 2024}, "did you mean filter?"),
        ("similarity_search", {"fetch_k": 3}, "fetch_k: no argument"),
        ("similarity_search_with_score", {"attributes": ["year"]}, "attributes: no argument"),
        ("max_marginal_relevance_search", {"lambda_mul": 0.1}, "did you mean lambda_mult?"),
    ):
        kind, text = outcome(store, method, "aa", **given)
        assert kind is TypeError and words in text and "score_threshold" in text


def test_a_filter_of_a_retriever_was_dropped(store):
    """LangChain ignores the names that a retriever does not have: as_retriever(filter=...)."""
    with pytest.raises(TypeError, match=r"filter: no argument of as_retriever\(\) \(known: .*search_kwargs"):
        store.as_retriever(filter=F.year == 2024)
    with pytest.raises(TypeError, match="did you mean search_kwargs"):
        store.as_retriever(search_kwarg={"k": 1})
    found = store.as_retriever(tags=["t"], search_type="mmr", search_kwargs={"k": 1, "fetch_k": 3})
    assert [each.id for each in found.invoke("aa")] == ["a"] and "t" in found.tags


def test_documents_and_indexes_pass_their_arguments_on(shared, name):
    """from_documents and the indexing API call add_texts with ids and batch_size, and delete with ids."""
    documents = [Document(page_content=text, metadata={"source": text}) for text in ("a", "b", "c")]
    with nearfield.connect(shared.address) as client:
        letters = Letters()
        store = NearfieldVectorStore.create(client, name, letters, dim=3)
        collection, handle = client.collection(name), nearfield.AsyncClient(shared.address).collection(name)
        NearfieldVectorStore.from_documents(documents, letters, ids=["1", "2", "3"], collection=collection, batch_size=2)
        assert letters.calls == [2, 1] and ids_of(store) == ["1", "2", "3"]
        made = asyncio.run(NearfieldVectorStore.afrom_documents(
            documents, letters, ids=["1", "2", "4"], collection=collection, async_collection=handle))
        assert made._async is handle and letters.calls == [2, 1, 3] and ids_of(store) == ["1", "2", "3", "4"]
        assert outcome(store, "add_texts", ["a"], batch_size=0) == (ValueError, "batch_size: 0, must be at least 1")
        store.delete(all=True)
        for number, call in enumerate((index, lambda *args, **kwargs: asyncio.run(aindex(*args, **kwargs)))):
            records = InMemoryRecordManager(namespace=f"{name}-{number}")
            records.create_schema()
            options = {"cleanup": "full", "source_id_key": "source", "key_encoder": "sha256"}
            assert call(documents, records, store, **options)["num_added"] == 3
            again = call(documents[:2], records, store, **options)
            assert (again["num_skipped"], again["num_deleted"]) == (2, 1) and len(ids_of(store)) == 2
