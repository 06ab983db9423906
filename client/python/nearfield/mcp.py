"""nearfield-mcp: a server of the Model Context Protocol, through which agents search collections.
Needs the official SDK: pip install 'mcp>=2,<3'.

    nearfield-mcp docs notes                     # over standard input and output
    nearfield-mcp docs --http 127.0.0.1:8000     # over HTTP, at /mcp; without authentication
    nearfield-mcp docs --write                   # agents may also store and delete rows

Agents see only the collections that are named, and change rows only with --write. With
`--embed MODULE:FUNCTION`, a function from a text to a vector, they search and store texts.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from mcp.server.mcpserver import MCPServer

from nearfield._client import AsyncClient, connect
from nearfield._command import EXIT_INTERRUPTED, add_server_options, fail, fail_call
from nearfield._errors import Error
from nearfield._mcp.http import check_listen, host_name, listen_address, security
from nearfield._mcp.strict_tool import StrictTool
from nearfield._mcp.tools import Embed, Tools

PROGRAM = "nearfield-mcp"
INSTRUCTIONS = (
    "Exact vector search. list_collections shows the collections, their attributes and the type of"
    ' their ids. A filter is a text such as: language == "de" and (year >= 2020 or not'
    ' exists(price)) and tags any ("a", "b") and id in (1, 2) and made >= "2024-05-17". Integers'
    ' beyond 2^53, "NaN", "inf", "-inf" and times are texts in replies, and in arguments too.'
)


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
        tools=[StrictTool.from_function(tool) for tool in chosen],
        log_level=log_level,
    )


def _load(name: str) -> Embed:
    """Returns the function of --embed. Raises ValueError if there is none."""
    module, colon, function = name.partition(":")
    if not (module and colon and function):
        raise ValueError(f"--embed: {name!r}; write MODULE:FUNCTION")
    sys.path.append(str(Path.cwd()))  # a program that pip has installed does not look there
    try:
        loaded = importlib.import_module(module)
    except Exception as error:
        raise ValueError(f"--embed: {module}: {type(error).__name__}: {error}") from error
    embed: Embed | None = getattr(loaded, function, None)
    if not callable(embed):
        raise ValueError(f"--embed: {loaded!r} has no function {function!r}")
    return embed


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        PROGRAM,
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("collections", nargs="+", metavar="COLLECTION", help="name or alias")
    parser.add_argument("--write", action="store_true", help="also offer store and delete")
    parser.add_argument(
        "--embed",
        metavar="MODULE:FUNCTION",
        help="makes vectors of texts; the module may be a file of the current folder",
    )
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        type=listen_address,
        help="instead of standard input and output; an IPv6 address as [::1]:8000",
    )
    parser.add_argument(
        "--allow-host",
        metavar="HOST",
        action="append",
        type=host_name,
        default=[],
        help="with --http: also answer requests for this host, such as the name of a proxy; may be"
        " repeated",
    )
    add_server_options(parser, PROGRAM)
    options = parser.parse_args(arguments)
    if options.allow_host and options.http is None:
        parser.error("--allow-host: needs --http")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    options = _parse(arguments)
    logging.basicConfig(stream=sys.stderr)
    try:
        embed = _load(options.embed) if options.embed is not None else None
        if options.http:
            check_listen(*options.http)
        with connect(options.address, caller=options.caller) as client:
            for name in options.collections:
                client.get_collection(name)
    except (Error, ValueError, OSError) as error:
        return fail_call(PROGRAM, error)
    server = make_server(
        AsyncClient(options.address, caller=options.caller),
        options.collections,
        write=options.write,
        embed=embed,
        log_level="INFO" if options.http else "WARNING",
    )
    try:
        if options.http:
            host, port = options.http
            check = security(options.allow_host)
            server.run("streamable-http", host=host, port=port, transport_security=check)
        else:
            server.run("stdio")
    except KeyboardInterrupt:
        return fail(PROGRAM, "interrupted", EXIT_INTERRUPTED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
