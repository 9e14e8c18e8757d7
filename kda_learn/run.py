"""One run of a stage on one of the two machines, a Hopper GPU or the emulator."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .bf16 import from_bf16
from .compile import kernel_entry, source_path
from .errors import BadInput, MachineUnavailable
from .problem import Problem
from .source import StageSource
from .stages import STAGES
from .tiling import HEAD_DIM

if TYPE_CHECKING:
    from .emulator import Launch
    from .stages import Stage

MACHINES = ("auto", "gpu", "emulator")
THREADS = 256
SHARED_MEMORY_PER_BLOCK = 227 * 1024  # bytes, on Hopper


@dataclass(frozen=True)
class Result:
    """What one run wrote."""

    snapshots: np.ndarray  # float32 [H * total_tiles, K, V]; those of a bf16 run are widened, which is exact
    ds0: np.ndarray  # float32 [N, H, K, V]
    machine: str  # "gpu" or "emulator"
    faults: list[str]  # one sentence each: what the emulator found, and elements that were never written
    launch: Launch | None  # on the emulator, with the trace and the counts
    seconds: float  # on the machine, without compiling and copying


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
    path = kernel_path(stage)
    check_problem(problem)
    entry = kernel_entry(v_split, problem.cu_seqlens is not None, snapshot_dtype)
    _check_whole_number("seed", seed)
    _check_whole_number("extra_smem", extra_smem)
    shared_bytes = _dynamic_shared_memory(path, v_split)
    if shared_bytes + extra_smem > SHARED_MEMORY_PER_BLOCK:
        raise BadInput(
            f"extra_smem is {extra_smem} beside the {shared_bytes} bytes of shared memory that the kernel "
            f"uses: give at most {SHARED_MEMORY_PER_BLOCK - shared_bytes}."
        )
    if trace and machine == "gpu":
        raise BadInput("machine is 'gpu' and trace is on: only the emulator traces, give machine='emulator'.")
    if choose_machine(machine) == "gpu" and not trace:
        return _run_on_gpu(path, problem, v_split, snapshot_dtype, extra_smem)
    snapshot_type = np.float32 if snapshot_dtype == "float32" else np.uint16
    return _run_on_emulator(
        path,
        entry,
        problem,
        snapshot_type,
        grid=(problem.sequences, problem.heads, v_split),
        shared_bytes=shared_bytes + extra_smem,
        seed=int(seed),
        trace=trace,
    )


def kernel_path(stage: Stage | str | Path) -> Path:
    """The .cu file of a Stage, of its id, or of a path. Raises BadInput for anything else."""
    if not isinstance(stage, (str, Path)) and not hasattr(stage, "path"):
        raise BadInput(f"stage is {stage!r}: give a Stage, an id such as 's12', or the path of a .cu file.")
    return source_path(stage)


def stage_name(stage: Stage | str | Path) -> str:
    """A stage's id; for a .cu file of your own the file's name without its ending."""
    path = kernel_path(stage)
    return next((rung.id for rung in STAGES if rung.path.resolve() == path), path.stem)


def choose_machine(machine: str) -> str:
    """ "gpu" or "emulator"; for "auto" the GPU if there is a Hopper one. Raises BadInput for other words."""
    if machine not in MACHINES:
        raise BadInput(f"machine is {machine!r}: give one of {', '.join(MACHINES)}.")
    if machine != "auto":
        return machine
    return "gpu" if _has_hopper_gpu() else "emulator"


def check_problem(problem: Problem) -> None:
    """Raise BadInput for anything but a Problem."""
    if not isinstance(problem, Problem):
        raise BadInput(
            f"problem is {type(problem).__name__}: give a Problem, such as random_problem(lengths=[48])."
        )


@cache
def _has_hopper_gpu() -> bool:
    from .device import hopper

    try:
        hopper()
    except MachineUnavailable:
        return False
    return True


def _run_on_emulator(
    path: Path,
    entry: str,
    problem: Problem,
    snapshot_type: type,
    *,
    grid: tuple[int, int, int],
    shared_bytes: int,
    seed: int,
    trace: bool,
) -> Result:
    from . import emulator

    snapshots = _poisoned((problem.heads * problem.total_tiles, HEAD_DIM, HEAD_DIM), snapshot_type)
    ds0 = _poisoned((problem.sequences, problem.heads, HEAD_DIM, HEAD_DIM), np.float32)
    arguments = [
        problem.q,
        problem.k,
        problem.gc,
        problem.beta,
        problem.inv,
        problem.mqk,
        problem.do,
        problem.dht,
        snapshots,
        ds0,
        problem.cu_seqlens,
        np.float32(problem.scale),
        np.int32(problem.length),
        np.int32(problem.tokens),
        np.int32(problem.total_tiles),
        np.int32(problem.heads),
    ]
    launch = emulator.build(path, entry).launch(
        arguments, grid=grid, block=(THREADS, 1, 1), shared_bytes=shared_bytes, seed=seed, trace=trace
    )
    faults = [str(fault) for fault in launch.faults]
    return _result("emulator", snapshots, ds0, faults, launch, launch.seconds)


def _run_on_gpu(path: Path, problem: Problem, v_split: int, snapshot_dtype: str, extra_smem: int) -> Result:
    from . import gpu

    done = gpu.run_on_gpu(
        path, problem, v_split=v_split, snapshot_dtype=snapshot_dtype, extra_smem=extra_smem
    )
    return _result("gpu", done.snapshots, done.ds0, [], None, done.milliseconds / 1000)


def _result(
    machine: str,
    snapshots: np.ndarray,
    ds0: np.ndarray,
    faults: list[str],
    launch: Launch | None,
    seconds: float,
) -> Result:
    """What a run wrote, with a fault for each output that still holds the poison it began with."""
    for name, output in (("snapshots", snapshots), ("ds0", ds0)):
        untouched = (output.view(np.uint8).reshape(-1, output.itemsize) == 0xFF).all(axis=1)
        if untouched.any():
            faults.append(f"{untouched.sum()} of {output.size} elements of {name} were never written")
    if snapshots.dtype == np.uint16:
        snapshots = from_bf16(snapshots)
    return Result(snapshots, ds0, machine, faults, launch, seconds)


def _poisoned(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """An array whose every bit is set: as float32 and as bf16 a NaN that no computation gives."""
    output = np.empty(shape, dtype)
    output.view(np.uint8).fill(0xFF)
    return output


def _dynamic_shared_memory(path: Path, v_split: int) -> int:
    """Bytes that a block needs, as the file says."""
    constants = StageSource.load(path).constants(v_split)
    if "BYTES" not in constants:
        raise BadInput(f"{path.name} has no SharedMemory<VSPLIT>::BYTES: give a file made like a stage's.")
    return constants["BYTES"]


def _check_whole_number(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise BadInput(f"{name} is {value!r}: give a whole number, 0 or above.")
