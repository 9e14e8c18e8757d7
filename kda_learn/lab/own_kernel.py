"""A kernel of one's own, of any signature: launched as the launch header in its file says.

`sources.launch_header` reads the header. Nothing here knows what the answer should be: a run tells what was
written, and the faults that a machine can see.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..compilers.nvrtc import compile
from ..ground.errors import BadInput
from ..hardware.bf16 import from_bf16, to_bf16
from ..machines.launching import launch
from ..machines.runnable import Runnable
from ..sources.kernel_source import KernelSource
from ..sources.launch_header import Argument, LaunchHeader, read_header
from ..sources.stages import own_file
from ..tracing.rows import Row, rows
from ..tracing.widths import Comparison, compare, in_source

if TYPE_CHECKING:
    from ..machines.emulator_launch import Launch

ORDERS = (0, 1)
"""In which the CPU machine lets warps and lanes run: a kernel that is right does not notice."""

RANDOM_WHOLE = 100
"""Random whole numbers are below it: they fit every type."""


@dataclass(frozen=True)
class Output:
    """An array that the kernel wrote."""

    name: str
    type: str
    values: NDArray[Any]  # bf16 as float32, which is exact
    digest: str  # of its bytes: the same for the same bits


@dataclass(frozen=True)
class OwnRun:
    """One run of a kernel of one's own."""

    header: LaunchHeader
    machine: str  # "gpu" or "emulator"
    outputs: list[Output]
    faults: list[str]  # one sentence each
    seconds: float  # of one launch, without compiling and copying
    launch: Launch | None  # on the CPU machine
    rows: list[Row]  # of a traced run: what every line did to shared memory
    widths: Comparison  # of a traced run: whether the compiler for GPUs leaves accesses as wide as they are

    @property
    def ok(self) -> bool:
        """Whether no fault was found. That does not make the numbers right."""
        return not self.faults

    def output(self, name: str) -> NDArray[Any]:
        """An array that the kernel wrote. Raises BadInput, naming those there are, for another name."""
        for one in self.outputs:
            if one.name == name:
                return one.values
        there = ", ".join(one.name for one in self.outputs) or "none"
        raise BadInput(f"The output {name!r} was asked for: the kernel has {there}.")


def run_own(
    path: Path | str, *, machine: str = "auto", seed: int | None = None, trace: bool = False
) -> OwnRun:
    """Run the kernel of a .cu file as its launch header says.

    On the CPU machine it runs in two orders of its warps, and what differs between them is a fault. machine:
    as `launching.launch`. seed: of the random inputs (None: the header's). trace: keep what every line does;
    that is the CPU machine's. Raises BadInput for a header that does not fit and for a kernel that does not
    compile, MachineUnavailable if the machine is missing.
    """
    header = _with_seed(read_header(own_file(path)), seed)
    first = runnable(header)
    done = launch(first, machine, seed=ORDERS[0], trace=trace)
    faults = list(done.faults)
    if not faults and done.machine == "emulator":
        faults = _in_another_order(header, first)
    if not faults:
        faults = _left_out(header, first, done.machine)
    return OwnRun(
        header=header,
        machine=done.machine,
        outputs=[_output(one, first.written[one.name]) for one in header.arguments if one.is_written],
        faults=faults,
        seconds=done.seconds,
        launch=done.launch,
        rows=rows(done.launch, KernelSource.load(header.path)) if trace else [],
        widths=compare(in_source(done.launch), lambda: compile(header.path, entry=header.entry))
        if trace
        else Comparison(),
    )


def runnable(header: LaunchHeader, *, filling: int = 0xFF) -> Runnable:
    """The launch of a header, its arrays in host memory. filling: each byte of what is to be written."""
    random = np.random.default_rng(header.seed)
    given = header.arguments
    return Runnable(
        source=header.path,
        entry=header.entry,
        arguments=tuple(_argument(one, random, filling) for one in given),
        grid=header.grid,
        threads=header.block,
        dynamic_smem_bytes=header.shared,
        outputs={one.name: place for place, one in enumerate(given) if one.is_written},
        in_place=frozenset(
            one.name for one in given if one.kind == "inout" or (one.is_written and one.is_whole)
        ),
    )


def _with_seed(header: LaunchHeader, seed: int | None) -> LaunchHeader:
    if seed is None:
        return header
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise BadInput(f"seed is {seed!r}: give a whole number, 0 or above.")
    return replace(header, seed=int(seed))


def _argument(given: Argument, random: np.random.Generator, filling: int) -> Any:
    """What a parameter is given: an array, a number of its type, or None for null."""
    dtype = np.dtype(np.uint16 if given.type == "bf16" else given.type)
    if given.shape is None:
        return None if given.fill == "null" else dtype.type(given.fill)
    if given.kind == "out":
        return np.full((*given.shape, dtype.itemsize), filling, np.uint8).view(dtype)[..., 0]
    if given.fill == "random":
        values = (
            random.integers(RANDOM_WHOLE, size=given.shape)
            if given.is_whole
            else random.standard_normal(given.shape)
        )
    elif given.fill == "arange":
        values = np.arange(np.prod(given.shape, dtype=np.int64)).reshape(given.shape)
    else:
        values = np.full(given.shape, given.fill)
    return to_bf16(values) if given.type == "bf16" else values.astype(dtype)


def _in_another_order(header: LaunchHeader, first: Runnable) -> list[str]:
    """What a second run finds, whose warps and lanes come in another order."""
    other = runnable(header)
    done = launch(other, "emulator", seed=ORDERS[1])
    differing = {
        name: int((_bits(array) != _bits(other.written[name])).any(axis=1).sum())
        for name, array in first.written.items()
    }
    return done.faults or [
        f"{count} of {first.written[name].size} elements of {name} differ when the warps run in another "
        "order: let one thread alone write each, and a barrier stand between writing and reading"
        for name, count in differing.items()
        if count
    ]


def _left_out(header: LaunchHeader, first: Runnable, machine: str) -> list[str]:
    """Elements of outputs of whole numbers that were never written, by the bits that they hold.

    All bits set may be the answer, or what was there before: a launch on outputs filled with zeros tells.
    """
    doubtful = {
        one.name: (_bits(first.written[one.name]) == 0xFF).all(axis=1)
        for one in header.arguments
        if one.kind == "out" and one.is_whole
    }
    if not any(untouched.any() for untouched in doubtful.values()):
        return []
    other = runnable(header, filling=0)
    launch(other, machine, seed=ORDERS[0])
    counts = {
        name: int((untouched & (_bits(other.written[name]) == 0).all(axis=1)).sum())
        for name, untouched in doubtful.items()
    }
    return [
        f"{count} of {first.written[name].size} elements of {name} were never written"
        for name, count in counts.items()
        if count
    ]


def _bits(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of each element, [elements, bytes]."""
    return array.reshape(-1).view(np.uint8).reshape(-1, array.itemsize)


def _output(given: Argument, array: NDArray[Any]) -> Output:
    values = from_bf16(array) if given.type == "bf16" else array
    return Output(given.name, given.type, values, hashlib.sha256(array.tobytes()).hexdigest()[:12])
