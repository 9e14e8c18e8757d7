"""The occupancy rule, by the article's table and by cases worked out by hand."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kda_learn.ground.errors import BadInput
from kda_learn.hardware.occupancy import ARCHITECTURES, blocks_per_sm, room_for_blocks

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


GUIDE = {  # the CUDA programming guide's technical specifications; shared memory in KiB
    # threads, blocks and shared memory of an SM, and the most shared memory that one block may have
    "sm_80": (2048, 32, 164, 163),
    "sm_86": (1536, 16, 100, 99),
    "sm_89": (1536, 24, 100, 99),
    "sm_90": (2048, 32, 228, 227),
    "sm_100": (2048, 32, 228, 227),
}
architectures = st.sampled_from(sorted(GUIDE))


@pytest.mark.parametrize("architecture", GUIDE)
def test_what_an_sm_has(architecture):
    threads, blocks, shared_kib, largest_block_kib = GUIDE[architecture]

    def limits(dynamic_smem: int, block_threads: int) -> dict[str, int]:
        return blocks_per_sm(16, dynamic_smem, block_threads, architecture=architecture).limits

    assert ARCHITECTURES[architecture].shared_memory_per_block == largest_block_kib * 1024
    assert limits(0, 32)["threads"] * 32 == threads
    assert limits(0, 32)["blocks"] == blocks
    assert limits(0, 32)["shared memory"] == shared_kib  # the system takes 1 KiB of each block
    assert limits(largest_block_kib * 1024, 32)["shared memory"] == 1
    assert limits(largest_block_kib * 1024 + 1, 32)["shared memory"] == 0


def dealt_out(stock: int, wanted: int, unit: int) -> int:
    """How often a resource can be given away, in whole units, until the rest is too little."""
    portion = unit
    while portion < wanted:
        portion += unit
    times = 0
    while stock >= portion:
        stock -= portion
        times += 1
    return times


@settings(deadline=None)
@given(st.integers(1, 255), st.integers(0, 99 * 1024), st.integers(1, 1024), architectures)
def test_resources_are_dealt_out_in_whole_units(registers, dynamic_smem, threads, architecture):
    """Registers by the warp, 256 at a time, from four schedulers; shared memory 128 bytes at a time."""
    sm_threads, blocks, shared_kib, _ = GUIDE[architecture]
    warps = math.ceil(threads / 32)
    found = blocks_per_sm(registers, dynamic_smem, threads, architecture=architecture)
    assert found.limits == {
        "shared memory": dealt_out(shared_kib * 1024, dynamic_smem + 1024, 128),
        "registers": dealt_out(4 * dealt_out(16 * 1024, registers * 32, 256), warps, 1),
        "threads": dealt_out(sm_threads, warps * 32, 32),
        "blocks": blocks,
    }
    assert found.blocks == min(found.limits.values())
    assert found.limited_by.split(" and ") == [
        name for name, limit in found.limits.items() if limit == found.blocks
    ]
    assert found.percent == pytest.approx(found.blocks * warps / (sm_threads // 32) * 100)


@pytest.mark.parametrize(
    ("dynamic_smem", "blocks"),
    [
        (19 * 512 - 1024, 24),  # 9,728 bytes with the system's: 24 x 9,728 = 228 KiB, not a byte is left
        (19 * 512 - 1023, 23),
        (19 * 512 - 1025, 24),
        (113 * 1024, 2),  # two blocks of half the SM
        (113 * 1024 + 1, 1),
        (113 * 1024 - 1, 2),
    ],
)
def test_the_last_byte_of_shared_memory(dynamic_smem, blocks):
    assert blocks_per_sm(16, dynamic_smem, 32).limits["shared memory"] == blocks


@pytest.mark.parametrize(("threads", "blocks"), [(640, 3), (641, 3), (672, 3), (673, 2), (704, 2)])
def test_a_warp_begun_counts_whole(threads, blocks):
    """2048 threads are 64 warps: 3 blocks of 21 warps, or 2 of 22."""
    assert blocks_per_sm(16, 0, threads).limits["threads"] == blocks


@pytest.mark.parametrize("arguments", [(1, 0, 1), (255, 0, 1), (1, 0, 1024), (255, 0, 256)])
def test_the_smallest_and_the_largest_kernels_are_taken(arguments):
    assert blocks_per_sm(*arguments).blocks >= 1


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(0, 240 * 1024), architectures)
def test_the_room_is_used_up_to_the_last_byte(blocks, dynamic_smem, architecture):
    room = room_for_blocks(blocks, dynamic_smem, architecture=architecture)

    def fitting(more: int) -> int:
        return blocks_per_sm(1, dynamic_smem + more, 1, architecture=architecture).limits["shared memory"]

    assert fitting(room + 1) < blocks
    if dynamic_smem + room >= 0:
        assert fitting(room) >= blocks


def test_the_room_of_known_kernels():
    assert room_for_blocks(2, 116_288) == -576  # s01 misses its second block
    assert room_for_blocks(1, 0) == 227 * 1024
    assert room_for_blocks(1, 0, architecture="sm_80") == 163 * 1024
    with pytest.raises(BadInput, match=r"blocks \(per SM\) is 0"):
        room_for_blocks(0, 0)


@pytest.mark.parametrize(
    ("arguments", "architecture", "words"),
    [
        ((0, 0, 256), "sm_90", r"registers \(per thread\) is 0"),
        ((256, 0, 256), "sm_90", r"registers \(per thread\) is 256"),
        ((64, -1, 256), "sm_90", r"dynamic_smem \(bytes\) is -1"),
        ((64, 0, 1025), "sm_90", r"threads \(per block\) is 1025"),
        ((64, 0, 0), "sm_90", r"threads \(per block\) is 0"),
        ((64, 0, 256), "sm_70", "'sm_70': give 'sm_80'"),
    ],
)
def test_bad_input_is_named(arguments, architecture, words):
    with pytest.raises(BadInput, match=words):
        blocks_per_sm(*arguments, architecture=architecture)
