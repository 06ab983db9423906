"""nearfield-mcp: a server of the Model Context Protocol, through which agents search collections.
Needs the official SDK: pip install 'mcp>=2,<3'.

    nearfield-mcp docs notes                     # over standard input and output
    nearfield-mcp docs --http 127.0.0.1:8000     # over HTTP, at /mcp; without authentication
    nearfield-mcp docs --write                   # agents may also change rows

Agents see only the collections that are named, and change rows only with --write. With
`--embed MODEL`, or NEARFIELD_EMBED, they search and store texts. The variables NEARFIELD_CA,
NEARFIELD_CLIENT_CERT, NEARFIELD_CLIENT_KEY, NEARFIELD_TOKEN_FILE and NEARFIELD_METADATA are those
of the command nearfield.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from mcp.server.mcpserver import MCPServer

from nearfield._client import AsyncClient, connect
from nearfield._command import (
    EXIT_INTERRUPTED,
    add_embed_option,
    add_server_options,
    command_parser,
    fail,
    fail_call,
)
from nearfield._embed import Embed, embedder_of
from nearfield._errors import Error
from nearfield._mcp.http import check_listen, host_name, listen_address, security
from nearfield._mcp.strict_tool import StrictTool
from nearfield._mcp.tools import Tools

PROGRAM = "nearfield-mcp"
# Options of the command nearfield that only the environment gives here.
IDENTITY = {
    f"--{name}": f"NEARFIELD_{name.replace('-', '_').upper()}"
    for name in ("ca", "client-cert", "client-key", "token-file", "metadata")
}
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
    """Returns a server with the tools search, fetch, count, facets and list_collections; with
    `write` also store, update and delete. embed: makes vectors of texts."""
    tools = Tools(client, allowed, None if embed is None else embedder_of(embed))
    chosen: list[Callable[..., Any]] = [
        tools.search,
        tools.fetch,
        tools.count,
        tools.facets,
        tools.list_collections,
    ]
    if write:
        chosen += [tools.store, tools.update, tools.delete]
    return MCPServer(
        "nearfield",
        instructions=INSTRUCTIONS,
        tools=[StrictTool.from_function(tool) for tool in chosen],
        log_level=log_level,
    )


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = command_parser(PROGRAM, __doc__)
    parser.add_argument("collections", nargs="+", metavar="COLLECTION", help="name or alias")
    parser.add_argument("--write", action="store_true", help="also offer store, update and delete")
    add_embed_option(parser)
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
    parser.add_argument(
        "--allow-insecure",
        action="store_true",
        help="with --http: also listen beyond loopback, where each caller that reaches the port has"
        " all tools, without authentication",
    )
    add_server_options(parser, PROGRAM)
    options, unknown = parser.parse_known_args(arguments)
    for each in unknown:
        if variable := IDENTITY.get(each.partition("=")[0]):
            parser.error(f"{each}: no option; set the variable {variable}")
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    for option, given in (("host", options.allow_host), ("insecure", options.allow_insecure)):
        if given and options.http is None:
            parser.error(f"--allow-{option}: needs --http")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    options = _parse(arguments)
    logging.basicConfig(stream=sys.stderr)
    try:
        embedder = embedder_of(options.embed) if options.embed else None
        if options.http:
            host, port = options.http
            check_listen(host, port, allow_insecure=options.allow_insecure)
        with connect(options.address, caller=options.caller) as client:
            for name in options.collections:
                info = client.get_collection(name)
                if embedder is not None:
                    embedder.check(info)
    except (Error, ValueError, OSError) as error:
        return fail_call(PROGRAM, error)
    server = make_server(
        AsyncClient(options.address, caller=options.caller),
        options.collections,
        write=options.write,
        embed=embedder,
        log_level="INFO" if options.http else "WARNING",
    )
    try:
        if options.http:
            check = security(options.allow_host)
            server.run("streamable-http", host=host, port=port, transport_security=check)
        else:
            server.run("stdio")
    except KeyboardInterrupt:
        return fail(PROGRAM, "interrupted", EXIT_INTERRUPTED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
