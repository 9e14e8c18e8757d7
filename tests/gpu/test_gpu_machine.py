"""The GPU machine: stages on a real GPU against the emulator's contract. Skipped without a Hopper GPU."""

import subprocess
import sys

import numpy as np
import pytest

from kda_learn import gpu
from kda_learn.check import check
from kda_learn.compile import V_SPLITS, compile_stage
from kda_learn.errors import BadInput, MachineUnavailable
from kda_learn.occupancy import blocks_per_sm
from kda_learn.problem import STRONG_GATE, random_problem
from kda_learn.stages import STAGES

pytestmark = pytest.mark.gpu

SMEM_PER_SM = 228 * 1024
STAGE_IDS = [stage.id for stage in STAGES]


@pytest.fixture(scope="module")
def problem():
    return random_problem(lengths=[100, 100], heads=2)


@pytest.fixture(scope="module")
def varlen_problem():
    return random_problem(lengths=[1, 33, 0, 16, 47], heads=2, varlen=True, gate=STRONG_GATE)


def test_what_the_gpu_says_of_itself():
    found = gpu.describe()
    assert found.compute_capability == (9, 0)
    assert found.sms > 0
    assert 0 < gpu.free_memory(found) <= found.memory_bytes
    assert found.smem_per_block_bytes == 227 * 1024


def test_clocks_are_plausible():
    sample = gpu.sample_clocks(gpu.hopper())
    if sample is None:
        pytest.skip("nvidia-smi does not tell")
    assert sample.sm_mhz is None or 100 < sample.sm_mhz < 5000
    assert sample.temperature_c is None or 5 < sample.temperature_c < 120


@pytest.mark.parametrize("v_split", V_SPLITS)
@pytest.mark.parametrize("stage", STAGE_IDS)
def test_every_stage_is_right(stage, v_split, problem):
    row = check(stage, problem, machine="gpu", v_split=v_split)
    assert row.ok, row.faults


@pytest.mark.parametrize("stage", STAGE_IDS)
@pytest.mark.parametrize("snapshot_dtype", ["float32", "bfloat16"])
def test_every_stage_is_right_on_a_varlen_batch(stage, snapshot_dtype, varlen_problem):
    row = check(stage, varlen_problem, machine="gpu", snapshot_dtype=snapshot_dtype)
    assert row.ok, row.faults


@pytest.mark.parametrize("stage", STAGE_IDS)
def test_no_tokens_at_all(stage):
    empty = random_problem(lengths=[0, 0], heads=2)
    run = gpu.run_on_gpu(stage, empty)
    assert run.snapshots.shape == (0, 128, 128)
    assert np.abs(run.ds0 - empty.dht).max() <= np.abs(empty.dht).max() / 128  # rounded through bf16


@pytest.mark.parametrize("v_split", V_SPLITS)
@pytest.mark.parametrize("stage", STAGE_IDS)
def test_the_occupancy_rule_is_the_drivers(stage, v_split):
    compiled = compile_stage(stage, v_split)
    rule = blocks_per_sm(compiled.registers, compiled.dynamic_smem_bytes, gpu.THREADS)
    assert gpu.load(compiled).blocks_per_sm() == rule.blocks


def test_extra_shared_memory_makes_fewer_blocks_fit(problem):
    compiled = compile_stage("s02")
    third_of_an_sm = SMEM_PER_SM // 3 - 1024
    kernel = gpu.load(compiled, extra_smem=third_of_an_sm - compiled.dynamic_smem_bytes)
    assert kernel.blocks_per_sm() == 3
    assert gpu.load(compiled).blocks_per_sm() == 4
    plain, padded = (gpu.run_on_gpu("s02", problem, extra_smem=extra) for extra in (0, 20000))
    assert np.array_equal(plain.snapshots, padded.snapshots)


@pytest.mark.parametrize("extra_smem", [-60000, 200000])
def test_a_block_that_does_not_fit(problem, extra_smem):
    with pytest.raises(BadInput, match=r"B of dynamic shared memory .*give another extra_smem"):
        gpu.run_on_gpu("s02", problem, extra_smem=extra_smem)


def test_too_little_memory_is_one_sentence_and_frees_what_was_taken():
    import cupy

    large = random_problem(lengths=[4096], heads=8)  # 134 MB of snapshots
    gpu.run_on_gpu("s12", random_problem(lengths=[48]))  # the kernel itself is loaded now
    device = gpu.hopper()
    taken = cupy.cuda.alloc(gpu.free_memory(device) - 100 * 2**20)
    free = gpu.free_memory(device)
    with pytest.raises(MachineUnavailable, match=r"0\.1 GB of snapshots .*give fewer tokens or heads"):
        gpu.run_on_gpu("s12", large)
    assert abs(gpu.free_memory(device) - free) <= 4 * 2**20
    del taken
    cupy.get_default_memory_pool().free_all_blocks()
    assert gpu.run_on_gpu("s12", large).snapshots.shape == (2048, 128, 128)


@pytest.mark.parametrize("sms", [0, 100000])
def test_a_part_the_gpu_does_not_have(sms):
    with pytest.raises(BadInput, match="give a number from 1 to"), gpu.sm_partition(sms):
        pass


def test_a_part_of_the_gpu_is_slower_and_gives_the_same():
    """Enough blocks to fill the GPU several times: a part of it takes longer."""
    cupy = pytest.importorskip("cupy")
    compiled = compile_stage("s12")
    kernel = gpu.load(compiled)
    batch = random_problem(lengths=[16] * 1024, heads=2)
    device = gpu.hopper()
    names = ("q", "k", "gc", "beta", "inv", "mqk", "do", "dht")
    inputs = {name: cupy.asarray(getattr(batch, name)) for name in names}
    snapshots = cupy.empty((2048, 128, 128), np.float32)
    ds0 = cupy.empty((1024, 2, 128, 128), np.float32)
    arguments = gpu.KernelArguments(
        **{name: array.data.ptr for name, array in inputs.items()},
        snapshots=snapshots.data.ptr,
        ds0=ds0.data.ptr,
        cu_seqlens=0,
        scale=batch.scale,
        length=16,
        tokens=batch.tokens,
        total_tiles=batch.total_tiles,
        heads=2,
    )

    def timed(stream: int) -> tuple[float, np.ndarray]:
        snapshots.data.memset(0xFF, snapshots.nbytes)
        gpu.synchronize(device)
        milliseconds = []
        for _ in range(5):
            start = gpu.record_event(stream)
            gpu.launch_kernel_a(kernel, arguments, batch.sequences, 1, stream)
            milliseconds.append(gpu.elapsed_ms(start, gpu.record_event(stream)))
        return min(milliseconds), snapshots.get()

    whole_ms, whole = timed(0)
    with gpu.sm_partition(16) as part:
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
from kda_learn.compile import compile
from kda_learn.errors import KdaError
from kda_learn.gpu import elapsed_ms, load, record_event
kernel = load(compile(Path({str(tmp_path / "fault.cu")!r}), entry="fault"))
start = record_event()
kernel.launch((1, 1, 1), (32, 1, 1), [])
try:
    elapsed_ms(start, record_event())
except KdaError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "A kernel failed (cudaError" in run.stdout, run.stderr
    assert "start a new Python process" in run.stdout
