"""The tools of nearfield.mcp."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Annotated, Any, TypeVar

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from nearfield._client import AsyncClient
from nearfield._collection import AsyncCollection
from nearfield._embed import Embedder, EmbedError
from nearfield._errors import Error
from nearfield._mcp.terms import read_terms
from nearfield._mcp.values import GivenId, plain, read_id, read_ids, read_value, rows_of
from nearfield._records import CollectionInfo
from nearfield._values import listed

# An agent reads every row of an answer.
ROWS_MAX = 100
T = TypeVar("T")
# Advice in the error of a row of zeros that no tool can follow.
_ZERO_ROWS = ": leave it out, or accept zero rows, which come last in every search"
# The arguments, each with the text that the tool's schema and the errors have.
Name = Annotated[str, Field(description="the name of a collection")]
Text = Annotated[str | None, Field(description="a text")]
Vector = Annotated[list[float] | None, Field(description="a list of numbers")]
SearchedId = Annotated[GivenId | None, Field(description="an id, a text or a whole number,")]
StoredId = Annotated[GivenId, Field(description="an id, a text or a whole number,")]
Ids = Annotated[list[GivenId], Field(description="a list of ids, texts or whole numbers,")]
Count = Annotated[int, Field(description="a whole number")]
FilterText = Annotated[str | None, Field(description="a text such as 'year >= 2020'")]
Payload = Annotated[dict[str, Any] | str, Field(description="an object or a text")]
NewPayload = Annotated[dict[str, Any] | str | None, Field(description="an object or a text")]
GivenTerms = Annotated[
    list[dict[str, Any]] | None,
    Field(
        description='a list of objects such as {"form": "half_life", "attribute": "written",'
        ' "half_life": "30d", "origin": "now", "weight": 0.3}'
    ),
]
GroupBy = Annotated[str | None, Field(description="the name of an attribute")]
AttributeNames = Annotated[list[str], Field(description="a list of names of attributes")]
Attributes = Annotated[
    dict[str, Any] | None, Field(description="an object with the values by their names")
]


class Tools:
    """The tools, over one connection. embedder: None if agents have to send vectors."""

    def __init__(
        self, client: AsyncClient, allowed: Iterable[str], embedder: Embedder | None
    ) -> None:
        self._client = client
        client._core.suggests = False  # agents see no names but the allowed ones
        self._allowed = tuple(allowed)
        self._embedder = embedder

    def _collection(self, name: str) -> AsyncCollection:
        if name not in self._allowed:
            raise ToolError(f"collection: {name!r}; one of {', '.join(self._allowed)}")
        return self._client.collection(name)

    async def _declared(self, name: str) -> tuple[AsyncCollection, CollectionInfo]:
        """Returns a collection and its declaration as it is now: another collection may have got
        the name since the last call."""
        docs = self._collection(name)
        return docs, await _call(docs.info())

    async def _vector(self, info: CollectionInfo, text: str | None, vector: Any) -> Any:
        embedder = self._embedder
        if text is None:
            return vector
        if embedder is None:
            raise ToolError("text: this server has no embedding; give a vector or a stored id")

        def make(text: str) -> Any:
            embedder.check(info)
            return embedder.query(text)

        try:
            return await asyncio.to_thread(make, text)
        except EmbedError as error:
            raise ToolError(f"text: {error}") from error

    async def list_collections(self) -> list[dict[str, Any]]:
        """Lists the collections that can be searched: rows, dimension, type of ids, and the
        attributes that filters may use. A collection that cannot be used has an error instead."""
        return [await self._listed(name) for name in self._allowed]

    async def _listed(self, name: str) -> dict[str, Any]:
        try:
            info = await self._client.get_collection(name)
        except Error as error:
            if error.unreachable:
                raise ToolError(str(error)) from error
            return {"name": name, "error": str(error)}
        found = {
            "name": name,
            "rows": info.rows_count,
            "dim": info.dim,
            "metric": info.metric,
            "id_type": info.id_type,
            "attributes": {each.name: each.text for each in info.attributes},
        }
        return found | ({"error": info.error} if info.error else {})

    async def search(
        self,
        collection: Name,
        text: Text = None,
        vector: Vector = None,
        id: SearchedId = None,
        k: Count = 10,
        filter: FilterText = None,
        group_by: GroupBy = None,
        terms: GivenTerms = None,
    ) -> dict[str, Any]:
        """Returns the k best rows (at most 100), best first, for one of: a text, a vector, or the
        id of a stored row. Exact: a row that is missing does not score higher. With group_by, an
        attribute that is no list, only the best row of each of its values, such as one passage of
        each document; rows without a value are left out. Each of the terms adds weight (1) times a
        form to the score of a row: half_life is 1 at the origin and halves with every half_life
        away from it (recency); linear is (value - origin) * scale, and clamped also at lowest low
        and at most high (importance); is, with a filter, is 1 for the rows that pass it (a boost).
        Rows then also have the parts of their score."""
        if not 1 <= k <= ROWS_MAX:
            raise ToolError(f"k: {k}, must be from 1 to {ROWS_MAX}")
        _check_one(text=text, vector=vector, id=id)
        docs, info = await self._declared(collection)
        query = await self._vector(info, text, vector)
        row = None if id is None else read_id(info, id, "id")
        found = await _call(
            docs.search(
                query,
                id=row,
                k=k,
                filter=filter,
                group_by=group_by,
                terms=read_terms(terms) or None,
                parts=bool(terms),
                payload=True,
                attributes="*",
            )
        )
        rows = rows_of(found.hits)
        for each, score in zip(rows, found.scores.tolist(), strict=True):
            each["score"] = plain(score)
        for each, hit in zip(rows, found.hits, strict=True):
            if hit.parts is not None:
                each["parts"] = plain({"score": hit.parts.score, "terms": hit.parts.terms})
        return {"epoch": found.epoch, "matched_rows": found.matched_rows, "rows": rows}

    async def fetch(self, collection: Name, ids: Ids) -> dict[str, Any]:
        """Returns at most 100 rows by id, and the ids that do not exist."""
        if not 1 <= len(ids) <= ROWS_MAX:
            raise ToolError(f"ids: {len(ids)}, must be from 1 to {ROWS_MAX}")
        docs, info = await self._declared(collection)
        found = await _call(docs.fetch(read_ids(info, ids), vectors=False, attributes="*"))
        return {"rows": rows_of(found), "missing": plain(listed(found.missing))}

    async def count(self, collection: Name, filter: FilterText = None) -> int:
        """Returns the number of rows; with a filter, of those that pass it."""
        return (await _call(self._collection(collection).count(filter))).rows_count

    async def facets(
        self,
        collection: Name,
        attributes: AttributeNames,
        filter: FilterText = None,
        values_max: Count = 20,
    ) -> dict[str, Any]:
        """Counts the rows for each value of some attributes; with a filter, the rows that pass it.
        Returns the values that most rows have (at most 100 of each attribute) with their numbers
        of rows, the number of distinct values, and the number of rows without a value. Exact."""
        if not 1 <= values_max <= ROWS_MAX:
            raise ToolError(f"values_max: {values_max}, must be from 1 to {ROWS_MAX}")
        found = await _call(
            self._collection(collection).facets(attributes, filter, values_max=values_max)
        )
        facets = {
            name: {
                "values": [[plain(value), rows] for value, rows in facet.counts.items()],
                "values_count": facet.values_count,
                "rows_missing": facet.rows_missing,
            }
            for name, facet in found.facets.items()
        }
        return {"epoch": found.epoch, "rows": found.rows_count, "facets": facets}

    async def store(
        self,
        collection: Name,
        id: StoredId,
        payload: Payload,
        text: Text = None,
        vector: Vector = None,
        attributes: Attributes = None,
    ) -> dict[str, Any]:
        """Stores one row, or replaces the one with this id: its payload, a text or a vector by
        which it is found, and attributes. Durable when this returns."""
        _check_one(text=text, vector=vector)
        docs, info = await self._declared(collection)
        made = await self._vector(info, text, vector)
        ids = [read_id(info, id, "id")]
        columns = _columns(info, attributes, 1)
        done = await _call(
            docs.upload([made], ids=ids, payloads=[payload], attributes=columns, mode="upsert")
        )
        return {"epoch": done.epoch, "replaced": done.rows_replaced}

    async def update(
        self,
        collection: Name,
        ids: Ids,
        attributes: Attributes = None,
        payload: NewPayload = None,
        if_filter: FilterText = None,
    ) -> dict[str, Any]:
        """Changes rows by id, each id once: the attributes that are named, where null removes the
        value, and the payload if it is given; all else stays. With if_filter, such as
        'version == 7', only rows that pass it. Returns the number of changed rows, the ids that do
        not exist (missing), and those of rows that did not pass (refused). Durable when this
        returns."""
        if not attributes and payload is None:
            raise ToolError("attributes, payload: give one of them, or both")
        docs, info = await self._declared(collection)
        columns = _columns(info, attributes, len(ids))
        payloads = None if payload is None else [payload] * len(ids)
        wanted = read_ids(info, ids)
        done = await _call(
            docs.update(wanted, attributes=columns, payloads=payloads, if_=if_filter)
        )
        left = {"missing": plain(listed(done.missing)), "refused": plain(listed(done.refused))}
        return {"epoch": done.epoch, "rows": done.rows, **left}

    async def delete(self, collection: Name, ids: Ids) -> int:
        """Deletes rows by id; returns how many there were."""
        docs, info = await self._declared(collection)
        return (await _call(docs.delete(read_ids(info, ids)))).rows_deleted


def _columns(
    info: CollectionInfo, attributes: dict[str, Any] | None, rows: int
) -> dict[str, list[Any]]:
    """Returns a column for each attribute, with the same value for all rows."""
    return {
        name: [read_value(info.declared.get(name), value, f"attributes[{name!r}]")] * rows
        for name, value in (attributes or {}).items()
    }


def _check_one(**given: Any) -> None:
    if list(given.values()).count(None) != len(given) - 1:
        raise ToolError(f"{', '.join(given)}: give one of them")


async def _call(awaitable: Awaitable[T]) -> T:
    """Returns the result of a call. Errors that the agent can act on become errors of the tool."""
    try:
        return await awaitable
    except (Error, TypeError, ValueError) as error:
        raise ToolError(str(error).replace(_ZERO_ROWS, "")) from error
