"""Shared memory as it is used: sizes, no byte that nobody needs, and lifetimes as the comments say.

tests/test_stages.py compares what the files say with itself; here the accesses of a run are the judge.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from kda_learn.kernel_a.problem import random_problem
from kda_learn.kernel_a.run import run
from kda_learn.kernel_a.tiling import CHUNK, HEAD_DIM
from kda_learn.kernel_a.variants import compile_stage, shared_memory_of
from kda_learn.machines.emulator_launch import Launch
from kda_learn.sources.kernel_source import Region
from kda_learn.sources.stages import STAGES, Stage, stage
from kda_learn.tracing.rows import kind_of, regions_of

BYTES = {"s00": 124_480, "s01": 116_288, "s02": 50_752, "s11": 67_904, "s12": 67_520}
VARIANTS = [(1, False, "float32"), (2, True, "bfloat16"), (4, False, "bfloat16"), (8, True, "float32")]
"""Those that `check_set` runs too, so that nothing is built for this test alone."""

ORDER = {"start": 0, "load": 1, "snapshot": 2, "r1": 3, "g1 g2": 4, "g3": 5, "g4 g5": 6, "combine": 6}
ORDER |= {"publish": 7, "finish": 8}
"""When a section has its turn within a tile. From s02 on, g4 g5 and combine take turns."""

every_stage = pytest.mark.parametrize("rung", STAGES, ids=lambda rung: rung.id)


@dataclass(frozen=True)
class Use:
    """One warp instruction on one region: when it came at the earliest and at the latest (see ORDER)."""

    region: str
    writes: bool
    earliest: int
    latest: int


@pytest.mark.parametrize("name", BYTES)
def test_dynamic_shared_memory_is_exact(name: str):
    assert stage(name).source.constants()["BYTES"] == BYTES[name]


@every_stage
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: f"VSplit {variant[0]}")
def test_compiled_kernels_use_no_other_memory(rung: Stage, variant: tuple[int, bool, str]):
    """Neither spilled registers nor static shared memory, whatever the template parameters."""
    pytest.importorskip("cupy")
    compiled = compile_stage(rung, *variant)
    assert (compiled.spill_bytes, compiled.stack_bytes, compiled.static_smem) == (0, 0, 0)
    assert shared_memory_of(rung, variant[0]) == rung.source.constants(VSPLIT=variant[0])["BYTES"]


@every_stage
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: f"VSplit {variant[0]}")
def test_every_byte_is_used_but_for_named_padding(rung: Stage, variant: tuple[int, bool, str]):
    v_split = variant[0]
    used = np.zeros(rung.source.constants(VSPLIT=v_split)["BYTES"], dtype=bool)
    for access in _launch(rung, *variant).accesses:
        lanes = access["address"][access["address"] >= 0]
        used[(lanes[:, None] + np.arange(access["bytes"])).reshape(-1)] = True
    for region in rung.source.regions(VSPLIT=v_split):
        if not region.overlay:
            expected = ~_padding(region, rung, v_split)
            np.testing.assert_array_equal(used[region.offset : region.end], expected, err_msg=region.name)


@every_stage
def test_regions_live_as_long_as_their_comments_say(rung: Stage):
    uses = _uses(rung)
    for region in rung.source.regions():
        if region.overlay:
            continue
        written_by, last_read_by = (
            [ORDER[section.strip()] for section in names.split(",")] for names in region.lifetime.split("..")
        )
        writes = [use for use in uses if use.region == region.name and use.writes]
        reads = [use for use in uses if use.region == region.name and not use.writes]
        for write in writes:
            assert any(write.earliest <= turn <= write.latest for turn in written_by), (region, write)
        for read in reads:
            assert read.earliest <= max(last_read_by) or read.earliest == ORDER["finish"], (region, read)
        assert any(read.latest >= max(last_read_by) for read in reads), region


@every_stage
def test_overlays_are_written_and_read(rung: Stage):
    uses = _uses(rung)
    for region in rung.source.regions():
        if region.overlay:
            assert {use.writes for use in uses if use.region == region.name} == {True, False}, region


@cache
def _launch(rung: Stage, v_split: int, varlen: bool, snapshot_dtype: str) -> Launch:
    """The traced run of one full tile."""
    problem = random_problem(lengths=[CHUNK], varlen=varlen)
    options = {"machine": "emulator", "v_split": v_split, "snapshot_dtype": snapshot_dtype}
    return run(rung, problem, trace=True, **options).launch


def _padding(region: Region, rung: Stage, v_split: int) -> np.ndarray:
    """Which bytes of a region lie behind the columns of its rows: bool [region.size].

    Padding is named: the region is then described as [rows][SOME_STRIDE].
    """
    padding = np.zeros(region.size, dtype=bool)
    columns = re.search(r"\]\[(\w+_STRIDE)\]", region.contents)
    if columns:
        row_bytes = region.size // CHUNK
        element = row_bytes // rung.source.constants(VSPLIT=v_split)[columns[1]]
        padding.reshape(CHUNK, row_bytes)[:, HEAD_DIM * element :] = True
    return padding


def _uses(rung: Stage) -> list[Use]:
    """Every access of one tile at VSplit 1.

    An access in a helper function has no section of its own: it comes between those of its warp's accesses
    before and after it.
    """
    launch = _launch(rung, *VARIANTS[0])
    regions = rung.source.regions()
    in_source = np.array([Path(file) == rung.path for file in launch.files])
    region_of = regions_of(launch.accesses, rung.source, regions, in_source)
    uses = []
    for warp in np.unique(launch.accesses["warp"]):
        mine = np.flatnonzero(launch.accesses["warp"] == warp)
        lines = launch.accesses["line"][mine].tolist()
        turns = [ORDER.get(rung.source.sections[line]) for line in lines]
        before, after = _filled(turns), _filled(turns[::-1])[::-1]
        for index, earliest, latest in zip(mine, before, after, strict=True):
            access = launch.accesses[index]
            writes = kind_of(launch.operations[access["op"]]) != "load"
            uses.append(Use(regions[region_of[index]].name, writes, earliest, latest))
    return uses


def _filled(turns: list[int | None]) -> list[int]:
    """Each missing turn replaced by the one before it."""
    filled: list[int] = []
    for turn in turns:
        filled.append(filled[-1] if turn is None else turn)
    return filled
