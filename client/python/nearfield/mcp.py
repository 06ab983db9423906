"""nearfield-mcp: a server of the Model Context Protocol, through which agents search collections.
Needs the official SDK: pip install 'nearfield[mcp]'.

    nearfield-mcp docs notes                     # over standard input and output
    nearfield-mcp docs --http 127.0.0.1:8000     # over HTTP, at /mcp; without authentication
    nearfield-mcp docs --write                   # agents may also store and delete rows

Agents see only the collections that are named, and change rows only with --write. With
`--embed MODULE:FUNCTION`, a function from a text to a vector, they search and store texts.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import json
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Literal, TypeVar

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool

from nearfield._arguments import refuse_unknown
from nearfield._attributes import Attribute
from nearfield._client import AsyncClient
from nearfield._collection import AsyncCollection
from nearfield._connection import DEFAULT_ADDRESS
from nearfield._errors import Error
from nearfield._results import Rows
from nearfield._values import Id

# An agent reads every row of an answer.
ROWS_MAX = 100
Embed = Callable[[str], Sequence[float]]
T = TypeVar("T")
INSTRUCTIONS = (
    "Exact vector search. list_collections shows the collections, their attributes and the type of"
    ' their ids. A filter is a text such as: language == "de" and (year >= 2020 or not'
    ' exists(price)) and tags any ("a", "b") and id in (1, 2)'
)


class _StrictTool(Tool):
    """A tool that refuses arguments that it does not have: the SDK would drop them, and a search
    without its filter has another answer."""

    def model_post_init(self, context: Any, /) -> None:
        self.parameters["additionalProperties"] = False

    async def run(self, arguments: dict[str, Any], *rest: Any, **options: Any) -> Any:
        try:
            refuse_unknown(self.name, arguments, self.parameters["properties"].keys())
        except TypeError as error:
            raise ToolError(str(error)) from None
        return await super().run(arguments, *rest, **options)


class Tools:
    """The tools, over one connection. embed: None if agents have to send vectors."""

    def __init__(self, client: AsyncClient, allowed: Iterable[str], embed: Embed | None) -> None:
        self._client = client
        self._allowed = tuple(allowed)
        self._embed = embed

    def _collection(self, name: str) -> AsyncCollection:
        if name not in self._allowed:
            raise ToolError(f"collection: {name!r}; one of {', '.join(self._allowed)}")
        return self._client.collection(name)

    def _vector(self, text: str | None, vector: list[float] | None) -> list[float] | None:
        if text is None:
            return vector
        if vector is not None:
            raise ToolError("text, vector: give one of them")
        if self._embed is None:
            raise ToolError("text: this server has no embedding; give a vector or a stored id")
        return [float(each) for each in self._embed(text)]

    async def list_collections(self) -> list[dict[str, Any]]:
        """Lists the collections that can be searched: rows, dimension, type of ids, and the
        attributes that filters may use."""
        found = []
        for name in self._allowed:
            info = await _call(self._client.get_collection(name))
            found.append(
                {
                    "name": name,
                    "rows": info.rows_count,
                    "dim": info.dim,
                    "metric": info.metric,
                    "id_type": info.id_type,
                    "attributes": {each.name: each.text for each in info.attributes},
                }
            )
        return found

    async def search(
        self,
        collection: str,
        text: str | None = None,
        vector: list[float] | None = None,
        id: Id | None = None,
        k: int = 10,
        filter: str | None = None,
    ) -> dict[str, Any]:
        """Returns the k best rows (at most 100), best first, for one of: a text, a vector, or the
        id of a stored row. Exact: a row that is missing does not score higher."""
        if not 1 <= k <= ROWS_MAX:
            raise ToolError(f"k: {k}, must be from 1 to {ROWS_MAX}")
        docs = self._collection(collection)
        query = self._vector(text, vector)
        found = await _call(
            docs.search(query, id=id, k=k, filter=filter, payload=True, attributes="*")
        )
        rows = _rows(found.hits)
        for row, score in zip(rows, found.scores.tolist(), strict=True):
            row["score"] = score
        return {"epoch": found.epoch, "matched_rows": found.matched_rows, "rows": rows}

    async def fetch(self, collection: str, ids: list[Id]) -> dict[str, Any]:
        """Returns at most 100 rows by id, and the ids that do not exist."""
        if not 1 <= len(ids) <= ROWS_MAX:
            raise ToolError(f"ids: {len(ids)}, must be from 1 to {ROWS_MAX}")
        docs = self._collection(collection)
        found = await _call(docs.fetch(ids, vectors=False, attributes="*"))  # type: ignore[arg-type]
        return {"rows": _rows(found), "missing": list(found.missing)}

    async def count(self, collection: str, filter: str | None = None) -> int:
        """Returns the number of rows; with a filter, of those that pass it."""
        return (await _call(self._collection(collection).count(filter))).rows_count

    async def store(
        self,
        collection: str,
        id: Id,
        payload: dict[str, Any] | str,
        text: str | None = None,
        vector: list[float] | None = None,
        attributes: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Stores one row, or replaces the one with this id: its payload, a text or a vector by
        which it is found, and attributes. Durable when this returns."""
        docs = self._collection(collection)
        made = self._vector(text, vector)
        if made is None:
            raise ToolError("give a text or a vector")
        info = await _call(docs.info())
        values = {
            name: _value(info.declared.get(name), value)
            for name, value in (attributes or {}).items()
        }
        columns = {name: [value] for name, value in values.items()}
        done = await _call(
            docs.upload([made], ids=[id], payloads=[payload], attributes=columns, mode="upsert")
        )
        return {"epoch": done.epoch, "replaced": done.rows_replaced}

    async def delete(self, collection: str, ids: list[Id]) -> int:
        """Deletes rows by id; returns how many there were."""
        docs = self._collection(collection)
        return (await _call(docs.delete(ids))).rows_deleted  # type: ignore[arg-type]


