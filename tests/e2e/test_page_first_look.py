"""The page of the operations port for someone who opens it for the first time: words that are
explained, an id to try, lines that go back to the start, and code for an empty server."""

from __future__ import annotations

import json
import re
import subprocess

import numpy as np
import pytest
from browser import DRIVER, Browser
from page_site import FIRST_NUMBER, IDS, Life, browser, fetch, filled, life, search  # noqa: F401

pytestmark = pytest.mark.skipif(not DRIVER.exists(), reason="needs chromium-driver")


def test_an_id_to_try_first_stands_in_the_field(filled, browser) -> None:
    """It is an id of the chosen collection, unless the visitor has typed one."""
    browser.open(filled.url)

    def choose(collection: str) -> None:
        browser.wait(lambda: browser.run(
            "const choice = document.querySelector('#collection'); choice.value = arguments[0];"
            "choice.dispatchEvent(new Event('change')); return choice.value === arguments[0]", collection))
    field = "return document.querySelector('#row-id').value"
    for collection, identity in (("numbers", str(FIRST_NUMBER + 3)), ("hostile", min(IDS)), ("numbers", str(FIRST_NUMBER + 3))):
        choose(collection)
        browser.wait(lambda identity=identity: browser.run(field) == identity, identity)
    browser.click("#search button")
    browser.wait(lambda: browser.texts("#neighbors .id"), "neighbors of the example")
    browser.fill("#row-id", "typed")
    choose("hostile")
    browser.requested()
    browser.wait(lambda: [url for url in browser.requested() if url.endswith("/metrics")], "another look at the server")
    assert browser.run(field) == "typed"


def test_every_term_is_explained_on_hover_and_on_focus(filled, browser) -> None:
    browser.open(filled.url)
    browser.wait(lambda: browser.texts("#memory [data-tip]"))
    shown = "return [...document.querySelectorAll('[data-tip]')].filter(e => e.checkVisibility())"
    terms = browser.run(f"{shown}.map(e => [e.textContent.trim(), e.dataset.tip, e.ariaDescription, e.tabIndex])")
    assert {"epoch", "generations", "certified", "Scan precision", "escalated", "scrub", "k"} <= {each[0] for each in terms}
    assert browser.run("return document.querySelectorAll('[data-term]:not([data-tip]), [data-tip=undefined]').length") == 0
    for name, tip, description, tab in terms:
        assert len(tip) > 10 and description == tip and tab == 0, name
    inside = ("const [term, width] = [%s[arguments[0]], document.documentElement.clientWidth]; term.focus();"
              "const tip = getComputedStyle(term, '::after');"
              "return [tip.content, document.documentElement.scrollWidth <= width]" % shown.removeprefix("return "))
    try:
        for width in (390, 1024, 1280):
            browser.look(width)
            for place, (name, tip, _, _) in enumerate(terms):
                content, fits = browser.run(inside, place)
                assert json.loads(content) == tip and fits, f"{name}: {content}, at {width} pixels"
    finally:
        browser.look()
    browser.driver.switch_to.active_element.send_keys("\ue00c")  # Escape
    assert browser.run("return document.activeElement === document.body")


def test_the_lines_begin_before_the_page_was_opened(filled, browser, api, rng) -> None:
    """They are those that the server kept: of the last two minutes, or since its start."""
    def kept() -> dict:
        return json.loads(fetch(filled.url + "history.json"))

    def searches() -> int:
        return sum(kept()["recent"][-1]["by_time"])
    before = searches()
    api(filled.server).search("numbers", rng.standard_normal(16, dtype=np.float32), k=3)
    browser.wait(lambda: searches() > before and len(kept()["recent"]) > 5, "moments before and after a search")
    moments = kept()
    browser.console()
    browser.open(filled.url)
    points = "return document.querySelector('#rate-line polyline')?.getAttribute('points').split(' ').length"
    browser.wait(lambda: browser.text("#badge") == "serving" and browser.run(points))
    assert browser.run(points) >= min(len(moments["recent"]), 100) - 1, "the first moment has no rate"
    browser.wait(lambda: browser.text("#latency-top").startswith("highest "))
    assert browser.texts(".begin") == ["2 min ago"] * 2
    browser.click("#whole")
    uptime = (moments["unix_ms"] - moments["whole"][0]["unix_ms"]) / 1000
    browser.wait(lambda: "2 min ago" not in browser.texts(".begin") or uptime >= 110, "the time since the start")
    browser.wait(lambda: browser.run(points) >= min(len(moments["whole"]), 100) - 1, "the moments of the server")
    assert browser.console() == []


def test_on_a_cpu_no_word_is_about_a_gpu(filled, browser) -> None:
    browser.open(filled.url)
    search(browser, "numbers", FIRST_NUMBER + 50)
    words = browser.run("return document.body.innerText + [...document.querySelectorAll('[data-tip], [aria-label]')]"
                        ".filter(e => e.checkVisibility()).map(e => e.dataset.tip + e.ariaLabel)")
    assert "CPU" in words
    assert re.findall(r"GPU|VRAM|[Dd]evice", words) == []


@pytest.fixture
def empty(request, tmp_path):
    made = Life(request, tmp_path)
    made.server.wait_serving()
    yield made
    made.server.close()


def test_an_empty_server_shows_how_to_fill_it(empty, browser, request) -> None:
    """The code is that of /start.json, which tests/python runs; the command runs here, as it is shown."""
    browser.console()
    browser.open(empty.url)
    browser.wait(lambda: browser.text("#start-card"))
    assert set(browser.texts(".address")) == {empty.server.address}
    start = json.loads(fetch(empty.url + "start.json"))
    assert [browser.text("#python"), browser.text("#shell")] == [start["python"].strip(), start["shell"]]
    assert browser.texts("#collections-card, #search-card") == []
    copied = "return getSelection().toString().trim()"
    for code in ("python", "shell"):
        browser.click(f"[data-copies={code}]")
        browser.wait(lambda code=code: browser.text(f"[data-copies={code}]") == "Copied")
        assert browser.run(copied) == start[code].strip()
    program, *arguments = browser.text("#shell").split()
    assert program == "nearfield"
    subprocess.run([request.config.getoption("--cli"), *arguments], check=True, capture_output=True)
    browser.wait(lambda: browser.texts("#collections-card td:first-child") == ["packages"])
    assert browser.text("#start-card") == ""
    browser.wait(lambda: browser.run("return document.querySelector('#row-id').value"), "an id to try")
    assert browser.console() == []
