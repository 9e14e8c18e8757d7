"""The page of a reproduction in a real browser."""

import pytest
from pretended_reproduction import H20, Pretended

from kda_learn.ground.errors import MachineUnavailable
from kda_learn.reports import reproduce as reproduce_module
from kda_learn.reports.reproduce import reproduce

from .harness import serve
from .known_violations import new_violations


def missing():
    raise MachineUnavailable("No GPU can be used, the NVIDIA driver does not answer.")


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """The address of a measured page and of a recorded one."""
    folder = tmp_path_factory.mktemp("reports")
    with pytest.MonkeyPatch.context() as patch:
        pretended = Pretended()
        pretended.stand_in(patch)
        patch.setattr(reproduce_module, "hopper", lambda: H20)
        pretended.bad_stage = "s07"
        reproduce(folder / "measured")
        patch.setattr(reproduce_module, "hopper", missing)
        patch.setattr(reproduce_module, "describe", missing)
        reproduce(folder / "recorded")
    with serve(folder) as address:
        yield address


@pytest.mark.parametrize("kind", ["measured", "recorded"])
@pytest.mark.parametrize(("width", "dark"), [(1100, False), (1100, True), (360, False), (360, True)])
def test_the_page_of_a_reproduction(browser, reports, kind, width, dark):
    browser.open(f"{reports}/{kind}/report.html", width=width, dark=dark)
    assert browser.page_width() <= width
    too_small = browser.evaluate(
        "return [...document.querySelectorAll('svg text')]"
        ".filter(text => text.getBoundingClientRect().height < 8).length"
    )
    assert too_small == 0
    assert new_violations(browser) == []
    assert browser.problems(reports) == []
