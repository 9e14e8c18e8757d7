"""One block of a traced launch, as the order of its steps: what every warp did between two barriers.

All warps run one program. Between two `__syncthreads` (an *interval*) their steps are laid side by side: a
step is a call site and how often the warp has come there in this interval, and the steps of all warps,
merged, give one row. A barrier can stand in each gap of the row.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from .emulator_launch import EVENT_KINDS
from .faults import Place

if TYPE_CHECKING:
    from .emulator_launch import Launch

GRANULE = 2  # bytes: no access is narrower
Moment = tuple[int, int]
"""An interval, and a place in its row."""


@dataclass
class Step:
    """A warp instruction that touches shared memory, or a synchronisation of the warp."""

    site: int  # numbers `Launch.sites`
    operation: str
    warp: int
    interval: int  # __syncthreads passed
    piece: tuple[int, int]  # and __syncwarp passed, of this warp
    key: tuple[int, int]  # the site, and how often the warp has come there in this interval
    width: int = 0  # bytes of a lane
    phase: int = 0  # of a wait for copies: groups that may stay under way
    addresses: dict[int, int] = field(default_factory=dict)  # of each lane that takes part
    place: int = 0  # in the row
    landed: Step | None = None  # of an asynchronous copy: the wait behind which its bytes are there
    committed: Step | None = None

    @property
    def moment(self) -> Moment:
        return self.interval, self.place

    @property
    def is_copy(self) -> bool:
        return self.operation in ("cp.async.cg", "cp.async.ca")

    @property
    def as_one(self) -> bool:
        return "matrix" in self.operation

    @cached_property
    def granules(self) -> int:
        """As bits: the pairs of bytes that it touches."""
        touched = 0
        for lane in self.addresses:
            touched |= self.of_lane(lane)
        return touched

    def of_lane(self, lane: int) -> int:
        return ((1 << self.width // GRANULE) - 1) << self.addresses[lane] // GRANULE

    def meets(self, other: Step) -> bool:
        """Whether two threads touch one byte, one in this step and another in that."""
        if not self.granules & other.granules:
            return False
        if self.warp != other.warp or self.as_one or other.as_one:
            return True
        for lane in self.addresses:
            mine = self.of_lane(lane)
            if any(mine & other.of_lane(one) for one in other.addresses if one != lane):
                return True
        return False


class BlockTrace:
    """The steps of one block.

    steps: by site, in the order of time within a warp. rows: for each interval the sites in the order of the
    program. has_mbarriers: then more than barriers orders the steps.
    """

    def __init__(self, launch: Launch) -> None:
        self.sites = [Place(x.file, x.line, x.column, x.operation, x.bytes, x.callers) for x in launch.sites]
        self.has_mbarriers = any(site.operation.startswith("mbarrier") for site in launch.sites)
        self.by_warp: dict[int, list[Step]] = defaultdict(list)
        self._read(launch)
        self.steps: dict[int, list[Step]] = defaultdict(list)
        self.rows: dict[int, list[int]] = {}
        self._lay_side_by_side()
        for steps in self.by_warp.values():
            _land_copies(steps)

    def _read(self, launch: Launch) -> None:
        names, kinds = launch.operations, EVENT_KINDS
        records = [(int(x["order"]), 0, i) for i, x in enumerate(launch.accesses)]
        records += [(int(x["order"]), 1, i) for i, x in enumerate(launch.events)]
        interval: Counter[int] = Counter()
        piece: Counter[int] = Counter()
        seen: dict[int, Counter[int]] = defaultdict(Counter)
        for _, is_event, i in sorted(records):
            x = (launch.events if is_event else launch.accesses)[i]
            warp, site, operation = int(x["warp"]), int(x["site"]), names[x["op"]]
            if is_event:
                kind = kinds[x["kind"]]
                wanted = {
                    "syncthreads": "release",
                    "syncwarp": "release",
                    "cp.async.commit": "commit",
                    "cp.async.wait": "wait",
                }
                if kind != wanted.get(operation):
                    continue
                if operation == "syncthreads":
                    interval[warp] += 1
                    piece[warp] = 0
                    seen[warp].clear()
                    continue
                piece[warp] += operation == "syncwarp"
            seen[warp][site] += 1
            key = (site, seen[warp][site])
            step = Step(site, operation, warp, interval[warp], (interval[warp], piece[warp]), key)
            if is_event:
                step.phase = int(x["phase"])
            else:
                step.width = int(x["bytes"])
                step.addresses = {
                    lane: address for lane, address in enumerate(x["address"].tolist()) if address >= 0
                }
            self.by_warp[warp].append(step)

    def _lay_side_by_side(self) -> None:
        rows: dict[int, dict[tuple[tuple[int, int], ...], None]] = defaultdict(dict)
        for steps in self.by_warp.values():
            of_interval: dict[int, list[tuple[int, int]]] = defaultdict(list)
            for step in steps:
                of_interval[step.interval].append(step.key)
            for interval, keys in of_interval.items():
                rows[interval][tuple(keys)] = None
        places: dict[int, dict[tuple[int, int], int]] = {}
        for interval, sequences in rows.items():
            row = merged(list(sequences))
            self.rows[interval] = [site for site, _ in row]
            places[interval] = {key: place for place, key in enumerate(row)}
        for warp in sorted(self.by_warp):
            for step in self.by_warp[warp]:
                step.place = places[step.interval][step.key]
                self.steps[step.site].append(step)


def merged(sequences: Sequence[Sequence[Hashable]]) -> list[Hashable]:
    """One row that holds the items of all sequences, each in its order as far as they agree."""
    row: list[Hashable] = []
    for sequence in sequences:
        known = set(row)
        place = 0
        for item in sequence:
            if item not in known:
                row.insert(place, item)
                known.add(item)
                place += 1
                continue
            found = row.index(item)
            place = max(place, found + 1)
    return row


def _land_copies(steps: Iterable[Step]) -> None:
    """For each copy of a warp the commit and the wait that concern it."""
    loose: list[Step] = []
    groups: list[list[Step]] = []
    for step in steps:
        if step.is_copy:
            loose.append(step)
        elif step.operation == "cp.async.commit":
            for copy in loose:
                copy.committed = step
            groups.append(loose)
            loose = []
        elif step.operation == "cp.async.wait" and len(groups) > step.phase:
            landing = len(groups) - step.phase
            for copy in (copy for group in groups[:landing] for copy in group):
                copy.landed = step
            groups = groups[landing:]
