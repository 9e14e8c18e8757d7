"""Which source lines ask for each line of a PTX listing, through inlined calls.

PTX names its source by directives: `.loc 2 158 3, function_name ..., inlined_at 1 77 3` says that what
follows comes from line 158 of file 2, in a function that line 77 of file 1 calls; `.file 2 "gpu.cuh"` names
a file. Line 77 may lie in an inlined function itself: which call of that one is meant, the compiler writes
only at the first instruction of each, so of several calls the one named last is taken.
https://docs.nvidia.com/cuda/parallel-thread-execution/#debugging-directives-loc
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"([^"]*)"')
_LOCATION = re.compile(
    r"\s*\.loc\s+(?P<place>\d+\s+\d+\s+\d+)(?:\s*,\s*function_name\s+[^,]+,\s*inlined_at\s+(?P<caller>\d+\s+\d+\s+\d+))?"
)

Place = tuple[int, int, int]  # number of the file, line, column


class Frame(NamedTuple):
    """A source line: of an operation, or of a call that an operation was inlined through."""

    file: str
    line: int


def source_frames(ptx: str) -> dict[int, tuple[Frame, ...]]:
    """The source of each line of a PTX text, by the line's number from 1: the innermost frame first.

    Lines that stand before the first `.loc` of the text are left out.
    """
    lines = ptx.split("\n")
    files = {int(match[1]): match[2] for match in map(_FILE.match, lines) if match}
    callers: dict[Place, Place | None] = {}
    chain: tuple[Frame, ...] = ()
    found = {}
    for number, text in enumerate(lines, start=1):
        location = _LOCATION.match(text)
        if location:
            place = _place(location["place"])
            callers[place] = _place(location["caller"]) if location["caller"] else None
            chain = tuple(Frame(files.get(file, ""), line) for file, line, _ in _outwards(place, callers))
        elif chain:
            found[number] = chain
    return found


def _place(numbers: str) -> Place:
    file, line, column = map(int, numbers.split())
    return file, line, column


def _outwards(place: Place, callers: dict[Place, Place | None]) -> Iterator[Place]:
    """A place, the call it was inlined at, the call that this was inlined at, and so on."""
    passed: set[Place] = set()
    current: Place | None = place
    while current is not None and current not in passed:
        yield current
        passed.add(current)
        current = callers.get(current)
