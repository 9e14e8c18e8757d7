"""Pages opened in a real Chromium or Firefox, with what went wrong: console errors, requests to other hosts.

driver.js does the work, by puppeteer-core. The browsers are Debian's packages chromium and firefox-esr.
"""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from node import PACKAGES, missing, node

PROGRAMS = {"chromium": ("chromium", "google-chrome"), "firefox": ("firefox-esr", "firefox")}
PATIENCE = 60  # seconds to wait for what a page should do


class BrowserError(Exception):
    """What a browser says when it cannot do what it was asked for."""


class Browser:
    """One browser with one page.

    A script is the body of a JavaScript function, of which `return` gives the result; it sees the keyword
    arguments as variables. A script for `click`, `hover`, `select` and `focus` must return an element.
    """

    def __init__(self, name: str, driver: subprocess.Popen[str]) -> None:
        self.name = name
        self._driver = driver

    def open(
        self,
        url: str,
        *,
        width: int = 1100,
        height: int = 900,
        dark: bool = False,
        reduced_motion: bool = False,
    ) -> None:
        """Loads a page and forgets what earlier pages said. dark, reduced_motion: what the system prefers."""
        self._do("open", url=url, width=width, height=height, dark=dark, reducedMotion=reduced_motion)

    def resize(self, width: int, height: int) -> None:
        """Sets the window's size in CSS pixels; the open page follows."""
        self._do("resize", width=width, height=height)

    def evaluate(self, script: str, **values: Any) -> Any:
        """What a script returns; a promise is waited for."""
        return self._do("evaluate", script=_call(script, values))

    def wait_for(self, script: str, **values: Any) -> Any:
        """Runs a script until it returns something true, and gives that."""
        end = time.monotonic() + PATIENCE
        while not (value := self.evaluate(script, **values)):
            assert time.monotonic() < end, f"after {PATIENCE} seconds still {value!r}: {script}"
            time.sleep(0.05)
        return value

    def click(self, script: str, **values: Any) -> None:
        """Clicks the middle of an element, once it has been scrolled to."""
        self._do("click", script=_call(script, values))

    def hover(self, script: str, **values: Any) -> None:
        """Moves the pointer to an element."""
        self._do("hover", script=_call(script, values))

    def select(self, value: str, script: str, **values: Any) -> None:
        """Chooses an entry of a drop-down by its value."""
        self._do("select", value=value, script=_call(script, values))

    def focus(self, script: str, **values: Any) -> None:
        """Gives an element the focus."""
        self.evaluate(f"(() => {{ {script} }})().focus()", **values)

    def press(self, *keys: str) -> None:
        """Presses keys one after the other, such as "ArrowRight", "Enter" or "Control+a"."""
        for key in keys:
            self._do("press", keys=key)

    def type(self, text: str) -> None:
        """Types a text where the focus is."""
        self._do("type", text=text)

    def problems(self, origin: str) -> list[str]:
        """What went wrong since the page was opened, or since the last call.

        Errors and warnings in the console, files that are missing, and requests to other hosts than `origin`.
        """
        said = self._do("takeSaid")
        own = urlsplit(origin).netloc
        outside = [
            f"asks another host: {url}"
            for url in said["requests"]
            if urlsplit(url).scheme in ("http", "https") and urlsplit(url).netloc != own
        ]
        return said["console"] + outside

    def page_width(self) -> int:
        """How wide the page's contents are: more than the window's width means that something sticks out."""
        return self.evaluate("return document.documentElement.scrollWidth")

    def accessibility_violations(self) -> list[dict[str, Any]]:
        """What axe-core finds on the open page: `rule`, `help` (what is wanted) and `places` (selectors)."""
        return self._do("axe")

    def screenshot(self, path: Path) -> None:
        """A picture of the whole page, down to its end."""
        self._do("screenshot", path=str(path))

    def _do(self, command: str, **given: Any) -> Any:
        """One command to driver.js, and its answer."""
        self._driver.stdin.write(json.dumps({"command": command, **given}) + "\n")
        self._driver.stdin.flush()
        line = self._driver.stdout.readline()
        if not line:
            raise BrowserError(f"{self.name} ended during {command!r}, see above for its last words.")
        answer = json.loads(line)
        if "error" in answer:
            raise BrowserError(f"{self.name}, {command}: {answer['error']}")
        return answer["value"]


def _call(script: str, values: dict[str, Any]) -> str:
    """A script as an expression: a function called with these values."""
    return f"(async ({{ {', '.join(values)} }}) => {{ {script} }})({json.dumps(values)})"


@contextmanager
def started(name: str) -> Iterator[Browser]:
    """A fresh "chromium" or "firefox"; where it is missing the test is skipped, except on CI."""
    program = next(filter(None, map(shutil.which, PROGRAMS[name])), None)
    if program is None:
        missing(f"{name} is missing: apt-get install {PROGRAMS[name][0]}")
    if not (PACKAGES / "node_modules").is_dir():
        missing("the npm packages of tests/browser are missing: run `make test-setup`.")
    command = [node(), str(PACKAGES / "driver.js"), name, program]
    driver = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield Browser(name, driver)
    finally:
        driver.stdin.close()  # it then closes the browser and ends
        driver.stdout.close()
        try:
            driver.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            driver.kill()


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
