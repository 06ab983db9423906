"""The command nearfield-mcp: what it refuses at the start, its embedding, its variables, and HTTP."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import nearfield
import pytest
from agents import PROGRAM, agent, over_http, value
from nearfield.mcp import main

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}


@pytest.fixture
def docs(shared, name):
    with nearfield.connect(shared.address) as client:
        yield client.create_collection(name, 3, metric="dot")
        client.drop_collection(name)


@pytest.fixture
def refused(capsys, monkeypatch, tmp_path):
    """refused(*arguments, code=) -> the message of a start that fails, which has one line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.py").write_text("import no_such_module_either\n")

    def run(*arguments: str, code: int) -> str:
        assert main(arguments) == code
        prefix, _, text = capsys.readouterr().err.partition(": ")
        assert prefix == "nearfield-mcp" and text.count("\n") == 1
        return text

    return run


def test_a_missing_server_or_collection_was_not_reported(shared, docs, refused):
    assert f'no collection "{docs.name}-not"' in refused(docs.name, f"{docs.name}-not", "--address", shared.address, code=1)
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    assert f"cannot reach {address}: is nearfield-server running?" in refused("docs", "--address", address, code=4)
    assert "give host:port, such as 127.0.0.1:50051" in refused("docs", "--address", "50051", code=2)


@pytest.mark.parametrize(("given", "words"), [
    ("no_such_module:embed", "No module named 'no_such_module'"),
    ("broken:embed", "'broken:embed': No module named 'no_such_module_either'"),
    ("json:no_such_function", "has no function 'no_such_function'"),
    ("sys:maxsize", f"embed: {sys.maxsize}; give a function"),
    ("json", "or MODULE:FUNCTION"), ("json:", "or MODULE:FUNCTION"), (":dumps", "or MODULE:FUNCTION"),
])
def test_an_embedding_that_is_not_there_ended_in_a_traceback(shared, docs, refused, given, words):
    text = refused(docs.name, "--address", shared.address, "--embed", given, code=2)
    assert text.startswith("embed: ") and words in text


EMBEDDINGS = """
def good(texts): return [[1.0, 2.0, 3.0] for _ in texts]
def four(texts): return [[1.0] * 4 for _ in texts]
def two(texts, model): return [[1.0]]
def named(texts): return good(texts)
named.name = "letters"
"""


@pytest.mark.parametrize(("given", "words"), [
    ("made:four", "makes vectors of 4 numbers; the collection '{}' has dim 3"),
    ("made:two", "TypeError: two() missing 1 required positional argument: 'model'"),
    ("made:god", "did you mean good?"), ("made.py:good", "write made:good, without .py"),
    ("made:good", "has vectors of the model 'words', not of '', a function without a name"),
    ("made:named", "has vectors of the model 'words', not of 'letters'"),
])
def test_an_embedding_that_makes_no_vector_of_the_collection_started(shared, docs, refused, tmp_path, monkeypatch, given, words):
    (tmp_path / "made.py").write_text(EMBEDDINGS)
    monkeypatch.delitem(sys.modules, "made", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    if "'words'" in words:
        with nearfield.connect(shared.address) as client:
            client.drop_collection(docs.name)
            client.create_collection(docs.name, 3, metric="dot", embedding_model="words")
    monkeypatch.setenv("NEARFIELD_EMBED", given)  # as --embed
    text = refused(docs.name, "--address", shared.address, code=2)
    assert text.startswith("embed: ") and words.format(docs.name) in text


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "192.0.2.7"])
@pytest.mark.parametrize("more", [[], ["--write"], ["--allow-host", "mcp.example.com"]])
def test_tools_beyond_loopback_were_served_without_authentication(shared, docs, refused, host, more):
    text = refused(docs.name, "--address", shared.address, "--http", f"{host}:50197", *more, code=2)
    assert text.startswith(f"--http: {host.strip('[]')} is beyond loopback") and "127.0.0.1:50197" in text and "--allow-insecure" in text


def test_tools_beyond_loopback_are_served_if_that_is_allowed(shared, docs, tmp_path):
    with over_http(shared, tmp_path, docs.name, "--http", "0.0.0.0:0", "--allow-insecure") as url:
        assert status(url) == 200


