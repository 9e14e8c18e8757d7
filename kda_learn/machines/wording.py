"""What a cause of faults is called: one sentence with its lines, what is missing where, whom it concerns."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from .causes import COMMIT, FEWER, NONE, WAIT, WARP, Cause
from .faults import Fault, Found, Pair, Place


class _Size(NamedTuple):
    """Whom a fault concerns: "1,024 bytes, 64 threads, 1 block"."""

    bytes: int
    threads: int
    blocks: int

    @classmethod
    def of(cls, found: Iterable[Found]) -> _Size:
        granules = threads = blocks = 0
        for one in found:
            granules |= one.granules
            threads |= one.threads
            blocks |= one.blocks
        return cls(2 * granules.bit_count(), threads.bit_count(), blocks.bit_count())

    def __str__(self) -> str:
        names = {"byte": self.bytes, "thread": self.threads, "block": self.blocks}
        return ", ".join(f"{count:,} {name}{'' if count == 1 else 's'}" for name, count in names.items())


def fault_of(cause: Cause) -> Fault:
    """The fault that a cause is: told by its first pair, the others kept beside."""
    first = cause.found[0]
    others = [*cause.found[1:], *cause.follows]
    pairs = _further_pairs(first, others)
    size = _Size.of(cause.found)
    more = len({pair.lines for pair in pairs if pair.other_file} - {_pair(first).lines})
    early = len({pair.lines for pair in pairs if pair.kind == "uninitialised read"})
    again = [
        *([f"{more} more {'pair' if more == 1 else 'pairs'} of lines"] if more else []),
        *([f"{early} {'read' if early == 1 else 'reads'} of bytes not yet written"] if early else []),
    ]
    message = f"{_what_happens(cause)}: {_cure(cause)}"
    if again:
        message += f"; and {' and '.join(again)} for the same reason"
    message += f" ({size}; first {first.message})"
    after, before = _apart(cause.after, cause.before)
    other = first.other
    return Fault(
        _kind(cause),
        message,
        first.place.file,
        first.place.line,
        sum(one.count for one in cause.found),
        other.file if other else "",
        other.line if other else 0,
        cause.cure,
        after,
        before,
        pairs,
        *size,
    )


def _kind(cause: Cause) -> str:
    if cause.cure in (WAIT, COMMIT, FEWER):
        return "copy not waited for"
    return (
        cause.found[0].kind if cause.cure == NONE else "race within a warp" if cause.cure == WARP else "race"
    )


def _pair(found: Found) -> Pair:
    other = found.other
    return Pair(
        found.kind,
        found.place.file,
        found.place.line,
        other.file if other else "",
        other.line if other else 0,
    )


def _further_pairs(first: Found, others: list[Found]) -> tuple[Pair, ...]:
    """Each kind at each pair of lines once."""
    pairs = dict.fromkeys(map(_pair, others))
    pairs.pop(_pair(first), None)
    return tuple(pairs)


def _what_happens(cause: Cause) -> str:
    low, high = cause.low, cause.high
    assert low is not None and high is not None
    if cause.cure == NONE:
        who = "lanes of one warp" if cause.found[0].kind == "race within a warp" else "several warps"
        return f"by one instruction, {low}, {who} store to the same bytes"
    if cause.cure in (WAIT, COMMIT, FEWER):
        does = "writes over" if high.writes else "reads"
        return f"{high} {does} what the copy at {low} has not brought yet"
    if low.writes and high.writes:
        return f"{low} and {high} write the same bytes in no certain order"
    if high.writes:
        return f"{low} reads what {high} writes over, in no certain order"
    if low.operation == "cp.async.wait":
        return f"{high} reads what copies bring that only their own threads wait for at {low}"
    return f"{low} writes what {high} reads, in no certain order"


def _apart(one: Place | None, other: Place | None) -> tuple[tuple[str, int], tuple[str, int]]:
    """The lines of two places, in the function in which the ways to them part."""
    if one is None or other is None:
        return ("", 0), ("", 0)
    for here, there in zip(one.way, other.way, strict=False):
        if here != there:
            return here, there
    return (one.file, one.line), (other.file, other.line)


def _cure(cause: Cause) -> str:
    after, before = _apart(cause.after, cause.before)
    round_again = " comes round again" if after[0] == before[0] and before[1] <= after[1] else ""

    def line(place: tuple[str, int]) -> str:
        return f"{Path(place[0]).name}:{place[1]}"

    between = f"after {line(after)} and before {line(before)}{round_again}"
    if cause.cure == NONE:
        return (
            "which value stays is not defined and no barrier helps, so let one thread store, or give each "
            "an address of its own"
        )
    if cause.cure == WAIT:
        return f"cp_async_wait is missing {between}, and a barrier behind it if other threads read"
    if cause.cure == COMMIT:
        return f"cp_async_commit() is missing {between}: a wait counts only what is committed"
    if cause.cure == FEWER:
        return f"the cp_async_wait at {line(after)} lets its group stay under way: give it a smaller number"
    return f"{cause.cure} is missing {between}"


# ---- pairs of lines for which no place of a barrier is known ----
def by_lines(found: list[Found]) -> list[Fault]:
    """Faults in the order of accesses, each pair of lines once."""
    together: dict[tuple[object, ...], list[Found]] = {}
    for one in found:
        together.setdefault(_lines(one), []).append(one)
    return [_of_lines(members) for members in together.values()]


def _lines(found: Found) -> tuple[object, ...]:
    if found.other is None:
        return found.kind, found.place.way[0]
    return found.kind, frozenset({found.place.way[-1], found.other.way[-1]})


def _of_lines(members: list[Found]) -> Fault:
    first = members[0]
    size = _Size.of(members)
    return Fault(
        first.kind,
        f"{_told(first)} ({size}; first {first.message})",
        first.place.file,
        first.place.line,
        sum(one.count for one in members),
        first.other.file if first.other else "",
        first.other.line if first.other else 0,
        pairs=_further_pairs(first, members[1:]),
        **size._asdict(),
    )


def _told(found: Found) -> str:
    place, other = found.place, found.other
    if other is None:
        return (
            f"{place} reads bytes of shared memory that nobody has written: store to them first, "
            "and put a barrier behind the store"
        )
    does = "writes" if place.writes else "reads"
    if found.kind == "copy not waited for":
        if other.operation == "cp.async.bulk":
            return f"{place} {does} what the bulk copy at {other} brings: wait on its mbarrier first"
        return (
            f"{place} {does} what the copy at {other} has not brought yet: commit its group and wait for it "
            "first (cp_async_commit, cp_async_wait)"
        )
    did = "writes" if other.writes else "reads"
    cure = "put __syncwarp() between them"
    if found.kind == "race":
        cure = (
            "put __syncthreads() between them, or an mbarrier at which the first arrives and the other waits"
        )
    return f"{place} {does} what {other} {did}, in no certain order: {cure}"
