"""How a kernel meets the CPU machine: its arguments, its blocks, plain C++ where an operation belongs."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from paths import TESTS

from kda_learn.compilers.log import CompileError
from kda_learn.ground.errors import BadInput
from kda_learn.machines import emulator
from kda_learn.machines.launch_limits import check_launch

SOURCE = TESTS / "kernels" / "front.cu"
LINES = SOURCE.read_text().splitlines()


def run(entry, *arrays, block=32, grid=1, shared=4096, **options):
    return emulator.build(SOURCE, entry).launch(arrays, grid, block, shared, **options)


def words(count=64):
    return np.random.default_rng().integers(0, 2**32, count, dtype=np.uint32)


# ---- global memory ----
@pytest.mark.parametrize("entry", [*(f"plain<{kind}>" for kind in range(7)), "plain_in_a_function"])
@pytest.mark.parametrize("check", [True, False])
def test_plain_access_is_found_at_its_line(entry, check):
    faults = run(entry, words(), np.zeros(64, np.uint32), grid=3, check=check).faults
    assert {fault.kind for fault in faults} == {"plain access"}
    for fault in faults:
        assert Path(fault.file) == SOURCE
        assert LINES[fault.line - 1].endswith("// at fault"), fault
        assert "write ldg(pointer + i) to read and stg(pointer + i, x) to write" in fault.message


def test_plain_access_without_a_tool_that_knows_lines(monkeypatch):
    monkeypatch.setattr("kda_learn.machines.source_lines.shutil", SimpleNamespace(which=lambda name: None))
    (fault,) = run("plain<0>", words(), np.zeros(64, np.uint32)).faults
    assert fault.kind == "plain access"


def test_the_process_goes_on_after_a_plain_access():
    for _ in range(3):
        assert run("plain<0>", words(), np.zeros(64, np.uint32)).faults
        assert run("add_one", words(), np.zeros(64, np.uint32)).faults == []


def test_one_array_given_twice_is_one_array():
    given = words()
    wanted = given + 2
    run("add_one", given, given, block=64)
    np.testing.assert_array_equal(given, wanted)


def test_overlapping_views_share_their_bytes():
    base = words(100)
    before = base.copy()
    assert run("add_one", base[4:68], base[:64], block=64).faults == []
    expected = before.copy()
    expected[:64] = before[4:68] + 1
    again = expected.copy()
    again[:64] = expected[4:68] + 1  # every thread writes once more, behind the barrier
    np.testing.assert_array_equal(base[64:], before[64:])
    assert (base[:60] == again[:60]).all() or (base[:60] != before[:60]).any()


def test_arrays_side_by_side_are_two_arrays():
    base = np.zeros(64, np.uint32)
    faults = run("add_one", words(64), base[:32], block=33).faults
    assert {fault.kind for fault in faults} == {"out of bounds"}


@pytest.mark.parametrize("entry", ["add_one", "through"])
def test_a_null_argument_is_named(entry):
    fault, *_ = run(entry, None, np.zeros(64, np.uint32)).faults
    assert "argument 0 is null" in fault.message


# ---- shuffles ----
def shfl(kind, value, operand, width):
    """PTX's shfl.sync, as CUDA calls it: clamp and segment mask made of the width."""
    lane = np.arange(32)
    mask, by = 32 - width, operand & 31
    low = lane & mask
    high = low | (~mask & 31)
    if kind == "idx":
        source, inside = low | (by & ~mask & 31), np.ones(32, bool)
    elif kind == "up":
        source = lane - by
        inside = source >= low
    elif kind == "down":
        source = lane + by
        inside = source <= high
    else:
        source = lane ^ by
        inside = source <= high
    return value[np.where(inside, source, lane)]


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16, 32])
def test_shuffles_follow_ptx(width):
    random = np.random.default_rng()
    for _ in range(6):
        operand = random.integers(-70, 70, 32).astype(np.int32)
        out = np.zeros(128, np.uint32)
        assert run("shuffles", operand, np.full(1, width, np.int32), out).faults == []
        value = np.arange(100, 132, dtype=np.uint32)
        for number, kind in enumerate(("idx", "up", "down", "bfly")):
            wanted = shfl(kind, value, operand, width)
            np.testing.assert_array_equal(out[number * 32 : number * 32 + 32], wanted, err_msg=kind)


