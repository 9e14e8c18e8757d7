"""From what the runtime reports to the faults that are told: one for each cause."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from .causes import Cause, causes_of
from .faults import ORDER, Fault, Found, alone, in_order
from .wording import by_lines, fault_of

if TYPE_CHECKING:
    from .emulator_launch import Launch

MOST_BLOCKS = 3  # that are looked into: one shows what a kernel does wrong unless blocks do different things
_UNENDING = ("endless loop", "crash", "plain access", "stack overflow", "too long")


def faults_of(found: Sequence[Found], traced: Callable[[int], Launch]) -> list[Fault]:
    """The faults of a launch. traced: runs one block again, by its number, and keeps what it does."""
    left = [one for one in found if one.kind in ORDER]
    causes: list[Cause] = []
    for _ in range(MOST_BLOCKS):
        pairs = [one for one in left if one.other is not None]
        if not pairs or any(one.kind in _UNENDING for one in found):
            break
        new, after = causes_of(left, traced(pairs[0].block))
        causes += new
        if len(after) == len(left):
            break
        left = after
    others = []
    for one in found:
        if one.kind in ORDER:
            continue
        known = _cause_of_copy(one, causes)
        (known.follows if known else others).append(one)
    return in_order([*map(fault_of, causes), *by_lines(left), *map(alone, others)])


def _cause_of_copy(one: Found, causes: Iterable[Cause]) -> Cause | None:
    """The cause that names a copy already for which nobody ever waits."""
    if one.kind != "copy never waited for":
        return None
    named = (c for c in causes if any(one.place in (pair.place, pair.other) for pair in c.found))
    return next(named, None)
