"""Servers with the page of the operations port, and its use in a headless Chromium."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from browser import Browser
from calls import Api
from conftest import DEADLINE_S, Server, free_port

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
PAYLOADS = [HOSTILE.encode(), b"\xff\xfe\x80 not UTF-8 \xe2\x82", b"", json.dumps({"text": "Stra\u00dfe \u2603"}).encode()]
IDS = ["first", HOSTILE, "'\"&\u202e", "last & least"]
FIRST_NUMBER = 2**64 - 100  # not a number of JavaScript


@pytest.fixture(scope="module")
def browser():
    opened = Browser()
    yield opened
    opened.close()


class Life:
    """A server that may be killed and started again, with the same ports and data."""

    def __init__(self, request: pytest.FixtureRequest, folder: Path, *arguments: str, http_listen: str = "127.0.0.1:0") -> None:
        self.program = request.config.getoption("--server")
        self.folder = folder
        self.arguments = ["--ops-listen", f"127.0.0.1:{free_port()}", "--http-listen", http_listen, "--threads", "1", *arguments]
        self.start()

    def start(self) -> None:
        self.server = Server(self.program, self.folder, self.arguments)
        self.url = f"http://{self.server.ops_address()}/"


@pytest.fixture(scope="module")
def life(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    made = Life(request, tmp_path_factory.mktemp("page"), "--backend", "cpu", "--audit-one-in", "1", "--audit-cpu-percent", "100")
    made.server.wait_serving()
    yield made
    made.server.close()


@pytest.fixture(scope="module")
def filled(request: pytest.FixtureRequest, life, pb):
    """The collections "hostile", with text ids and attributes, and "numbers", with deleted rows."""
    calls = Api(life.server)
    rng = np.random.default_rng(request.config.getoption("--seed"))
    attributes = [pb.AttributeSpec(name="tags", type=pb.ATTRIBUTE_TYPE_KEYWORD, is_list=True),
                  pb.AttributeSpec(name="made", type=pb.ATTRIBUTE_TYPE_TIMESTAMP)]
    calls.create("hostile", 8, metric="COSINE", ids="STRING", attributes=attributes)
    block = calls.block(IDS, rng.standard_normal((4, 8), dtype=np.float32), PAYLOADS)
    # The rows 0, 2 and 3 have a list; only the row 1 has a time.
    block.block.attributes.add(attribute="tags", values=pb.AttributeValues(keyword_values=["a", HOSTILE, "z"]), presence=b"\x0d",
                               list_sizes=[2, 0, 1])
    block.block.attributes.add(attribute="made", values=pb.AttributeValues(timestamp_us_values=[1715938200000000]), presence=b"\x02")
    calls.send(calls.begin("hostile", 4, sum(map(len, PAYLOADS))), block, calls.commit(4))
    calls.create("numbers", 16, dtype="FLOAT16")
    ids = list(range(FIRST_NUMBER, FIRST_NUMBER + 100))
    for part in (ids[:60], ids[60:]):
        calls.upload("numbers", part, rng.standard_normal((len(part), 16)).astype("<f2"))
    life.server.ingest.Delete(pb.DeleteRequest(collection="numbers", ids=pb.IdList(numbers=ids[:3])), timeout=DEADLINE_S)
    return life


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=DEADLINE_S) as reply:
        return reply.read().decode()


def search(browser: Browser, collection: str, identity: object, k: int = 10) -> None:
    """Fills in the form, sends it, and waits until the reply is shown."""
    browser.wait(lambda: browser.run("const all = [...document.querySelectorAll('#collection option')];"
                                     "return all.some(each => each.value === arguments[0])", collection))
    for selector, value in (("#collection", collection), ("#row-id", identity), ("#k", k), ("#search-note", "")):
        browser.fill(selector, value)
    browser.run("document.querySelector('#search-note').textContent = ''")
    browser.click("#search button")
    browser.wait(lambda: browser.text("#search-note"), "a reply")
