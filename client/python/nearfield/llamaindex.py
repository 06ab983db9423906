"""A vector store of LlamaIndex. Needs llama-index-core: pip install llama-index-core.

    store = NearfieldVectorStore.create(client, "docs", 384, attributes={"year": int})
    index = VectorStoreIndex.from_vector_store(store, embed_model=embedding)
    index.insert(Document(text="a text", metadata={"year": 2020}))

Filters see the metadata that the collection declares as attributes. create() also declares
ref_doc_id, by which LlamaIndex deletes the nodes of a document.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode, MetadataMode, TextNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from nearfield._arguments import refuse_unknown, several
from nearfield._attributes import Attribute, AttributesLike, declare
from nearfield._blocking import run
from nearfield._client import Client
from nearfield._collection import Collection
from nearfield._documents import (
    delete_documents,
    fetch_documents,
    prepare,
    read_documents,
    to_json,
    update_documents,
)
from nearfield._filter import F, Filter
from nearfield._filter_forms import filter_of
from nearfield._results import Rows
from nearfield._values import Metric

T = TypeVar("T")
TEXT_KEY = "text"
_OPERATORS = {
    "==": "$eq", "!=": "$ne", ">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte",
    "in": "$in", "nin": "$nin", "any": "$in", "all": "$all", "contains": "$eq",
}  # fmt: skip


def _on_thread(method: Callable[..., T]) -> Callable[..., Coroutine[Any, Any, T]]:
    @functools.wraps(method)
    async def call(*args: Any, **options: Any) -> T:
        return await asyncio.to_thread(method, *args, **options)

    return call


class NearfieldVectorStore(BasePydanticVectorStore):
    """Nodes of one collection with ids of type string. collection: a handle of a Client. The
    asynchronous methods run the others on threads."""

    stores_text: bool = True  # in the payloads
    _docs: Collection = PrivateAttr()

    def __init__(self, collection: Collection) -> None:
        if not isinstance(collection, Collection):
            raise TypeError(
                f"collection: {type(collection).__name__}; give a handle, client.collection(name)"
            )
        super().__init__(stores_text=True)
        self._docs = collection

    @classmethod
    def create(
        cls,
        client: Client,
        name: str,
        dim: int,
        *,
        metric: Metric = "cosine",
        attributes: AttributesLike | None = None,
    ) -> NearfieldVectorStore:
        """Creates the collection, or uses one that exists with the same declaration."""
        declared = [*declare(attributes or {}), Attribute("ref_doc_id", "keyword")]
        collection = client.create_collection(
            name, dim, metric=metric, id_type="string", attributes=declared, if_missing=True
        )
        return cls(collection)

    @classmethod
    def class_name(cls) -> str:
        return "NearfieldVectorStore"

    @property
    def client(self) -> Collection:
        return self._docs

    def add(self, nodes: Sequence[BaseNode], **unknown: Any) -> list[str]:
        """Adds nodes with their embeddings as one commit; replaces those whose id exists."""
        refuse_unknown("add()", unknown, ("nodes",))
        nodes = several("nodes", nodes, BaseNode)
        if not nodes:
            return []
        for i, node in enumerate(nodes):  # LlamaIndex would make null of a NaN
            to_json(node.metadata, f"nodes[{i}] (id {node.node_id!r})")
        batch = run(
            prepare(
                self._docs._inner,
                TEXT_KEY,
                [node.get_content(MetadataMode.NONE) for node in nodes],
                [node_to_metadata_dict(node, remove_text=True) for node in nodes],
                [node.node_id for node in nodes],
            )
        )
        vectors = np.array([node.get_embedding() for node in nodes], np.float32)
        run(batch.upload(self._docs._inner, vectors))
        return batch.ids

    def delete(self, ref_doc_id: str, **unknown: Any) -> None:
        """Deletes the nodes of a document."""
        refuse_unknown("delete()", unknown, ("ref_doc_id",))
        self._docs.delete(filter=F.ref_doc_id == ref_doc_id)

    def delete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **unknown: Any,
    ) -> None:
        """Deletes the nodes with these ids that pass the filters. One of the two must be given."""
        refuse_unknown("delete_nodes()", unknown, ("node_ids", "filters"))
        chosen = _filter(filters)
        if chosen is not None:
            self._docs.delete(filter=_filter(filters, node_ids))
        elif node_ids is not None:
            run(delete_documents(self._docs._inner, node_ids))
        else:
            raise TypeError("give node_ids or filters; clear() deletes every node")

    def update_metadata(
        self, node_ids: list[str], metadatas: Sequence[Mapping[str, Any]]
    ) -> list[str]:
        """Adds members to the metadata of nodes, or replaces them: a dict for each id. Texts and
        vectors stay. Returns the ids that exist."""
        docs = self._docs._inner
        return run(update_documents(docs, TEXT_KEY, node_ids, metadatas, _revised))

    def clear(self) -> None:
        """Deletes every node."""
        self._docs.upload([], mode="replace")

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Returns the nodes with these ids that pass the filters; without both, every node."""
        if node_ids is not None and _filter(filters) is None:
            found = run(fetch_documents(self._docs._inner, node_ids, TEXT_KEY))
            return [_node(each) for each in found]
        pages = self._docs.scan(filter=_filter(filters, node_ids), vectors=False)
        return [node for page in pages for node in _nodes(page)]

    def query(self, query: VectorStoreQuery, **unknown: Any) -> VectorStoreQueryResult:
        """Returns the most similar nodes. similarities: scores; higher is better. Empty node_ids
        or doc_ids choose no node."""
        refuse_unknown("query()", unknown, ("query",))
        if query.mode != VectorStoreQueryMode.DEFAULT:
            mode = getattr(query.mode, "value", query.mode)
            raise ValueError(f"query: mode {mode}; only default, VectorStoreQueryMode.DEFAULT")
        if query.query_embedding is None:
            raise ValueError("query: query_embedding is None; give the vector of the query")
        # An index whose store has the texts gives an empty list for all nodes, with its text.
        is_index = query.node_ids == [] and query.query_str is not None
        found = self._docs.search(
            query.query_embedding,
            k=query.similarity_top_k,
            filter=_filter(query.filters, None if is_index else query.node_ids, query.doc_ids),
            payload=True,
            attributes="*",
        )
        return VectorStoreQueryResult(_nodes(found.hits), found.scores.tolist(), list(found.ids))

    async_add = _on_thread(add)
    adelete = _on_thread(delete)
    adelete_nodes = _on_thread(delete_nodes)
    aupdate_metadata = _on_thread(update_metadata)
    aclear = _on_thread(clear)
    aget_nodes = _on_thread(get_nodes)
    aquery = _on_thread(query)


