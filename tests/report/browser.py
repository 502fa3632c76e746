"""A headless Chromium that opens pages from files and tells what they do."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--force-device-scale-factor=1",
)  # fmt: skip
NAMES = ("chromium", "chromium-browser", "google-chrome")


class Browser:
    """One page at a time, at any width, light or dark, with or without JavaScript.

    Scripts of the test are run by the debugger, so they work where those of the page do not.
    """

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(
        self, path: Path, width: int = 1280, dark: bool = False, media: str = "screen",
        scripts: bool = True,
    ) -> None:  # fmt: skip
        """Open a file, whole: the window is as high as the page."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self._size(width, 900)
        self.driver.get_log("performance")
        self.driver.get_log("browser")
        self.driver.get(path.as_uri())
        self._size(width, min(int(self.value("document.documentElement.scrollHeight")), 16_000))

    def _size(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip

    def call(self, command: str, **given: Any) -> Any:
        """Call the browser's debugger."""
        return self.driver.execute_cdp_cmd(command, given)

    def value(self, expression: str) -> Any:
        """Return what an expression is in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def requests(self) -> list[str]:
        """Addresses that the page asked for since it was opened, itself and data in it aside."""
        messages = [json.loads(e["message"])["message"] for e in self.driver.get_log("performance")]
        asked = [
            str(m["params"]["request"]["url"])
            for m in messages
            if m["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in asked[1:] if not url.startswith("data:")]

    def complaints(self) -> list[str]:
        """Errors and warnings of the console."""
        return [str(entry["message"]) for entry in self.driver.get_log("browser")]

    def screenshot(self, path: Path) -> None:
        """Write what is seen as PNG."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def pages(self) -> bytes:
        """Print to PDF."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Start a browser with an empty profile; skip where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    binary = next(filter(None, map(shutil.which, NAMES)), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no chromium and chromedriver on the PATH")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    started = webdriver.Chrome(options, webdriver.ChromeService(driver))
    try:
        yield Browser(started)
    finally:
        started.quit()
