"""The word `profile`: the hardware's counters of a stage, what its warps wait for, and where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..display.banners import NOT_RECORDED, batch_words, gpu_words, measured_banner, missing_banner
from ..display.glossary import (
    COUNTED,
    NCU_NOTE,
    REASONS,
    SAMPLES_NOTE,
    STALLS_NOTE,
    SURPLUS_NOTE,
    WAVEFRONTS_NOTE,
    plain,
)
from ..display.parts import Banner, Bar, Cell, Part, Sentence, Shown, Table, Value, decimal, percent, whole
from ..display.steps import Steps
from ..ground.errors import BadInput, MachineUnavailable
from ..ground.say import heard_by
from ..machines.device import choose_machine
from ..performance.profile import CONFIG, HEADS, Profile, recorded
from ..performance.profile_measure import profile as profile_once
from ..profiling.counters import COUNTERS, longest_wait
from ..sources.kernel_source import KernelSource
from ..sources.stages import as_stage

if TYPE_CHECKING:
    from ..sources.stages import Stage


SHOWN = (
    "occupancy_pct",
    "warps_eligible",
    "issue_pct",
    "cycles_per_instruction",
    "l1_pct",
    "dram_pct",
    "tensor_pct",
)
"""The counters of a first look; `.counters` has all."""

MOST_REASONS = 8

SURPLUS_PCT = 0.5
"""Differences between counted and simulated wavefronts from which on a note explains them."""


@dataclass(frozen=True, repr=False)
class Profiled(Shown):
    """A stage's profile, measured now or recorded; `profile` is None where there is neither.

    `counters`, `stalls`, `lines`, `shared` and `comparisons` are those of `performance.profile.Profile`;
    empty without a profile.
    """

    stage: str
    profile: Profile | None
    source: KernelSource
    reason: str = ""  # why there is none
    base: Profiled | None = None

    @property
    def missing(self) -> bool:
        """Whether nothing was measured and nothing recorded."""
        return self.profile is None

    @property
    def counters(self) -> dict[str, float]:
        """The whole kernel's counters by name."""
        return {} if self.profile is None else self.profile.counters

    @property
    def stalls(self) -> dict[str, float]:
        """What a warp's time goes into, in percent: reason -> share, the largest first."""
        found = {} if self.profile is None else self.profile.stalls
        total = sum(found.values())
        return {reason: 100 * value / total for reason, value in found.items()}

    @property
    def binding_stall(self) -> str | None:
        """The reason for which warps wait most; None without a profile."""
        return longest_wait(self.stalls)

    def wavefronts(self, name: str, *, simulated: bool = False) -> float | None:
        """Wavefronts of shared memory a tile: counted by the hardware or (simulated) from the trace.

        name: "loads", "stores", or a class of machine instructions such as "LDSM". None without a profile.
        Raises BadInput for a name that was not counted.
        """
        if self.profile is None:
            return None
        for row in self.profile.comparisons:
            if row.name == name:
                return row.simulated if simulated else row.measured
        there = ", ".join(row.name for row in self.profile.comparisons)
        raise BadInput(f"{name!r} was given and not counted: give one of {there}.")

    def by_line(self, top: int = 10) -> ProfiledLines:
        """The lines at which most warps were found, and what they waited for."""
        rows = [] if self.profile is None else list(self.profile.lines)
        rows.sort(key=lambda row: -row.samples)
        return ProfiledLines(self.stage, rows[:top], self.source)

    def parts(self) -> list[Part]:
        shown = [one for one in (self.base, self) if one is not None]
        parts: list[Part] = list(banners(shown))
        if all(one.missing for one in shown):
            return parts
        names = [one.stage for one in shown]
        parts.append(Table(["", *names, "what it is"], list(_counter_rows(shown))))
        parts.append(Table(["a warp waits", *names, "", ""], list(_stall_rows(shown))))
        parts.append(Table(["wavefronts a tile", *_twice(names)], list(_wavefront_rows(shown))))
        notes = [STALLS_NOTE, WAVEFRONTS_NOTE]
        if any(map(_has_surplus, shown)):
            notes.append(SURPLUS_NOTE)
        launch = f"{NCU_NOTE} The launch: {' and '.join(dict.fromkeys(_launches(shown)))}."
        return [*parts, Sentence(" ".join(notes), quiet=True), Sentence(launch, quiet=True)]


@dataclass(frozen=True, repr=False)
class ProfiledLines(Shown):
    """Lines of a stage with their share of the samples; `rows` are `kda_learn.profiling.rows.LineRow`s."""

    stage: str
    rows: list
    source: KernelSource

    def parts(self) -> list[Part]:
        if not self.rows:
            return [Sentence(f"The lines of {self.stage}: {NOT_RECORDED}.")]
        widest = max(row.share_pct for row in self.rows) or 1
        shown: list[list[Value]] = [
            [
                row.line or "",
                row.section,
                decimal(row.share_pct, unit=" %"),
                Bar(row.share_pct / widest),
                plain(next(iter(row.stalls), "")),
                _code(self.source, row.line),
            ]
            for row in self.rows
        ]
        headers = ["line", "section", "of all samples", "", "mostly", "code"]
        table = Table(headers, shown, caption=f"{self.source.path.name}: where warps were found")
        return [table, Sentence(SAMPLES_NOTE, quiet=True)]


