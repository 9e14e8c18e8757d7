"""Judging a cell in the lab kernel banks.cu: right bytes, no excess wavefronts, not a byte more."""

import numpy as np

from ..compilers.nvrtc import compile
from ..hardware.limits import BANK_BYTES, BANKS
from ..lab import banks
from ..machines.launching import launch
from ..sources.kernel_source import KernelSource
from ..tracing.rows import Row, rows, traced
from ..tracing.widths import compare, in_source
from .cell import Cell
from .grading import Demand, Observation, not_counted
from .widths import with_widths

NOT_READ = 0xFFFF
"""What the copy holds where nothing was read: the poison that it begins with."""


def observe(cell: Cell) -> Observation:
    """Run the kernel with the cell in it on a tile in which each element holds its own number.

    Raises CompileError if it does not compile, MachineUnavailable without a C++ compiler.
    """
    runnable = banks.runnable(cell.path)
    found = launch(runnable, "emulator").launch
    if not found.faults:  # the trace of an endless loop would not end
        found = traced(runnable)
    faults = [str(fault) for fault in found.faults]
    kinds = frozenset(fault.kind for fault in found.faults)
    return Observation(faults, kinds, (runnable.written["copy"],), found)


def judge(cell: Cell, observation: Observation) -> list[Demand]:
    """The demands on a cell that compiles for the emulator."""
    demands = [_right_bytes(cell, observation), _faults(cell, observation)]
    if observation.faults:
        return [*demands, not_counted("wavefronts"), not_counted("shared memory")]
    widths = compare(
        in_source(observation.launch), lambda: compile(cell.path, entry=banks.runnable(cell.path).entry)
    )
    wavefronts = with_widths(_wavefronts(cell, observation), cell, widths)
    return [*demands, wavefronts, _shared_memory(cell, observation)]


def _right_bytes(cell: Cell, observation: Observation) -> Demand:
    _, pieces, piece = banks.shape(cell.exercise.kernel)
    (result,) = observation.outputs
    wrong = np.argwhere(result != banks.expected(result.shape))
    if not len(wrong):
        return Demand("right bytes", True, f"All {result.size:,} elements come back as they were written.")
    column, row, element = wrong[0]
    got = int(result[column, row, element])
    asked = f"Row {row}, column {column * piece + element}"
    if got == NOT_READ:
        return Demand("right bytes", False, f"{asked}: nothing was read there, the access was refused.")
    got_row, got_column = divmod(got, pieces * piece)
    found = (
        f"{asked}: the reader finds the element of row {got_row}, column {got_column} there. "
        "Writer and reader must agree on where each element lies."
    )
    return Demand("right bytes", False, found)


def _faults(cell: Cell, observation: Observation) -> Demand:
    if not observation.faults:
        return Demand("faults", True, "Every address fits its access, nothing is read before it is written.")
    more = len(observation.faults) - 1
    rest = f" And {more} more." if more else ""
    return Demand("faults", False, f"{cell.in_words(observation.faults[0])}.{rest}")


def _wavefronts(cell: Cell, observation: Observation) -> Demand:
    allowed = banks.tile_bytes(cell.exercise.kernel) // (BANKS * BANK_BYTES)
    traced = rows(observation.launch, KernelSource.load(cell.path))
    for kind, word in (("load", "reads"), ("store", "writes")):
        of_kind = [row for row in traced if row.kind == kind]
        taken = sum(int(row.wavefronts) for row in of_kind)
        if taken > allowed:
            return Demand("wavefronts", False, _dear(cell, word, of_kind, taken, allowed))
    return Demand(
        "wavefronts", True, f"{allowed} for the writes and {allowed} for the reads, the least possible."
    )


def _dear(cell: Cell, word: str, of_kind: list[Row], taken: int, allowed: int) -> str:
    worst = max(of_kind, key=lambda row: row.excess)
    return (
        f"The {word}, {cell.where(worst.line)}, take {taken} wavefronts where {allowed} would do: up to "
        f"{worst.max_way} words that are wanted at once lie in the same bank."
    )


def _shared_memory(cell: Cell, observation: Observation) -> Demand:
    accesses = observation.launch.accesses
    ends = accesses["address"].max(axis=1, initial=0) + accesses["bytes"].astype(np.int64)
    taken, allowed = int(ends.max(initial=0)), banks.tile_bytes(cell.exercise.kernel)
    if taken <= allowed:
        return Demand("shared memory", True, f"{taken:,} bytes, the tile's own.")
    found = f"{taken:,} bytes from the first to the last: the tile itself has {allowed:,}, do with as many."
    return Demand("shared memory", False, found)
