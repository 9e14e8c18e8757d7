"""Traced accesses sorted out by source line and pattern."""

from types import SimpleNamespace

import numpy as np
import pytest

from kda_learn.ground.errors import BadInput
from kda_learn.hardware import banks
from kda_learn.kernel_a.tile import trace, traced_tile
from kda_learn.sources.kernel_source import KernelSource
from kda_learn.sources.stages import as_stage
from kda_learn.tracing.patterns import access, recorded

SOURCE = """// Stage s00: a toy
// Was slow: no
// Now: no
// Remains: no
template <u32 VSPLIT> struct SharedMemory {
  static constexpr u32 LOW = 0;     // [64] fp32: load .. combine
  static constexpr u32 HIGH = 256;  // [64] fp32: load .. combine
  static constexpr u32 BYTES = 512;
};
__global__ void kernel_a(int T) {
  // ---- load ----
  sts<float>(place,
             1.0f);
  // ---- combine ----
  const float x = lds<float>(place);
}
"""
FIELDS = [
    ("line", "u4"),
    ("file", "u1"),
    ("op", "u1"),
    ("bytes", "u1"),
    ("warp", "u1"),
    ("block", "u4"),
    ("order", "u4"),
    ("mask", "u4"),
    ("address", "i4", (32,)),
]
ALL_LANES = 0xFFFFFFFF


def launch_of(tmp_path, records):
    """A launch with accesses (line, file, op, mask, addresses) of the toy source, and that source."""
    path = tmp_path / "s00_toy.cu"
    path.write_text(SOURCE)
    accesses = np.zeros(len(records), dtype=FIELDS)
    for access_record, (line, file, op, mask, addresses) in zip(accesses, records, strict=True):
        access_record["line"], access_record["file"], access_record["op"] = line, file, op
        access_record["bytes"], access_record["mask"], access_record["address"] = 4, mask, addresses
    launch = SimpleNamespace(accesses=accesses, operations=["lds", "sts"], files=[str(path), "gpu.cuh"])
    return launch, KernelSource.load(path)


STORE, LOAD = 12, 15  # lines of the toy source


def test_accesses_of_one_pattern_are_counted_together(tmp_path):
    linear = np.arange(32) * 4
    launch, source = launch_of(
        tmp_path,
        [
            (LOAD, 0, 0, ALL_LANES, linear + 4),
            (STORE, 0, 1, ALL_LANES, linear),
            (STORE, 0, 1, ALL_LANES, linear + 20),
            (STORE, 0, 1, ALL_LANES, linear + 260),
            (STORE, 0, 1, 0x0000FFFF, linear),
            (STORE, 1, 1, ALL_LANES, linear),
        ],
    )
    found = recorded(launch, source)
    assert [(one["line"], one["op"], one["section"], one["region"], one["count"]) for one in found] == [
        (STORE, "sts", "load", "LOW", 2),
        (STORE, "sts", "load", "LOW", 1),
        (STORE, "sts", "load", "HIGH", 1),
        (LOAD, "lds", "combine", "LOW", 1),
    ]
    assert found[0]["text"] == "sts<float>(place, 1.0f);"
    assert found[0]["addresses"] == linear.tolist()
    assert found[1]["addresses"] == [*linear[:16].tolist(), *[-1] * 16]


def test_lines_and_regions_can_be_chosen(tmp_path):
    launch, source = launch_of(tmp_path, [(STORE, 0, 1, ALL_LANES, 0), (LOAD, 0, 0, ALL_LANES, 256)])
    assert [one["line"] for one in recorded(launch, source, lines=[LOAD])] == [LOAD]
    assert [one["line"] for one in recorded(launch, source, regions=["LOW"])] == [STORE]
    assert recorded(launch, source, lines=[3]) == []


@pytest.mark.parametrize("stage", ["s02", "s12"])
def test_patterns_of_a_stage_cost_what_its_trace_says(stage):
    """Per line and region: the patterns' wavefronts, times how often each was seen, are the trace's."""
    kernel, found = as_stage(stage), {}
    for one in recorded(traced_tile(kernel), kernel.source):
        mask = sum(1 << lane for lane, place in enumerate(one["addresses"]) if place >= 0)
        counted = banks.cost(one["op"], [one["addresses"]], [mask], one["bytes"]).wavefronts[0]
        key = (one["line"], one["region"], one["op"])
        found[key] = found.get(key, 0) + counted * one["count"]
    assert found == {(row.line, row.region, row.op): row.wavefronts for row in trace(stage)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ldx", 4, [0] * 32), "choose lds, sts"),
        (("lds", 3, [0] * 32), "2, 4, 8 or 16"),
        (("lds", 4, [0] * 31), "one for each of the 32 lanes"),
        (("lds", 4, [-1] * 32), "at least one address"),
    ],
)
def test_wrong_arguments_say_what_is_wanted(arguments, message):
    with pytest.raises(BadInput, match=message):
        access(*arguments)
