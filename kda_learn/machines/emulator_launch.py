"""What a launch on the CPU machine found and counted, as data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..hardware.limits import LANES
from .faults import Fault

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

EVENT = np.dtype(
    [
        ("line", "u4"),
        ("site", "u4"),
        ("file", "u1"),
        ("op", "u1"),
        ("kind", "u1"),
        ("warp", "u1"),
        ("block", "u4"),
        ("order", "u4"),
        ("mask", "u4"),
        ("address", "i4"),
        ("phase", "i4"),
        ("bytes", "u4"),
    ]
)
"""What happens at a barrier, an mbarrier or to an asynchronous copy.

`kind` numbers `EVENT_KINDS`; `site`, `file`, `op`, `block` and `order` are those of ACCESS, and `order`
counts both on one axis. `warp` is NO_WARP for what no thread does (a phase ends, a bulk copy lands);
`mask`: the lanes. `address`: of the mbarrier, or of where a bulk copy goes to, in bytes from the start of
dynamic shared memory; else -1. `phase`: of the mbarrier, from 0 (-1: the one before, long complete);
of `cp_async_wait` the groups that may stay under way. `bytes`: that are announced (arrive), copied (issue) or
there now (land), of all lanes."""

EVENT_KINDS = ("", "arrive", "wait", "release", "complete", "issue", "commit", "land")
"""A warp arrives at a barrier and is released from it; waits for an mbarrier's phase, or for copies, and goes
on (release, land); a phase is complete; a copy is issued, its group committed, and its bytes land."""

NO_WARP = 255

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
    events: NDArray[Any]  # of dtype EVENT, in the same order
    counts: dict[Key, int]  # warp instructions
    traffic: dict[Key, Traffic]  # of what moves global memory
    widths: dict[Key, set[int]]  # bytes that a lane moves at a time (of ldmatrix and stmatrix 16: a row)
    seconds: float


def read_launch(
    found: dict[str, Any], operations: list[str], accesses: bytes, events: bytes, seconds: float
) -> Launch:
    """From what kernels/emulator/launch.cpp hands over: its JSON, the names of operations, the two kinds of
    records. The faults are read by `faults.read_found` and told by `explaining.faults_of`.
    """
    sites = _sites(found, operations)
    counts, traffic, widths = _counts(found["counts"], sites)
    return Launch(
        faults=[],
        files=found["files"],
        operations=operations,
        sites=sites,
        accesses=np.frombuffer(accesses, dtype=ACCESS),
        events=np.frombuffer(events, dtype=EVENT),
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
