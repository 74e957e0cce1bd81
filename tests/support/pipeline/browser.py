"""A real headless browser, in which tests open pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.support.wait import WebDriverWait

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_PATIENCE_S = 60
_OF_A_SCRIPT_S = 300
"""A machine that runs clusters beside it may take a minute to lay a page out."""
_ALL_DRAWN = """
return document.readyState === 'complete' && [...document.querySelectorAll('.drawing')].every(
    (place) => place.querySelector('g.trace, g.hm') !== null);
"""


class Browser:
    """Shows one page at a time, from a file, with keys and media settings like a person's."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self._driver = driver

    def show(self, page: Path, *, width: int = 1280, dark: bool = False) -> None:
        """Load a page, and wait until its figures are drawn."""
        self.be(width, dark=dark)
        self.load(page)
        self.wait_until(_ALL_DRAWN)

    def load(self, page: Path) -> None:
        """Load a page."""
        self.said()  # drop the messages of earlier pages
        self._driver.get(page.as_uri())

    def be(self, width: int, *, dark: bool) -> None:
        """Set the width of the window, and the preference for dark or light pages."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self._driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    @contextmanager
    def on_paper(self, width: int) -> Iterator[None]:
        """Show the page as it is printed, between margins so far apart; then as it was."""
        self.ask("window.dispatchEvent(new Event('beforeprint'))")
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self._driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self._driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        try:
            yield
        finally:
            self._driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
            self.ask("window.dispatchEvent(new Event('afterprint'))")

    def ask(self, script: str, *arguments: object) -> Any:
        """Run a script in the page, and return its result."""
        return self._driver.execute_script(script, *arguments)

    def wait_until(self, script: str) -> None:
        """Wait until a script in the page returns a true value."""
        WebDriverWait(self._driver, _PATIENCE_S, 0.05).until(lambda _: self.ask(script))

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        ActionChains(self._driver).send_keys(*keys).perform()

    def said(self) -> list[str]:
        """Return the page's console messages since the last call: errors, warnings, violations."""
        logged: Any = self._driver.get_log("browser")  # type: ignore[no-untyped-call]  # selenium's
        return [str(entry["message"]) for entry in logged]

    @contextmanager
    def without(self, name: str) -> Iterator[None]:
        """Remove a property of `window`, as in an old browser."""
        source = {"source": f"delete window.{name}"}
        script = self._driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", source)
        try:
            yield
        finally:
            self._driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


@contextmanager
def a_browser() -> Iterator[Browser]:
    """Start a browser, and close it at the end."""
    driver = shutil.which("chromedriver")
    assert driver is not None, "chromedriver is missing: scripts/ensure-browser.sh installs it"
    options = webdriver.ChromeOptions()
    options.binary_location = next((path for name in _NAMES if (path := shutil.which(name))), "")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=Service(driver))
    chrome.set_script_timeout(_OF_A_SCRIPT_S)
    try:
        yield Browser(chrome)
    finally:
        chrome.quit()
