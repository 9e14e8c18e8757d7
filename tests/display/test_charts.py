"""The charts: what they draw, what they say to those who do not see them, and that they fit any page."""

from xml.etree import ElementTree

import lesson_samples
import numpy as np
import pytest
from lesson_pages import fixed_colours

from kda_learn import measure, occupancy_chart
from kda_learn.ground.errors import BadInput, MachineUnavailable
from kda_learn.kernel_a.variants import compile_stage
from kda_learn.records import store as records
from kda_learn.sources.stages import LADDER, stage

pytest.importorskip("matplotlib", reason="charts are drawn with matplotlib, which is not installed")

from kda_learn.display.figure import GREY
from kda_learn.display.ladder_charts import Change, delta_chart, ladder_chart

B32, B1 = "B32/T8192", "B1/T131072"


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch, tmp_path):
    """No GPU, and no records but those of a test; returns their folder."""
    monkeypatch.setenv("KDA_LEARN_MACHINE", "emulator")
    monkeypatch.setattr(records, "DATA", tmp_path)
    return tmp_path


@pytest.fixture
def recorded(no_gpu):
    lesson_samples.write_records(no_gpu)


@pytest.fixture
def compiler():
    """Skips where there is no NVRTC."""
    try:
        compile_stage(stage("s02"))
    except MachineUnavailable as missing:
        pytest.skip(str(missing))


def drawing(chart) -> ElementTree.Element:
    """The chart's SVG, read; its text is the page's, and its background is clear."""
    html = chart._repr_html_()
    assert fixed_colours(html) == [] and GREY not in html.split("</style>")[1]
    svg = html[html.index("<svg") : html.index("</svg>") + len("</svg>")]
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img" and root.get("aria-label") == chart.alt
    assert "fill: #ffffff" not in svg and chart.svg() == chart.svg()
    return root


def texts(root: ElementTree.Element) -> str:
    return " ".join(text for element in root.iter() if (text := (element.text or "").strip()))


def test_the_ladder_chart(recorded):
    chart = ladder_chart()
    text = texts(drawing(chart))
    assert all(rung.id in text for rung in LADDER)
    assert "NVIDIA H200, 132 SMs" in text and "article, H20" in text and "ms a launch" in text
    assert "s01: -11.9 % measured, -6.7 % in the article" in chart.alt
    assert "Recorded on 2026-11-30" in chart.caption


def test_the_ladder_chart_without_a_record_shows_the_article():
    chart = ladder_chart(B1)
    assert "NVIDIA" not in texts(drawing(chart)) and "no figure measured" in chart.alt
    assert chart.caption.endswith("Our own are not recorded.")
    with pytest.raises(BadInput, match="of which nothing is known"):
        ladder_chart("B2/T32")


def test_a_given_ladder():
    """What was measured just now; the config must be one of its own."""
    chart = ladder_chart(result=lesson_samples.ladder(["s00", "s01"], [B32]))
    assert "s01: -11.9 % measured" in chart.alt and chart.caption.startswith("Measured now on an NVIDIA H200")
    with pytest.raises(BadInput, match="and these were measured: B32/T8192"):
        ladder_chart(B1, result=lesson_samples.ladder(["s00", "s01"], [B32]))


def test_other_charts(recorded, compiler):
    times = measure("s02").chart()
    assert "B1/T131072" in texts(drawing(times)) and times.alt.startswith("s02 against s01. ")
    chart = measure("s02", blocks=[1, 2, 3, 4]).chart()
    assert "4 blocks: 60.0" in chart.alt or "4 blocks: 59.9" in chart.alt
    assert "; 1 block: 6" in chart.alt
    text = texts(drawing(chart))
    assert "blocks on an SM" in text and "s02, B32/T8192: ms a launch" in text
    occupancy = occupancy_chart("s00", "s01", "s02", "s12")
    assert "s01: 116,288 bytes, 1" in occupancy.alt and "2 up to 115,712 bytes" in occupancy.alt
    drawing(occupancy)
    assert str(occupancy).startswith("Blocks on an SM")


def test_an_interval_wider_than_the_axis_is_still_drawn():
    wide = Change(B32, -12.0, (-40.0, 20.0), -33.7)
    heights = [line.get_ydata() for line in delta_chart("s02", "s01", [wide], "Invented.").axes[0].lines]
    assert any(np.array_equal(ends, (-40.0, 20.0)) for ends in heights)
