"""What a kernel does wrong: a fault for each cause, as the CPU machine tells it.

The runtime reports pairs of places that race. Which of them one and the same missing barrier explains, and
where it belongs, is worked out in `causes`. Here is what comes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ORDER = ("race", "race within a warp", "copy not waited for", "uninitialised read")
"""Kinds that a missing barrier or wait causes."""

FIRST = (
    "divergent warp",
    "partial mask",
    "different barriers",
    "deadlock",
    "endless loop",
    "stack overflow",
    "plain access",
    "crash",
    "too long",
)
"""Kinds that stop a block, or turn its order upside down: what else is found may follow from them."""

Locate = Callable[[int], tuple[str, int] | None]
"""From an instruction of the kernel's library to file and line."""

WRITES = ("sts", "stmatrix", "cp.async", "mbarrier.init", "mbarrier.inval")


@dataclass(frozen=True)
class Place:
    """Where an operation stands in the source, and the way to it through functions."""

    file: str  # full path; empty: nowhere
    line: int
    column: int
    operation: str
    bytes: int  # that a lane moves
    callers: tuple[tuple[str, int, int], ...] = ()  # file, line, column of each call, the innermost first

    def __str__(self) -> str:
        way = "".join(f", called at {Path(file).name}:{line}" for file, line, _ in self.callers)
        return f"{Path(self.file).name}:{self.line} ({self.operation}{way})"

    @property
    def writes(self) -> bool:
        """Whether it changes shared memory."""
        return self.operation.startswith(WRITES)

    @property
    def way(self) -> list[tuple[str, int]]:
        """File and line of each call on the way, and of the operation, from the kernel inwards."""
        return [*((file, line) for file, line, _ in reversed(self.callers)), (self.file, self.line)]


@dataclass(frozen=True)
class Found:
    """A kind of mistake at one place or a pair of them, as the runtime reports it."""

    kind: str
    message: str
    place: Place
    other: Place | None  # the access before
    count: int
    block: int  # the first that has it
    blocks: int  # as bits: those that have it
    granules: int  # as bits: the pairs of bytes of shared memory, in any block
    threads: int  # as bits: their numbers in a block


@dataclass(frozen=True)
class Pair:
    """Two lines that race, or a line that reads too early, for the same reason as a fault's own."""

    kind: str
    file: str
    line: int
    other_file: str  # the access before; empty if there is none
    other_line: int

    @property
    def lines(self) -> frozenset[tuple[str, int]]:
        """Its lines, whichever came first."""
        return frozenset({(self.file, self.line), (self.other_file, self.other_line)})


@dataclass(frozen=True)
class Fault:
    """What a kernel does wrong, found by the emulator.

    kind is one of "race" (between warps), "race within a warp", "uninitialised read", "copy not waited for",
    "copy never waited for", "out of bounds", "misaligned", "divergent warp", "partial mask", "different
    barriers", "deadlock", "endless loop", "mbarrier misused", "missing fence", "bad shuffle", "plain
    access", "stack overflow", "crash", "too long".
    message says what happens where, what would help, and which thread and address were the first.
    """

    kind: str
    message: str
    file: str  # full path; empty if the kernel crashed before its first warp-wide operation
    line: int
    count: int  # how often
    other_file: str = ""  # of a race or an early read: the access before
    other_line: int = 0
    cure: str = ""  # what is missing: "__syncthreads()", "__syncwarp()", "cp_async_wait", "cp_async_commit"
    after: tuple[str, int] = ("", 0)  # it belongs behind this line (file and line)
    before: tuple[str, int] = ("", 0)  # and in front of this one
    pairs: tuple[Pair, ...] = ()  # further pairs of lines with the same cause
    bytes: int = 0  # of shared memory that are raced for, in any block
    threads: int = 0  # of a block that take part, in any block
    blocks: int = 0  # that have it

    def __str__(self) -> str:
        again = f" ({self.count:,} times)" if self.count > 1 and not self.bytes else ""
        return f"{self.kind}: {self.message}{again}"

    @property
    def all_pairs(self) -> tuple[Pair, ...]:
        """Its own pair of lines and the further ones."""
        return Pair(self.kind, self.file, self.line, self.other_file, self.other_line), *self.pairs

    @property
    def lines(self) -> set[frozenset[tuple[str, int]]]:
        """The lines of each pair, whichever came first."""
        return {pair.lines for pair in self.all_pairs}


def read_found(found: Iterable[Sequence[Any]], operations: Sequence[str], locate: Locate) -> list[Found]:
    """The faults in a result of kernels/emulator/launch.cpp."""

    def place(site: Sequence[Any]) -> Place:
        file, line, column, operation, width, callers = site
        name = operations[operation] if operation < len(operations) else ""
        return Place(file, line, column, name, width, tuple(map(tuple, callers)))

    result = []
    for kind, message, site, other, count, block, blocks, granules, threads, instruction in found:
        at, came_before = place(site), place(other) if other[0] else None
        line = locate(instruction) if instruction else None
        if line is not None:  # the CPU itself found it
            at = Place(*line, 0, "", 0)
            message = f"{Path(at.file).name}:{at.line}: {message}"
        bits = (int(numbers, 16) for numbers in (blocks, granules, threads))
        result.append(Found(kind, message, at, came_before, count, block, *bits))
    return result


def alone(found: Found) -> Fault:
    """A fault that needs no other to be understood: its message says what helps."""
    other = found.other
    return Fault(
        found.kind,
        found.message,
        found.place.file,
        found.place.line,
        found.count,
        other.file if other else "",
        other.line if other else 0,
    )


def in_order(faults: Iterable[Fault]) -> list[Fault]:
    """What stops a block first, then races, then the rest; what nobody wrote last, as it often follows."""

    def rank(fault: Fault) -> int:
        if fault.kind in FIRST:
            return 0
        return 3 if fault.kind == "uninitialised read" else 1 if fault.kind in ORDER else 2

    return sorted(faults, key=rank)


def of_several_orders(launches: Iterable[Sequence[Fault]]) -> list[Fault]:
    """The faults of launches that differ in the order of their warps: each cause once, as told first."""
    result: list[Fault] = []
    known: set[tuple[str, frozenset[tuple[str, int]]]] = set()

    def name(fault: Fault) -> str:
        return "order" if fault.kind in ORDER else fault.kind

    for faults in launches:
        new = [fault for fault in faults if not any((name(fault), pair) in known for pair in fault.lines)]
        known |= {(name(fault), pair) for fault in faults for pair in fault.lines}
        result += new
    return result
