"""The vector store of LlamaIndex, under LlamaIndex itself."""

from __future__ import annotations

import asyncio
import datetime as dt
import math

import nearfield
import pytest
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import IndexNode, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode
from nearfield.llamaindex import NearfieldVectorStore

ATTRIBUTES = {"year": int, "lang": str, "tags": [str], "made": dt.datetime}


class Letters(BaseEmbedding):
    """How often a, b and c occur."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return [text.count(letter) + 0.01 for letter in "abc"]

    _get_query_embedding = _get_text_embedding

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


@pytest.fixture
def client(shared):
    with nearfield.connect(shared.address) as made:
        yield made


@pytest.fixture
def store(client, name):
    return NearfieldVectorStore.create(client, name, 3, attributes=ATTRIBUTES)


def node(name: str, document: str | None = None, **metadata: object) -> TextNode:
    made = TextNode(id_=name, text=name, metadata=metadata, embedding=Letters()._get_text_embedding(name))
    if document is not None:
        made.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=document)
    return made


NODES = [node("a", "one", year=2020, lang="en", tags=["x"]), node("ab", "one", year=2024, lang="de", tags=["x", "y"], made="2024-05-17"), node("b", "two")]


def where(*filters: object, condition: FilterCondition = FilterCondition.AND) -> MetadataFilters:
    return MetadataFilters(filters=[
        each if isinstance(each, MetadataFilters) else MetadataFilter(key=each[0], operator=each[1], value=each[2])
        for each in filters], condition=condition)  # fmt: skip


def found(store: NearfieldVectorStore, **options: object) -> list[str]:
    query = VectorStoreQuery(query_embedding=[1.0, 0.0, 0.0], similarity_top_k=9, **options)
    result = store.query(query)
    assert [each.node_id for each in result.nodes] == result.ids == [each.node_id for each in asyncio.run(store.aquery(query)).nodes]
    assert len(result.similarities) == len(result.ids) and result.similarities == sorted(result.similarities, reverse=True)
    return sorted(result.ids)


def test_an_index_inserts_retrieves_and_deletes(store):
    index = VectorStoreIndex.from_vector_store(store, embed_model=Letters())
    made = dt.datetime(2024, 5, 17, tzinfo=dt.timezone.utc)
    index.insert(Document(text="aaa", doc_id="first", metadata={"year": 2020, "made": made, "free": {"x": 1}}))
    index.insert(Document(text="aab", doc_id="second", metadata={"year": 2024}))
    retriever = index.as_retriever(similarity_top_k=2)
    best, other = retriever.retrieve("aa")
    assert (best.text, other.text) == ("aaa", "aab") and best.score > other.score
    assert best.node.ref_doc_id == "first" and best.metadata["free"] == {"x": 1}
    assert [each.text for each in asyncio.run(retriever.aretrieve("aa"))] == ["aaa", "aab"]
    recent = index.as_retriever(filters=where(("year", FilterOperator.GT, 2020)))
    assert [each.text for each in recent.retrieve("aa")] == ["aab"]
    index.delete_ref_doc("first")
    assert [each.text for each in retriever.retrieve("aa")] == ["aab"]


def test_nodes_come_back_as_they_were(store):
    nodes = [*NODES, IndexNode(id_="index", text="c", index_id="other", embedding=[0.0, 0.0, 1.0])]
    assert store.add(nodes) == ["a", "ab", "b", "index"]
    for got, given in zip(store.get_nodes(["index", "zz", "a"]), (nodes[3], nodes[0]), strict=True):
        assert type(got) is type(given) and got.hash == given.hash and got.metadata == given.metadata
        assert got.relationships == given.relationships
    assert len(store.get_nodes()) == 4 and store.get_nodes([]) == [] and store.add([]) == []
    assert asyncio.run(store.async_add([node("b", "two", year=7)])) == ["b"]
    assert [each.metadata for each in asyncio.run(store.aget_nodes(["b"]))] == [{"year": 7}]


@pytest.mark.parametrize(("filters", "expected"), [
    ([("year", "==", 2020)], "a"), ([("year", "!=", 2020)], "ab"), ([("year", ">", 2020)], "ab"), ([("year", ">=", 2020)], "a ab"),
    ([("year", "<", 2024)], "a"), ([("year", "<=", 2024)], "a ab"), ([("year", "in", [2020, 2021])], "a"), ([("year", "nin", [2020])], "ab"),
    ([("tags", "any", ["y", "z"])], "ab"), ([("tags", "all", ["x", "y"])], "ab"), ([("tags", "contains", "x")], "a ab"),
    ([("year", "is_empty", None)], "b"), ([("year", "==", 2020), ("lang", "==", "de")], ""), ([], "a ab b"),
    ([where(("year", "==", 2020), ("lang", "==", "de"), condition=FilterCondition.OR), ("tags", "contains", "y")], "ab"),
    ([where(("year", "==", 2020), condition=FilterCondition.NOT)], "ab b"), ([("made", ">=", "2024-05-17")], "ab"),
])  # fmt: skip
def test_filters_have_their_meaning(store, filters, expected):
    store.add(NODES)
    assert found(store, filters=where(*filters)) == expected.split()
    assert sorted(each.node_id for each in store.get_nodes(filters=where(*filters))) == expected.split()


def test_a_query_names_nodes_and_documents(store):
    store.add(NODES)
    assert found(store, node_ids=["a", "b"]) == ["a", "b"] and found(store, node_ids=[]) == []
    assert found(store, doc_ids=["one"]) == ["a", "ab"] and found(store, doc_ids=[]) == []
    assert found(store, doc_ids=["one"], node_ids=["ab", "b"], filters=where(("year", ">", 0))) == ["ab"]
    assert found(store, node_ids=[], query_str="as an index gives it") == ["a", "ab", "b"]
    for mode in (VectorStoreQueryMode.HYBRID, "hybrid"):
        with pytest.raises(ValueError, match="mode hybrid; only default"):
            store.query(VectorStoreQuery(query_embedding=[1.0, 0, 0], mode=mode))
    with pytest.raises(ValueError, match="query_embedding is None; give the vector"):
        store.query(VectorStoreQuery(query_str="a"))
    for filters in ({"year": 2020}, nearfield.F.year == 2020):
        with pytest.raises(TypeError, match="^filters: .*; give MetadataFilters"):
            found(store, filters=filters)
    with pytest.raises(TypeError, match="give a list of filters"):
        found(store, filters=where(where()))
    with pytest.raises(ValueError, match="no operator 'text_match'"):
        found(store, filters=where(("lang", "text_match", "e")))


def test_one_value_in_place_of_a_list_is_refused(store):
    store.add(NODES)
    for call, words in (
        (lambda: store.add(NODES[0]), "nodes: "), (lambda: store.get_nodes("ab"), "ids: 'ab'"), (lambda: store.delete_nodes("ab"), "ids: 'ab'"),
        (lambda: found(store, node_ids="ab"), "node_ids: 'ab'"), (lambda: found(store, doc_ids="one"), "doc_ids: 'one'"),
    ):
        with pytest.raises(TypeError, match=f"^{words}.* is one value; give a list"):
            call()
    assert len(store.get_nodes()) == 3


def test_nodes_are_deleted_by_what_is_named(store):
    store.add(NODES)
    with pytest.raises(TypeError, match="give node_ids or filters"):
        store.delete_nodes()
    store.delete_nodes([])
    store.delete_nodes([], where(("year", ">", 0)))
    assert len(store.get_nodes()) == 3
    asyncio.run(store.adelete_nodes(["ab", "b"], where(("lang", "==", "de"))))
    assert [each.node_id for each in store.get_nodes()] == ["a", "b"]
    asyncio.run(store.adelete("two"))
    store.delete_nodes([f"{i}" for i in range(12_000)])
    assert [each.node_id for each in store.get_nodes()] == ["a"]
    asyncio.run(store.aclear())
    assert store.get_nodes() == []


def test_the_metadata_of_stored_nodes_changes(store):
    """Members are added or replaced; the rest of a node stays, and filters see the new values."""
    store.add(NODES)
    made = dt.datetime(2024, 5, 18, tzinfo=dt.timezone.utc)
    assert store.update_metadata(["ab", "zz"], [{"year": 2030, "made": made, "free": [1]}, {"year": 1}]) == ["ab"]
    assert asyncio.run(store.aupdate_metadata(["a"], [{"lang": "fr"}])) == ["a"]
    one, two = store.get_nodes(["ab", "a"])
    assert one.metadata == {**NODES[1].metadata, "year": 2030, "made": made.isoformat(), "free": [1]}
    assert two.metadata == {**NODES[0].metadata, "lang": "fr"} and one.relationships == NODES[1].relationships
    assert (one.get_content(), one.ref_doc_id) == ("ab", "one")
    assert found(store, filters=where(("year", "==", 2030), ("made", ">=", "2024-05-18"))) == ["ab"]
    assert found(store, doc_ids=["one"]) == ["a", "ab"] and found(store, filters=where(("lang", "==", "en"))) == []
    with pytest.raises(TypeError, match="^ids: 'a' is one value; give a list"):
        store.update_metadata("a", [{}])
    for wrong, words in (({"free": math.nan}, "free: nan"), ({"year": "x"}, "year: 'x'; the attribute is declared int64")):
        with pytest.raises((TypeError, ValueError), match=words):
            store.update_metadata(["a"], [wrong])
    assert store.get_nodes(["a"])[0].metadata == two.metadata


def test_metadata_that_cannot_be_stored_is_refused(store):
    with pytest.raises(ValueError, match=r"nodes\[1\] \(id 'b'\): price: nan"):
        store.add([NODES[0], node("b", price=math.nan)])
    with pytest.raises(TypeError, match="year: '3'; the attribute is declared int64"):
        store.add([node("b", year="3")])
    for call in (store.delete, store.adelete):
        with pytest.raises(TypeError, match="ref_doc_ids: no argument of delete"):
            done = call("a", ref_doc_ids=["b"])
            asyncio.run(done)
    assert store.get_nodes() == []


def test_rows_of_other_programs_are_nodes(client, name):
    docs = client.create_collection(name, 3, metric="cosine", id_type="string", attributes={"year": int})
    docs.upload([{"id": "r", "vector": [1, 0, 0], "payload": {"text": "t", "title": "x"}, "year": 7}])
    with pytest.raises(TypeError, match="collection: Client; give a handle"):
        NearfieldVectorStore(client)
    (got,) = NearfieldVectorStore(docs).get_nodes(["r"])
    assert (got.node_id, got.get_content(), got.metadata) == ("r", "t", {"title": "x", "year": 7})
