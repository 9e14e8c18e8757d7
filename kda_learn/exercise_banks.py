"""Judging a cell in the lab kernel banks.cu: right bytes, no excess wavefronts, not a byte more."""

from __future__ import annotations

import numpy as np

from . import emulator
from .emulator import LANES
from .exercise_cell import Cell
from .exercise_grade import Demand, Observation, not_counted
from .layouts import BANK_BYTES, BANKS
from .source import StageSource
from .trace import Row, rows

ENTRY = "copy_tile"
GIVEN_BYTES = 16 * 1024  # of shared memory: more than allowed, so that it can be said how much too much it is
NOT_READ = 0xFFFF


def observe(cell: Cell) -> Observation:
    """Run the kernel with the cell in it on a tile in which each element holds its own number.

    Raises CompileError if it does not compile, MachineUnavailable without a C++ compiler.
    """
    rows_, pieces, piece = _shape(cell)
    tile = np.arange(rows_ * pieces * piece, dtype=np.uint16)
    result = np.full((pieces, rows_, piece), NOT_READ, dtype=np.uint16)
    library = emulator.build(cell.path, ENTRY)
    launch = library.launch([tile, result], 1, LANES, GIVEN_BYTES)
    if not launch.faults:  # the trace of an endless loop would not end
        launch = library.launch([tile, result], 1, LANES, GIVEN_BYTES, trace=True)
    faults = [str(fault) for fault in launch.faults]
    return Observation(faults, frozenset(fault.kind for fault in launch.faults), (result,), launch)


def judge(cell: Cell, observation: Observation) -> list[Demand]:
    """The demands on a cell that compiles for the emulator."""
    demands = [_right_bytes(cell, observation), _faults(cell, observation)]
    if observation.faults:
        return [*demands, not_counted("wavefronts"), not_counted("shared memory")]
    return [*demands, _wavefronts(cell, observation), _shared_memory(cell, observation)]


def _shape(cell: Cell) -> tuple[int, int, int]:
    """Rows, pieces in a row, elements in a piece."""
    constants = StageSource.load(cell.exercise.kernel).constants()
    return constants["ROWS"], constants["PIECES"], constants["PIECE"]


def _tile_bytes(cell: Cell) -> int:
    return int(np.prod(_shape(cell))) * 2


def _right_bytes(cell: Cell, observation: Observation) -> Demand:
    rows_, pieces, piece = _shape(cell)
    (result,) = observation.outputs
    right = np.arange(rows_ * pieces * piece).reshape(rows_, pieces, piece).swapaxes(0, 1)
    wrong = np.argwhere(result != right)
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
    allowed = _tile_bytes(cell) // (BANKS * BANK_BYTES)
    traced = rows(observation.launch, StageSource.load(cell.path))
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
    taken, allowed = int(ends.max(initial=0)), _tile_bytes(cell)
    if taken <= allowed:
        return Demand("shared memory", True, f"{taken:,} bytes, the tile's own.")
    found = f"{taken:,} bytes from the first to the last: the tile itself has {allowed:,}, do with as many."
    return Demand("shared memory", False, found)
