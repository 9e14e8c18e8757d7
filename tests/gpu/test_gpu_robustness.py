"""Kernel A on a real GPU under strain. Skipped without a Hopper GPU.

The emulator has found every race there is in its model; here the hardware has its say: many blocks at once,
two streams, memory nearly full, poisoned inputs, bytes around the outputs.
"""

from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache

import numpy as np
import pytest
from poison import HEADS, poisoned, spread

from kda_learn.checking.check import expected
from kda_learn.checking.random_set import check_random, seeds_of
from kda_learn.ground.errors import MachineUnavailable
from kda_learn.kernel_a.accuracy import errors
from kda_learn.kernel_a.problem import Problem, random_problem
from kda_learn.kernel_a.run import of_problem, run
from kda_learn.machines.cuda import elapsed_ms, record_event, synchronize
from kda_learn.machines.device import free_memory, hopper
from kda_learn.machines.gpu import Kernel, kernel_of, on_device
from kda_learn.machines.runnable import Runnable
from kda_learn.sources.stages import STAGES, Stage

pytestmark = pytest.mark.gpu

GUARD_BYTES = 1 << 16
TURNS = 3

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
    def array(self):
        """Where the kernel writes, float32."""
        import cupy

        return cupy.ndarray(self.shape, np.float32, self.memory + GUARD_BYTES)

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
    runnable: Runnable = field(init=False)
    kernel: Kernel = field(init=False)

    def __post_init__(self):
        self.runnable = on_device(of_problem(self.rung, self.problem, self.v_split))
        self.kernel = kernel_of(self.runnable)

    def launch(self, stream: int = 0) -> tuple[Guarded, Guarded]:
        """Start the kernel and return the outputs-to-be: snapshots and ds0."""
        snapshots, ds0 = (Guarded(self.runnable.written[name].shape) for name in ("snapshots", "ds0"))
        synchronize(self.kernel.gpu)  # the outputs' bits are set on another stream
        self.start(snapshots, ds0, stream)
        return snapshots, ds0

    def milliseconds(self, snapshots: Guarded, ds0: Guarded, launches: int) -> float:
        """How long so many launches take, one after the other."""
        began = record_event()
        for _ in range(launches):
            self.start(snapshots, ds0, stream=0)
        return elapsed_ms(began, record_event())

    def start(self, snapshots: Guarded, ds0: Guarded, stream: int) -> None:
        """Start the kernel with given outputs."""
        arguments = list(self.runnable.arguments)
        arguments[self.runnable.outputs["snapshots"]] = snapshots.array
        arguments[self.runnable.outputs["ds0"]] = ds0.array
        self.kernel.start(replace(self.runnable, arguments=tuple(arguments)), stream)


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
    synchronize(hopper())
    began = record_event(streams[0].ptr)
    for turn in range(TURNS):
        for batch, stream, written in zip(batches, streams, outputs, strict=True):
            batch.start(*written[turn], stream.ptr)
    ended = [record_event(stream.ptr) for stream in streams]
    together_ms = max([elapsed_ms(began, end) for end in ended])
    print(f"{rung.id}: {together_ms:.2f} ms together, {alone_ms:.2f} ms one after the other")
    assert together_ms < 0.9 * alone_ms
    for index in range(2):
        for written in outputs[index]:
            assert same_bits(alone[index], written)


def test_near_the_memory_limit():
    """What just fits runs and is right; what does not fails with one sentence and takes nothing with it."""
    import cupy

    large = random_problem(lengths=[4096], heads=8)  # 134 MB of snapshots, 44 MB of inputs
    wanted = run("s12", large, machine="gpu")
    device = hopper()
    for left_mb, fits in ((400, True), (120, False)):
        taken = cupy.cuda.alloc(free_memory(device) - left_mb * 2**20)
        free = free_memory(device)
        for _ in range(10):
            if fits:
                assert np.array_equal(run("s12", large, machine="gpu").ds0, wanted.ds0)
            else:
                with pytest.raises(MachineUnavailable) as error:
                    run("s12", large, machine="gpu")
                assert "fewer tokens or heads" in str(error.value) and "\n" not in str(error.value)
            assert abs(free_memory(device) - free) <= 4 * 2**20
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
