"""A vector store of LangChain. Needs langchain-core: pip install langchain-core.

    store = NearfieldVectorStore.create(client, "docs", embedding, dim=384)
    store.add_documents(documents)
    store.similarity_search("a question", k=4, filter=F.year >= 2020)
    store.delete(filter=F.year < 2020)

Every method refuses arguments that it does not have: a call without them would do something else.
A row's payload is {"text": ..., "metadata": {...}}. Metadata that the collection declares as
attributes is stored as such too, so that filters can use it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables.config import run_in_executor
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from nearfield._arguments import refuse_unknown
from nearfield._attributes import Attribute, AttributesLike
from nearfield._blocking import run
from nearfield._client import Client
from nearfield._collection import AsyncCollection, Collection
from nearfield._filter import FilterLike
from nearfield._results import Rows, SearchResult
from nearfield._search import OPTION_NAMES
from nearfield._values import Metric

T = TypeVar("T")
Scored = tuple[Document, float]
# The arguments of methods that LangChain declares with further ones.
_ADD = frozenset({"texts", "metadatas", "ids", "batch_size"})
_FROM = _ADD | {"embedding", "collection", "async_collection"}
_DELETE = frozenset({"ids", "filter", "all"})
# Without those that change nothing in a document.
_SEARCH = OPTION_NAMES - {"payload", "vectors", "attributes", "with_cursor"}
_DIVERSE = _SEARCH | {"fetch_k", "lambda_mult"}
_RETRIEVER = VectorStoreRetriever.model_fields.keys() - {"vectorstore"}


class NearfieldVectorStore(VectorStore):
    """Documents of one collection with ids of type string.

    collection        a handle of a Client
    embedding         makes vectors of texts
    async_collection  a handle of an AsyncClient, for the asynchronous methods; without it they run
                      the blocking ones on threads
    """

    def __init__(
        self,
        collection: Collection,
        embedding: Embeddings,
        *,
        async_collection: AsyncCollection | None = None,
    ) -> None:
        self._embedding = embedding
        self._blocking = collection._inner
        self._async = async_collection

    @classmethod
    def create(
        cls,
        client: Client,
        name: str,
        embedding: Embeddings,
        *,
        dim: int,
        metric: Metric = "cosine",
        attributes: AttributesLike | None = None,
    ) -> NearfieldVectorStore:
        """Creates the collection, or uses one that exists with the same declaration."""
        collection = client.create_collection(
            name, dim, metric=metric, id_type="string", attributes=attributes, if_missing=True
        )
        return cls(collection, embedding)

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        collection: Collection | None = None,
        async_collection: AsyncCollection | None = None,
        batch_size: int | None = None,
        **unknown: Any,
    ) -> NearfieldVectorStore:
        """Makes a store over `collection`, and adds the texts."""
        refuse_unknown("from_texts()", unknown, _FROM)
        if collection is None:
            raise TypeError("collection: give the handle of a collection")
        store = cls(collection, embedding, async_collection=async_collection)
        store.add_texts(texts, metadatas, ids=ids, batch_size=batch_size)
        return store

    @property
    def embeddings(self) -> Embeddings:
        return self._embedding

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        batch_size: int | None = None,
        **unknown: Any,
    ) -> list[str]:
        """Adds texts as one commit; replaces those whose id exists. Returns their ids. batch_size:
        texts of one call of the embedding, by default all."""
        refuse_unknown("add_texts()", unknown, _ADD)
        texts = list(texts)
        parts = _parts(texts, batch_size)
        vectors = [each for part in parts for each in self._embedding.embed_documents(part)]
        return run(_add(self._blocking, texts, vectors, metadatas, ids))

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        batch_size: int | None = None,
        **unknown: Any,
    ) -> list[str]:
        refuse_unknown("aadd_texts()", unknown, _ADD)
        texts = list(texts)
        parts = _parts(texts, batch_size)
        vectors = [each for part in parts for each in await self._embedding.aembed_documents(part)]
        return await self._on(lambda docs: _add(docs, texts, vectors, metadatas, ids))

    def delete(
        self,
        ids: list[str] | None = None,
        *,
        filter: FilterLike | None = None,
        all: bool = False,
        **unknown: Any,
    ) -> bool:
        """Deletes the documents with these ids, those that a filter chooses, or with all=True every
        one. Ids that do not exist are ignored, and an empty list deletes nothing. Raises TypeError
        unless exactly one of the three is given."""
        refuse_unknown("delete()", unknown, _DELETE)
        return run(_delete(self._blocking, ids, filter, all))

    async def adelete(
        self,
        ids: list[str] | None = None,
        *,
        filter: FilterLike | None = None,
        all: bool = False,
        **unknown: Any,
    ) -> bool:
        refuse_unknown("adelete()", unknown, _DELETE)
        return await self._on(lambda docs: _delete(docs, ids, filter, all))

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Returns the documents that exist, in the order of the ids."""
        return run(_get(self._blocking, ids))

    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        return await self._on(lambda docs: _get(docs, ids))

    def similarity_search(
        self, query: str, k: int = 4, *, filter: FilterLike | None = None, **options: Any
    ) -> list[Document]:
        """Returns the k best documents. options: those of nearfield's search."""
        found = self.similarity_search_with_score(query, k, filter=filter, **options)
        return [document for document, _ in found]

    async def asimilarity_search(
        self, query: str, k: int = 4, *, filter: FilterLike | None = None, **options: Any
    ) -> list[Document]:
        found = await self.asimilarity_search_with_score(query, k, filter=filter, **options)
        return [document for document, _ in found]

    def similarity_search_with_score(self, query: str, k: int = 4, **options: Any) -> list[Scored]:
        """As similarity_search, with the score of each: higher is better for every metric."""
        return _scored(run(_search(self._blocking, self._embedding.embed_query(query), k, options)))

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, **options: Any
    ) -> list[Scored]:
        vector = await self._embedding.aembed_query(query)
        return _scored(await self._on(lambda docs: _search(docs, vector, k, options)))

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, **options: Any
    ) -> list[Document]:
        return _documents(run(_search(self._blocking, embedding, k, options)).hits)

    async def asimilarity_search_by_vector(
        self, embedding: list[float], k: int = 4, **options: Any
    ) -> list[Document]:
        return _documents((await self._on(lambda docs: _search(docs, embedding, k, options))).hits)

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **options: Any
    ) -> list[Document]:
        """Returns k of the fetch_k best documents: relevant, and different from each other."""
        vector = self._embedding.embed_query(query)
        found = run(_search(self._blocking, vector, fetch_k, options, diverse=True))
        return _diverse(found, vector, k, lambda_mult)

    async def amax_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **options: Any
    ) -> list[Document]:
        vector = await self._embedding.aembed_query(query)
        found = await self._on(lambda docs: _search(docs, vector, fetch_k, options, diverse=True))
        return _diverse(found, vector, k, lambda_mult)

    def as_retriever(self, **options: Any) -> VectorStoreRetriever:
        """As in LangChain, which would drop a filter that is not in search_kwargs."""
        refuse_unknown("as_retriever()", options, _RETRIEVER)
        return super().as_retriever(**options)

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        metric = run(self._blocking.info()).metric
        if metric != "cosine":
            raise NotImplementedError(f"scores of the metric {metric} have no bounds")
        return lambda score: (1 + score) / 2

    async def _on(self, call: Callable[[AsyncCollection], Coroutine[Any, Any, T]]) -> T:
        if self._async is not None:
            return await call(self._async)
        return await run_in_executor(None, lambda: run(call(self._blocking)))


