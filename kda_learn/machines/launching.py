"""A runnable launched once, from host memory, on either machine: a Hopper GPU or the emulator."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..ground.errors import BadInput
from . import emulator, gpu
from .device import choose_machine
from .emulator_launch import Launch
from .faults import of_several_orders
from .launch_limits import check_launch, launch_bound_of
from .runnable import Runnable


class Ran(Protocol):
    """A run that tells its faults, here `Finished`."""

    @property
    def faults(self) -> list[str]: ...
    @property
    def launch(self) -> Launch | None: ...


@dataclass(frozen=True)
class Finished:
    """What a launch from host memory gave; the outputs are in the runnable's own arrays."""

    machine: str  # "gpu" or "emulator"
    faults: list[str]  # one sentence each: what the emulator found, and elements that were never written
    launch: Launch | None  # on the emulator, with the trace and the counts
    seconds: float  # on the machine, without compiling and copying


def launch(runnable: Runnable, machine: str = "auto", *, seed: int = 0, trace: bool = False) -> Finished:
    """Launch once, from arrays in host memory, outputs poisoned before.

    machine: "gpu", "emulator", or "auto", the GPU if there is a Hopper one. seed, trace: of the emulator;
    with a trace it is always the emulator. Raises BadInput for what does not fit, MachineUnavailable if the
    machine is missing or has too little memory.
    """
    if trace and machine == "gpu":
        raise BadInput(
            "machine is 'gpu' and trace is on: only the CPU machine traces, give machine='emulator'."
        )
    bound = launch_bound_of(runnable.source, runnable.entry)
    check_launch(runnable.grid, runnable.block, runnable.dynamic_smem_bytes, bound)
    for output in runnable.poisoned.values():
        poison(output)
    if choose_machine(machine) == "gpu" and not trace:
        seconds = gpu.launch_from_host(runnable)
        return Finished("gpu", unwritten(runnable), None, seconds)
    library = emulator.build(runnable.source, runnable.entry)
    done = library.launch(
        runnable.arguments,
        grid=runnable.grid,
        block=runnable.block,
        shared_bytes=runnable.dynamic_smem_bytes,
        seed=seed,
        trace=trace,
    )
    faults = [str(fault) for fault in done.faults]
    return Finished("emulator", faults + unwritten(runnable), done, done.seconds)


def faults_in_orders(runs: Sequence[Ran]) -> list[str]:
    """The faults of runs that differ in the order of the warps, each cause once, one sentence each."""
    launches = [run.launch.faults for run in runs if run.launch]
    told = {str(fault) for faults in launches for fault in faults}
    others = [fault for run in runs for fault in run.faults if fault not in told]
    return list(dict.fromkeys([*map(str, of_several_orders(launches)), *others]))


def poison(output: NDArray[Any]) -> None:
    """Set every bit: as float32 and as bf16 a NaN that no computation gives."""
    output.reshape(-1).view(np.uint8).fill(0xFF)


def unwritten(runnable: Runnable) -> list[str]:
    """A sentence for each output that still holds the poison it began with."""
    faults = []
    for name, output in runnable.poisoned.items():
        untouched = (output.reshape(-1).view(np.uint8).reshape(-1, output.itemsize) == 0xFF).all(axis=1)
        if untouched.any():
            faults.append(f"{untouched.sum()} of {output.size} elements of {name} were never written")
    return faults