def profile(
    stage: Stage | str | Path,
    against: Stage | str | None = None,
    *,
    v_split: int = 1,
    config: str = CONFIG,
    heads: int = HEADS,
) -> Profiled:
    """Profile a stage: with ncu on a Hopper GPU, else the newest record.

    against: another stage to set beside it. v_split, config, heads: as `performance.profile_measure.profile`.
    Where nothing can be measured and nothing was recorded the result says so and is `missing`. Raises
    BadInput for an argument that does not fit.
    """

    def one(which: Stage | str | Path) -> Profiled:
        def measure() -> Profile:
            return profile_once(which, config=config, v_split=v_split, heads=heads)

        found = _profiled(which, measure)
        if found.profile is not None and not found.profile.recorded:
            _measured_now[found.stage] = found
        return found

    with Steps(4 if against is None else 8) as steps, heard_by(steps.step):
        base = None if against is None else one(against)
        return replace(one(stage), base=base)


_measured_now: dict[str, Profiled] = {}


def latest(stage: str) -> Profiled:
    """What this process measured last of a stage, else the record: measures nothing."""

    def from_record() -> Profile:
        found = recorded(stage)
        if found is None:
            raise MachineUnavailable(f"There is no recorded profile of {stage}.")
        return found

    return _measured_now.get(stage) or _profiled(stage, from_record)


def _profiled(stage: Stage | str | Path, get: Callable[[], Profile]) -> Profiled:
    """What `get` gives, or what it says is missing.

    Without a GPU there is no more to say about why a recorded one was not measured.
    """
    kernel = as_stage(stage)
    name, source = kernel.id, kernel.source
    try:
        found = get()
        if choose_machine("auto") != "gpu":
            found = replace(found, reason="")
        return Profiled(name, found, source)
    except MachineUnavailable as missing:
        return Profiled(name, None, source, str(missing))


def banners(shown: Sequence[Profiled]) -> Iterator[Banner]:
    """Where the counters of some stages come from; stages that come from one place share a banner."""
    has_gpu = choose_machine("auto") == "gpu"
    stages_of: dict[Banner, list[str]] = {}
    for one in shown:
        if one.profile is None:
            found = missing_banner(one.reason if has_gpu else "There is no Hopper GPU here to count on.")
        elif one.profile.recorded:
            found = measured_banner(one.profile.banner(), recorded=True)
        else:
            found = measured_banner(f"Counted now on {gpu_words()}.", recorded=False)
        stages_of.setdefault(found, []).append(one.stage)
    for found, stages in stages_of.items():
        yield replace(found, words=f"Counters of {' and '.join(stages)}. {found.words}")


def _counter_rows(shown: Sequence[Profiled]) -> Iterator[list[Value]]:
    for counter in COUNTERS:
        if counter.name not in SHOWN or not any(counter.name in one.counters for one in shown):
            continue
        unit = f" {counter.unit}" if counter.unit else ""
        values = [decimal(one.counters.get(counter.name), unit=unit) for one in shown]
        yield [counter.name.removesuffix("_pct").replace("_", " "), *values, counter.meaning]


def _stall_rows(shown: Sequence[Profiled]) -> Iterator[list[Value]]:
    """Reasons, the largest share in any of them first."""
    stalls = [one.stalls for one in shown]
    reasons = sorted(
        {reason for found in stalls for reason in found},
        key=lambda reason: -max(found.get(reason, 0) for found in stalls),
    )
    for reason in reasons[:MOST_REASONS]:
        shares = [found.get(reason) for found in stalls]
        values = [Cell("" if share is None else f"{share:.1f} %", right=True) for share in shares]
        yield [plain(reason), *values, Bar((shares[-1] or 0) / 100), REASONS.get(reason, "")]


def _wavefront_rows(shown: Sequence[Profiled]) -> Iterator[list[Value]]:
    """Loads and stores by the whole kernel's counters, then by machine instruction."""
    rows = [{row.name: row for row in one.profile.comparisons} if one.profile else {} for one in shown]
    for name, words in COUNTED.items():
        if not any(name in found for found in rows):
            continue
        cells: list[Value] = []
        for found in rows:
            row = found.get(name)
            cells += [whole(row and row.measured), whole(row and row.simulated)]
            cells.append(percent(row and row.difference_pct))
        yield [words, *cells]


def _has_surplus(one: Profiled) -> bool:
    """Whether the whole kernel's counters differ visibly from the trace."""
    rows = one.profile.comparisons if one.profile else []
    return any(
        row.name in ("loads", "stores") and abs(row.difference_pct or 0) >= SURPLUS_PCT for row in rows
    )


def _launches(shown: Sequence[Profiled]) -> Iterator[str]:
    """The launches that were counted, in words."""
    for one in shown:
        if one.profile is not None:
            batch = batch_words(one.profile.config)
            yield f"{batch}, {one.profile.heads} heads, VSplit {one.profile.v_split}"


def _twice(names: Sequence[str]) -> list[str]:
    return [f"{name}, {what}" for name in names for what in ("counted", "simulated", "difference")]


def _code(source: KernelSource, line: int) -> str:
    """A line of the source, cut where it gets long."""
    text = source.lines[line - 1].strip() if 0 < line <= len(source.lines) else ""
    return text if len(text) <= 70 else f"{text[:67]}..."