def _parts(texts: list[str], size: int | None) -> list[list[str]]:
    if size is None:
        return [texts]
    if size < 1:
        raise ValueError(f"batch_size: {size}, must be at least 1")
    return [texts[begin : begin + size] for begin in range(0, len(texts), size)]


async def _add(
    docs: AsyncCollection,
    texts: list[str],
    vectors: list[list[float]],
    metadatas: list[dict[str, Any]] | None,
    ids: Sequence[str | None] | None,
) -> list[str]:
    if not texts:
        return []
    names = [each or str(uuid.uuid4()) for each in ([None] * len(texts) if ids is None else ids)]
    metadata = [{} for _ in texts] if metadatas is None else metadatas
    for field, values in (("metadatas", metadata), ("ids", names)):
        if len(values) != len(texts):
            raise ValueError(f"{field}: {len(values)} for {len(texts)} texts")
    payloads = [
        {"text": text, "metadata": each} for text, each in zip(texts, metadata, strict=True)
    ]
    declared: Mapping[str, Attribute] = await docs._declared(docs._core.deadline(None))
    attributes = {name: [each.get(name) for each in metadata] for name in declared}
    await docs.upload(
        np.array(vectors), ids=names, payloads=payloads, attributes=attributes, mode="upsert"
    )
    return names


async def _delete(
    docs: AsyncCollection, ids: list[str] | None, filter: FilterLike | None, all: bool
) -> bool:
    if not isinstance(all, bool):
        raise TypeError(f"all: {all!r}, must be True or False")
    if (ids is not None) + (filter is not None) + all != 1:
        raise TypeError("give exactly one of ids, filter= and all=True, which deletes every row")
    if all:
        await docs.upload([], mode="replace")
    elif ids is None or len(ids):
        await docs.delete(ids, filter=filter)
    return True


async def _get(docs: AsyncCollection, ids: Sequence[str]) -> list[Document]:
    return _documents(await docs.fetch(ids, vectors=False)) if ids else []


async def _search(
    docs: AsyncCollection,
    vector: list[float],
    k: int,
    options: Mapping[str, Any],
    diverse: bool = False,
) -> SearchResult:
    refuse_unknown("a search", options, _DIVERSE if diverse else _SEARCH)
    return await docs.search(vector, k=k, payload=True, vectors=diverse, **options)


def _documents(rows: Rows) -> list[Document]:
    found = []
    for name, payload in zip(rows.ids, rows.payloads, strict=True):
        stored = json.loads(payload)
        document = Document(
            id=str(name), page_content=stored["text"], metadata=stored.get("metadata") or {}
        )
        found.append(document)
    return found


def _scored(found: SearchResult) -> list[Scored]:
    return list(zip(_documents(found.hits), found.scores.tolist(), strict=True))


def _diverse(found: SearchResult, vector: list[float], k: int, weight: float) -> list[Document]:
    documents = _documents(found.hits)
    if not documents:
        return []
    vectors = np.asarray(found.vectors, np.float32)
    chosen = maximal_marginal_relevance(np.array(vector), list(vectors), lambda_mult=weight, k=k)
    return [documents[i] for i in chosen]
