"""Every kind of fault is found where it was planted, in every order of the warps; the cure is clean."""

import platform
import re
from pathlib import Path

import numpy as np
import pytest
from paths import TESTS

from kda_learn.machines import emulator

SOURCE = TESTS / "kernels" / "faults.cu"
LINES = SOURCE.read_text().splitlines()

# The kind that must be reported of each case in faults.cu.
KINDS = {
    "missing_barrier": "race",
    "missing_barrier_before_overwriting": "race",
    "missing_syncwarp": "race within a warp",
    "missing_syncwarp_before_overwriting": "race within a warp",
    "shuffle_is_no_syncwarp": "race within a warp",
    "ldmatrix_is_no_syncwarp": "race within a warp",
    "ldmatrix_then_store": "race within a warp",
    "ldmatrix_then_copy": "race within a warp",
    "ldmatrix_then_stmatrix": "race within a warp",
    "stmatrix_then_store": "race within a warp",
    "stmatrix_then_load": "race within a warp",
    "stmatrix_then_ldmatrix": "race within a warp",
    "barrier_skipped_by_a_warp": "different barriers",
    "missing_wait": "copy not waited for",
    "wait_for_too_few": "copy not waited for",
    "missing_commit": "copy not waited for",
    "wait_without_barrier": "race",
    "copy_over_bytes_being_read": "race",
    "store_over_a_copy": "copy not waited for",
    "copy_never_waited_for": "copy never waited for",
    "past_shared_memory": "out of bounds",
    "before_shared_memory": "out of bounds",
    "past_global_memory": "out of bounds",
    "far_past_global_memory": "out of bounds",
    "copy_from_past_the_end": "out of bounds",
    "misaligned_shared": "misaligned",
    "misaligned_matrix_row": "misaligned",
    "misaligned_global": "misaligned",
    "uninitialised": "uninitialised read",
    "divergent_matrices": "divergent warp",
    "lanes_leave_early": "deadlock",
    "shuffle_from_a_lane_that_left": "divergent warp",
    "half_a_warp": "partial mask",
    "waiting_in_a_loop": "endless loop",
    "mbarrier_starved": "deadlock",
    "mbarrier_not_made": "mbarrier misused",
    "mbarrier_used_too_early": "race or mbarrier misused",  # depends on which thread comes first
    "mbarrier_arrival_too_many": "mbarrier misused",
    "mbarrier_arrival_for_others": "race",
    "bulk_copy_not_waited_for": "copy not waited for",
    "bulk_copy_other_barrier": "copy not waited for",
    "bulk_copy_without_fence": "missing fence",
    "stack_overflow": "stack overflow",
    "wild_pointer": "crash",
    "division_by_zero": "crash",
}
# Found by the CPU itself; of a full stack it does not know the line.
CRASHES = {"stack_overflow", "wild_pointer", "division_by_zero"}
# Found after a while only: not tried in every order.
SLOW = {"endless_arithmetic", "endless_shuffles"}
if platform.machine() != "x86_64":  # other processors divide by zero in silence
    CRASHES.remove("division_by_zero")
    del KINDS["division_by_zero"]


@pytest.fixture(scope="module")
def planted():
    return emulator.build(SOURCE, "planted")


def launch(planted, case, *, broken, seed, patience=30):
    number = next(i for i, line in enumerate(LINES, 1) if f"CASE({case})" in line)
    words = np.arange(256, dtype=np.uint32)
    out = np.zeros(64, dtype=np.uint32)
    return planted.launch([words, out, number, int(broken)], 1, 64, 4096, seed=seed, patience=patience)


def lines_at_fault(case):
    start = next(i for i, line in enumerate(LINES) if re.match(rf"GPU_FN void {case}\(", line))
    end = next(i for i in range(start, len(LINES)) if LINES[i].rstrip().endswith("}") and LINES[i][0] in "G}")
    return {i + 1 for i in range(start, end + 1) if LINES[i].endswith("// at fault")}


def test_every_case_is_listed():
    assert set(KINDS) | SLOW | {"division_by_zero"} == set(
        re.findall(r"CASE\((\w+)\)$", SOURCE.read_text(), flags=re.MULTILINE)
    )


@pytest.mark.parametrize("case", KINDS)
def test_a_planted_fault_is_found_in_every_order(planted, case):
    for seed in range(6):
        faults = launch(planted, case, broken=True, seed=seed).faults
        found = [fault for fault in faults if fault.kind in KINDS[case].split(" or ")]
        assert found, f"seed {seed}: {faults}"
        if case != "stack_overflow":
            assert {Path(fault.file).name for fault in found} == {"faults.cu"}
            assert {fault.line for fault in found} <= lines_at_fault(case)


@pytest.mark.parametrize("case", KINDS)
def test_its_cure_is_clean(planted, case):
    for seed in range(6):
        assert launch(planted, case, broken=False, seed=seed).faults == []


@pytest.mark.parametrize("case", sorted(CRASHES))
def test_the_process_survives_a_crash(planted, case):
    assert len(launch(planted, case, broken=True, seed=0).faults) == 1
    assert launch(planted, "missing_barrier", broken=False, seed=0).faults == []


def test_arithmetic_without_an_end_is_interrupted(planted):
    (fault,) = launch(planted, "endless_arithmetic", broken=True, seed=0, patience=1).faults
    assert fault.kind == "endless loop"
    assert "has run for 1 seconds without touching memory" in fault.message
    assert launch(planted, "endless_arithmetic", broken=False, seed=0).faults == []


def test_shuffles_without_an_end_are_counted(planted):
    (fault,) = launch(planted, "endless_shuffles", broken=True, seed=0).faults
    assert fault.kind == "endless loop"
    assert {fault.line} == lines_at_fault("endless_shuffles")
    assert launch(planted, "endless_shuffles", broken=False, seed=0).faults == []


def test_a_fault_says_who_where_and_what_helps(planted):
    fault, *_ = launch(planted, "missing_syncwarp_before_overwriting", broken=True, seed=0).faults
    assert re.fullmatch(
        r"faults.cu:(\d+) \(lds\) reads what faults.cu:(\d+) \(sts\) writes over, in no certain order: "
        r"__syncwarp\(\) is missing after faults.cu:\1 and before faults.cu:\2 "
        r"\(256 bytes, 64 threads, 1 block; first block 0 0 0 warp \d lane \d+ \(thread \d+\) "
        r"writes byte \d+ of shared memory, which warp \d lane \d+ read\)",
        fault.message,
    )
    assert {fault.line, fault.other_line} == lines_at_fault("missing_syncwarp_before_overwriting")
    assert fault.count == 64  # of two warps one lane stores first, over what none has read; 31 then do


def test_a_warp_that_read_as_one_is_named_without_a_lane(planted):
    (fault,) = launch(planted, "ldmatrix_then_store", broken=True, seed=0).faults
    assert re.search(
        r"\(ldmatrix.x1\) reads what faults.cu:\d+ \(sts\) writes over, .*: __syncwarp\(\) is missing .*"
        r"lane 0 \(thread 0\) writes byte 0 of shared memory, which warp 0 read\)$",
        fault.message,
    )
    assert fault.count == 32


def test_the_same_seed_gives_the_same_report(planted):
    for case in ("missing_barrier", "divergent_matrices", "uninitialised"):
        first, second = (launch(planted, case, broken=True, seed=3).faults for _ in range(2))
        assert first == second


def test_far_away_bytes_are_named(planted):
    (fault,) = launch(planted, "far_past_global_memory", broken=True, seed=0).faults
    assert "wants 4 bytes of global memory at byte 256128 of argument 1, which has 256" in fault.message
