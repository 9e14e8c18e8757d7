"""The GPU machine: stages on a real GPU against the emulator's contract. Skipped without a Hopper GPU."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from kda_learn.checking.check import check
from kda_learn.ground.errors import BadInput, MachineUnavailable
from kda_learn.hardware.occupancy import blocks_per_sm
from kda_learn.kernel_a.problem import STRONG_GATE, random_problem
from kda_learn.kernel_a.run import of_problem, run
from kda_learn.kernel_a.variants import V_SPLITS, compile_stage, shared_memory_of, threads_of
from kda_learn.machines.cuda import elapsed_ms, record_event, sm_partition, synchronize
from kda_learn.machines.device import describe, free_memory, hopper, sample_clocks
from kda_learn.machines.gpu import kernel_of, load, on_device, poison
from kda_learn.machines.launching import launch
from kda_learn.sources.stages import STAGES, stage

pytestmark = pytest.mark.gpu

SMEM_PER_SM = 228 * 1024
every_stage = pytest.mark.parametrize("rung", STAGES, ids=lambda rung: rung.id)


@pytest.fixture(scope="module")
def problem():
    return random_problem(lengths=[100, 100], heads=2)


@pytest.fixture(scope="module")
def varlen_problem():
    return random_problem(lengths=[1, 33, 0, 16, 47], heads=2, varlen=True, gate=STRONG_GATE)


def test_what_the_gpu_says_of_itself():
    found = describe()
    assert found.compute_capability == (9, 0)
    assert found.sms > 0
    assert 0 < free_memory(found) <= found.memory_bytes
    assert found.smem_per_block_bytes == 227 * 1024


def test_clocks_are_plausible():
    sample = sample_clocks(hopper())
    if sample is None:
        pytest.skip("nvidia-smi does not tell")
    assert sample.sm_mhz is None or 100 < sample.sm_mhz < 5000
    assert sample.temperature_c is None or 5 < sample.temperature_c < 120


@pytest.mark.parametrize("v_split", V_SPLITS)
@every_stage
def test_every_stage_is_right(rung, v_split, problem):
    row = check(rung, problem, machine="gpu", v_split=v_split)
    assert row.ok, row.faults


@every_stage
@pytest.mark.parametrize("snapshot_dtype", ["float32", "bfloat16"])
def test_every_stage_is_right_on_a_varlen_batch(rung, snapshot_dtype, varlen_problem):
    row = check(rung, varlen_problem, machine="gpu", snapshot_dtype=snapshot_dtype)
    assert row.ok, row.faults


@every_stage
def test_no_tokens_at_all(rung):
    empty = random_problem(lengths=[0, 0], heads=2)
    result = run(rung, empty, machine="gpu")
    assert result.faults == []
    assert result.snapshots.shape == (0, 128, 128)
    assert np.abs(result.ds0 - empty.dht).max() <= np.abs(empty.dht).max() / 128  # rounded through bf16


@pytest.mark.parametrize("v_split", V_SPLITS)
@every_stage
def test_the_occupancy_rule_is_the_drivers(rung, v_split):
    compiled, threads = compile_stage(rung, v_split), threads_of(rung)
    smem = shared_memory_of(rung, v_split)
    rule = blocks_per_sm(compiled.registers, smem, threads)
    assert load(compiled, smem).blocks_per_sm(threads) == rule.blocks


def test_extra_shared_memory_makes_fewer_blocks_fit(problem):
    rung = stage("s02")
    compiled, threads = compile_stage(rung), threads_of(rung)
    third_of_an_sm = SMEM_PER_SM // 3 - 1024
    assert load(compiled, third_of_an_sm).blocks_per_sm(threads) == 3
    assert load(compiled, shared_memory_of(rung)).blocks_per_sm(threads) == 4
    plain, padded = (run(rung, problem, machine="gpu", extra_smem=extra) for extra in (0, 20000))
    assert np.array_equal(plain.snapshots, padded.snapshots)


@pytest.mark.parametrize("smem", [-1, 240000])
def test_a_block_that_does_not_fit(problem, smem):
    runnable = replace(of_problem(stage("s02"), problem), dynamic_smem_bytes=smem)
    with pytest.raises(BadInput, match=r"shared_bytes is .*: give a whole number from 0 to 232448"):
        launch(runnable, "gpu")


def test_too_little_memory_is_one_sentence_and_frees_what_was_taken():
    import cupy

    large = random_problem(lengths=[4096], heads=8)  # 134 MB of snapshots, 45 MB of inputs
    run("s12", random_problem(lengths=[48]), machine="gpu")  # the kernel itself is loaded now
    device = hopper()
    taken = []
    while (free := free_memory(device)) > 110 * 2**20:  # another process may just have given some back
        taken.append(cupy.cuda.alloc(free - 100 * 2**20))
    with pytest.raises(
        MachineUnavailable, match=r"0\.2 GB of inputs and outputs .*\(fewer tokens or heads\)"
    ):
        run("s12", large, machine="gpu")
    assert abs(free_memory(device) - free) <= 4 * 2**20
    del taken
    cupy.get_default_memory_pool().free_all_blocks()
    assert run("s12", large, machine="gpu").snapshots.shape == (2048, 128, 128)


@pytest.mark.parametrize("sms", [0, 100000])
def test_a_part_the_gpu_does_not_have(sms):
    with pytest.raises(BadInput, match="give a number from 1 to"), sm_partition(sms):
        pass


def test_a_part_of_the_gpu_is_slower_and_gives_the_same():
    """Enough blocks to fill the GPU several times: a part of it takes longer."""
    batch = random_problem(lengths=[16] * 1024, heads=2)
    runnable = on_device(of_problem(stage("s12"), batch))
    kernel = kernel_of(runnable)
    device = hopper()
    snapshots = runnable.written["snapshots"]

    def timed(stream: int) -> tuple[float, np.ndarray]:
        poison(snapshots)
        synchronize(device)
        milliseconds = []
        for _ in range(5):
            start = record_event(stream)
            kernel.start(runnable, stream)
            milliseconds.append(elapsed_ms(start, record_event(stream)))
        return min(milliseconds), snapshots.get()

    whole_ms, whole = timed(0)
    with sm_partition(16) as part:
        assert 16 <= part.sms < device.sms / 2
        part_ms, partial = timed(part.stream)
    assert np.array_equal(whole, partial)
    assert part_ms > 2 * whole_ms
    again_ms, _ = timed(0)
    assert again_ms < 2 * whole_ms


def test_a_fault_in_a_kernel_is_one_sentence(tmp_path):
    """In another process, since a fault ends CUDA for the one it happens in."""
    (tmp_path / "fault.cu").write_text('__global__ void fault() { asm("trap;"); }')
    program = f"""
from pathlib import Path
from kda_learn.ground.errors import KdaError
from kda_learn.machines.cuda import elapsed_ms, record_event
from kda_learn.machines.gpu import kernel_of
from kda_learn.machines.runnable import Runnable
runnable = Runnable(Path({str(tmp_path / "fault.cu")!r}), "fault", (), (1, 1, 1), 32)
kernel = kernel_of(runnable)
start = record_event()
kernel.start(runnable)
try:
    elapsed_ms(start, record_event())
except KdaError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "A kernel failed (cudaError" in done.stdout, done.stderr
    assert "start a new Python process" in done.stdout
