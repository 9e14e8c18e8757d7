"""The wavefront model against what an H200 counted, and the rows that a trace becomes."""

import time
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest

from kda_learn.ground.errors import BadInput
from kda_learn.hardware.banks import cost, least, phases, wavefronts
from kda_learn.sources.kernel_source import KernelSource
from kda_learn.tracing.rows import Row, per_tile, rows, totals

FULL = 0xFFFFFFFF
LANE = np.arange(32)


def counted(op: str, addresses: np.ndarray, width: int, mask: int = FULL) -> tuple[int, int, int]:
    """Wavefronts, least and busiest bank of one warp instruction."""
    taken = cost(op, [addresses], [mask], width)
    return int(taken.wavefronts[0]), int(taken.least[0]), int(taken.max_way[0])


# The table of measurements: single-warp micro-kernels on an H200 (driver 580, CUDA 13.0).


@pytest.mark.parametrize("op", ["lds", "sts"])
@pytest.mark.parametrize(("width", "expected"), [(2, 1), (4, 1), (8, 2), (16, 4)])
def test_linear_accesses_have_no_conflict(op, width, expected):
    assert counted(op, LANE * width, width) == (expected, expected, 1)


@pytest.mark.parametrize(
    ("width", "addresses", "expected"),
    [
        (4, LANE * 128, 32),
        (16, LANE * 32, 8),
        (16, LANE * 256, 32),
        (16, LANE // 2 * 256, 16),
    ],
)
def test_strided_loads(width, addresses, expected):
    assert counted("lds", addresses, width)[0] == expected


@pytest.mark.parametrize("op", ["ldmatrix.x4", "ldmatrix.x4.trans", "stmatrix.x4", "stmatrix.x4.trans"])
@pytest.mark.parametrize(
    ("row_stride", "expected"), [(16, 4), (32, 8), (64, 16), (128, 32), (144, 4), (256, 32), (272, 4)]
)
def test_matrices_by_row_stride(op, row_stride, expected):
    assert counted(op, LANE * row_stride, 16) == (expected, 4, expected // 4)


LANE_MAPS = {  # token, feature
    "16 tokens x 2 features 32 apart": (LANE % 16, LANE // 16 * 32),
    "16 tokens x 2 adjacent features": (LANE % 16, LANE // 16),
    "accumulator map (8 tokens x 4 pairs)": (LANE // 4, LANE % 4 * 2),
    "transposed accumulator map (4 tokens x 8 features)": (LANE % 4 * 2, LANE // 4),
}


@pytest.mark.parametrize(
    ("lane_map", "element_bytes", "expected"),
    [
        ("16 tokens x 2 features 32 apart", 2, {128: 16, 132: 2, 136: 4, 130: 1}),
        ("16 tokens x 2 adjacent features", 2, {128: 16, 132: 1, 136: 2, 130: 1}),
        ("accumulator map (8 tokens x 4 pairs)", 2, {128: 8, 132: 2, 136: 1, 130: 4}),
        ("transposed accumulator map (4 tokens x 8 features)", 2, {128: 4, 132: 1, 136: 1, 130: 2}),
        ("16 tokens x 2 features 32 apart", 4, {128: 32, 132: 4}),
    ],
)
def test_lane_maps_of_r1(lane_map, element_bytes, expected):
    token, feature = LANE_MAPS[lane_map]
    found = {
        stride: counted("lds", (token * stride + feature) * element_bytes, element_bytes)[0]
        for stride in expected
    }
    assert found == expected


def test_asynchronous_copies_through_l1_count_as_stores_and_others_not_at_all():
    for stride in (16, 32, 128, 256):
        assert counted("cp.async.cg", LANE * stride, 16) == (0, 0, 0)
    for width in (4, 8, 16):
        for stride in (width, 128, 144, 256):
            assert counted("cp.async.ca", LANE * stride, width) == counted("sts", LANE * stride, width)


def test_loads_of_8_and_16_bytes_serve_pairs_of_lanes_that_agree():
    for width, fewest in ((8, 1), (16, 2)):
        assert counted("lds", LANE * 0, width) == (fewest, fewest, 1)
        assert counted("lds", LANE // 2 * width, width) == (fewest, fewest, 1)
        assert counted("sts", LANE // 2 * width, width)[0] == 2 * fewest
        assert counted("lds", LANE % 16 * width, width)[0] == 2 * fewest
        every_other = counted("lds", LANE * width, width, mask=0x55555555)
        assert every_other == (2 * fewest, fewest, 2)
        assert counted("sts", LANE * width, width, mask=0x55555555)[1] == 2 * fewest


# What the model says beyond the table.


def test_words_are_broadcast_within_a_phase():
    assert counted("lds", LANE * 0, 4) == (1, 1, 1)
    assert counted("lds", LANE // 2 * 2, 2) == (1, 1, 1)  # two bf16 in a word
    assert counted("sts", LANE * 0, 16) == (4, 4, 1)  # but every phase asks again


def test_least_counts_phases_with_active_lanes():
    assert counted("sts", LANE * 16, 16, mask=1 << 15 | 1 << 31) == (2, 2, 1)
    assert counted("sts", LANE * 16, 16, mask=0xFF) == (1, 1, 1)
    assert counted("lds", LANE * 8, 8, mask=0xFFFF) == (1, 1, 1)
    assert counted("cp.async.ca", LANE * 16, 16, mask=0xFFFF) == (2, 2, 1)
    assert counted("lds", LANE * 4, 4, mask=0) == (0, 0, 0)


def test_addresses_of_inactive_lanes_do_not_count():
    addresses = np.where(LANE % 2 == 0, LANE * 4, -1)
    assert counted("lds", addresses, 4, mask=0x55555555) == (1, 1, 1)


@pytest.mark.parametrize("matrices", [1, 2, 4])
def test_as_many_phases_as_matrices(matrices):
    found = wavefronts([LANE * 256], [FULL], 16, matrices)
    assert found.tolist() == [8 * matrices]
    assert least([LANE * 256], [FULL], 16, matrices).tolist() == [matrices]
    assert counted(f"ldmatrix.x{matrices}", LANE * 256, 16) == (8 * matrices, matrices, 8)


def brute_force(addresses: np.ndarray, width: int) -> int:
    """The rule in its plainest form: phases one by one, sets of words bank by bank."""
    lanes_per_phase = min(32, 128 // max(4, width))
    total = 0
    for first in range(0, 32, lanes_per_phase):
        words_of: dict[int, set[int]] = {}
        for address in addresses[first : first + lanes_per_phase]:
            for word in range(address // 4, (address + width - 1) // 4 + 1):
                words_of.setdefault(word % 32, set()).add(word)
        total += max(len(words) for words in words_of.values())
    return total


@pytest.mark.parametrize("width", [2, 4, 8, 16])
def test_random_addresses_match_the_plainest_form(width):
    addresses = np.random.default_rng(width).integers(0, 1024, (200, 32)) * width
    expected = [brute_force(row, width) for row in addresses]
    assert wavefronts(addresses, np.full(200, FULL), width).tolist() == expected


def test_tens_of_thousands_of_instructions_in_a_moment():
    addresses = np.random.default_rng(0).integers(0, 4096, (40_000, 32)) * 16
    started = time.perf_counter()
    assert wavefronts(addresses, np.full(40_000, FULL), 16).shape == (40_000,)
    assert time.perf_counter() - started < 2  # a quarter of a second on one core; room for a busy machine


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: wavefronts([LANE * 4], [FULL], 3), "in bytes per lane, is 3"),
        (lambda: wavefronts([LANE * 4], [FULL], 16, matrices=3), "matrices is 3"),
        (lambda: wavefronts(LANE * 4, [FULL], 4), r"shape \[32\]"),
        (lambda: phases(LANE * 4, FULL, "mma", 4), "'mma'"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(BadInput, match=words):
        call()


def test_phases_for_pictures():
    first, second = phases(LANE // 2 * 256, 0x0000FF0F, "sts", 16)
    assert first.lanes == [0, 1, 2, 3]
    assert first.words[2] == [64, 65, 66, 67]
    assert first.banks[2] == [0, 1, 2, 3]
    assert first.shared[64] == [2, 3]
    assert first.wavefronts == 2
    assert second.lanes == list(range(8, 16))
    assert second.wavefronts == 4


def test_phases_of_matrices_and_copies():
    assert [phase.lanes[0] for phase in phases(LANE * 16, FULL, "ldmatrix.x2", 16)] == [0, 8]
    assert len(phases(LANE * 4, FULL, "cp.async.ca", 4)) == 1
    assert len(phases(LANE * 16, FULL, "cp.async.cg", 16)) == 4


def test_a_phase_of_pairs_has_twice_the_lanes():
    first, second = phases(LANE // 2 * 16, FULL, "lds", 16)
    assert (first.lanes, second.lanes) == (list(range(16)), list(range(16, 32)))
    assert first.shared[4] == [2, 3]


# Rows of a launch.

STAGE = """\
// Stage s99: a stage for the tests
#include "helpers.cuh"
constexpr u32 C = 16;
template <u32 VSPLIT> struct SharedMemory {
  static constexpr u32 DV = 128 / VSPLIT;
  static constexpr u32 A = 0;            // [C][DV] fp32: r1 .. g3
  static constexpr u32 SUMS = A;         // overlay [C] fp32, in r0: before A is written
  static constexpr u32 PART = A + 64;    // overlay [bytes 64] [C] fp32, in load_b: after A is dead
  static constexpr u32 B = A + C * DV * 4;  // [C] fp32: r1 .. g3
  static constexpr u32 BYTES = B + C * 4;
};
GPU_FN float load_b(saddr at) { return lds<float>(at); }
template <u32 VSPLIT>
__global__ void kernel_a(saddr smem) {
  // ---- start ----
  sts<float>(smem + Smem::A, 0.f);
  // ---- r1 ----
  sts<float>(smem +
                 Smem::SUMS,
             1.f);
  sts<float>(smem + Smem::A, 2.f);
  load_b(smem + Smem::A);
  cp_async_cg16(smem + Smem::B, 0);
}
"""
OPERATIONS = ["lds", "sts", "ldmatrix.x4", "cp.async.cg"]
ACCESS = np.dtype(
    [
        ("line", "u4"),
        ("file", "u1"),
        ("op", "u1"),
        ("bytes", "u1"),
        ("warp", "u1"),
        ("block", "u4"),
        ("order", "u4"),
        ("mask", "u4"),
        ("address", "i4", 32),
    ]
)


def line_of(text: str, after: int = 0) -> int:
    """The line of STAGE, from 1, that holds a text."""
    lines = STAGE.splitlines()
    return next(line for line in range(after + 1, len(lines) + 1) if text in lines[line - 1])


def access(line: int, op: str, width: int, addresses: np.ndarray, mask: int = FULL, file: int = 0) -> tuple:
    """One access of a"""
    active = np.where(mask >> LANE & 1, addresses, -1)
    return (line, file, OPERATIONS.index(op), width, 0, 0, 0, mask, active)


@pytest.fixture
def traced(tmp_path) -> tuple[SimpleNamespace, KernelSource]:
    """A launch of STAGE with one access of every kind, and its source."""
    path = tmp_path / "s99_test.cu"
    path.write_text(STAGE)
    (tmp_path / "helpers.cuh").write_text("// nothing\n")
    r1 = line_of("---- r1")
    accesses = [
        access(line_of("Smem::A, 0.f"), "sts", 4, LANE * 4),
        access(line_of("Smem::SUMS", r1), "sts", 4, LANE % 16 * 4, mask=0xFFFF),
        access(line_of("Smem::A, 2.f"), "sts", 4, LANE * 4),
        access(line_of("Smem::A, 2.f"), "sts", 4, LANE * 256),
        access(line_of("return lds"), "lds", 4, LANE * 0 + 64),
        access(line_of("return lds"), "lds", 4, LANE * 4 + 512),
        access(line_of("cp_async"), "cp.async.cg", 16, LANE % 4 * 16 + 8192),
        access(7, "lds", 4, LANE * 4, file=1),
        access(8, "lds", 4, LANE * 4 + 99_000, file=1),
    ]
    launch = SimpleNamespace(
        accesses=np.array(accesses, dtype=ACCESS),
        operations=OPERATIONS,
        files=[str(path), str(tmp_path / "helpers.cuh")],
    )
    return launch, KernelSource.load(path)


def test_rows_tell_regions_and_sections_apart(traced):
    found = rows(*traced)
    described = [(row.section, row.region, row.op, row.kind, row.instructions) for row in found]
    assert described == [
        ("load_b", "A", "lds", "load", 1),
        ("load_b", "PART", "lds", "load", 1),
        ("start", "A", "sts", "store", 1),
        ("r1", "SUMS", "sts", "store", 1),
        ("r1", "A", "sts", "store", 2),
        ("r1", "B", "cp.async.cg", "copy", 1),
        ("helpers.cuh", "A", "lds", "load", 1),
        ("helpers.cuh", "", "lds", "load", 1),
    ]


def test_a_row_adds_up_its_instructions(traced):
    row = next(row for row in rows(*traced) if row.section == "r1" and row.region == "A")
    assert asdict(row) == {
        "line": line_of("Smem::A, 2.f"),
        "section": "r1",
        "region": "A",
        "op": "sts",
        "kind": "store",
        "bytes": 4,
        "instructions": 2,
        "wavefronts": 33,
        "least": 2,
        "excess": 31,
        "max_way": 32,
    }


def test_regions_move_with_v_split(traced):
    launch, source = traced
    regions = {row.region for row in rows(launch, source, VSPLIT=4) if row.kind == "copy"}
    assert regions == {""}  # what lies at 8192 for VSPLIT 1 lies beyond the end for 4


def test_a_launch_without_accesses_has_no_rows(traced):
    launch, source = traced
    launch.accesses = launch.accesses[:0]
    assert rows(launch, source) == []


def test_totals_and_rows_per_tile(traced):
    found = rows(*traced)
    stores = next(total for total in totals(found) if (total.kind, total.region) == ("store", "A"))
    assert (stores.instructions, stores.wavefronts, stores.least, stores.excess) == (3, 34, 3, 31)
    halved = per_tile(found, tiles=2)
    assert "start" not in {row.section for row in halved}
    row = next(row for row in halved if row.section == "r1" and row.region == "A")
    assert isinstance(row, Row)
    assert (row.instructions, row.wavefronts, row.least, row.excess, row.max_way) == (1, 16.5, 1, 15.5, 32)