@pytest.mark.parametrize("width", [0, 3, 12, 33, 64, -8])
def test_a_width_that_is_no_power_of_two(width):
    faults = run(
        "shuffles", np.zeros(32, np.int32), np.full(1, width, np.int32), np.zeros(128, np.uint32)
    ).faults
    assert {fault.kind for fault in faults} == {"bad shuffle"}
    assert f"gives the width {width}: give 1, 2, 4, 8, 16 or 32" in faults[0].message


# ---- launches ----
@pytest.mark.parametrize("block", [1, 31, 33, 48, (7, 9), (5, 5), 1000])
def test_a_block_may_end_in_the_middle_of_a_warp(block):
    threads = int(np.prod(block))
    given, out = words(threads), np.zeros(threads, np.uint32)
    for seed in range(3):
        assert run("sum_by_block", given, out, block=block, shared=4096, seed=seed, trace=True).faults == []
        assert (out == given.sum(dtype=np.uint32)).all()


BAD = {
    "grid.y": (dict(grid=(1, 65536)), "grid.y is 65536: CUDA takes at most 65535"),
    "grid.z": (dict(grid=(1, 1, 65536)), "grid.z is 65536: CUDA takes at most 65535"),
    "grid.x": (dict(grid=2**31), "grid.x is 2147483648: CUDA takes at most 2147483647"),
    "block.z": (dict(block=(1, 1, 65)), "block.z is 65: CUDA takes at most 64"),
    "block.x": (dict(block=1025), "block.x is 1025: CUDA takes at most 1024"),
    "block": (dict(block=(64, 17)), "1088 threads: CUDA takes at most 1024"),
    "none": (dict(block=0), "block is 0"),
    "memory": (dict(shared=232449), "shared_bytes is 232449: give a whole number from 0 to 232448"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_launch_that_cuda_refuses(name):
    options, said = BAD[name]
    with pytest.raises(BadInput, match=said):
        run("writes_one", np.zeros(1, np.uint32), **options)


def test_launch_bounds_are_those_of_the_kernel():
    out = np.zeros(96, np.uint32)
    assert run("bounded", out, block=64).faults == []
    with pytest.raises(
        BadInput, match=r"96 threads, and the kernel's __launch_bounds__ allows 64: .*too many res"
    ):
        run("bounded", out, block=96)


def test_the_largest_launch_is_taken():
    check_launch((2**31 - 1, 65535, 65535), (16, 1, 64), 232448, 1024)


# ---- libraries ----
def test_kernels_load_in_any_order():
    """A first kernel that asks for no threadIdx, then many others, in a process of their own."""
    code = f"""
import numpy as np
from pathlib import Path
from kda_learn.machines import emulator
source = Path({str(SOURCE)!r})
out = np.zeros(64, np.uint32)
emulator.build(source, "writes_one").launch([out], 1, 32, 0)
for entry in ("bounded", "add_one", "sum_by_block"):
    library = emulator.build(source, entry)
    arguments = [out] if entry == "bounded" else [np.zeros(64, np.uint32), out]
    assert library.launch(arguments, 1, 32, 4096).faults == []
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


MISSING = {
    "__expf(1.f)": "__expf.*gpu.cuh has fast_exp2",
    "float(atomicAdd(out, 1.f))": "atomicAdd.*the CPU machine has the operations of gpu.cuh",
    "__ldg(out)": "__ldg.*gpu.cuh has ldg instead",
}


@pytest.mark.parametrize("expression", MISSING)
def test_what_nobody_has_is_named_with_what_to_use(expression, tmp_path):
    source = tmp_path / "mine.cu"
    source.write_text(
        f'#include "gpu.cuh"\n__global__ void k(float* out) {{\n  stg(out, {expression});\n}}\n'
    )
    with pytest.raises(CompileError, match=rf"mine\.cu:3.*{MISSING[expression]}"):
        emulator.build(source, "k")
