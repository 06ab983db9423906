"""The vector store of LangChain passes LangChain's own suite, and what that suite does not test."""

from __future__ import annotations

import asyncio
import itertools

import nearfield
import pytest
from langchain_core.documents import Document
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

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
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


def test_diverse_documents_delete_all_and_vectors(store):
    diverse = store.max_marginal_relevance_search("aa", k=2, lambda_mult=0.1)
    assert [each.id for each in diverse] == ["a", "c"]
    assert asyncio.run(store.amax_marginal_relevance_search("aa", k=2, lambda_mult=0.1)) == diverse
    assert [each.id for each in store.similarity_search_by_vector([0, 0, 1], k=1)] == ["c"]
    assert store.delete() and store.similarity_search("aa") == []
    assert store.add_texts(["ccc"], [{"year": 1}], ids=["c"]) == ["c"]
    assert store.get_by_ids(["c", "a"]) == [Document(id="c", page_content="ccc", metadata={"year": 1})]
