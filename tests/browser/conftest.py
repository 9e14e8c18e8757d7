"""The browsers that the tests of this folder run in."""

from collections.abc import Callable, Iterator

import pytest

from .explorer import Explorer
from .harness import PROGRAMS, Browser, serve, started
from .sample_pages import PAGES
from .widget_page import write_page, write_scripts


@pytest.fixture(scope="session", params=list(PROGRAMS))
def browser(request: pytest.FixtureRequest) -> Iterator[Browser]:
    """Chromium, and then Firefox."""
    with started(request.param) as one:
        yield one


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Chromium alone, for what costs much and asks little of the browser."""
    with started("chromium") as one:
        yield one


@pytest.fixture(scope="session")
def explorers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the pages of PAGES: each with the scripts as they are, and as Jupyter gets them."""
    folder = tmp_path_factory.mktemp("pages")
    write_scripts(folder)
    for scripts in ("modules", "bundled"):
        for name, on_page in PAGES.items():
            write_page(folder, f"{name}-{scripts}", on_page, scripts)
    with serve(folder) as address:
        yield address


@pytest.fixture
def show(browser: Browser, explorers: str) -> Iterator[Callable[..., Explorer]]:
    """A function that opens a page and gives its explorer; afterwards nothing must have gone wrong there."""

    def open_page(name: str, *, number: int = 0, scripts: str = "modules", **look: bool | int) -> Explorer:
        browser.open(f"{explorers}/{name}-{scripts}.html", **look)
        return Explorer(browser, number)

    yield open_page
    assert browser.problems(explorers) == []
