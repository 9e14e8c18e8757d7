"""Kernel A on a real GPU under strain. Skipped without a Hopper GPU.

The emulator has found every race there is in its model; here the hardware has its say: many blocks at once,
two streams, memory nearly full, poisoned inputs, bytes around the outputs.
"""

from dataclasses import dataclass, field
from datetime import date
from functools import cache

import numpy as np
import pytest
from poison import HEADS, poisoned, spread

from kda_learn import gpu
from kda_learn.accuracy import errors
from kda_learn.check import expected
from kda_learn.compile import compile_stage
from kda_learn.errors import MachineUnavailable
from kda_learn.problem import Problem, random_problem
from kda_learn.robustness import check_random, seeds_of
from kda_learn.run import run
from kda_learn.stages import STAGES, Stage

pytestmark = pytest.mark.gpu

GUARD_BYTES = 1 << 16
TURNS = 3
NAMES = ("q", "k", "gc", "beta", "inv", "mqk", "do", "dht", "cu_seqlens")

every_stage = pytest.mark.parametrize("rung", STAGES, ids=lambda rung: rung.id)


class Guarded:
    """An output in GPU memory: all its bits set, as those of GUARD_BYTES before and behind it."""

    def __init__(self, shape: tuple[int, ...]):
        import cupy

        self.shape = shape
        self.bytes = int(np.prod(shape)) * 4
        self.memory = cupy.cuda.alloc(self.bytes + 2 * GUARD_BYTES)
        self.memory.memset(0xFF, self.bytes + 2 * GUARD_BYTES)

    @property
    def address(self) -> int:
        """Where the kernel writes."""
        return self.memory.ptr + GUARD_BYTES

    def get(self) -> tuple[np.ndarray, np.ndarray]:
        """The output, float32, and the bytes around it."""
        everything = np.empty(self.bytes + 2 * GUARD_BYTES, np.uint8)
        self.memory.copy_to_host(everything.ctypes.data, everything.nbytes)
        inside = everything[GUARD_BYTES:-GUARD_BYTES]
        around = np.concatenate([everything[:GUARD_BYTES], everything[-GUARD_BYTES:]])
        return inside.view(np.float32).reshape(self.shape), around


@dataclass
class OnGpu:
    """A problem in GPU memory, which a stage can work on again and again, with new outputs each time."""

    rung: Stage
    problem: Problem
    v_split: int = 1
    inputs: dict = field(init=False)

    def __post_init__(self):
        import cupy

        given = {name: getattr(self.problem, name) for name in NAMES}
        self.inputs = {name: cupy.asarray(array) for name, array in given.items() if array is not None}
        self.kernel = gpu.load(compile_stage(self.rung, self.v_split, "cu_seqlens" in self.inputs, "float32"))

    def launch(self, stream: int = 0) -> tuple[Guarded, Guarded]:
        """Start the kernel and return the outputs-to-be: snapshots and ds0."""
        problem = self.problem
        snapshots = Guarded((problem.heads * problem.total_tiles, 128, 128))
        ds0 = Guarded((problem.sequences, problem.heads, 128, 128))
        gpu.synchronize(self.kernel.gpu)  # the outputs' bits are set on another stream
        self.start(snapshots, ds0, stream)
        return snapshots, ds0

    def milliseconds(self, snapshots: Guarded, ds0: Guarded, launches: int) -> float:
        """How long so many launches take, one after the other."""
        began = gpu.record_event()
        for _ in range(launches):
            self.start(snapshots, ds0, stream=0)
        return gpu.elapsed_ms(began, gpu.record_event())

    def start(self, snapshots: Guarded, ds0: Guarded, stream: int) -> None:
        """Start the kernel with given outputs."""
        problem = self.problem
        arguments = gpu.KernelArguments(
            **{name: self.inputs[name].data.ptr if name in self.inputs else 0 for name in NAMES},
            snapshots=snapshots.address,
            ds0=ds0.address,
            scale=problem.scale,
            length=problem.length,
            tokens=problem.tokens,
            total_tiles=problem.total_tiles,
            heads=problem.heads,
        )
        gpu.launch_kernel_a(self.kernel, arguments, problem.sequences, self.v_split, stream)


def same_bits(one: tuple[Guarded, Guarded], other: tuple[Guarded, Guarded]) -> bool:
    """Whether two launches wrote the same, and nothing but the outputs."""
    pairs = [(mine.get(), theirs.get()) for mine, theirs in zip(one, other, strict=True)]
    return all(
        np.array_equal(mine[0].view(np.uint32), theirs[0].view(np.uint32))
        and np.array_equal(mine[1], theirs[1])
        for mine, theirs in pairs
    )