def _filter(
    filters: MetadataFilters | None,
    node_ids: list[str] | None = None,
    doc_ids: list[str] | None = None,
) -> Filter | None:
    found = []
    if not isinstance(filters, (MetadataFilters, type(None))):
        raise TypeError(
            f"filters: {filters!r}; give MetadataFilters(filters=[MetadataFilter(key=name,"
            " value=value)])"
        )
    if filters is not None and filters.filters:
        found.append(_condition(filters))
    if node_ids is not None:
        found.append(F.id.isin(several("node_ids", node_ids)))
    if doc_ids is not None:
        found.append(F.ref_doc_id.isin(several("doc_ids", doc_ids)))
    return filter_of({"$and": found}) if found else None


def _condition(given: MetadataFilter | MetadataFilters) -> Filter:
    if isinstance(given, MetadataFilters):
        parts = [_condition(each) for each in given.filters]
        kind = "and" if given.condition is None else given.condition.value
        return ~filter_of({"$and": parts}) if kind == "not" else filter_of({f"${kind}": parts})
    if given.operator.value == "is_empty":
        return filter_of({given.key: None})
    if given.operator.value not in _OPERATORS:
        raise ValueError(f"filter: {given.key}: no operator {given.operator.value!r}")
    return filter_of({given.key: {_OPERATORS[given.operator.value]: given.value}})


def _nodes(rows: Rows) -> list[BaseNode]:
    return [_node(each) for each in read_documents(rows, TEXT_KEY)]


def _revised(found: Any, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what is stored of a node with new members in its metadata."""
    node = _node(found)
    node.metadata.update(to_json(changes, f"metadatas (id {found.id!r})"))
    return node_to_metadata_dict(node, remove_text=True)


def _node(found: Any) -> BaseNode:
    if "_node_content" in found.metadata:
        return metadata_dict_to_node(found.metadata, text=found.text)
    return TextNode(id_=found.id, text=found.text, metadata=found.metadata)  # of another program
