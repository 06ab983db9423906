"""The HTTP port: the examples of its README, its OpenAPI document, TLS, and scripts of a browser."""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from browser import REBOUND, Browser
from calls import Api
from conftest import DEADLINE_S, ROOT, Server
from edge import new_certificate
from openapi_spec_validator import validate

README = (ROOT / "server/http/README.md").read_text("utf-8")
SEARCH = {"queries": [{"vector": {"values": [1, 0, 0]}}], "k": 2}


def blocks(language: str) -> list[str]:
    """Returns the examples of the README in one language."""
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    made = Server(request.config.getoption("--server"), tmp_path_factory.mktemp("http"),
                  ["--http-listen", "127.0.0.1:0", "--backend", "cpu", "--threads", "1"])
    made.wait_serving()
    yield made
    made.close()


@pytest.fixture(scope="module")
def notes(server):
    """The collection that the lines of curl make; returns the reply of the last line."""
    (shell,) = blocks("sh")
    done = subprocess.run(["bash", "-euc", shell.replace("127.0.0.1:50052", server.http_address())], capture_output=True, text=True,
                          check=True, timeout=DEADLINE_S)
    return [json.loads(line) for line in done.stdout.splitlines()]


def call(url: str, body: object = None, context: ssl.SSLContext | None = None, **headers: str) -> tuple[int, dict]:
    """Returns the HTTP status and the JSON of the reply."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE_S, context=context) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_the_lines_of_curl_make_a_collection_and_search_it(notes):
    created, committed, found = notes
    assert created["collection"]["name"] == "notes"
    assert committed["committed"]["rows_count"] == "3"
    assert found["results"][0]["ids"]["numbers"] == ["1", "2"]


def test_the_openapi_document_is_valid_and_has_the_paths_of_the_readme(server):
    status, document = call(f"http://{server.http_address()}/openapi.json")
    assert status == 200
    validate(document)
    # A row of the table: | `POST /v1/collections/NAME/search` | Search |
    rows = re.findall(r"^\| `([A-Z]+) (/v1/[^`]+)` \| (\w+)", README, re.MULTILINE)
    told = {(verb.lower(), re.sub(r"[A-Z]+", "{}", path), rpc) for verb, path, rpc in rows}
    operations = {(verb, re.sub(r"\{\w+\}", "{}", path), operation["operationId"])
                  for path, verbs in document["paths"].items() for verb, operation in verbs.items()}
    assert told == operations


@pytest.fixture(scope="module")
def browser():
    opened = Browser()
    yield opened
    opened.close()


def run_example(browser: Browser, script: str) -> dict:
    """Runs the lines of the README in the page that is open. Returns what they find, or their error."""
    return browser.driver.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        f"(async () => {{ {script}; return results; }})().then(done, (error) => done({{ error: `${{error}}` }}));")


def test_a_script_of_the_own_origin_searches(server, notes, browser):
    (script,) = blocks("js")
    browser.open(f"http://{server.http_address()}/openapi.json")
    assert run_example(browser, script)[0]["ids"]["numbers"] == ["1", "2"]


def test_scripts_of_other_origins_and_rebound_names_are_refused(server, notes, browser):
    (script,) = blocks("js")
    port = server.http_address().rpartition(":")[2]
    browser.open(f"http://{REBOUND}:{port}/openapi.json")
    assert "Host" in browser.text("body")
    assert run_example(browser, script) is None  # an error has no results
    browser.open("about:blank")
    assert "error" in run_example(browser, script.replace("'/v1", f"'http://{server.http_address()}/v1"))


def test_tls_and_keys_are_those_of_grpc(request: pytest.FixtureRequest, start, tmp_path: Path):
    """Also client certificates, as gRPC asks for them."""
    new_certificate(tmp_path, "ca")
    for name in ("server", "client"):
        new_certificate(tmp_path, name, "ca")
    keys = tmp_path / "keys.json"
    made = subprocess.run([request.config.getoption("--cli"), "keys", "create", "agent", "--scopes", "search"],
                          env={**os.environ, "NEARFIELD_KEY_FILE": str(keys)}, check=True, capture_output=True, text=True)
    key = {"Authorization": f"Bearer {made.stdout.strip()}"}
    server = start("--data-dir", "none", "--listen", "0.0.0.0:0", "--http-listen", "0.0.0.0:0", "--tls-cert", str(tmp_path / "server.pem"),
                   "--tls-key", str(tmp_path / "server.key"), "--tls-client-ca", str(tmp_path / "ca.pem"), "--key-file", str(keys))
    port = server.http_address().rpartition(":")[2]
    url = f"https://127.0.0.1:{port}/v1/limits"
    trusted = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    with pytest.raises(OSError):  # the handshake fails, or the first read after it
        call(url, context=trusted, **key)
    trusted.load_cert_chain(tmp_path / "client.pem", tmp_path / "client.key")
    assert call(url, context=trusted)[0] == 401
    status, limits = call(url, context=trusted, **key)
    assert status == 200 and limits["k_max"] == 4096
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        call(url)
    with pytest.raises(OSError):
        call(url.replace("https", "http"), **key)


def test_beyond_loopback_the_port_needs_tls_and_keys(offline):
    done = offline("--listen", "127.0.0.1:0", "--http-listen", "0.0.0.0:0", "--data-dir", "none")
    assert done.returncode == 2
    assert 'http_listen = "0.0.0.0:0": is beyond loopback, and tls_cert is empty' in done.stderr


def test_calls_of_both_ports_see_the_same_collections(server, notes):
    Api(server).create("over_grpc", 2)
    status, found = call(f"http://{server.http_address()}/v1/collections/over_grpc/count", {})
    assert (status, found.get("rows_count", "0")) == (200, "0")
    assert call(f"http://{server.http_address()}/v1/collections/notes/search", SEARCH)[0] == 200
