"""The page of a reproduction: what it says, that it stands alone, and how it looks in a browser."""

from dataclasses import replace

import pytest
from browser.harness import browser
from pretended import B32, H20, NO_NCU, TWO, Pretended

from kda_learn.ground.errors import MachineUnavailable
from kda_learn.reports import parts as reproduce_parts
from kda_learn.reports import reproduce as reproduce_module
from kda_learn.reports.page import page
from kda_learn.reports.reproduce import reproduce


def missing():
    raise MachineUnavailable("No GPU can be used, the NVIDIA driver does not answer.")


def measured_page(machine, tmp_path, **changes):
    found = reproduce(tmp_path, **changes)
    return found, (tmp_path / "report.html").read_text()


def test_the_page_stands_alone(machine, tmp_path):
    found, text = measured_page(machine, tmp_path)
    assert "<script" not in text and " src=" not in text and "@import" not in text and "url(" not in text
    assert text.count("<svg") == 3 + 2
    for row in found.rows:
        assert f"<dt>{row.stage}</dt>" in text
    assert "H200, 132 SMs" in text and "H200, 80 SMs" in text
    assert "same sign, other size" in text
    assert "1.2" in text and "its products would take" in text
    assert "yuyanqi.com" in text
    assert "Driver 570.1, CUDA 12.8, NVRTC 12.9." in text


def test_only_the_same_comparison_stands_beside(machine, tmp_path, monkeypatch):
    """s11 against s02, which is not what the record compares it with."""
    ladders = machine.ladders

    def against_s02(stages, configs, sms, heads):
        (found,) = ladders(stages, configs, sms, heads)
        rows = [replace(row, base="s02") if row.stage == "s11" else row for row in found.rows]
        return [replace(found, rows=rows)]

    monkeypatch.setattr(reproduce_parts, "measured_ladders", against_s02)
    _, text = measured_page(machine, tmp_path, **TWO)
    cells = {
        stage: text.split(f'<th scope="row">{stage}</th>')[1].split("</tr>")[0].count("%") for stage in TWO["stages"]
    }
    assert cells == {"s11": 2, "s12": 4}  # its own change and the article's; and those of two records


def test_the_page_says_whose_counters(machine, tmp_path):
    machine.failing["profile"] = MachineUnavailable(NO_NCU)
    _, text = measured_page(machine, tmp_path, **TWO)
    assert "They are recorded ones, not this GPU's." in text


def test_a_page_without_any_figures(tmp_path, machine):
    """A stage that was not timed, no ceilings, no counters: nothing fails, nothing is drawn from nothing."""
    found = reproduce(tmp_path, stages=["s12"], configs=[B32])
    nothing = {"median_us": None, "delta_pct": None, "delta_ci_pct": None, "verdict": None}
    rows = [replace(row, **nothing, reason="not timed, its check fails") for row in found.rows]
    found.ladders = [replace(found.ladders[0], rows=rows)]
    found.roofline, found.limits, found.profiles = [], None, []
    text = page(found)
    assert "not timed, its check fails" in text
    assert "<svg" not in text


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A measured page and a recorded one."""
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
    return folder


@pytest.fixture(scope="module")
def chromium():
    with browser() as one:
        yield one


@pytest.mark.parametrize("kind", ["measured", "recorded"])
@pytest.mark.parametrize(("width", "dark"), [(1100, False), (1100, True), (360, False), (360, True)])
def test_the_page_in_a_browser(chromium, pages, kind, width, dark):
    one = chromium
    one.look(width=width, dark=dark)
    url = (pages / kind / "report.html").as_uri()
    one.open(url)
    assert one.console_errors() == []
    assert one.outside_requests(url) == []
    assert one.page_width() <= width
    colors = one.driver.execute_script(
        "const style = getComputedStyle(document.body); return [style.color, style.backgroundColor]"
    )
    assert contrast(*colors) > 7
    too_small = one.driver.execute_script(
        "return [...document.querySelectorAll('svg text')]"
        ".filter(text => text.getBoundingClientRect().height < 8).length"
    )
    assert too_small == 0


def contrast(*colors: str) -> float:
    """WCAG's contrast ratio of two colours such as "rgb(31, 35, 40)"."""

    def luminance(color: str) -> float:
        channels = [int(part) / 255 for part in color.strip("rgb()").split(",")[:3]]
        linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in channels]
        return sum(weight * x for weight, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted(luminance(color) for color in colors)
    return (high + 0.05) / (low + 0.05)
