"""A headless Chromium with the page of an operations port."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

DRIVER = Path("/usr/bin/chromedriver")
REBOUND = "rebound.example"  # a name of another site that leads to this machine
WAIT_S = 60
# No sandbox: the tests may run as root. Nothing but the tested server is reached.
ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--disable-background-networking", f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1"]

Found = TypeVar("Found")


class Browser:
    """One window. Texts and attributes are read at one moment, in one call."""

    def __init__(self, *arguments: str) -> None:
        options = webdriver.ChromeOptions()
        for argument in (*ARGUMENTS, *arguments):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
        self.look()

    def look(self, width: int = 1280, height: int = 800, scheme: str = "light") -> None:
        """Sets the size of the window, that of a phone below 600 pixels, and the color scheme."""
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def command(self, name: str, **arguments: object) -> dict:
        """Sends a command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(name, arguments)

    def open(self, url: str) -> None:
        self.driver.get(url)

    def run(self, script: str, *arguments: object) -> object:
        return self.driver.execute_script(script, *arguments)

    def texts(self, selector: str) -> list[str]:
        """Returns the texts of the elements that are shown."""
        return self.run("return [...document.querySelectorAll(arguments[0])].filter(e => e.checkVisibility())"
                        ".map(e => e.textContent.trim())", selector)

    def text(self, selector: str) -> str:
        return " ".join(self.texts(selector))

    def attributes(self, selector: str, name: str) -> list[str]:
        return self.run("return [...document.querySelectorAll(arguments[0])].map(e => e.getAttribute(arguments[1]))", selector, name)

    def fill(self, selector: str, value: object) -> None:
        self.run("document.querySelector(arguments[0]).value = arguments[1]", selector, str(value))

    def click(self, selector: str) -> None:
        self.driver.find_element("css selector", selector).click()

    def wait(self, probe: Callable[[], Found], what: str = "the page") -> Found:
        """Waits until the probe returns a true value, and returns it."""
        last: list[object] = []

        def holds(_: object) -> Found:
            last[:] = [found := probe()]
            return found
        try:
            return WebDriverWait(self.driver, WAIT_S, poll_frequency=0.05).until(holds)
        except TimeoutException:
            raise AssertionError(f"{what}: last {last}; notices {self.texts('#notices p')}; {self.text('#search-note')}; "
                                 f"console {self.console()}") from None

    def console(self) -> list[str]:
        """Returns the messages of the console since the last call: errors and violations of the policy."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requested(self) -> list[str]:
        """Returns the addresses that were requested since the last call."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def picture(self, path: Path) -> None:
        taken = self.command("Page.captureScreenshot", format="png", optimizeForSpeed=False)
        path.write_bytes(base64.b64decode(taken["data"]))

    def close(self) -> None:
        self.driver.quit()
