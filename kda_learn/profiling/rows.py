"""From counts at machine instructions to rows at source lines, beside what the emulator's trace says.

A machine instruction counts for the innermost line of the stage's own file that asks for it, the line that
the trace names too.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ..compilers.sass import SassInstruction, opcode_of
from ..ground.errors import KdaError
from ..sources.kernel_source import KernelSource
from ..tracing.rows import OUTSIDE_THE_TILE_LOOP, Row
from .ncu_pages import InstructionCounts

OP_CLASSES = ("LDS", "LDSM", "STS", "STSM", "LDGSTS")
"""The machine's names of a load, ldmatrix, a store, stmatrix and cp.async."""

_CLASS_OF_TRACED = {"lds": "LDS", "ldmatrix": "LDSM", "sts": "STS", "stmatrix": "STSM", "cp": "LDGSTS"}


class Work(NamedTuple):
    """What a launch did, all blocks of a sequence and head together: how often the loop over tiles ran, and
    how often what stands around it.
    """

    tiles: int
    sequences: int  # times heads

    def times(self, section: str) -> int:
        """How often the launch went through a section."""
        return self.sequences if section in OUTSIDE_THE_TILE_LOOP else self.tiles


@dataclass(frozen=True)
class Simulation:
    """What the emulator's trace says of one tile of one sequence and head.

    rows: by source line. ncu counts single instructions in code that it patches, and there a .cg copy takes a
    store's wavefronts: so it does in these rows. copy_wavefronts: what the copies of a tile take of the pipe
    that loads and stores share, which is nothing for .cg.
    """

    rows: list[Row]
    copy_wavefronts: float


@dataclass(frozen=True)
class SharedRow:
    """What one line did to shared memory by one class of instruction.

    Per tile, or per sequence and head in the sections "start" and "finish". simulated and least come from the
    trace, None without one; `excess`, the bank conflicts, is what was measured above the least. samples and
    stalls are of the whole launch.
    """

    line: int
    section: str
    op: str  # one of OP_CLASSES
    regions: tuple[str, ...]
    instructions: float
    wavefronts: float
    simulated: float | None
    least: float | None
    excess: float | None
    samples: int
    stalls: dict[str, int]


@dataclass(frozen=True)
class LineRow:
    """All instructions of one line. `called_from`: the kernel's lines that call it, if it lies in a function.

    instructions: per tile, or per sequence and head. samples: how often the sampler found a warp there, in
    the whole launch; share_pct: of all samples; stalls: samples by what the warp waited for.
    """

    line: int
    section: str
    called_from: tuple[int, ...]
    instructions: float
    samples: int
    share_pct: float
    stalls: dict[str, int]


@dataclass(frozen=True)
class Comparison:
    """Wavefronts of a tile: counted, and as the trace gives them."""

    name: str  # a class of instructions, or "loads", "stores", "copies": the hardware's own counters
    instructions: float | None
    measured: float
    simulated: float | None
    difference_pct: float | None  # of the simulated ones; None without them, or if there are none


@dataclass
class _Sum:
    """Counts of several instructions added up."""

    executed: int = 0
    wavefronts: int = 0
    samples: int = 0
    stalls: Counter[str] = field(default_factory=Counter)
    callers: set[int] = field(default_factory=set)

    def add(self, counts: InstructionCounts) -> None:
        self.executed += counts.executed
        self.wavefronts += counts.wavefronts
        self.samples += counts.samples
        self.stalls.update(counts.stalls)


Matched = list[tuple[InstructionCounts, SassInstruction]]


def match(counts: Sequence[InstructionCounts], sass: Sequence[SassInstruction], name: str) -> Matched:
    """Each instruction that ncu saw with the one that was compiled.

    Raises KdaError unless they are the same code: the source may have changed since.
    """
    compiled = {instruction.address: instruction for instruction in sass}
    matched = []
    for seen in counts:
        known = compiled.get(seen.address)
        if known is None or known.opcode.split(".")[0] != opcode_of(seen.text).split(".")[0]:
            raise KdaError(
                f"The profiled {name} has {seen.text!r} at {seen.address:#x} and the compiled one "
                f"{known.text if known else 'nothing'!r}: profile it again with the present source."
            )
        matched.append((seen, known))
    return matched


def op_class(instruction: SassInstruction) -> str | None:
    """The class of an instruction that moves shared memory; None for others and for ptxas' padding."""
    head = instruction.opcode.split(".")[0]
    return head if head in OP_CLASSES and not instruction.never_runs else None


def traced_class(op: str) -> str:
    """The class of a traced operation, such as "LDSM" for "ldmatrix.x4.trans"."""
    return _CLASS_OF_TRACED[op.split(".")[0]]


def stage_line(instruction: SassInstruction, source: KernelSource) -> int:
    """The innermost line of the stage's file that asks for an instruction; 0 if there is none."""
    lines = [frame.line for frame in instruction.frames if Path(frame.file).name == source.path.name]
    return lines[0] if lines else 0


