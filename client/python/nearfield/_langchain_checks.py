"""Arguments, searches and scores of the vector store of LangChain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from langchain_core.documents import Document

from nearfield import _documents
from nearfield._arguments import refuse_unknown, several, whole
from nearfield._collection import AsyncCollection
from nearfield._results import SearchResult
from nearfield._search import OPTION_NAMES

# Without those that change nothing in a document.
_SEARCH = OPTION_NAMES - {"payload", "vectors", "attributes", "parts", "with_cursor"}
_DIVERSE = _SEARCH | {"fetch_k", "lambda_mult"}


def batch_size_of(size: int) -> int:
    if whole("batch_size", size, "at least 1", 63) < 1:
        raise ValueError(f"batch_size: {size}, must be at least 1")
    return size


def check_embedding(given: Any) -> None:
    for method in ("embed_query", "embed_documents"):
        if not callable(getattr(given, method, None)) or isinstance(given, type):
            raise TypeError(
                f"embedding: {given!r} has no {method}(); give Embeddings of LangChain, such as"
                " HuggingFaceEmbeddings()"
            )


def documents_of(given: Any) -> list[Document]:
    found: list[Document] = several("documents", given, Document)
    for i, each in enumerate(found):
        if not isinstance(each, Document):
            raise TypeError(f"documents[{i}]: {each!r}; give a Document, or texts to add_texts()")
    return found


def check_query(query: Any) -> str:
    if not isinstance(query, str):
        raise TypeError(f"query: {query!r}; give a text")
    return query


def relevance(metric: str, score: float) -> float:
    """Returns a score as a number from 0 to 1; a row of zeros has the score -inf under cosine, and
    terms can make a score of l2 positive."""
    if metric == "l2":
        return 1 / (1 + math.sqrt(max(0.0, -score)))
    return min(1.0, max(0.0, (1 + score) / 2))


async def search(
    docs: AsyncCollection,
    vector: list[float],
    k: int,
    options: Mapping[str, Any],
    diverse: bool = False,
) -> SearchResult:
    refuse_unknown("a search", options, _DIVERSE if diverse else _SEARCH)
    return await docs.search(vector, k=k, payload=True, attributes="*", vectors=diverse, **options)


def as_langchain(found: list[_documents.Document]) -> list[Document]:
    return [Document(id=each.id, page_content=each.text, metadata=each.metadata) for each in found]
