"""Traced accesses sorted out by source line and pattern."""

from types import SimpleNamespace

import numpy as np
import pytest

from kda_learn.access_patterns import access, recorded
from kda_learn.errors import BadInput
from kda_learn.source import StageSource

SOURCE = """// Stage s00: a toy
// Was slow: no
// Now: no
// Remains: no
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
    return launch, StageSource.load(path)


def test_accesses_that_meet_the_same_banks_are_counted_together(tmp_path):
    linear = np.arange(32) * 4
    launch, source = launch_of(
        tmp_path,
        [
            (10, 0, 0, ALL_LANES, linear + 4),
            (7, 0, 1, ALL_LANES, linear),
            (7, 0, 1, ALL_LANES, linear + 256),
            (7, 0, 1, 0x0000FFFF, linear),
            (7, 1, 1, ALL_LANES, linear),
        ],
    )
    found = recorded(launch, source)
    assert [(one["line"], one["op"], one["count"]) for one in found] == [
        (7, "sts", 2),
        (7, "sts", 1),
        (10, "lds", 1),
    ]
    assert found[0]["text"] == "sts<float>(place, 1.0f);"
    assert [one["section"] for one in found] == ["load", "load", "combine"]
    assert found[0]["addresses"] == linear.tolist()
    assert found[1]["addresses"] == [*linear[:16].tolist(), *[-1] * 16]


def test_lines_can_be_chosen(tmp_path):
    launch, source = launch_of(tmp_path, [(7, 0, 1, ALL_LANES, 0), (10, 0, 0, ALL_LANES, 0)])
    assert [one["line"] for one in recorded(launch, source, lines=[10])] == [10]
    assert recorded(launch, source, lines=[3]) == []


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