def shared_rows(
    matched: Matched, source: KernelSource, simulation: Simulation | None, work: Work
) -> list[SharedRow]:
    """Rows of the lines that move shared memory."""
    sums: dict[tuple[int, str], _Sum] = {}
    for counts, instruction in matched:
        kind = op_class(instruction)
        if kind is not None:
            sums.setdefault((stage_line(instruction, source), kind), _Sum()).add(counts)
    simulated: dict[tuple[int, str], list[Row]] = {}
    for row in simulation.rows if simulation else ():
        simulated.setdefault((row.line, traced_class(row.op)), []).append(row)
    rows = []
    for line, kind in sorted(sums.keys() | simulated.keys()):
        total = sums.get((line, kind), _Sum())
        beside = simulated.get((line, kind), [])
        section = source.sections.get(line, "")
        times = work.times(section)
        least = sum(row.least for row in beside)
        rows.append(
            SharedRow(
                line=line,
                section=section,
                op=kind,
                regions=tuple(dict.fromkeys(row.region for row in beside)),
                instructions=total.executed / times,
                wavefronts=total.wavefronts / times,
                simulated=None if simulation is None else sum(row.wavefronts for row in beside),
                least=None if simulation is None else least,
                excess=None if simulation is None else total.wavefronts / times - least,
                samples=total.samples,
                stalls=dict(total.stalls.most_common()),
            )
        )
    return rows


def line_rows(matched: Matched, source: KernelSource, work: Work) -> list[LineRow]:
    """Rows of all lines that ask for an instruction; line 0 has those to which the compiler gives none."""
    sums: dict[int, _Sum] = {}
    for counts, instruction in matched:
        line = stage_line(instruction, source)
        total = sums.setdefault(line, _Sum())
        total.add(counts)
        outermost = instruction.frames[-1].line if instruction.frames else 0
        if outermost != line:
            total.callers.add(outermost)
    samples = sum(total.samples for total in sums.values())
    return [
        LineRow(
            line=line,
            section=source.sections.get(line, ""),
            called_from=tuple(sorted(total.callers)),
            instructions=total.executed / work.times(source.sections.get(line, "")),
            samples=total.samples,
            share_pct=100 * total.samples / samples if samples else 0.0,
            stalls=dict(total.stalls.most_common()),
        )
        for line, total in sorted(sums.items())
    ]


def comparisons(
    rows: Sequence[SharedRow],
    counters: Mapping[str, float],
    work: Work,
    simulation: Simulation | None,
    padding: float,
) -> list[Comparison]:
    """Measured beside simulated: each class of instructions that occurs, and the hardware's own counters.

    Those count the whole launch: what the instructions of "start" and "finish" took is taken off. padding: as
    `padding_loads` has it, which the hardware counts among the copies.
    """
    per_tile = [row for row in rows if row.section not in OUTSIDE_THE_TILE_LOOP]
    found = []
    for kind in OP_CLASSES:
        chosen = [row for row in per_tile if row.op == kind]
        if chosen:
            measured = sum(row.wavefronts for row in chosen)
            instructions = sum(row.instructions for row in chosen)
            found.append(_comparison(kind, measured, _simulated(chosen), instructions))
    counted = {name: counters.get(f"shared_{name}wavefronts") for name in ("", "load_", "store_")}
    if None in counted.values():
        return found
    for name, kinds in (("load_", ("LDS", "LDSM")), ("store_", ("STS", "STSM"))):
        chosen = [row for row in per_tile if row.op in kinds]
        outside = [row for row in rows if row.op in kinds and row not in chosen]
        once = sum(row.wavefronts for row in outside) * work.sequences
        measured = (counted[name] - once) / work.tiles
        found.append(_comparison(f"{name.rstrip('_')}s", measured, _simulated(chosen)))
    copies = (counted[""] - counted["load_"] - counted["store_"]) / work.tiles
    expected = None if simulation is None else simulation.copy_wavefronts + padding
    return [*found, _comparison("copies", copies, expected)]


def padding_loads(matched: Matched, work: Work) -> float:
    """Loads that load nothing, per tile: ptxas puts three in front of copies, and each takes a wavefront."""
    executed = sum(
        counts.executed
        for counts, instruction in matched
        if instruction.never_runs and instruction.opcode.startswith("LDS")
    )
    return executed / work.tiles


def _simulated(rows: Sequence[SharedRow]) -> float | None:
    """The rows' simulated wavefronts added up; None without a trace."""
    values = [row.simulated for row in rows]
    return None if None in values else sum(values)


def _comparison(
    name: str, measured: float, simulated: float | None, instructions: float | None = None
) -> Comparison:
    difference = 100 * (measured - simulated) / simulated if simulated else None
    return Comparison(name, instructions, measured, simulated, difference)
