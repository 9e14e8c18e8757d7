"""How wide accesses are in the source, and in the machine code that the compiler made of it.

The CPU machine makes every access as it stands in the source. NVIDIA's compiler may join four stores of 4
bytes to neighbouring places into one of 16, and then a GPU takes other wavefronts than are counted here.
(Loads from shared memory stay as they are: gpu.cuh says volatile.)
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ..compilers.nvrtc import Compiled
from ..compilers.sass import SassInstruction
from ..ground.errors import KdaError
from ..machines.emulator_launch import Launch

OPERATIONS = {
    "LDS": ("lds",),
    "STS": ("sts",),
    "LDG": ("ldg",),
    "LD": ("ldg",),
    "STG": ("stg",),
    "ST": ("stg",),
    "LDSM": ("ldmatrix",),
    "STSM": ("stmatrix",),
    "LDGSTS": ("cp.async.ca", "cp.async.cg"),
}
"""Machine instructions, and the operations of gpu.cuh that they may be of."""

WORDS = {
    "lds": "loads from shared memory",
    "sts": "stores to shared memory",
    "ldg": "loads from global memory",
    "stg": "stores to global memory",
    "ldmatrix": "loads of matrices",
    "stmatrix": "stores of matrices",
    "cp.async.ca": "asynchronous copies",
    "cp.async.cg": "asynchronous copies",
}
NEIGHBOURS = 4
"""Lines that differ and lie no further apart are told together."""

MATRIX_BYTES = 4
"""Of one 8x8 matrix of 16-bit elements, in the registers of a lane."""


class Place(NamedTuple):
    """A source line, and an operation in it."""

    file: str  # its name alone
    line: int
    operation: str


Widths = dict[Place, set[int]]
"""Bytes that a lane moves at a time."""


@dataclass(frozen=True)
class Difference:
    """Neighbouring lines whose accesses have other widths in the machine code; widths: bytes of one lane."""

    file: str
    lines: tuple[int, ...]
    operation: str
    source: tuple[int, ...]
    machine: tuple[int, ...]  # empty: no instruction is left of them

    def __str__(self) -> str:
        more = f" to {self.lines[-1]}" if len(self.lines) > 1 else ""
        return self.told(f"{self.file}:{self.lines[0]}{more}")

    def told(self, place: str) -> str:
        """The difference in a sentence; place: its lines in words."""
        said = f"{place}: {WORDS[self.operation]} of {_listed(self.source)} bytes a lane in the source"
        if not self.machine:
            return f"{said} are left out of the machine code, or joined to others."
        what = "joined" if max(self.machine) > max(self.source) else "narrowed or split"
        counted = "accesses" if self.operation in ("ldg", "stg") else "wavefronts"
        return (
            f"{said} are of {_listed(self.machine)} bytes in the machine code: the compiler {what} them, so "
            f"a GPU takes other {counted} there than the CPU machine counts."
        )


@dataclass(frozen=True)
class Comparison:
    """What comes of comparing a launch with its kernel's machine code."""

    differences: list[Difference] = field(default_factory=list)
    missing: str = ""  # why they could not be compared

    def sentences(self) -> list[str]:
        """What a reader of wavefronts must know: nothing, if all accesses are as wide as in the source."""
        if self.missing:
            return [f"Not compared with the widths of accesses in a GPU's machine code: {self.missing}"]
        return list(map(str, self.differences))


def compare(source: Widths, compiled: Callable[[], Compiled]) -> Comparison:
    """Compare the widths of a launch (`in_source`) with the machine code of what `compiled` gives.

    Where there is no compiler for GPUs or no disassembler, the comparison says that.
    """
    try:
        return Comparison(differences(source, in_machine_code(compiled().sass())))
    except KdaError as missing:
        return Comparison(missing=str(missing))


def differences(source: Widths, machine: Widths) -> list[Difference]:
    """Where the widths of lines that ran differ from those of the machine code, by file and line.

    An operation is compared with the instructions that it may become: others stand for what did not run.
    """
    groups: list[list[Place]] = []
    for place in sorted(source, key=lambda one: (one.file, one.operation, one.line)):
        if machine.get(place, set()) == source[place]:
            continue
        before = groups[-1][-1] if groups else Place("", 0, "")
        is_neighbour = place.line - before.line <= NEIGHBOURS
        if is_neighbour and (before.file, before.operation) == (place.file, place.operation):
            groups[-1].append(place)
        else:
            groups.append([place])
    found = [
        Difference(
            file=group[0].file,
            lines=tuple(place.line for place in group),
            operation=group[0].operation,
            source=_all(source, group),
            machine=_all(machine, group),
        )
        for group in groups
    ]
    return sorted(found, key=lambda one: (one.file, one.lines))


def in_source(launch: Launch) -> Widths:
    """The widths of a traced launch, as the CPU machine made its accesses."""
    found: Widths = defaultdict(set)
    for (file, line, name), widths in launch.widths.items():
        operation, _, matrices = name.partition(".x")
        if operation in WORDS:
            of_lane = {MATRIX_BYTES * int(matrices[0])} if matrices else widths
            found[Place(Path(file).name, line, operation)] |= of_lane
    return dict(found)


def in_machine_code(sass: Iterable[SassInstruction]) -> Widths:
    """The widths of the instructions that each line asks for, under the operations that they may be of."""
    found: Widths = defaultdict(set)
    for one in sass:
        for operation in OPERATIONS.get(one.opcode.partition(".")[0], ()):
            if not one.never_runs:
                found[Place(Path(one.file).name, one.line, operation)].add(width_of(one.opcode))
    return dict(found)


def width_of(opcode: str) -> int:
    """Bytes that one lane moves, by an opcode with its modifiers: "STS.128" 16, "LDS.U16" 2, "LDS" 4."""
    name, *modifiers = opcode.split(".")
    if name in ("LDSM", "STSM"):
        return MATRIX_BYTES * (int(modifiers[-1]) if modifiers[-1] in ("2", "4") else 1)
    bits = [found[1] for text in modifiers if (found := re.fullmatch(r"[US]?(8|16|32|64|128)", text))]
    return int(bits[0]) // 8 if bits else 4


def _all(widths: Widths, places: Iterable[Place]) -> tuple[int, ...]:
    return tuple(sorted(set().union(*(widths.get(place, set()) for place in places))))


def _listed(widths: Iterable[int]) -> str:
    return " and ".join(map(str, widths))
