"""The page of the operations port in a headless Chromium: what it shows is what the calls return."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from browser import DRIVER, REBOUND, Browser
from calls import Api
from conftest import DEADLINE_S, ROOT, damage, free_port
from edge import new_certificate
from page_site import FIRST_NUMBER, HOSTILE, IDS, PAYLOADS, Life, browser, filled, life, search  # noqa: F401

PAGE = ROOT / "server" / "ops_http" / "page"

pytestmark = pytest.mark.skipif(not DRIVER.exists(), reason="needs chromium-driver")


def rows_of(browser: Browser) -> dict[str, list[str]]:
    """Returns the cells of the table of collections by name."""
    cells = browser.texts("#collections tbody td")
    return {row[0]: row[1:] for row in (cells[at:at + 9] for at in range(0, len(cells), 9))}


def number(text: str) -> int:
    return int(text.replace(",", ""))


def last_word(kind, value: int) -> str:
    return kind.Name(value).split("_")[-1].lower()


def expected_row(pb, info) -> list[str]:
    form = f"{info.dim} · {last_word(pb.DataType, info.dtype)} · {last_word(pb.Metric, info.metric)}"
    scan = {pb.SCAN_PRECISION_ROWS: "exact rows", pb.SCAN_PRECISION_INT8: "int8 codes"}[info.scan_precision]
    return [f"{info.rows_count:,}", f"{info.rows_deleted:,}", form, scan, str(info.generations_count), str(info.epoch)]


def test_what_it_shows_is_what_the_calls_return(filled, browser, api, pb, rng) -> None:
    server = filled.server
    browser.console(), browser.requested()
    browser.open(filled.url)
    listed = server.admin.ListCollections(pb.ListCollectionsRequest(), timeout=DEADLINE_S).collections
    expected = {info.name: expected_row(pb, info) for info in listed}
    assert len(expected) == 2

    def shown() -> dict[str, list[str]]:
        return {name: [*cells[:5], cells[7]] for name, cells in rows_of(browser).items()}
    browser.wait(lambda: shown() == expected, f"rows like {expected}")
    assert browser.text("#badge") == "serving" and browser.texts("#notices p") == []

    capacity = server.admin.GetCapacity(pb.GetCapacityRequest(), timeout=DEADLINE_S)
    for name, used, limit in [("rows", capacity.device_bytes_used, capacity.device_bytes_total),
                              ("ids and payloads", capacity.host_bytes_used, capacity.host_bytes_total),
                              ("attributes", capacity.attribute_bytes_used, capacity.attribute_bytes_total)]:
        meter = f'#memory [role=meter][aria-label="{name}"]'
        assert [browser.attributes(meter, f"aria-value{each}") for each in ("now", "max")] == [[str(used)], [str(limit)]]
    assert capacity.device_name in browser.text("#device") and capacity.server_version in browser.text("#device")

    def searched() -> bool:
        api(server).search("numbers", rng.standard_normal(16, dtype=np.float32), k=3)
        return browser.text("#rate") not in ("–", "0.0") and browser.text("#path") == "100%"
    browser.wait(searched, "a rate of searches")
    assert re.fullmatch(r"\d+ µs|[\d.]+ m?s", browser.text("#p50")) and re.fullmatch(r"\d+ µs|[\d.]+ m?s", browser.text("#p99"))
    browser.wait(lambda: browser.attributes("#latency-line polyline", "class") == ["p50", "p99"], "lines")

    def audited() -> bool:
        counted = server.admin.GetCounters(pb.GetCountersRequest(), timeout=DEADLINE_S).audit
        return (counted.answers_audited_count > 0
                and browser.text("#audit").split() == ["audited", f"{counted.answers_audited_count:,},", "wrong", "0"])
    browser.wait(audited, "the figures of the audit")
    assert browser.console() == []
    requested = browser.requested()
    own = (filled.url, f"http://{server.http_address()}/", "data:")
    assert requested and all(url.startswith(own) for url in requested)


def answer_shown(browser: Browser) -> list[tuple[str, int]]:
    scores = np.array([np.float32(text) for text in browser.texts("#neighbors .score")], dtype=np.float32)
    return [(identity, int(bits)) for identity, bits in zip(browser.texts("#neighbors .id"), scores.view(np.uint32), strict=True)]


@pytest.mark.parametrize(("collection", "identity"), [("hostile", IDS[1]), ("hostile", IDS[3]), ("numbers", FIRST_NUMBER + 50)])
def test_a_search_by_id_shows_the_answer_of_the_call(filled, browser, api, pb, collection, identity) -> None:
    browser.open(filled.url)
    search(browser, collection, identity)
    query = pb.Query(row_id=pb.Id(text=identity) if isinstance(identity, str) else pb.Id(number=identity))
    reply = filled.server.retrieval.Search(pb.SearchRequest(collection=collection, queries=[query], k=10, with_payload=True),
                                           timeout=DEADLINE_S)
    expected = [(str(each), bits) for each, bits in api(filled.server).answer(reply.results[0])]
    assert len(expected) == min(10, 3 if collection == "hostile" else 96)
    assert answer_shown(browser) == expected
    # Bytes of clients are shown as text; those that are not UTF-8 as U+FFFD.
    shown = browser.run("return [...document.querySelectorAll('#neighbors pre')].map(e => e.textContent)")
    assert shown == [payload.decode(errors="replace") for payload in reply.results[0].payloads]
    assert f"{len(expected)} neighbors of epoch {reply.epoch}" in browser.text("#search-note")
    assert browser.run("return document.title") == "nearfield"
    assert browser.run("return document.querySelectorAll('#neighbors img, #neighbors script').length") == 0
    browser.click("#neighbors li:nth-child(2) .id")
    browser.wait(lambda: browser.texts("#neighbors .id") != [each for each, _ in expected], "another answer")
    assert expected[1][0] not in browser.texts("#neighbors .id")
    assert browser.console() == []


def test_attributes_stand_at_their_rows(filled, browser) -> None:
    browser.open(filled.url)
    search(browser, "hostile", IDS[0])
    texts = browser.run("return [...document.querySelectorAll('#neighbors .attributes')].map(e => e.textContent)")
    expected = {IDS[1]: "made: 2024-05-17T09:30:00.000Z", IDS[2]: "tags: ", IDS[3]: "tags: z"}
    assert dict(zip(browser.texts("#neighbors .id"), texts, strict=True)) == expected
    search(browser, "hostile", IDS[3])
    texts = browser.run("return [...document.querySelectorAll('#neighbors .attributes')].map(e => e.textContent)")
    assert f"tags: a, {HOSTILE}" in texts


def test_an_error_is_shown_in_its_words(filled, browser) -> None:
    browser.open(filled.url)
    search(browser, "numbers", FIRST_NUMBER + 50)
    search(browser, "numbers", 7)
    assert browser.text("#search-note").startswith("Not Found: ") and "row_id = 7" in browser.text("#search-note")
    assert browser.texts("#neighbors li") == []


def test_another_name_of_this_machine_shows_nothing(filled, browser) -> None:
    """DNS rebinding: to a browser, the name of another site that leads to loopback is that site."""
    browser.open(filled.url.replace("127.0.0.1", REBOUND))
    assert browser.text("body").endswith("must be localhost or an address of loopback")


def luminance(color: str) -> float:
    channels = [int(each) / 255 for each in re.findall(r"\d+", color)[:3]]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]
    return sum(part * each for part, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_in_both_schemes_and_on_a_phone(filled, browser, scheme) -> None:
    try:
        browser.look(390, 800, scheme)
        browser.open(filled.url)
        search(browser, "hostile", IDS[0])
        assert browser.run("return document.documentElement.scrollWidth") == 390
        color = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
        back = luminance(browser.run(color, ".card", "backgroundColor"))
        assert (back > 0.5) == (scheme == "light")
        for selector in ("#rate", "#p50", "#p99", "#wrong", ".note", "h2", "th", "td", ".id", "pre", ".score", "#search-note"):
            front = luminance(browser.run(color, selector, "color"))
            contrast = (max(front, back) + 0.05) / (min(front, back) + 0.05)
            assert contrast >= 4.5, f"{selector}: {contrast:.1f}; WCAG 2 asks for 4.5"
    finally:
        browser.look()


class Phase:
    """Serves the page of the tree with figures of a server in a phase that is hard to reach."""

    def __init__(self, readiness: dict, metrics: str, search: dict | None = None) -> None:
        start = {"address": "host:1", "python": "", "shell": "", "files": [], "search": search or {"note": "off here"}}
        replies = {"/readyz": json.dumps(readiness), "/metrics": 'nearfield_info{version="1"} 1\n' + metrics,
                   "/start.json": json.dumps(start),
                   "/history.json": '{"unix_ms": 0, "recent": [], "whole": []}'}
        kinds = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                file = PAGE / ("index.html" if self.path == "/" else self.path[1:])
                known = self.path in replies
                self.send_response(200)
                self.send_header("Content-Type", "application/json" if known else kinds[file.suffix])
                self.end_headers()
                self.wfile.write(replies[self.path].encode() if known else file.read_bytes())

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_port}/"

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()


LOADING = {"collections_loaded": 1, "collections_count": 4, "bytes_read": 3 << 20, "bytes_total": 12 << 20, "seconds_left": 12}
GPU = """nearfield_device_info{backend="gpu",device="H200"} 1
nearfield_memory_bytes{memory="device"} 1
nearfield_memory_bytes_max{memory="device"} 2
nearfield_gpu_sample_age_seconds 1.5
nearfield_gpu_utilization_ratio 0.42
nearfield_gpu_memory_used_bytes 1073741824
nearfield_gpu_memory_bytes 4294967296
nearfield_gpu_power_watts 300
nearfield_gpu_power_limit_watts 700
nearfield_gpu_temperature_celsius 61
nearfield_gpu_ecc_errors_total{type="corrected"} 2
nearfield_gpu_xid_events_total 1
"""
WRONG = "nearfield_audit_mismatches_total 1\n" 'nearfield_audit_answers_total{result="audited"} 1234\n'


def test_it_shows_how_far_the_start_is(browser) -> None:
    phase = Phase({"ready": False, "phase": "starting", "trusted": True, "reason": "the server is starting", "loading": LOADING}, "")
    browser.open(phase.url)
    browser.wait(lambda: browser.text("#badge") == "starting")
    assert browser.texts("#notices p") == ["the server is starting"]
    assert browser.text("#loading-text") == "Loaded 1 of 4 collections, 3.0 MiB of 12.0 MiB, 12.0 s left"
    assert browser.run("return document.querySelector('#progress').value") == LOADING["bytes_read"] / LOADING["bytes_total"]
    phase.close()


def test_it_shows_a_wrong_answer_and_the_gpu(browser) -> None:
    phase = Phase({"ready": False, "phase": "serving", "trusted": False, "reason": f"an answer was found to be wrong {HOSTILE}",
                   "damaged_collections": [{"collection": "docs", "reason": HOSTILE}]}, WRONG + GPU)
    browser.open(phase.url)
    browser.wait(lambda: browser.text("#badge") == "not trusted")
    assert browser.texts("#notices p") == [f"an answer was found to be wrong {HOSTILE}", f"docs: {HOSTILE}"]
    assert browser.text("#audit").split() == ["audited", "1,234,", "wrong", "1"]
    assert browser.attributes("#audit-tile", "class") == ["tile is-wrong"]
    assert browser.texts("#gpu-bars span") == ["42%", "1.0 GiB of 4.0 GiB", "300 of 700 W"]
    assert browser.text("#gpu-note") == "61 °C · ECC errors: 2 corrected · Xid events: 1 · read 1.5 s ago"
    assert browser.attributes("#memory [role=meter]", "aria-label") == ["rows, on the GPU"]
    assert browser.text("#search-note") == "off here"
    assert browser.run("return [...document.querySelector('#search').elements].every(each => each.disabled)")
    phase.close()


def test_a_search_without_an_answer_names_the_port(browser) -> None:
    """A tunnel that forwards the port of the page only."""
    port = f"http://127.0.0.1:{free_port()}"
    phase = Phase({"ready": True, "phase": "serving", "trusted": True, "reason": ""},
                  'nearfield_collection_info{collection="c",id_type="uint64"} 1\n', {"url": port, "needs_key": False, "note": ""})
    browser.open(phase.url)
    search(browser, "c", 1)
    assert re.match(f"no answer from {port}: .*tunnel must forward this port", browser.text("#search-note"))
    phase.close()


def test_with_tls_it_searches_if_the_browser_trusts_the_certificate(request, browser, tmp_path) -> None:
    new_certificate(tmp_path, "ca")
    new_certificate(tmp_path, "server", "ca")
    secure = Life(request, tmp_path, "--tls-cert", str(tmp_path / "server.pem"), "--tls-key", str(tmp_path / "server.key"))
    trusting = Browser("--ignore-certificate-errors")  # as if it had the authority
    try:
        secure.server.wait_serving()
        command = [request.config.getoption("--cli"), "--address", secure.server.address, "--ca", str(tmp_path / "ca.pem"), "demo"]
        subprocess.run(command, check=True, capture_output=True)
        trusting.open(secure.url)
        search(trusting, "packages", "gimp", k=4)
        assert len(trusting.texts("#neighbors .id")) == 4, trusting.text("#search-note")
        assert trusting.console() == []
        browser.open(secure.url)
        search(browser, "packages", "gimp", k=4)
        assert browser.text("#search-note").startswith(f"no answer from https://{secure.server.http_address()}: ")
        assert browser.texts("#neighbors .id") == []
    finally:
        trusting.close()
        secure.server.close()


def test_without_an_http_port_it_says_how_to_have_one(request, browser, pb, tmp_path) -> None:
    without = Life(request, tmp_path, http_listen="none")
    try:
        without.server.wait_serving()
        Api(without.server).create("c", 2)
        browser.open(without.url)
        browser.wait(lambda: browser.text("#search-note"))
        assert browser.text("#search-note").endswith("start it with --http-listen 127.0.0.1:50052")
        assert browser.run("return [...document.querySelector('#search').elements].every(each => each.disabled)")
    finally:
        without.server.close()


def test_with_keys_it_asks_for_one_and_keeps_it_in_memory(request, browser, pb, tmp_path) -> None:
    key_file = tmp_path / "keys.json"
    command = [request.config.getoption("--cli"), "keys", "create", "someone", "--scopes", "search,write,admin", "--key-file", str(key_file)]
    key = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    guarded = Life(request, tmp_path, "--key-file", str(key_file))
    try:
        guarded.server.wait_serving()
        metadata = [("authorization", f"Bearer {key}")]
        guarded.server.admin.CreateCollection(pb.CreateCollectionRequest(
            name="c", dim=2, metric=pb.METRIC_DOT, dtype=pb.DATA_TYPE_FLOAT32, id_type=pb.ID_TYPE_UINT64), metadata=metadata)
        browser.open(guarded.url)
        browser.wait(lambda: browser.text("#key-label"))
        browser.requested()
        browser.fill("#key", "nf_0123456789abcdef_0")
        search(browser, "c", 1)
        assert browser.text("#search-note") == "Unauthorized: authorization: no such key"
        browser.fill("#key", key)
        search(browser, "c", 1)
        assert browser.text("#search-note").startswith("Not Found: "), "the key was accepted; the collection is empty"
        stored = browser.run("return [document.cookie, localStorage.length, sessionStorage.length, location.href]")
        assert stored == ["", 0, 0, guarded.url]
        assert not any(key in url for url in browser.requested())
    finally:
        guarded.server.close()


def test_it_survives_a_restart_and_names_what_cannot_be_read(filled, browser) -> None:
    """The last test with this server: it damages the data."""
    browser.open(filled.url)
    browser.wait(lambda: len(rows_of(browser)) == 2)
    before = rows_of(browser)
    filled.server.kill()
    browser.wait(lambda: browser.text("#badge") == "not reachable")
    assert re.fullmatch(r"Not reachable since [\d:]{8}\. The figures are those of [\d:]{8}\.", browser.text("#notices p"))
    assert rows_of(browser) == before
    damage(sorted((filled.folder / "data").glob("*.seg"))[-1])
    filled.start()
    browser.wait(lambda: browser.text("#badge") == "serving")
    browser.wait(lambda: [text.split(":")[0] for text in browser.texts("#notices p")] == ["numbers"])
    assert ".seg" in browser.text("#notices p")
    assert rows_of(browser)["hostile"] == before["hostile"]
    assert browser.attributes("#collections tr.is-bad td:first-child", "class") == [None]


def test_picture(request, browser, tmp_path) -> None:
    """Takes the picture of README.md: the corpus of the demo under load."""
    picture = request.config.getoption("--picture")
    if picture is None:
        pytest.skip("only with --picture")
    life = Life(request, tmp_path, "--audit-one-in", "20", "--audit-cpu-percent", "10")
    command = [request.config.getoption("--cli"), "--address", life.server.address]
    queries = str(ROOT / "scripts" / "data" / "queries.f32.npy")
    try:
        life.server.wait_serving()
        subprocess.run([*command, "demo"], check=True, capture_output=True)
        browser.open(life.url)
        loads = itertools.repeat([*command, "search", "packages", "--queries", queries, "--batch", "1", "-k", "5"])
        for load in loads:
            subprocess.run(load, check=True, capture_output=True)
            first = browser.run("const line = document.querySelector('#rate-line polyline');"
                                "return line === null ? 120 : Number(line.getAttribute('points').split(',')[0])")
            if first < 5:  # the lines are almost two minutes long
                break
        search(browser, "packages", "gimp", k=4)
        browser.look(height=browser.run("return document.documentElement.scrollHeight"))
        browser.picture(picture)
        if shutil.which("pngquant"):
            subprocess.run(["pngquant", "--force", "--skip-if-larger", "--output", picture, picture], check=False)
    finally:
        life.server.close()
        browser.look()
    assert picture.stat().st_size < 150_000
