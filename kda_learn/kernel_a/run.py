"""One run of a stage on one of the two machines, a Hopper GPU or the emulator."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..ground.errors import BadInput
from ..ground.given import whole
from ..hardware.bf16 import from_bf16
from ..hardware.limits import HOPPER
from ..machines.launching import launch
from ..machines.runnable import Runnable
from ..sources.stages import Stage, as_stage
from .arguments import Arguments
from .problem import Problem
from .tiling import HEAD_DIM
from .variants import runnable_of, shared_memory_of

if TYPE_CHECKING:
    from ..machines.emulator_launch import Launch


@dataclass(frozen=True)
class Result:
    """What one run wrote."""

    snapshots: np.ndarray  # float32 [H * total_tiles, K, V]; those of a bf16 run are widened, which is exact
    ds0: np.ndarray  # float32 [N, H, K, V]
    machine: str  # "gpu" or "emulator"
    faults: list[str]  # one sentence each: what the emulator found, and elements that were never written
    launch: Launch | None  # on the emulator, with the trace and the counts
    seconds: float  # on the machine, without compiling and copying

    def same_bits(self, other: Result) -> bool:
        """Whether another run wrote the same, bit by bit."""
        return all(
            np.array_equal(mine.view(np.uint32), theirs.view(np.uint32))
            for mine, theirs in ((self.snapshots, other.snapshots), (self.ds0, other.ds0))
        )


def run(
    stage: Stage | str | Path,
    problem: Problem,
    *,
    machine: str = "auto",
    v_split: int = 1,
    snapshot_dtype: str = "float32",
    seed: int = 0,
    trace: bool = False,
    extra_smem: int = 0,
) -> Result:
    """Run one stage once. The outputs start as NaN, so that an element the kernel leaves out is seen.

    stage: a Stage, its id, or the path of a .cu file of your own. machine: "gpu", "emulator", or "auto": the
    GPU if there is a Hopper one, else the emulator (with trace always). v_split: 1, 2, 4 or 8 blocks share
    the state's columns. snapshot_dtype: "float32" or "bfloat16". seed: the emulator's order of warps and
    lanes. trace: keep every shared-memory access in `launch.accesses`. extra_smem: bytes of shared memory
    that each block asks for and leaves alone, to see what fewer blocks per SM cost.

    Raises BadInput for an argument that does not fit, MachineUnavailable if the machine is missing.
    """
    stage = as_stage(stage)
    check_problem(problem)
    seed, extra_smem = whole("seed", seed), whole("extra_smem", extra_smem)
    runnable = of_problem(stage, problem, v_split, snapshot_dtype, extra_smem)
    if runnable.dynamic_smem_bytes > HOPPER.shared_memory_per_block:
        needed = shared_memory_of(stage, v_split)
        raise BadInput(
            f"extra_smem is {extra_smem} beside the {needed} bytes of shared memory that the kernel "
            f"uses: give at most {HOPPER.shared_memory_per_block - needed}."
        )
    done = launch(runnable, machine, seed=seed, trace=trace)
    snapshots = runnable.written["snapshots"]
    if snapshots.dtype == np.uint16:
        snapshots = from_bf16(snapshots)
    return Result(snapshots, runnable.written["ds0"], done.machine, done.faults, done.launch, done.seconds)


def of_problem(
    stage: Stage,
    problem: Problem,
    v_split: int = 1,
    snapshot_dtype: str = "float32",
    extra_smem: int = 0,
) -> Runnable:
    """A launch of a stage on a problem, with outputs of its own, all in host memory."""
    snapshot_type = np.float32 if snapshot_dtype == "float32" else np.uint16
    arguments = Arguments(
        q=problem.q,
        k=problem.k,
        gc=problem.gc,
        beta=problem.beta,
        inv=problem.inv,
        mqk=problem.mqk,
        do=problem.do,
        dht=problem.dht,
        snapshots=np.empty((problem.heads * problem.total_tiles, HEAD_DIM, HEAD_DIM), snapshot_type),
        ds0=np.empty((problem.sequences, problem.heads, HEAD_DIM, HEAD_DIM), np.float32),
        cu_seqlens=problem.cu_seqlens,
        scale=problem.scale,
        length=problem.length,
        tokens=problem.tokens,
        total_tiles=problem.total_tiles,
        heads=problem.heads,
    )
    return runnable_of(
        stage,
        arguments,
        problem.sequences,
        v_split=v_split,
        snapshot_dtype=snapshot_dtype,
        extra_smem=extra_smem,
    )


def check_problem(problem: Problem) -> None:
    """Raise BadInput for anything but a Problem."""
    if not isinstance(problem, Problem):
        raise BadInput(
            f"problem is {type(problem).__name__}: give a Problem, such as random_problem(lengths=[48])."
        )
