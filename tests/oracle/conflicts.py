"""The oracle, second half: accesses of the same bytes that nothing orders, or no fence where one must be.

Sets of events are integers, a bit for each event; see `happens_before`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .language import LANES


class Finding(NamedTuple):
    """kind: a key of compare.SAID_AS. places: the numbers of the one or two statements."""

    kind: str
    places: frozenset[int]


@dataclass
class Opinion:
    """What the oracle thinks of a program."""

    findings: set[Finding] = field(default_factory=set)
    allowed: set[Finding] = field(default_factory=set)  # what some orders of warps show and others do not

    @property
    def faulty(self) -> bool:
        return bool(self.findings)


class Access(NamedTuple):
    event: int
    before: int  # the set of events that happen before, with this one
    thread: int
    place: int
    writes: bool
    by: str  # "thread", "cp.async", "bulk"


Fences = Sequence[tuple[int, int]]
"""Of each proxy fence its event, and the events before it."""


def is_fenced(a: Access, b: Access, fences: Fences) -> bool:
    """Is there a proxy fence on a way from a to b?"""
    return any(a.event & before and event & b.before for event, before in fences)


def look_for_conflicts(cells: Iterable[Sequence[Access]], fences: Fences, opinion: Opinion) -> None:
    """Adds what is wrong with the accesses of each cell, in an order that happens-before allows."""
    seen: set[tuple[int, ...]] = set()
    for accesses in cells:
        key = tuple(access.event for access in accesses)
        if key not in seen:
            seen.add(key)
            _look_at_cell(accesses, fences, opinion)


def _look_at_cell(accesses: Sequence[Access], fences: Fences, opinion: Opinion) -> None:
    for number, b in enumerate(accesses):
        written = contested = False
        for a in accesses[:number]:
            if not (a.writes or b.writes):
                continue
            if not a.event & b.before:
                contested |= a.writes
                opinion.findings.add(Finding(_conflict(a, b), frozenset({a.place, b.place})))
                continue
            written |= a.writes
            if a.by != "bulk" and b.by == "bulk" and not is_fenced(a, b, fences):
                opinion.findings.add(Finding("missing fence", frozenset({a.place, b.place})))
        if not b.writes and not written:
            contested |= any(c.writes and not b.event & c.before for c in accesses[number + 1 :])
            findings = opinion.allowed if contested else opinion.findings
            findings.add(Finding("uninitialised", frozenset({b.place})))


def _conflict(a: Access, b: Access) -> str:
    """What it is called that nothing orders a and b."""
    if a.by != "thread" and b.by == "thread" and a.thread == b.thread:
        return "own copy"
    if a.by != "thread" or b.by != "thread":
        return "copy"
    return "within a warp" if a.thread // LANES == b.thread // LANES else "between warps"
