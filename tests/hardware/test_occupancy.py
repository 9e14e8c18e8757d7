"""The occupancy rule, by the article's table and by cases worked out by hand."""

import pytest

from kda_learn.ground.errors import BadInput
from kda_learn.hardware.occupancy import ARCHITECTURES, blocks_per_sm

THREADS = 256
FEW_REGISTERS = 32  # 8 blocks fit by registers, so that shared memory or threads decide


@pytest.mark.parametrize(
    ("dynamic_smem", "blocks"),
    [
        (124_480, 1),  # s00
        (116_288, 1),  # s01
        (115_712, 2),  # s01 without the 576 bytes by which it misses a second block
        (50_752, 4),  # s02 to s06
        (55_872, 4),  # s07
        (67_136, 3),  # s08 to s10
        (67_904, 3),  # s11
        (67_520, 3),  # s12
    ],
)
def test_blocks_by_shared_memory(dynamic_smem, blocks):
    found = blocks_per_sm(FEW_REGISTERS, dynamic_smem, THREADS)
    assert found.blocks == blocks
    assert found.limited_by == "shared memory"
    assert found.percent == 12.5 * blocks


# Shared memory of a block that owns 128 / VSPLIT columns: what does not depend on them (qd, kd, kr, mqk, inv,
# gT, beta), and per column 256 bytes of dS, 32 of dO, in s00 512 of T1 and 64 of dU.
WITHOUT_COLUMNS = 3 * 4096 + 2 * 512 + 512 + 64
RAW_COPIES = 2 * 4096 + 8192  # q, k, gc from s08 on


@pytest.mark.parametrize(
    ("bytes_per_column", "other_bytes", "expected"),
    [
        (256 + 32 + 512 + 64, WITHOUT_COLUMNS, [1, 3, 5, 8]),  # s00
        (256 + 32, WITHOUT_COLUMNS, [4, 6, 8, 8]),  # s02 to s06
        (256 + 32, WITHOUT_COLUMNS + RAW_COPIES, [3, 4, 5, 6]),  # s08 to s10
    ],
)
def test_blocks_by_v_split(bytes_per_column, other_bytes, expected):
    sizes = [128 // v_split * bytes_per_column + other_bytes for v_split in (1, 2, 4, 8)]
    assert [blocks_per_sm(FEW_REGISTERS, size, THREADS).blocks for size in sizes] == expected


@pytest.mark.parametrize(
    ("registers", "blocks"),
    [(32, 8), (64, 4), (65, 3), (80, 3), (81, 2), (92, 2), (106, 2), (128, 2), (129, 1)],
)
def test_blocks_by_registers(registers, blocks):
    found = blocks_per_sm(registers, 0, THREADS)
    assert found.blocks == blocks
    assert found.limits["registers"] == blocks


def test_several_limits_are_named():
    found = blocks_per_sm(64, 50_752, THREADS)
    assert found.limited_by == "shared memory and registers"
    assert found.limits == {"shared memory": 4, "registers": 4, "threads": 8, "blocks": 32}


def test_small_blocks_are_limited_by_their_number():
    found = blocks_per_sm(16, 0, 32)
    assert (found.blocks, found.limited_by, found.percent) == (32, "blocks", 50.0)


def test_warps_are_whole():
    assert blocks_per_sm(16, 0, 33).limits["threads"] == blocks_per_sm(16, 0, 64).limits["threads"] == 32


def test_largest_block_of_shared_memory():
    assert blocks_per_sm(32, 227 * 1024, THREADS).blocks == 1
    found = blocks_per_sm(32, 227 * 1024 + 1, THREADS)
    assert (found.blocks, found.limited_by, found.percent) == (0, "shared memory", 0.0)


def test_other_architectures():
    assert blocks_per_sm(32, 116_288, THREADS, architecture="sm_80").blocks == 1
    assert blocks_per_sm(32, 116_288, THREADS, architecture="sm_86").blocks == 0  # s00, s01 cannot run there
    assert blocks_per_sm(32, 99 * 1024, THREADS, architecture="sm_89").blocks == 1
    assert blocks_per_sm(32, 0, THREADS, architecture="sm_86").limits["threads"] == 6
    assert blocks_per_sm(32, 50_752, THREADS, architecture="sm_90a") == blocks_per_sm(32, 50_752, THREADS)
    assert set(ARCHITECTURES) == {"sm_80", "sm_86", "sm_89", "sm_90", "sm_100"}


@pytest.mark.parametrize(
    ("arguments", "architecture", "words"),
    [
        ((0, 0, 256), "sm_90", "0 registers"),
        ((256, 0, 256), "sm_90", "256 registers"),
        ((64, -1, 256), "sm_90", "-1 bytes"),
        ((64, 0, 2048), "sm_90", "2048 threads"),
        ((64, 0, 256), "sm_70", "'sm_70' was given: choose one of sm_80"),
    ],
)
def test_bad_input_is_named(arguments, architecture, words):
    with pytest.raises(BadInput, match=words):
        blocks_per_sm(*arguments, architecture=architecture)
