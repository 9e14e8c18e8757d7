"""Judging a cell in a stage of Kernel A: right, without faults, in nothing dearer than the stage itself."""

import re
from collections import Counter
from functools import lru_cache
from pathlib import Path

import numpy as np

from ..checking.check import SEEDS, expected
from ..compilers.log import CompileError
from ..compilers.nvrtc import compile as compile_kernel
from ..ground.errors import MachineUnavailable
from ..hardware.limits import LANES
from ..kernel_a.accuracy import Results, errors, gate
from ..kernel_a.problem import Problem, random_problem
from ..kernel_a.run import run
from ..kernel_a.tile import traced_tile
from ..kernel_a.variants import kernel_entry, threads_of
from ..kernel_a.widths import comparison
from ..machines.launching import faults_in_orders
from ..sources.kernel_source import KernelSource
from ..sources.stages import as_stage
from ..tracing.rows import Row, per_tile, rows
from ..tracing.widths import in_source
from .cell import Cell
from .grading import Demand, Observation, not_counted
from .widths import with_widths

CLEARLY_WRONG = 2.0  # times the error that rounding explains
NAMED_REGION = re.compile(r"\bSmem::(\w+)")
BASE = re.compile(r"\bsmem\b")
WORDS = {"load": "loads from", "store": "stores to", "copy": "copies to"}


@lru_cache(maxsize=1)
def graded_problem() -> Problem:
    """Two full tiles and a short one, under a weak gate, which lets an error of a tile reach the next."""
    return random_problem(lengths=[40], name="40 tokens")


def observe(cell: Cell) -> Observation:
    """Run the stage with the cell in it, in two orders of its warps.

    Raises CompileError if it does not compile, MachineUnavailable without a C++ compiler.
    """
    results = [run(cell.path, graded_problem(), machine="emulator", seed=seed) for seed in SEEDS]
    faults = faults_in_orders(results)
    kinds = {fault.kind for result in results for fault in result.launch.faults}
    if not faults and not all(results[0].same_bits(other) for other in results[1:]):
        faults.append("the results hang on the order in which the warps run")
        kinds.add("race")
    first = results[0]
    return Observation(faults, frozenset(kinds), (first.snapshots, first.ds0), first.launch)


def judge(cell: Cell, observation: Observation) -> list[Demand]:
    """The demands on a cell that compiles for the emulator."""
    if observation.can_be_counted:
        own, mine = _tile(cell.exercise.kernel), _tile(cell.path)
        counted = [
            with_widths(_wavefronts(cell, own, mine), cell, mine.widths),
            _barriers(cell, own, mine),
        ]
    else:
        counted = [not_counted("wavefronts"), not_counted("barriers")]
    return [
        _numbers(observation),
        _faults(cell, observation),
        *counted,
        _shared_memory(cell),
        _registers(cell),
    ]


class _Tile:
    """What one full tile takes."""

    def __init__(self, path: Path) -> None:
        stage = as_stage(path)
        launch = traced_tile(stage)
        self.rows: list[Row] = per_tile(rows(launch, stage.source), 1)
        self.wavefronts: Counter[tuple[str, str, str]] = Counter()
        for row in self.rows:
            self.wavefronts[_class_of(row)] += int(row.wavefronts)
        barriers = sum(count for (_, _, name), count in launch.counts.items() if name == "syncthreads")
        self.barriers = barriers * LANES // threads_of(stage)
        self.widths = comparison(path, in_source(launch))


@lru_cache(maxsize=8)
def _tile(path: Path) -> _Tile:
    return _Tile(path)


def _class_of(row: Row) -> tuple[str, str, str]:
    """Accesses that belong together: the section or helper function, the kind and the region."""
    return row.section, row.kind, row.region


def _numbers(observation: Observation) -> Demand:
    truth, simulated = expected(graded_problem(), "float32")
    snapshots, ds0 = observation.outputs
    verdict = gate((snapshots, ds0), truth, simulated)
    if verdict.ok:
        found = (
            f"{verdict.rel_rms:.2%} from float64 at most, of which rounding explains "
            f"{verdict.simulated_rel_rms:.2%} ({graded_problem().name}, the last tile "
            "short; little is forgotten from tile to tile)."
        )
        return Demand("numbers", True, found)
    return Demand("numbers", False, _first_wrong((snapshots, ds0), truth, verdict.simulated_rel_rms))