@pytest.mark.parametrize(("arguments", "words"), [
    (["--token-file", "key"], "--token-file: no option; set the variable NEARFIELD_TOKEN_FILE"),
    (["--ca=ca.pem"], "--ca=ca.pem: no option; set the variable NEARFIELD_CA"),
    (["--client-cert", "c"], "NEARFIELD_CLIENT_CERT"), (["--tokens", "key"], "unrecognized arguments: --tokens"),
    (["--allow-insecure"], "--allow-insecure: needs --http"),
])
def test_an_option_of_the_command_did_not_name_its_variable(capsys, arguments, words):
    with pytest.raises(SystemExit) as ended:
        main(["docs", *arguments])
    assert ended.value.code == 2 and words in capsys.readouterr().err


async def test_an_embedding_in_the_current_folder_was_not_found(shared, docs, tmp_path):
    async with agent("stdio", shared, tmp_path, docs.name, "--write", "--embed", "embed_letters:letters") as client:
        value(await client.call_tool("store", {"collection": docs.name, "id": 1, "text": "abba", "payload": "p"}))
    assert docs.fetch([1]).vectors.tolist() == [[2.5, 2.5, 0.5]]


def test_the_variables_of_the_command_were_ignored(shared, refused, monkeypatch, capsys):
    monkeypatch.setenv("NEARFIELD_ADDRESS", "127.0.0.1:1")
    assert "cannot reach 127.0.0.1:1" in refused("docs", code=4)
    assert "no collection" in refused("docs", "--address", shared.address, code=1)
    monkeypatch.setenv("NEARFIELD_CALLER", "two\nlines")
    assert "caller: only printable ASCII" in refused("docs", "--address", shared.address, code=2)


@pytest.mark.parametrize(("arguments", "words"), [
    (["--http", "::1:8000"], "[::1]:8000"), (["--http", "[::1]"], "HOST:PORT"), (["--http", "localhost"], "HOST:PORT"),
    (["--http", "127.0.0.1:65536"], "HOST:PORT"), (["--http", "http://127.0.0.1:8000"], "HOST:PORT"), (["--http", ""], "HOST:PORT"),
    (["--http", "127.0.0.1:0", "--allow-host", "https://a.example"], "without scheme"),
    (["--http", "127.0.0.1:0", "--allow-host", "*"], "without scheme"), (["--allow-host", "a.example"], "needs --http"),
])
def test_an_address_or_host_that_means_nothing_ended_in_a_traceback(capsys, arguments, words):
    with pytest.raises(SystemExit) as ended:
        main(["docs", *arguments])
    assert ended.value.code == 2 and words in capsys.readouterr().err


def test_an_address_that_cannot_be_bound_is_named(shared, docs, refused):
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        given = (docs.name, "--address", shared.address, "--http")
        assert f"--http: 127.0.0.1 port {port}: Address already in use" in refused(*given, f"127.0.0.1:{port}", code=2)
        assert "--http: no.such.host.invalid port 1: " in refused(*given, "no.such.host.invalid:1", code=2)


def status(url: str, **headers: str) -> int:
    """Returns the status of a request for a session."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    kinds = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    connection.request("POST", "/mcp", json.dumps(INITIALIZE), kinds | headers)
    return connection.getresponse().status


def test_ipv6_addresses_were_refused(shared, docs, tmp_path):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6")
    with over_http(shared, tmp_path, docs.name, "--http", "[::1]:0") as url:
        assert url.startswith("http://[::1]:") and status(url) == 200


def test_requests_through_a_proxy_were_refused(shared, docs, tmp_path):
    hosts = ["--allow-host", "MCP.example.com", "--allow-host", "other.example:8443"]
    foreign = [{"Host": "evil.example"}, {"Host": "mcp.example.com", "Origin": "https://evil.example"}, {"Host": "other.example"}]
    named = [{"Host": "mcp.example.com"}, {"Host": "mcp.example.com:8443"}, {"Host": "other.example:8443"},
             {"Host": "mcp.example.com", "Origin": "https://mcp.example.com"}]
    with over_http(shared, tmp_path, docs.name, "--http", "127.0.0.1:0") as url:
        assert status(url) == 200
        assert {status(url, **headers) for headers in (*named, *foreign)} == {421}
    with over_http(shared, tmp_path, docs.name, "--http", "127.0.0.1:0", *hosts) as url:
        assert status(url) == 200
        assert {status(url, **headers) for headers in named} == {200}
        assert [status(url, **headers) for headers in foreign] == [421, 403, 421]


def test_an_interrupt_ended_in_a_traceback(shared, docs, tmp_path):
    command = [PROGRAM, docs.name, "--address", shared.address, "--http", "127.0.0.1:0"]
    with subprocess.Popen(command, text=True, stderr=subprocess.PIPE) as process:
        next(line for line in iter(process.stderr.readline, "") if "running on" in line)
        process.send_signal(2)
        _, log = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in log
