"""The word `card`: a stage beside its base: code, compiler, shared memory, time, binding stall."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from ..display.banners import NOT_HERE, NOT_RECORDED, missing_banner
from ..display.glossary import OPCODES, REASONS, plain
from ..display.parts import Cell, Part, Sentence, Shown, Table, Value, whole
from ..ground.errors import MachineUnavailable
from ..sources.stages import stage as stage_named
from .changes import Difference, diff
from .compiling import Build, Histogram, compile
from .measuring import Measured
from .measuring import latest as latest_times
from .profiling import Profiled, banners
from .profiling import latest as latest_profile
from .tracing import Trace, trace

SASS = ("LDS", "LDSM", "STS", "STSM", "LDGSTS", "HMMA", "BAR")
"""The machine instructions that a card counts."""

NOTE = (
    "Blocks on an SM: in brackets their share of its 64 warps. LDS to BAR: machine instructions (SASS) that "
    "stand in the code, each counted once, however often it runs. Excess: wavefronts that bank conflicts "
    "cost. Binding stall: what warps wait for most, in percent of their time"
)
Result = TypeVar("Result")


@dataclass(frozen=True, repr=False)
class Side:
    """One stage on a card. What this computer cannot give is None."""

    stage: str
    build: Build | None
    histogram: Histogram | None
    trace: Trace | None
    profile: Profiled


@dataclass(frozen=True, repr=False)
class Card(Shown):
    """A stage beside its base. `sides`: the base, if there is one, then the stage itself; `this` is the last.

    gaps: why something is None, one sentence each.
    """

    stage: str
    base: str | None
    title: str
    difference: Difference | None
    sides: list[Side]
    measured: Measured
    gaps: list[str] = field(default_factory=list)

    @property
    def this(self) -> Side:
        """The stage itself."""
        return self.sides[-1]

    def parts(self) -> list[Part]:
        names = [side.stage for side in self.sides]
        profiles = [side.profile for side in self.sides if not side.profile.missing]
        return [
            Table(["", *names], self._rows(), caption=f"{self.stage}: {self.title}"),
            Sentence(self._note(), quiet=True),
            *(missing_banner(gap, NOT_HERE) for gap in self.gaps),
            self.measured.banner,
            self.measured.table(),
            *self.measured.notes(),
            *banners(profiles),
        ]

    def _note(self) -> str:
        """What must be known to read the table."""
        found = dict.fromkeys(side.profile.binding_stall for side in self.sides)
        stalls = [f"{plain(reason)}: {REASONS[reason]}" for reason in found if reason in REASONS]
        return f"{NOTE} ({'; '.join(stalls)})." if stalls else f"{NOTE}."

    def _rows(self) -> list[list[Value]]:
        rows: list[list[Value]] = []

        def row(name: str, value: Callable[[Side], Value]) -> None:
            rows.append([name, *map(value, self.sides)])

        if self.difference is not None:
            size = f"{self.difference.all_code_lines} in {_hunks(self.difference.all_hunks)}"
            rows.append(["lines of code changed", None, Cell(size, right=True)])
        row("registers a thread", lambda side: _count(side.build and side.build.registers))
        row("spilled bytes a thread", lambda side: _count(side.build and side.build.spill_bytes))
        row("bytes of shared memory a block", lambda side: _count(side.build and side.build.shared_memory))
        row("blocks on an SM", _occupancy)
        for opcode in SASS:
            counts = [side.histogram and side.histogram[opcode] for side in self.sides]
            rows.append([f"{opcode}: {OPCODES[opcode]}", *map(_count, counts)])
        row("wavefronts a tile", lambda side: _count(side.trace and side.trace.wavefronts()))
        row("of these in excess", lambda side: _count(side.trace and side.trace.excess()))
        row("binding stall", _stall)
        return rows


def card(stage: str) -> Card:
    """A stage's card, beside its base's.

    Times and stalls are what this session measured last, else the newest record: a card measures nothing
    itself. What is neither shows as "not recorded". Raises BadInput for an unknown stage.
    """
    this = stage_named(stage)
    gaps: list[str] = []
    return Card(
        stage=this.id,
        base=this.base,
        title=this.title,
        difference=None if this.base is None else diff(this.id),
        sides=[_side(name, gaps) for name in (this.base, this.id) if name is not None],
        measured=latest_times(this.id, this.base),
        gaps=gaps,
    )


def _side(name: str, gaps: list[str]) -> Side:
    """One stage, as far as this computer goes; the reasons for what is missing go to `gaps`."""
    build = _attempt(lambda: compile(name), gaps)
    return Side(
        stage=name,
        build=build,
        histogram=None if build is None else _attempt(build.sass_histogram, gaps),
        trace=_attempt(lambda: trace(name), gaps),
        profile=latest_profile(name),
    )


def _attempt(get: Callable[[], Result], gaps: list[str]) -> Result | None:
    try:
        return get()
    except MachineUnavailable as missing:
        if str(missing) not in gaps:
            gaps.append(str(missing))
        return None


def _count(value: int | None) -> Cell:
    return Cell(NOT_HERE.lower(), "quiet", right=True) if value is None else whole(value)


def _occupancy(side: Side) -> Cell:
    if side.build is None:
        return _count(None)
    return Cell(f"{side.build.blocks_per_sm} ({side.build.occupancy.percent:.1f} %)", right=True)


def _stall(side: Side) -> Cell:
    reason = side.profile.binding_stall
    if reason is None:
        return Cell(NOT_RECORDED, "quiet", right=True)
    return Cell(f"{plain(reason)} {side.profile.stalls[reason]:.0f} %", right=True)


def _hunks(number: int) -> str:
    return f"{number} {'hunk' if number == 1 else 'hunks'}"
