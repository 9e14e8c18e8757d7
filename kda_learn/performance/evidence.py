"""What a profile says about where a stage's time goes, in the few numbers that explain a change of time.

All numbers are per tile and head, added up over the blocks that share it, unless they are percentages. A
multiprocessor's L1 cache and its shared memory are one unit, which works on one wavefront a cycle: its busy
cycles are what most stages of Kernel A are made of.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from ..ground.errors import BadInput
from ..profiling.counters import longest_wait
from ..sources.stages import stage as stage_named
from ..tracing.rows import OUTSIDE_THE_TILE_LOOP
from .profile import RECORDS, Profile, Target, load

SCHEDULERS = 4
"""Of a multiprocessor; each issues at most one instruction a cycle."""

LOADS, STORES = ("LDS", "LDSM"), ("STS", "STSM")


@dataclass(frozen=True)
class Evidence:
    """Numbers from one profile. None: ncu did not give the counter, or there was no trace to compare with."""

    stage: str
    v_split: int
    sms: int  # of the GPU on which it was counted
    blocks_per_sm: int
    barriers: int | None  # that a block passes in a tile; None for a file of your own
    instructions: float  # warp instructions of the loop over tiles
    wavefronts: float  # of shared memory: loads and stores of the loop over tiles, copies left out
    load_excess: float | None  # of these, what bank conflicts add
    store_excess: float | None
    cycles: float | None  # cycles of a multiprocessor
    l1_pct: float | None
    l2_pct: float | None
    dram_pct: float | None
    tensor_pct: float | None
    shared_cycles: float | None  # cycles in which shared memory works, copies too
    stalls: dict[str, float]  # as in Profile

    @property
    def excess(self) -> float | None:
        """Wavefronts that bank conflicts add."""
        if self.load_excess is None or self.store_excess is None:
            return None
        return self.load_excess + self.store_excess

    @property
    def l1_cycles(self) -> float | None:
        """Cycles in which L1 and shared memory work."""
        if self.cycles is None or self.l1_pct is None:
            return None
        return self.cycles * self.l1_pct / 100

    @property
    def other_l1_cycles(self) -> float | None:
        """Cycles in which they work on something else than shared memory: on global memory."""
        if self.l1_cycles is None or self.shared_cycles is None:
            return None
        return self.l1_cycles - self.shared_cycles

    @property
    def shared_pct(self) -> float | None:
        """Shared memory's part of the busy cycles, in percent."""
        if not self.l1_cycles or self.shared_cycles is None:
            return None
        return 100 * self.shared_cycles / self.l1_cycles

    @property
    def longest_wait(self) -> str | None:
        """What warps wait for most, by ncu's name."""
        return longest_wait(self.stalls)

    def busiest(self, at_least: float = 0.9) -> list[tuple[str, float]]:
        """The units that work most, and for how many percent of the time: the busiest first, and all others
        that have at least this part of its percentage.
        """
        units = {"L1": self.l1_pct, "L2": self.l2_pct, "DRAM": self.dram_pct, "tensor cores": self.tensor_pct}
        known = {name: percent for name, percent in units.items() if percent is not None}
        most = max(known.values(), default=0.0)
        found = [one for one in known.items() if one[1] >= at_least * most]
        return sorted(found, key=lambda one: -one[1])


EvidenceMap = dict[tuple[str, int], Evidence]
"""By stage and VSplit."""


def evidence(profile: Profile) -> Evidence:
    """The numbers of one profile."""
    work = Target(profile.stage, profile.v_split, profile.config, profile.heads).work
    rows = [row for row in profile.shared if row.section not in OUTSIDE_THE_TILE_LOOP]
    counted = profile.counters.get
    wavefronts, issuing = counted("shared_wavefronts"), counted("issue_pct")
    instructions = counted("instructions")
    cycles = None
    if issuing and instructions is not None:
        cycles = instructions / (SCHEDULERS * issuing / 100) / work.tiles

    def excess(kinds: tuple[str, ...]) -> float | None:
        found = [row.excess for row in rows if row.op in kinds]
        return None if None in found else sum(found)

    return Evidence(
        stage=profile.stage,
        v_split=profile.v_split,
        sms=profile.provenance.sms,
        blocks_per_sm=profile.blocks_per_sm,
        barriers=barriers(profile.stage),
        instructions=sum(
            row.instructions for row in profile.lines if row.section not in OUTSIDE_THE_TILE_LOOP
        ),
        wavefronts=sum(row.wavefronts for row in rows if row.op in LOADS + STORES),
        load_excess=excess(LOADS),
        store_excess=excess(STORES),
        cycles=cycles,
        l1_pct=counted("l1_pct"),
        l2_pct=counted("l2_pct"),
        dram_pct=counted("dram_pct"),
        tensor_pct=counted("tensor_pct"),
        shared_cycles=None if wavefronts is None else wavefronts / work.tiles,
        stalls=profile.stalls,
    )


def barriers(stage: str) -> int | None:
    """Block barriers in a stage's loop over tiles, as its file has them; None for an unknown stage."""
    try:
        source = stage_named(stage).source
    except BadInput:
        return None
    return sum(
        "__syncthreads()" in line
        for number, line in enumerate(source.code_lines, 1)
        if source.sections.get(number) not in OUTSIDE_THE_TILE_LOOP
    )


def of_profiles(found: Iterable[Profile]) -> EvidenceMap:
    """By stage and VSplit; of several profiles the newest."""
    in_order = sorted(found, key=lambda one: one.provenance.date)
    return {(one.stage, one.v_split): evidence(one) for one in in_order}


@cache
def recorded_profiles() -> tuple[Profile, ...]:
    """Every profile that comes with the package."""
    return tuple(one for path in sorted(RECORDS.glob("*.json")) for one in load(path))


@cache
def recorded() -> EvidenceMap:
    """What the profiles say that come with the package."""
    return of_profiles(recorded_profiles())


def banner(found: Iterable[Profile]) -> str:
    """Whose counters these are: the newest profile's GPU and date."""
    newest = max(found, key=lambda one: one.provenance.date, default=None)
    if newest is None:
        return "No counters were recorded, so there are no reasons."
    where = newest.provenance
    return f"The reasons come from counters read on {where.date[:10]} on an {where.gpu}."
