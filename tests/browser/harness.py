"""Pages opened in headless Chromium, with what went wrong: console errors and requests to other hosts.

Needs Debian's packages chromium and chromium-driver, and selenium from PyPI.
"""

from __future__ import annotations

import functools
import http.server
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)
LOADING_SECONDS = 60


class Browser:
    """One Chromium, for any number of pages."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def look(
        self, *, width: int = 1100, height: int = 900, dark: bool = False, reduced_motion: bool = False
    ) -> None:
        """Sets the window's size in CSS pixels and what the system prefers; open pages follow."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        motion = {"name": "prefers-reduced-motion", "value": "reduce" if reduced_motion else "no-preference"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme, motion]})

    def open(self, url: str) -> None:
        """Loads a page and forgets what earlier pages said."""
        for log in ("browser", "performance"):
            self.driver.get_log(log)
        self.driver.get(url)

    def console_errors(self) -> list[str]:
        """Errors and warnings that pages wrote to the console since the last call."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] in ("SEVERE", "WARNING")
        ]

    def outside_requests(self, origin: str) -> list[str]:
        """Addresses other than the origin's that pages asked for since the last call."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        urls = [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]
        own = urlsplit(origin).netloc
        return [
            url for url in urls if urlsplit(url).scheme in ("http", "https") and urlsplit(url).netloc != own
        ]

    def screenshot(self, path: Path) -> None:
        """A picture of the whole page, down to its end."""
        result = self.driver.execute_cdp_cmd(
            "Page.captureScreenshot",
            {"captureBeyondViewport": True, "format": "png", "clip": self._whole_page()},
        )
        import base64

        path.write_bytes(base64.b64decode(result["data"]))

    def page_width(self) -> int:
        """How wide the page's contents are: more than the window's width means that something sticks out."""
        return int(self.driver.execute_script("return document.documentElement.scrollWidth"))

    def _whole_page(self) -> dict[str, float]:
        size = self.driver.execute_script(
            "const page = document.documentElement; return [page.clientWidth, page.scrollHeight]"
        )
        return {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}


@contextmanager
def browser() -> Iterator[Browser]:
    """A fresh Chromium; skips the test where there is none, except on CI, where it must be."""
    chromium, driver_path = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver_path:
        if os.environ.get("CI"):
            raise RuntimeError(
                "chromium or chromedriver is missing: apt-get install chromium chromium-driver"
            )
        pytest.skip("no chromium here: apt-get install chromium chromium-driver")
    with tempfile.TemporaryDirectory(prefix="chromium-") as profile:
        options = Options()
        options.binary_location = chromium
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = webdriver.Chrome(options=options, service=Service(driver_path))
        try:
            driver.set_page_load_timeout(LOADING_SECONDS)
            driver.set_script_timeout(LOADING_SECONDS)
            one = Browser(driver)
            one.look()
            yield one
        finally:
            driver.quit()


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing: requests are not worth a line each."""


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serves a folder on a free port of this machine; gives the address it starts with."""
    handler = functools.partial(_QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
