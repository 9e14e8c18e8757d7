"""The ladder, and what every stage file promises about itself: header, sections, shared memory."""

import re

import pytest

from kda_learn.ground.errors import BadInput
from kda_learn.ground.files import KERNELS
from kda_learn.sources.stages import LADDER, STAGES, Stage, diff, stage

V_SPLITS = (1, 2, 4, 8)
BANNERS = ["start", "load", "snapshot", "r1", "g1 g2", "g3", "g4 g5", "combine", "publish", "finish"]
BASES = {
    "s00": None,
    "s01": "s00",
    "s02": "s01",
    "s03a": "s02",
    "s03b": "s03a",
    "s04": "s03b",
    "s05": "s04",
    "s06": "s05",
    "s07": "s06",
    "s08": "s06",
    "s09": "s08",
    "s10": "s09",
    "s11": "s09",
    "s12x": "s11",
    "s12": "s11",
}
DYNAMIC_BYTES = {  # at VSPLIT 1
    "s00": 124_480,
    "s01": 116_288,
    "s07": 55_872,
    "s08": 67_136,
    "s09": 67_136,
    "s10": 67_136,
    "s11": 67_904,
    "s12": 67_520,
} | dict.fromkeys(["s02", "s03a", "s03b", "s04", "s05", "s06"], 50_752)

every_stage = pytest.mark.parametrize("built", STAGES, ids=lambda built: built.id)


def test_the_ladder():
    assert {rung.id: rung.base for rung in LADDER} == BASES
    assert [rung.id for rung in LADDER if rung.dead_end] == ["s07", "s10", "s12x"]


def test_every_kernel_file_is_a_rung():
    assert {path.name for path in (KERNELS / "kernel_a").glob("s*.cu")} == {rung.path.name for rung in STAGES}


def test_a_base_comes_before_what_is_built_on_it():
    seen: set[str | None] = {None}
    for rung in LADDER:
        assert rung.base in seen
        seen.add(rung.id)


@every_stage
def test_header_is_complete(built):
    header = built.source.header
    assert header.stage == built.id
    assert header.title == built.title
    assert built.idea
    assert header.remains
    assert header.was_slow or built.base is None


@every_stage
def test_kernel_has_the_banners_in_order(built):
    sections = list(dict.fromkeys(built.source.sections.values()))
    assert [section for section in sections if section in BANNERS] == BANNERS


@every_stage
def test_shared_memory_is_the_budget(built):
    if built.id in DYNAMIC_BYTES:
        assert built.source.constants()["BYTES"] == DYNAMIC_BYTES[built.id]


@every_stage
@pytest.mark.parametrize("v_split", V_SPLITS)
def test_shared_memory_has_no_dead_bytes(built, v_split):
    """Regions follow each other without gaps, and each is as large as what it holds."""
    regions = [region for region in built.source.regions(VSPLIT=v_split) if not region.overlay]
    offset = 0
    for region in regions:
        assert region.offset == offset, region
        assert region.size == region.contents_bytes, region
        offset = region.end
    assert offset == built.source.constants(VSPLIT=v_split)["BYTES"]


@every_stage
@pytest.mark.parametrize("v_split", V_SPLITS)
def test_overlays_lie_within_one_region(built, v_split):
    regions = built.source.regions(VSPLIT=v_split)
    sections = set(built.source.sections.values())
    for overlay in regions:
        if overlay.overlay:
            below = [
                r for r in regions if not r.overlay and r.offset <= overlay.offset and overlay.end <= r.end
            ]
            assert len(below) == 1, overlay
            assert set(overlay.sections) <= sections, overlay


@every_stage
def test_sizes_written_in_comments_are_right(built):
    for name, written in re.findall(r"u32 (\w+) =[^;]+;  // overlay \[bytes (\d+)\]", built.source.text):
        size = next(region.size for region in built.source.regions() if region.name == name)
        assert size == int(written), name


@every_stage
def test_lifetimes_name_sections(built):
    for region in built.source.regions():
        if not region.overlay:
            written, read = region.lifetime.split(" .. ")
            named = written.split(", ") + read.split(", ")
            assert set(named) <= set(BANNERS), region


@every_stage
def test_every_constant_can_be_read(built):
    for v_split in V_SPLITS:
        constants = built.source.constants(VSPLIT=v_split)
        assert constants["DV"] * v_split == constants["D"] == 128
        assert constants["C"] == 16


def test_stage_by_id_and_by_full_name():
    assert stage("s12").slug == "odd_half_stride"
    assert stage("s12_odd_half_stride") is stage("s12")
    assert stage("s12").path.name == "s12_odd_half_stride.cu"


@pytest.mark.parametrize("name", ["s99", "s12_", "12", "", "s12_pad"])
def test_unknown_names_are_told_the_known_ones(name):
    with pytest.raises(BadInput, match=rf"stage '{name}' was given.*choose one of s\d\d.*s12"):
        stage(name)


def test_a_stage_without_file_says_so():
    with pytest.raises(BadInput, match=r"s77_none\.cu was given, which is no file"):
        _ = Stage("s77", "none", base=None).title


def test_diff_against_base_and_against_another():
    found = diff("s12")
    assert (found.base_name, found.name) == ("s11_pad.cu", "s12_odd_half_stride.cu")
    assert 0 < found.code_lines <= 40
    assert "QK_STRIDE = 130" in found.text
    assert diff("s12", "s12").hunks == []
    assert diff("s12", base="s09").code_lines > found.code_lines


def test_the_first_stage_has_no_diff():
    with pytest.raises(BadInput, match="stage s00 was given, which has no base"):
        diff("s00")
