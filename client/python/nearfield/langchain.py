"""A vector store of LangChain. Needs langchain-core: pip install langchain-core.

    store = NearfieldVectorStore.create(client, "docs", embedding, attributes={"year": int})
    store.add_documents(documents)
    store.similarity_search("a question", k=4, filter={"year": {"$gte": 2020}})
    store.delete(filter=F.year < 2020)

Every method refuses arguments that it does not have: a call without them would do something else.
A row's payload is {"text": ..., "metadata": {...}}. Metadata that the collection declares as
attributes is stored as such too, so that filters can use it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables.config import run_in_executor
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from nearfield._arguments import refuse_unknown, several
from nearfield._attributes import AttributesLike
from nearfield._blocking import run
from nearfield._client import Client, connect
from nearfield._collection import AsyncCollection, Collection
from nearfield._documents import (
    METADATA_KEY,
    check_vectors,
    delete_chosen,
    fetch_documents,
    parts,
    prepare,
    read_documents,
    showing,
    update_documents,
)
from nearfield._errors import AlreadyExists
from nearfield._filter import FilterLike
from nearfield._langchain_checks import (
    as_langchain,
    batch_size_of,
    check_embedding,
    check_query,
    documents_of,
    relevance,
    search,
)
from nearfield._results import SearchResult
from nearfield._values import Metric

T = TypeVar("T")
Scored = tuple[Document, float]
Report = bool | Callable[[int, int], None]
# Texts of one call of the embedding, whose vectors are lists of Python objects.
BATCH_SIZE = 1000
# The arguments of methods that LangChain declares with further ones.
_ADD = frozenset({"texts", "metadatas", "ids", "batch_size", "progress"})
_CREATE = frozenset({"client", "name", "dim", "metric", "attributes"})
_FROM = _ADD | _CREATE | {"embedding", "collection", "async_collection", "text_key"}
_DELETE = frozenset({"ids", "filter", "all"})
_RETRIEVER = VectorStoreRetriever.model_fields.keys() - {"vectorstore"}


class NearfieldVectorStore(VectorStore):
    """Documents of one collection with ids of type string.

    collection        a handle of a Client
    embedding         makes vectors of texts
    async_collection  a handle of an AsyncClient, for the asynchronous methods; without it they run
                      the blocking ones on threads
    text_key          the member of a payload that holds the text. A payload that is no JSON object
                      is itself the text; other members, and attributes, are metadata
    """

    def __init__(
        self,
        collection: Collection,
        embedding: Embeddings,
        *,
        async_collection: AsyncCollection | None = None,
        text_key: str = "text",
    ) -> None:
        for field, given, kind in (
            ("collection", collection, Collection),
            ("async_collection", async_collection, AsyncCollection | None),
        ):
            if not isinstance(given, kind):
                raise TypeError(
                    f"{field}: {type(given).__name__}; give a handle, client.collection(name)"
                )
        check_embedding(embedding)
        if text_key == METADATA_KEY:
            raise ValueError(f"text_key: {text_key!r} is the member that holds the metadata")
        self._embedding = embedding
        self._blocking = collection._inner
        self._async = async_collection
        self._text_key = text_key

    @classmethod
    def create(
        cls,
        client: Client,
        name: str,
        embedding: Embeddings,
        *,
        dim: int | None = None,
        metric: Metric = "cosine",
        attributes: AttributesLike | None = None,
        text_key: str = "text",
    ) -> NearfieldVectorStore:
        """Creates the collection, or uses one that exists with the same declaration. dim: by
        default that of the embedding, which is called once."""
        if not isinstance(client, Client):
            raise TypeError(f"client: {client!r}; give a Client: nearfield.connect(address)")
        check_embedding(embedding)
        dim = len(embedding.embed_query(name)) if dim is None else dim
        collection = client.create_collection(
            name, dim, metric=metric, id_type="string", attributes=attributes, if_missing=True
        )
        return cls(collection, embedding, text_key=text_key)

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
        text_key: str = "text",
        batch_size: int = BATCH_SIZE,
        progress: Report = False,
        **options: Any,
    ) -> NearfieldVectorStore:
        """Makes a store over `collection` and adds the texts; from_documents does the same with
        documents. Instead of a collection, give name=, and as for create() dim=, metric=,
        attributes= and client=, by default nearfield.connect()."""
        refuse_unknown("from_texts()", options, _FROM)
        texts, _ = several("texts", texts), batch_size_of(batch_size)
        if collection is not None and options:
            raise TypeError(f"{', '.join(sorted(options))}: for name=, not for collection=")
        if collection is not None:
            store = cls(collection, embedding, text_key=text_key)
        elif options.get("name") is None:
            raise TypeError("give collection=, or name= of one that is made if it does not exist")
        else:
            client = options.pop("client", None) or connect()
            name = options.pop("name")
            try:
                store = cls.create(client, name, embedding, text_key=text_key, **options)
            except AlreadyExists as error:
                raise AlreadyExists(
                    f"{error.message}: give collection=client.collection({name!r}), or the same"
                    " dim=, metric= and attributes="
                ) from None
        store._async = async_collection
        store.add_texts(texts, metadatas, ids=ids, batch_size=batch_size, progress=progress)
        return store

    @property
    def embeddings(self) -> Embeddings:
        return self._embedding

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: Sequence[dict[str, Any] | None] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        batch_size: int = BATCH_SIZE,
        progress: Report = False,
        **unknown: Any,
    ) -> list[str]:
        """Adds texts as one commit; replaces those whose id exists. Returns their ids. Documents
        that cannot be stored are refused before a text is embedded.

        batch_size  texts of one call of the embedding
        progress    True: a bar (tqdm); or a function that gets the number of texts that are
                    embedded, and of all texts, after each batch"""
        refuse_unknown("add_texts()", unknown, _ADD)
        texts = several("texts", texts)
        batch = run(prepare(self._blocking, self._text_key, texts, metadatas, ids))
        vectors = []
        with showing(progress, len(texts)) as show:
            for part in parts(texts, batch_size_of(batch_size)):
                made = self._embedding.embed_documents(list(part))
                vectors.append(check_vectors(made, len(part)))
                show(sum(map(len, vectors)))
        if texts:
            run(batch.upload(self._blocking, np.concatenate(vectors)))
        return batch.ids

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: Sequence[dict[str, Any] | None] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        batch_size: int = BATCH_SIZE,
        progress: Report = False,
        **unknown: Any,
    ) -> list[str]:
        refuse_unknown("aadd_texts()", unknown, _ADD)
        texts = several("texts", texts)
        batch = await self._on(lambda docs: prepare(docs, self._text_key, texts, metadatas, ids))
        vectors = []
        with showing(progress, len(texts)) as show:
            for part in parts(texts, batch_size_of(batch_size)):
                made = await self._embedding.aembed_documents(list(part))
                vectors.append(check_vectors(made, len(part)))
                show(sum(map(len, vectors)))
        if texts:
            await self._on(lambda docs: batch.upload(docs, np.concatenate(vectors)))
        return batch.ids

    def add_documents(self, documents: list[Document], **options: Any) -> list[str]:
        """As add_texts, with documents."""
        return super().add_documents(documents_of(documents), **options)

    async def aadd_documents(self, documents: list[Document], **options: Any) -> list[str]:
        return await super().aadd_documents(documents_of(documents), **options)

    @classmethod
    def from_documents(
        cls, documents: list[Document], embedding: Embeddings, **options: Any
    ) -> NearfieldVectorStore:
        """As from_texts, with documents."""
        return super().from_documents(documents_of(documents), embedding, **options)

    @classmethod
    async def afrom_documents(
        cls, documents: list[Document], embedding: Embeddings, **options: Any
    ) -> NearfieldVectorStore:
        return await super().afrom_documents(documents_of(documents), embedding, **options)

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
        return run(delete_chosen(self._blocking, ids, filter, all))

    async def adelete(
        self,
        ids: list[str] | None = None,
        *,
        filter: FilterLike | None = None,
        all: bool = False,
        **unknown: Any,
    ) -> bool:
        refuse_unknown("adelete()", unknown, _DELETE)
        return await self._on(lambda docs: delete_chosen(docs, ids, filter, all))

    def update_metadata(
        self, ids: Sequence[str], metadatas: Sequence[Mapping[str, Any]]
    ) -> list[str]:
        """Adds members to the metadata of documents, or replaces them: a dict for each id. Texts
        and vectors stay. Returns the ids that exist."""
        return run(update_documents(self._blocking, self._text_key, ids, metadatas))

    async def aupdate_metadata(
        self, ids: Sequence[str], metadatas: Sequence[Mapping[str, Any]]
    ) -> list[str]:
        """As update_metadata."""
        return await self._on(lambda docs: update_documents(docs, self._text_key, ids, metadatas))

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Returns the documents that exist, in the order of the ids."""
        return as_langchain(run(fetch_documents(self._blocking, ids, self._text_key)))

    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        return as_langchain(await self._on(lambda docs: fetch_documents(docs, ids, self._text_key)))

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
        vector = self._embedding.embed_query(check_query(query))
        return self._scored(run(search(self._blocking, vector, k, options)))

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, **options: Any
    ) -> list[Scored]:
        vector = await self._embedding.aembed_query(check_query(query))
        return self._scored(await self._on(lambda docs: search(docs, vector, k, options)))

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, **options: Any
    ) -> list[Document]:
        return self._documents(run(search(self._blocking, embedding, k, options)))

    async def asimilarity_search_by_vector(
        self, embedding: list[float], k: int = 4, **options: Any
    ) -> list[Document]:
        return self._documents(await self._on(lambda docs: search(docs, embedding, k, options)))

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **options: Any
    ) -> list[Document]:
        """Returns k of the fetch_k best documents: relevant, and different from each other."""
        vector = self._embedding.embed_query(check_query(query))
        return self.max_marginal_relevance_search_by_vector(
            vector, k, fetch_k, lambda_mult, **options
        )

    async def amax_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **options: Any
    ) -> list[Document]:
        vector = await self._embedding.aembed_query(check_query(query))
        return await self.amax_marginal_relevance_search_by_vector(
            vector, k, fetch_k, lambda_mult, **options
        )

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        **options: Any,
    ) -> list[Document]:
        found = run(search(self._blocking, embedding, fetch_k, options, diverse=True))
        return self._diverse(found, embedding, k, lambda_mult)

    async def amax_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        **options: Any,
    ) -> list[Document]:
        found = await self._on(lambda docs: search(docs, embedding, fetch_k, options, diverse=True))
        return self._diverse(found, embedding, k, lambda_mult)

    def as_retriever(self, **options: Any) -> VectorStoreRetriever:
        """As in LangChain, which would drop a filter that is not in search_kwargs."""
        refuse_unknown("as_retriever()", options, _RETRIEVER)
        return super().as_retriever(**options)

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        docs = self._blocking
        info = run(docs._core.info(docs.name, docs._core.deadline(None)))
        return functools.partial(relevance, info.metric)

    def _documents(self, found: SearchResult) -> list[Document]:
        return as_langchain(read_documents(found.hits, self._text_key))

    def _scored(self, found: SearchResult) -> list[Scored]:
        return list(zip(self._documents(found), found.scores.tolist(), strict=True))

    def _diverse(
        self, found: SearchResult, vector: list[float], k: int, weight: float
    ) -> list[Document]:
        documents = self._documents(found)
        if not documents:
            return []
        vectors = list(np.asarray(found.vectors, np.float32))
        chosen = maximal_marginal_relevance(np.array(vector), vectors, lambda_mult=weight, k=k)
        return [documents[i] for i in chosen]

    async def _on(self, call: Callable[[AsyncCollection], Coroutine[Any, Any, T]]) -> T:
        if self._async is not None:
            return await call(self._async)
        return await run_in_executor(None, lambda: run(call(self._blocking)))
