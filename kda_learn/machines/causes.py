"""From racing pairs of places to the barriers that are missing.

A barrier can stand behind any step of a kernel or in front of it. A racing pair lies in one interval between
two `__syncthreads`, and a barrier in any gap of the row between its two steps (`block_trace`) would order it.
So the missing barriers are a smallest set of places that has one between the steps of every pair: found
greedily, the place first that orders most. All pairs that one place orders have one cause, and it belongs
where all of them leave room for it.

An asynchronous copy writes when it is issued (against what came before) and at the wait behind which it has
landed (against what comes after). What touches its bytes in between lacks the wait, not a barrier.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

from .block_trace import BlockTrace, Moment, Step
from .faults import Found, Place

if TYPE_CHECKING:
    from .emulator_launch import Launch

BLOCK, WARP = "__syncthreads()", "__syncwarp()"
WAIT, COMMIT, FEWER = "cp_async_wait", "cp_async_commit", "a cp_async_wait for more groups"
NONE = "no barrier"
MOST_VISITS = 16  # of one place in one interval: more of a loop shows nothing new
MOST_INTERVALS = 6  # likewise of the kernel's own loop
FARTHEST = 8  # intervals that a copy may be under way

Label = tuple[bool, int]
"""Behind a site (True) or in front of it."""


@dataclass(frozen=True)
class Gap:
    """Two steps of which nothing says which comes first."""

    found: int  # which pair of places they belong to
    cure: str
    interval: int
    low: Step
    high: Step

    @property
    def span(self) -> tuple[int, int]:
        return self.low.place, self.high.place


@dataclass
class Cause:
    """What is missing, and all that it would mend."""

    cure: str
    found: list[Found]  # the first is the one to tell
    low: Place | None = None  # of the first: the step that comes first in the program
    high: Place | None = None
    after: Place | None = None  # between these two the cure belongs
    before: Place | None = None
    follows: list[Found] = field(
        default_factory=list
    )  # what else comes of it, such as reads of unwritten bytes


def causes_of(found: Sequence[Found], traced: Launch) -> tuple[list[Cause], list[Found]]:
    """The causes of faults in the order of accesses, and those faults that this block does not explain.

    traced: one block in which they happen. What an mbarrier orders is not looked into.
    """
    trace = BlockTrace(traced)
    pairs = [one for one in found if one.other is not None]
    if trace.has_mbarriers:
        return [], list(found)
    numbers = {site: number for number, site in enumerate(trace.sites)}
    gaps = [gap for i, one in enumerate(pairs) for gap in _gaps_of(i, one, trace, numbers)]
    causes = [
        *_without_cure(pairs, gaps),
        *_of_copies(pairs, gaps, trace),
        *_of_barriers(pairs, gaps, trace),
    ]
    explained = {id(one) for cause in causes for one in cause.found}
    for one in found:
        if id(one) in explained:
            continue
        first = next((cause for cause in causes if _follows(one, cause)), None)
        if first is not None:
            (first.follows if one.other is None else first.found).append(one)
            explained.add(id(one))
    return causes, [one for one in found if id(one) not in explained]


def _follows(one: Found, cause: Cause) -> bool:
    """Whether an uninitialised read, or a pair not seen out of order in this block, shares a place and bytes
    with a pair that races.
    """
    places = {one.place, one.other} - {None}
    return any(one.granules & pair.granules and places & {pair.place, pair.other} for pair in cause.found)


# ---- two steps that meet ----
def _gaps_of(number: int, found: Found, trace: BlockTrace, numbers: dict[Place, int]) -> list[Gap]:
    site, other = numbers.get(found.place), numbers.get(found.other) if found.other else None
    if site is None or other is None:
        return []
    return _gaps(number, found.kind, trace.steps[site], trace.steps[other])


def _gaps(number: int, kind: str, first: Sequence[Step], second: Sequence[Step]) -> list[Gap]:
    seen: dict[tuple[object, ...], Gap] = {}
    others = _by_moment(second)
    for (interval, _), ones in _by_moment(first).items():
        touched = _touched(ones)
        for (at, _), twos in others.items():
            copies = ones[0].is_copy or twos[0].is_copy
            if at != interval and not (copies and abs(at - interval) <= FARTHEST):
                continue
            if not touched & _touched(twos):
                continue
            for one, two in product(ones, twos):
                gap = _gap(number, kind, one, two)
                if gap is None:
                    continue
                key = (gap.cure, gap.low.moment, gap.high.moment)
                if key not in seen and _meet(gap, one, two):
                    seen[key] = gap
                    if not copies:
                        break
    return list(seen.values())


def _by_moment(steps: Iterable[Step]) -> dict[Moment, list[Step]]:
    """What the warps do at one place of a row."""
    kept = [step for step in steps if step.key[1] <= MOST_VISITS]
    intervals = set(list(dict.fromkeys(step.interval for step in kept))[:MOST_INTERVALS])
    result: dict[Moment, list[Step]] = defaultdict(list)
    for step in kept:
        if step.interval in intervals:
            result[step.moment].append(step)
    return result


def _touched(steps: Iterable[Step]) -> int:
    granules = 0
    for step in steps:
        granules |= step.granules
    return granules


def _meet(gap: Gap, one: Step, other: Step) -> bool:
    """Whether they touch one byte: of a copy that has not landed even the thread itself must not."""
    return bool(one.granules & other.granules) if gap.cure == WAIT else one.meets(other)


def _gap(number: int, kind: str, one: Step, other: Step) -> Gap | None:
    """What is missing between two steps that touch the same bytes, if anything is."""
    low, high = sorted((one, other), key=lambda step: step.moment)
    same_warp = low.warp == high.warp
    if (kind == "race" and same_warp) or (kind == "race within a warp" and not same_warp):
        return None
    if low.moment == high.moment:
        return Gap(number, NONE, low.interval, low, high)
    if low.is_copy:
        if low.landed is None or low.landed.moment > high.moment:
            return Gap(number, WAIT, low.interval, low, high) if kind == "copy not waited for" else None
        low = low.landed
    if low.interval != high.interval or (same_warp and low.piece != high.piece):
        return None
    return Gap(number, WARP if same_warp else BLOCK, low.interval, low, high)


# ---- no cure ----
def _without_cure(pairs: Sequence[Found], gaps: list[Gap]) -> list[Cause]:
    """Pairs of one instruction with itself: lanes or warps that store to one byte."""
    alone = dict.fromkeys(gap.found for gap in gaps if gap.cure == NONE)
    gaps[:] = [gap for gap in gaps if gap.found not in alone]
    return [Cause(NONE, [pairs[i]], pairs[i].place, pairs[i].place) for i in alone]


# ---- asynchronous copies ----
def _of_copies(pairs: Sequence[Found], gaps: list[Gap], trace: BlockTrace) -> list[Cause]:
    waits = [gap for gap in gaps if gap.cure == WAIT]
    kinds: dict[tuple[str, int | None], list[Gap]] = defaultdict(list)
    for gap in waits:
        kinds[_missing_of(gap, trace)].append(gap)
    causes = []
    for (cure, wait), of_kind in kinds.items():
        tightest = min(of_kind, key=_distance)
        members = dict.fromkeys([tightest.found, *(gap.found for gap in of_kind)])
        low = tightest.low
        after = low.committed if low.committed and cure != COMMIT else low
        before = trace.sites[wait] if wait is not None and cure == COMMIT else trace.sites[tightest.high.site]
        at = trace.sites[wait] if wait is not None and cure == FEWER else trace.sites[after.site]
        causes.append(
            Cause(
                cure,
                [pairs[i] for i in members],
                trace.sites[low.site],
                trace.sites[tightest.high.site],
                at,
                before,
            )
        )
    for cause in causes:  # what is told of a copy once is not told of its barriers again
        told = {id(one) for one in cause.found}
        gaps[:] = [gap for gap in gaps if id(pairs[gap.found]) not in told]
    return causes


def _distance(gap: Gap) -> tuple[int, int]:
    return gap.high.interval - gap.low.interval, gap.high.place - gap.low.place


def _missing_of(gap: Gap, trace: BlockTrace) -> tuple[str, int | None]:
    """What a copy lacks to have landed, and the site of the wait that does not help."""
    copy = gap.low
    waits = [
        step
        for step in trace.by_warp[copy.warp]
        if step.operation == "cp.async.wait" and copy.moment < step.moment < gap.high.moment
    ]
    if not waits:
        return WAIT, None
    if copy.committed is None or copy.committed.moment > waits[-1].moment:
        return COMMIT, waits[0].site
    return FEWER, waits[-1].site


# ---- barriers ----
def _of_barriers(pairs: Sequence[Found], gaps: Sequence[Gap], trace: BlockTrace) -> list[Cause]:
    causes = []
    left = [gap for gap in gaps if gap.cure in (BLOCK, WARP)]
    for cure in (BLOCK, WARP):
        while any(gap.cure == cure for gap in left):
            label = _best([gap for gap in left if gap.cure == cure], left, trace)
            covered = [gap for gap in left if label in _labels(gap, trace)]
            left = [gap for gap in left if label not in _labels(gap, trace)]
            causes.append((cure, covered))
    told: set[int] = set()
    result = []
    for cure, covered in causes:
        own = [gap for gap in covered if gap.found not in told]
        if not own:
            continue
        told |= {gap.found for gap in own}
        result.append(_barrier(cure, own, pairs, trace))
    return result


def _best(wanted: Sequence[Gap], all_left: Sequence[Gap], trace: BlockTrace) -> Label:
    """The place that orders most of the wanted, and of these the one that orders most of all."""
    counts: Counter[Label] = Counter(label for gap in wanted for label in _labels(gap, trace))
    most = max(counts.values())
    best = {label for label, count in counts.items() if count == most}
    also: Counter[Label] = Counter(
        label for gap in all_left for label in _labels(gap, trace) if label in best
    )
    return max(best, key=lambda label: (also[label], label))


def _labels(gap: Gap, trace: BlockTrace) -> set[Label]:
    """The places of the program at which a barrier stands between the two steps."""
    low, high = gap.span
    row = trace.rows[gap.interval]
    return {(True, site) for site in row[low:high]} | {(False, site) for site in row[low + 1 : high + 1]}


def _barrier(cure: str, covered: Sequence[Gap], pairs: Sequence[Found], trace: BlockTrace) -> Cause:
    told = min((gap for gap in covered if gap.cure == cure), key=lambda gap: gap.span[1] - gap.span[0])
    after, before = told.low, told.high
    for gap in covered:
        if gap.interval != told.interval or gap.low.place >= before.place or gap.high.place <= after.place:
            continue
        after = max(after, gap.low, key=lambda step: step.place)
        before = min(before, gap.high, key=lambda step: step.place)
    members = dict.fromkeys([told.found, *(gap.found for gap in covered)])
    sites = trace.sites
    return Cause(
        cure,
        [pairs[i] for i in members],
        sites[told.low.site],
        sites[told.high.site],
        sites[after.site],
        sites[before.site],
    )
