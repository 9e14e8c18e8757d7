"""A real JupyterLab on this machine, with one notebook."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
from paths import REPOSITORY

from .harness import Browser

STARTING_SECONDS = 60
CLICKS = 30
NOTEBOOK = "chapter.ipynb"


@contextmanager
def serve_notebook(folder: Path, source: str) -> Iterator[str]:
    """JupyterLab on a notebook of one cell in `folder`; gives the address that opens it.

    Nothing of the user's own Jupyter is read or written: all of that lies in `folder`.
    """
    cell = nbformat.v4.new_code_cell(source)
    python3 = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(
        nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": python3}), folder / NOTEBOOK
    )
    kinds = ("CONFIG", "DATA", "RUNTIME")
    environment = os.environ | {f"JUPYTER_{kind}_DIR": str(folder / kind.lower()) for kind in kinds}
    environment |= {"IPYTHONDIR": str(folder), "KDA_LEARN_PROGRESS": str(folder / "progress.json")}
    environment["PYTHONPATH"] = str(REPOSITORY)  # this checkout's package, installed or not
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", "--log-level=ERROR"]
    command += [f"--ServerApp.root_dir={folder}", "--ServerApp.port=0", "--IdentityProvider.token="]
    command += ["--LabApp.news_url=None", "--LabApp.extension_manager=readonly"]  # ask no other host
    server = subprocess.Popen(command, env=environment)
    try:
        yield f"{_address(server, folder / 'runtime')}lab/tree/{NOTEBOOK}"
    finally:
        server.terminate()
        server.wait(STARTING_SECONDS)


def _address(server: subprocess.Popen[bytes], runtime: Path) -> str:
    """Where a starting server is found, once it has said so in its runtime folder."""
    end = time.monotonic() + STARTING_SECONDS
    while time.monotonic() < end:
        assert server.poll() is None, "JupyterLab did not start, see above"
        for path in runtime.glob(f"jpserver-{server.pid}.json"):
            try:
                return json.loads(path.read_text())["url"]
            except ValueError:
                pass  # still being written
        time.sleep(0.1)
    raise AssertionError(f"JupyterLab did not start within {STARTING_SECONDS} seconds")


def run_cell(browser: Browser) -> None:
    """Runs the notebook's first cell by the button for it, and waits until it has run."""
    button = "return document.querySelector('[data-command=\"notebook:run-cell-and-select-next\"]')"
    prompt = "document.querySelector('.jp-Notebook .jp-InputPrompt')?.textContent"
    browser.wait_for(f"return (() => {{ {button} }})() !== null && {prompt} === '[ ]:'")
    for _ in range(
        CLICKS
    ):  # JupyterLab drops a click while its kernel is still starting, and does not say so
        browser.click(button)
        time.sleep(1)
        if browser.evaluate(f"return {prompt} !== '[ ]:'"):
            break
    browser.wait_for(f"return /[0-9]/.test({prompt})")