def make_server(
    client: AsyncClient,
    allowed: Iterable[str],
    *,
    write: bool = False,
    embed: Embed | None = None,
    log_level: Literal["WARNING", "INFO"] = "WARNING",
) -> MCPServer[Any]:
    """Returns a server with the tools search, fetch, count and list_collections; with `write`
    also store and delete."""
    tools = Tools(client, allowed, embed)
    chosen: list[Callable[..., Any]] = [
        tools.search,
        tools.fetch,
        tools.count,
        tools.list_collections,
    ]
    if write:
        chosen += [tools.store, tools.delete]
    return MCPServer(
        "nearfield",
        instructions=INSTRUCTIONS,
        tools=[_StrictTool.from_function(tool) for tool in chosen],
        log_level=log_level,
    )


async def _call(awaitable: Awaitable[T]) -> T:
    """Returns the result of a call. Errors that the agent can act on become errors of the tool."""
    try:
        return await awaitable
    except (Error, TypeError, ValueError) as error:
        raise ToolError(str(error)) from error


def _value(attribute: Attribute | None, value: Any) -> Any:
    """Returns the value of an attribute as JSON can hold it: times are texts of RFC 3339."""
    if attribute is None or attribute.type != "timestamp":
        return value
    if isinstance(value, list):
        return [_value(Attribute(attribute.name, "timestamp"), each) for each in value]
    if isinstance(value, str):
        try:
            return dt.datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError as error:
            raise ToolError(f"attributes[{attribute.name!r}]: {error}") from None
    return value


def _rows(rows: Rows) -> list[dict[str, Any]]:
    return [
        {
            "id": identity if isinstance(identity, str) else int(identity),
            "payload": _payload(payload),
            "attributes": {
                name: _plain(values[i])
                for name, values in rows.attributes.items()
                if values[i] is not None
            },
        }
        for i, (identity, payload) in enumerate(zip(rows.ids, rows.payloads, strict=True))
    ]


def _payload(payload: bytes) -> Any:
    """Returns a payload as JSON, else as text."""
    try:
        return json.loads(payload) if payload else None
    except ValueError:
        return payload.decode("utf-8", "replace")


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return value if isinstance(value, (int, float, bool, str)) else str(value)


def _load(name: str) -> Embed:
    module, colon, function = name.partition(":")
    if not colon:
        raise SystemExit(f"--embed: {name}; write MODULE:FUNCTION")
    loaded: Embed = getattr(importlib.import_module(module), function)
    return loaded


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        "nearfield-mcp",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("collections", nargs="+", metavar="COLLECTION", help="name or alias")
    parser.add_argument("--address", help=f"of the server [{DEFAULT_ADDRESS}]")
    parser.add_argument("--write", action="store_true", help="also offer store and delete")
    parser.add_argument("--embed", metavar="MODULE:FUNCTION", help="makes vectors of texts")
    parser.add_argument("--http", metavar="HOST:PORT", help="instead of standard input and output")
    options = parser.parse_args(arguments)
    logging.basicConfig(stream=sys.stderr)
    server = make_server(
        AsyncClient(options.address, caller="nearfield-mcp"),
        options.collections,
        write=options.write,
        embed=_load(options.embed) if options.embed else None,
        log_level="INFO" if options.http else "WARNING",
    )
    if options.http:
        host, _, port = options.http.rpartition(":")
        server.run("streamable-http", host=host or "127.0.0.1", port=int(port))
    else:
        server.run("stdio")


if __name__ == "__main__":
    main()