def _first_wrong(results: Results, truth: Results, by_rounding: float) -> str:
    """Where dS becomes wrong (the scan runs from the last tile to the first), and in which columns."""
    found = [*results[0][::-1], results[1][0, 0]]
    wanted = [*truth[0][::-1], truth[1][0, 0]]
    allowed = CLEARLY_WRONG * by_rounding
    relative = [errors(mine, true).worst for mine, true in zip(found, wanted, strict=True)]
    step = next((step for step, error in enumerate(relative) if error > allowed), None)
    if step is None:
        return f"A little too far from float64, more than the {by_rounding:.2%} that rounding explains."
    if step == 0:
        return "The first snapshot, which is dht, is wrong already: dS is changed before it is written down."
    off = np.linalg.norm(found[step] - wanted[step], axis=0)
    right = off <= allowed * np.linalg.norm(wanted[step], axis=0)  # NaN counts as wrong
    which = _some_columns(np.flatnonzero(~right)) if right.any() else "in every column v"
    amount = f"{relative[step]:.1%} from float64" if np.isfinite(relative[step]) else "not a number"
    return (
        f"dS is {amount} after {step} {'tile' if step == 1 else 'tiles'}, {which}; rounding explains "
        f"{by_rounding:.2%}."
    )


def _some_columns(columns: np.ndarray) -> str:
    return f"in {len(columns)} columns v: {', '.join(map(str, columns[:4]))} and so on"


def _faults(cell: Cell, observation: Observation) -> Demand:
    if not observation.faults:
        found = "No race, no read of what nobody wrote; the same bits in two orders of the warps."
        return Demand("faults", True, found)
    more = len(observation.faults) - 1
    rest = f" And {more} more." if more else ""
    return Demand("faults", False, f"{cell.in_words(observation.faults[0])}.{rest}")


def _wavefronts(cell: Cell, own: _Tile, mine: _Tile) -> Demand:
    stage = cell.exercise.subject
    dearer = [row for row in mine.rows if mine.wavefronts[_class_of(row)] > own.wavefronts[_class_of(row)]]
    if not dearer:
        total = sum(mine.wavefronts.values())
        return Demand("wavefronts", True, f"{total:,} a tile, nowhere more than in {stage}.")
    in_cell = [row for row in dearer if cell.line_of(row.line) is not None]
    row = (in_cell or dearer)[0]
    where = cell.where(row.line)
    where = f"{where[:1].upper()}{where[1:]}"
    allowed = own.wavefronts[_class_of(row)]
    elsewhere = _named_another_region(cell, row)
    if elsewhere:
        return Demand("wavefronts", False, f"{where} {elsewhere}")
    found = (
        f"{where} belongs to the {WORDS[row.kind]} {row.region} in {row.section}, "
        f"which take {mine.wavefronts[_class_of(row)]:,} wavefronts a tile; {stage} "
        f"{f'takes {allowed:,}' if allowed else 'has no such access'}."
    )
    return Demand("wavefronts", False, found)


def _named_another_region(cell: Cell, row: Row) -> str:
    """What a line does whose address lies in another region than the one that it names; "" for others."""
    statement = KernelSource.load(cell.path).statement(row.line)
    named = NAMED_REGION.findall(statement)
    if not named or row.region in named:
        return ""
    found = f"names Smem::{named[0]}, but its address lies in {row.region or 'no region'}."
    if BASE.search(statement):
        return found
    return f"{found} Did you leave out `smem +`? Smem::{named[0]} is an offset, counted from smem."


def _barriers(cell: Cell, own: _Tile, mine: _Tile) -> Demand:
    stage = cell.exercise.subject
    if mine.barriers <= own.barriers:
        return Demand(
            "barriers", True, f"{mine.barriers} block barriers for one tile, not more than in {stage}."
        )
    extra = mine.barriers - own.barriers
    found = (
        f"{mine.barriers} block barriers for one tile, {extra} more than {stage}: leave __syncthreads out."
    )
    return Demand("barriers", False, found)


def _shared_memory(cell: Cell) -> Demand:
    allowed = KernelSource.load(cell.exercise.kernel).constants()["BYTES"]
    taken = KernelSource.load(cell.path).constants()["BYTES"]
    if taken <= allowed:
        return Demand(
            "shared memory", True, f"{taken:,} bytes a block, not more than in {cell.exercise.subject}."
        )
    found = f"{taken:,} bytes a block: {cell.exercise.subject} needs {allowed:,}, do with as many."
    return Demand("shared memory", False, found)


def _registers(cell: Cell) -> Demand:
    """What the compiler for GPUs makes of it, if there is one here."""
    try:
        compiled = compile_kernel(cell.path, entry=kernel_entry())
    except MachineUnavailable:
        return Demand("registers", None, "The compiler for GPUs, NVRTC, is not installed here.")
    except CompileError as error:
        return Demand(
            "registers", False, f"The compiler for GPUs refuses it. {cell.compile_error(error.log)}"
        )
    if compiled.spill_bytes:
        found = (
            f"{compiled.registers} a thread and {compiled.spill_bytes} bytes spilled to local memory: keep "
            "fewer values at a time, or let loops be unrolled, so that arrays can live in registers."
        )
        return Demand("registers", False, found)
    return Demand("registers", True, f"{compiled.registers} a thread, nothing spilled.")