@every_stage
@pytest.mark.parametrize("v_split", [1, 4])
def test_nothing_is_written_beside_the_outputs(rung: Stage, v_split: int):
    problem = random_problem(lengths=[20, 0, 36, 1], heads=3, varlen=True)
    for output in OnGpu(rung, problem, v_split).launch():
        inside, around = output.get()
        assert (around == 0xFF).all()
        assert not np.isnan(inside).any()


@every_stage
def test_a_hundred_launches_give_the_same_bits(rung: Stage):
    """With blocks on many SMs at once, and several on an SM: a race would show as a difference."""
    batch = OnGpu(rung, random_problem(lengths=[40] * 16, heads=12))
    first = batch.launch()
    for _ in range(99):
        assert same_bits(first, batch.launch())


@every_stage
def test_two_streams_at_once(rung: Stage):
    """Few blocks and many tiles, so that both kernels are on the GPU together for most of the time."""
    import cupy

    batches = [OnGpu(rung, random_problem(lengths=[2048], heads=2, seed=seed)) for seed in (1, 2)]
    alone = [batch.launch() for batch in batches]
    alone_ms = sum(batch.milliseconds(*written, TURNS) for batch, written in zip(batches, alone, strict=True))
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in batches]
    outputs = [
        [tuple(Guarded(output.shape) for output in alone[index]) for _ in range(TURNS)] for index in range(2)
    ]
    gpu.synchronize(gpu.hopper())
    began = gpu.record_event(streams[0].ptr)
    for turn in range(TURNS):
        for batch, stream, written in zip(batches, streams, outputs, strict=True):
            batch.start(*written[turn], stream.ptr)
    ended = [gpu.record_event(stream.ptr) for stream in streams]
    together_ms = max([gpu.elapsed_ms(began, end) for end in ended])
    print(f"{rung.id}: {together_ms:.2f} ms together, {alone_ms:.2f} ms one after the other")
    assert together_ms < 0.9 * alone_ms
    for index in range(2):
        for written in outputs[index]:
            assert same_bits(alone[index], written)


def test_near_the_memory_limit():
    """What just fits runs and is right; what does not fails with one sentence and takes nothing with it."""
    import cupy

    large = random_problem(lengths=[4096], heads=8)  # 134 MB of snapshots, 44 MB of inputs
    wanted = gpu.run_on_gpu("s12", large)
    device = gpu.hopper()
    for left_mb, fits in ((400, True), (120, False)):
        taken = cupy.cuda.alloc(gpu.free_memory(device) - left_mb * 2**20)
        free = gpu.free_memory(device)
        for _ in range(10):
            if fits:
                assert np.array_equal(gpu.run_on_gpu("s12", large).ds0, wanted.ds0)
            else:
                with pytest.raises(MachineUnavailable) as error:
                    run("s12", large, machine="gpu")
                assert "give fewer tokens or heads" in str(error.value) and "\n" not in str(error.value)
            assert abs(gpu.free_memory(device) - free) <= 4 * 2**20
        del taken
        cupy.get_default_memory_pool().free_all_blocks()
    assert np.array_equal(run("s12", large, machine="gpu").ds0, wanted.ds0)


@cache
def problem_of_both() -> Problem:
    """Long enough for rounding to add up, short enough for the emulator."""
    return random_problem(lengths=[260, 250], heads=2, varlen=True)


@every_stage
def test_emulator_and_gpu_agree_within_rounding(rung: Stage):
    """They add up in another order and have another 2^x, so that now and then a bf16 falls to the other side.

    All in all that must be far less than what rounding to bf16 costs anyway.
    """
    problem = problem_of_both()
    emulated, measured = (run(rung, problem, machine=machine) for machine in ("emulator", "gpu"))
    truth, simulated = expected(problem, "float32")
    for name, one, other, exact, rounded in zip(
        ("snapshots", "ds0"),
        (measured.snapshots, measured.ds0),
        (emulated.snapshots, emulated.ds0),
        truth,
        simulated,
        strict=True,
    ):
        differing = (one != other).mean()
        apart = errors(one, other.astype(np.float64)).worst
        allowed = errors(rounded, exact).worst
        print(f"{rung.id} {name}: {differing:.1%} of the elements differ, {apart:.1e} of {allowed:.1e}")
        assert apart <= allowed / 2


@every_stage
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_one_bad_element_stays_inside_its_sequence_and_head(rung: Stage, value: float):
    problem = random_problem(lengths=[20, 36, 4, 33], heads=HEADS, varlen=True)
    clean, bad = (run(rung, given, machine="gpu") for given in (problem, poisoned(problem, value)))
    assert spread(problem, clean, bad) == []


def test_forty_random_problems():
    rows = check_random(40, first_seed=seeds_of(date(2026, 11, 29)), machine="gpu")
    assert [f"{row.stage}, {row.problem}: {row.faults}" for row in rows if not row.ok] == []
