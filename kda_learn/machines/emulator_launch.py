"""What a launch on the CPU machine found and counted, as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..hardware.limits import LANES

ACCESS = np.dtype(
    [
        ("line", "u4"),
        ("site", "u4"),
        ("file", "u1"),
        ("op", "u1"),
        ("bytes", "u1"),
        ("warp", "u1"),
        ("block", "u4"),
        ("order", "u4"),
        ("mask", "u4"),
        ("address", "i4", LANES),
    ]
)
"""One warp instruction on shared memory.

`site`, `file` and `op` number `Launch.sites`, `Launch.files` and `Launch.operations`; `bytes` is what one
lane moves (of ldmatrix and stmatrix a row of a matrix, 16); `block` counts x first, then y, then z; `order`
counts within a block; `address` is in bytes from the start of dynamic shared memory, -1 for lanes outside of
`mask`."""


@dataclass(frozen=True)
class Fault:
    """What a kernel does wrong at one line, found by the emulator.

    kind is one of "race" (between warps), "race within a warp", "uninitialised read", "copy not waited for",
    "copy never waited for", "out of bounds", "misaligned", "divergent warp", "partial mask", "different
    barriers", "deadlock", "endless loop", "mbarrier misused", "missing fence", "bad shuffle", "plain
    access", "stack overflow", "crash", "too long".
    message says which thread, which address and what would help, for the first time that it happened.
    """

    kind: str
    message: str
    file: str  # full path; empty if the kernel crashed before its first warp-wide operation
    line: int
    count: int  # how often
    other_file: str = ""  # of a race or an early read: the access before
    other_line: int = 0

    def __str__(self) -> str:
        again = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.kind}: {self.message}{again}"


FOUND_BY_THE_CPU = ("plain access", "crash")
"""Kinds of faults that no operation of gpu.cuh finds."""

Key = tuple[str, int, str]
"""File, line and operation."""


@dataclass(frozen=True)
class CallSite:
    """One instruction of the source: an operation, and the way to it through functions.

    On a GPU a function is copied to where it is called, so each way there is an instruction of its own.
    """

    file: str
    line: int
    column: int
    operation: str
    bytes: int  # that a lane moves; 0 for what moves none
    callers: tuple[
        tuple[str, int, int], ...
    ]  # file, line, column of each call on the way, the innermost first
    instructions: int  # of whole warps, in all blocks

    def __str__(self) -> str:
        way = "".join(f", called at {Path(file).name}:{line}" for file, line, _ in self.callers)
        return f"{Path(self.file).name}:{self.line} ({self.operation}{way})"


class Traffic(NamedTuple):
    """Global memory that one line moves, added up over its warp instructions."""

    bytes: int  # that the lanes ask for
    sectors: int  # of 32 bytes, that each instruction touches


@dataclass(frozen=True)
class Launch:
    """What a launch found. All but `faults` and `seconds` is empty unless it was traced."""

    faults: list[Fault]
    files: list[str]  # full paths, which `accesses["file"]` numbers
    operations: list[str]  # names, which `accesses["op"]` numbers
    sites: list[CallSite]  # which `accesses["site"]` numbers
    accesses: NDArray[Any]  # of dtype ACCESS, ordered by block, then by `order`
    counts: dict[Key, int]  # warp instructions
    traffic: dict[Key, Traffic]  # of what moves global memory
    widths: dict[Key, set[int]]  # bytes that a lane moves at a time (of ldmatrix and stmatrix 16: a row)
    seconds: float


Locate = Callable[[int], tuple[str, int] | None]
"""From an instruction of the kernel's library to file and line."""


def read_launch(
    found: dict[str, Any], operations: list[str], accesses: bytes, seconds: float, locate: Locate
) -> Launch:
    """From what kernels/emulator/launch.cpp hands over: its JSON, the names of operations, access records."""
    sites = _sites(found, operations)
    counts, traffic, widths = _counts(found["counts"], sites)
    return Launch(
        faults=_faults(found["faults"], locate),
        files=found["files"],
        operations=operations,
        sites=sites,
        accesses=np.frombuffer(accesses, dtype=ACCESS),
        counts=counts,
        traffic=traffic,
        widths=widths,
        seconds=seconds,
    )


def with_lines_of(launch: Launch, again: Launch) -> Launch:
    """A launch with those faults that the CPU itself found as another launch of the same has them."""
    lines = [fault for fault in again.faults if fault.kind in FOUND_BY_THE_CPU]
    if not lines:
        return launch
    return replace(
        launch, faults=lines + [fault for fault in launch.faults if fault.kind not in FOUND_BY_THE_CPU]
    )


def _faults(found: list[list[Any]], locate: Locate) -> list[Fault]:
    """Each kind at each pair of lines once, as the first block that has it tells it."""
    result: dict[tuple[Any, ...], Fault] = {}
    for kind, message, file, line, count, other_file, other_line, instruction in found:
        place = locate(instruction) if instruction else None
        if place is not None:  # the CPU itself found it
            file, line = place
            message = f"{Path(file).name}:{line}: {message}"
        key = (kind, file, line, other_file, other_line)
        if key in result:
            result[key] = replace(result[key], count=result[key].count + count)
        else:
            result[key] = Fault(kind, message, file, line, count, other_file, other_line)
    return list(result.values())


def _sites(found: dict[str, Any], operations: list[str]) -> list[CallSite]:
    """`Launch.sites`, in their order."""
    instructions: Counter[int] = Counter()
    for site, count, _, _ in found["counts"]:
        instructions[site] += count
    return [
        CallSite(file, line, column, operations[op], width, tuple(map(tuple, callers)), instructions[number])
        for number, (file, line, column, op, width, callers) in enumerate(found["sites"])
    ]


def _counts(
    found: list[list[int]], sites: list[CallSite]
) -> tuple[dict[Key, int], dict[Key, Traffic], dict[Key, set[int]]]:
    """`Launch.counts`, `Launch.traffic` and `Launch.widths`, in the order of lines."""
    counts: Counter[Key] = Counter()
    moved: Counter[Key] = Counter()
    touched: Counter[Key] = Counter()
    widths: dict[Key, set[int]] = {}
    for number, instructions, bytes, sectors in found:
        key = (sites[number].file, sites[number].line, sites[number].operation)
        counts[key] += instructions
        moved[key] += bytes
        touched[key] += sectors
        if sites[number].bytes:
            widths.setdefault(key, set()).add(sites[number].bytes)
    in_order = sorted(counts)
    traffic = {key: Traffic(moved[key], touched[key]) for key in in_order if moved[key]}
    return {key: counts[key] for key in in_order}, traffic, widths
