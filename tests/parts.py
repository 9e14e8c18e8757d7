"""The minutes that CI allots to each part of the tests, and what each part took.

A part's time is that of its tests and their fixtures, added up and divided by the number of workers: what it
adds to a run that uses all cores.
"""

from __future__ import annotations

import os
import time
from fnmatch import fnmatch

import pytest

ALLOTTED = [
    # Part, minutes, where its tests lie; a test belongs to the first part that it fits.
    ("browsers", 5, ["tests/browser/*"]),
    ("notebooks and site", 10, ["tests/site/*"]),
    ("random kernels", 3, ["tests/oracle/*"]),
    ("tests", 6, ["tests/*"]),
]
REST = ("the rest", 6)
"""What .ci/run does besides: set-up and the linters. It says in CI_STARTED when it began."""

_seconds: dict[str, float] = {}
_session_started = time.time()


def part_of(nodeid: str) -> str:
    """The part that a test belongs to."""
    return next(part for part, _, patterns in ALLOTTED if any(fnmatch(nodeid, each) for each in patterns))


def rows(seconds: dict[str, float], workers: int, rest: float | None) -> list[tuple[str, float, int]]:
    """Each part that has run: its name, the seconds it took, those it is allotted."""
    taken = [
        (part, seconds[part] / workers, 60 * minutes) for part, minutes, _ in ALLOTTED if part in seconds
    ]
    return taken if rest is None else [*taken, (REST[0], rest, 60 * REST[1])]


def _rows(config: pytest.Config) -> list[tuple[str, float, int]]:
    workers = config.getoption("numprocesses", None) or 1
    started = os.environ.get("CI_STARTED")
    return rows(_seconds, workers, _session_started - float(started) if started else None)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Called in the process that shows the results, for set-up, call and tear-down of every test."""
    part = part_of(report.nodeid)
    _seconds[part] = _seconds.get(part, 0.0) + report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for part, taken, allotted in _rows(config):
        over = ": too long, make it faster or allot it more in tests/parts.py" if taken > allotted else ""
        terminalreporter.write_line(f"{part}: {taken:.0f} s of {allotted} s allotted{over}")
