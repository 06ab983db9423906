"""Agents that use nearfield-mcp, with the official client."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import mcp.client
import nearfield
from mcp.client.stdio import StdioServerParameters, stdio_client
from nearfield.mcp import make_server

PROGRAM = str(Path(sys.executable).with_name("nearfield-mcp"))
EMBED = """
def letters(texts):
    return [[text.count(letter) + 0.5 for letter in "abc"] for text in texts]
"""


@contextlib.contextmanager
def over_http(shared, folder: Path, *arguments: str) -> Iterator[str]:
    """Starts the program in a folder; yields the URL at which it listens."""
    command = [PROGRAM, *arguments, "--address", shared.address]
    with subprocess.Popen(command, cwd=folder, text=True, stderr=subprocess.PIPE) as process:
        try:
            lines = iter(process.stderr.readline, "")
            yield next(found[1] for line in lines if (found := re.search(r"running on (http://\S+)", line)))
        finally:
            process.terminate()


@contextlib.asynccontextmanager
async def agent(kind: str, shared, folder: Path, *arguments: str) -> AsyncIterator[mcp.client.Client]:
    """Starts the program in a folder that has a module with an embedding, and connects to it."""
    (folder / "embed_letters.py").write_text(EMBED)
    if kind == "http":
        with over_http(shared, folder, *arguments, "--http", "127.0.0.1:0") as url:
            async with mcp.client.Client(f"{url}/mcp") as client:
                yield client
        return
    command = [*arguments, "--address", shared.address]
    parameters = StdioServerParameters(command=PROGRAM, args=command, cwd=folder, env=dict(os.environ))
    async with mcp.client.Client(stdio_client(parameters)) as client:
        yield client


class Agent:
    """An agent in this process, and the texts that the server's embedding got from it."""

    def __init__(self, client: mcp.client.Client, embedded: list[str]) -> None:
        self.client = client
        self.embedded = embedded

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        """Returns the structured reply. The text of the reply must be the same JSON."""
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, result.content[0].text
        found = result.structured_content
        texts = [strict_json(part.text) for part in result.content]
        assert texts == (found["result"] if tool == "list_collections" else [found.get("result", found)])
        return found.get("result", found)

    async def refused(self, tool: str, **arguments: Any) -> str:
        """Returns the message of an error that the tool has foreseen."""
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error, result.structured_content
        prefix, colon, text = result.content[0].text.partition(f"Error executing tool {tool}: ")
        assert colon and not prefix, result.content[0].text
        return text


def strict_json(text: str) -> Any:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


@contextlib.asynccontextmanager
async def inside(shared, *names: str, embed: Callable[[list[str]], Any] | None = None) -> AsyncIterator[Agent]:
    """An agent in this process, which may also write."""
    embedded: list[str] = []

    def recorded(texts: list[str]) -> Any:
        embedded.extend(texts)
        return [[1.0, len(text), 0.0] for text in texts]

    async with nearfield.AsyncClient(shared.address) as client:
        server = make_server(client, names, write=True, embed=embed or recorded)
        async with mcp.client.Client(server) as connected:
            yield Agent(connected, embedded)


def value(result: Any) -> Any:
    assert not result.is_error, result.content[0].text
    return result.structured_content
