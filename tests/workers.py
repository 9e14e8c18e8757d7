"""How tests share the cores: `make test` starts a worker (pytest-xdist) for each.

A group of tests goes to one worker, in which fixtures such as the built site are made once. A module is a
group, but for those of LONG.
"""

from __future__ import annotations

import os
from fnmatch import fnmatch

import pytest

THREADS = 2  # of one test: each worker has a core, and the last one at work may use another

LONG = [
    ("site", "tests/site/test_notebooks.py*"),  # the site shows what these have run
    ("site", "tests/site/test_site.py*"),
    ("site", "tests/browser/test_site.py*"),
    ("firefox", "tests/browser/*firefox*"),
    ("chromium", "tests/browser/*"),
]
"""Groups that take long, and which tests they hold. They start first, or the other workers would wait."""


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        return
    # Tests and what they start would each take all cores, and hold each other up.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    threads = min(os.cpu_count() or 1, THREADS)
    os.cpu_count = lambda: threads


def group_of(nodeid: str) -> tuple[int, str]:
    """When a test's group starts, and its name."""
    for place, (group, pattern) in enumerate(LONG):
        if fnmatch(nodeid, pattern):
            return place, group
    return len(LONG), nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)  # a computer without pytest-xdist runs the tests one after the other
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Gives each worker one group after the other."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)[1]

    return Groups(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: group_of(item.nodeid)[0])
