"""The word `measure`: a stage's time beside its base's and beside the article's figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..display.banners import INTERVAL, NOT_RECORDED, batch_words, measured_banner, missing_banner
from ..display.parts import Banner, Cell, Part, Sentence, Shown, Table, Value, decimal, interval, percent
from ..display.steps import Steps
from ..ground.errors import BadInput, MachineUnavailable
from ..ground.given import several
from ..ground.say import heard_by
from ..kernel_a.batch import CONFIGS, Config
from ..machines.device import choose_machine
from ..performance.explained import ladder
from ..performance.ladder_rows import LadderRow
from ..performance.verdicts import OPPOSITE, OTHER_SIZE, REPRODUCED, SMALL_PCT, WITHIN_FACTOR, WITHIN_NOISE
from ..records.article import H20_SMS, article_delta, article_us
from ..sources.stages import stage as stage_named
from .blocks import Blocks, Times, measure_blocks

if TYPE_CHECKING:
    from ..display.figure import Chart


VERDICTS = {
    REPRODUCED: f"the same direction as the article's, and within a factor of {WITHIN_FACTOR:g}",
    OTHER_SIZE: f"the same direction, and more than a factor of {WITHIN_FACTOR:g} apart",
    WITHIN_NOISE: f"the interval holds zero, or both changes are below {SMALL_PCT} %",
    OPPOSITE: "faster here and slower in the article, or the other way round",
}
"""What each verdict means."""


@dataclass(frozen=True)
class Timing:
    """One config: a stage's time and its base's. None: not measured, or no figure in the article."""

    config: str  # "B32/T8192": 32 sequences of 8192 tokens
    ms: float | None
    interval_ms: tuple[float, float] | None
    base_ms: float | None
    delta_pct: float | None  # against the base; negative: faster
    delta_interval_pct: tuple[float, float] | None
    article_ms: float | None
    article_delta_pct: float | None
    verdict: str | None  # as `performance.verdicts.verdict` gives it
    reason: str | None
    v_split: int | None = None  # blocks that share a state's columns
    blocks: int | None = None  # of the stage that fit an SM
    base_blocks: int | None = None


@dataclass(frozen=True, repr=False)
class Measured(Times):
    """A stage's times, measured now or recorded. `against`: what it is compared with, None for the first."""

    stage: str
    against: str | None
    rows: list[Timing]
    banner: Banner
    recorded: bool
    heads: int = 32
    sms: int | None = None  # of the GPU, or of the part of it that was used; None: not measured

    def row(self, config: str | None = None) -> Timing:
        """The row of a config (None: the first). Raises BadInput if it was not asked for."""
        for row in self.rows:
            if config in (None, row.config):
                return row
        there = ", ".join(row.config for row in self.rows)
        raise BadInput(f"The config {config!r} was asked for and {there} were measured: give one of these.")

    def chart(self) -> Chart:
        """The changes as a figure, beside the article's."""
        from ..display.ladder_charts import Change, delta_chart

        changes = [
            Change(row.config, row.delta_pct, row.delta_interval_pct, row.article_delta_pct)
            for row in self.rows
        ]
        return delta_chart(self.stage, self.against, changes, self.banner.words)

    def reasons(self) -> Reasons:
        """Why each verdict is what it is, by the counters: for a later cell, since it tells the answer."""
        return Reasons(self.stage, self.rows)

    def parts(self) -> list[Part]:
        return [self.banner, self.table(), *self.notes()]

    def notes(self) -> list[Part]:
        """What must be known to read the table."""
        config = self.rows[0].config
        columns = f"{config}: {batch_words(config)}. ms: the median of one launch. {INTERVAL}"
        if self.against is not None:
            columns += f" change: {self.stage} against {self.against}. article: on an H20 ({H20_SMS} SMs)."
        notes = [columns]
        if not self.missing:
            notes.append(
                "VSplit: how many blocks share the columns of one state. blocks: how many fit an SM at a time"
                f"{'' if self.against is None else f', of {self.against} and of {self.stage}'}."
                f"{''.join(map(self._few_blocks, self.rows))}"
            )
        verdicts = [f"{name}: {words}" for name, words in VERDICTS.items() if name in self._verdicts()]
        if verdicts:
            notes.append(f"Verdicts. {'; '.join(verdicts)}.")
        return [Sentence(words, quiet=True) for words in notes]

    def table(self) -> Table:
        """The times."""
        headers = ["", "VSplit", "blocks", f"{self.stage}, ms", "interval"]
        if self.against is not None:
            headers.insert(3, f"{self.against}, ms")
            headers += ["change", "interval", "article", "verdict"]
        rows = [self._cells(row) for row in self.rows]
        return Table(headers, rows).without_blanks()

    def _cells(self, row: Timing) -> list[Value]:
        none = Cell(NOT_RECORDED, "quiet", right=True)
        time = none if row.ms is None else decimal(row.ms, 2)
        launch = [row.config, row.v_split]
        if self.against is None:
            return [*launch, row.blocks, time, interval(row.interval_ms, 2)]
        blocks = "" if row.blocks is None else f"{row.base_blocks or '?'}, {row.blocks}"
        return [
            *launch,
            Cell(blocks, right=True),
            none if row.base_ms is None else decimal(row.base_ms, 2),
            time,
            interval(row.interval_ms, 2),
            percent(row.delta_pct),
            interval(row.delta_interval_pct),
            percent(row.article_delta_pct),
            row.verdict or "",
        ]

    def _verdicts(self) -> set[str | None]:
        return {row.verdict for row in self.rows}

    def _few_blocks(self, row: Timing) -> str:
        """A sentence if a config has so few blocks that none shares its SM, however many would fit."""
        if self.sms is None or row.v_split is None:
            return ""
        launched = Config.parse(row.config).sequences * self.heads * row.v_split
        if launched > self.sms:
            return ""
        return f" {row.config} has only {launched} blocks for {self.sms} SMs, so no two share an SM."


@dataclass(frozen=True, repr=False)
class Reasons(Shown):
    """The verdicts on a stage's times with a sentence each."""

    stage: str
    rows: list[Timing]

    def parts(self) -> list[Part]:
        rows: list[list[Value]] = [[row.config, row.verdict or "", row.reason or ""] for row in self.rows]
        return [Table([self.stage, "verdict", "why"], rows, wrap="why").without_blanks()]


def measure(
    stage: str,
    against: str | None = None,
    configs: str | Sequence[str] | None = None,
    *,
    sms: int | None = None,
    heads: int = 32,
    live: bool | None = None,
    blocks: Sequence[int] | None = None,
) -> Measured | Blocks:
    """Time a stage and its base: live on a Hopper GPU, in a child process, else from the newest record.

    against: another stage to compare with. configs: one or more such as "B32/T8192", 32 sequences of 8192
    tokens; None takes the article's three. sms: use only so many SMs. live: True measures or raises
    MachineUnavailable, False never measures, None measures where it can. blocks: time this stage alone with
    so many blocks on an SM instead, at one config; see `kda_learn.lessons.blocks.measure_blocks`.

    The result says in its banner where the figures come from. Without a GPU and without a record the times
    are None and shown as "not recorded". Raises BadInput for a stage or config that is unknown.
    """
    name = stage_named(stage).id
    base = stage_named(against).id if against is not None else stage_named(name).base
    if blocks is not None:
        options = {} if configs is None else {"config": configs if isinstance(configs, str) else configs[0]}
        return measure_blocks(name, blocks, sms=sms, heads=heads, live=live, **options)
    wanted = [configs] if isinstance(configs, str) else CONFIGS if configs is None else configs
    wanted = several("configs", wanted, "shapes of a batch, such as ['B32/T8192']")
    if live is None:
        live = choose_machine("auto") == "gpu"
    names = [one for one in (base, name) if one is not None]
    try:
        with Steps(1 + len(names) + len(wanted)) as steps, heard_by(steps.step):
            found = ladder(stages=names, configs=wanted, sms=sms, heads=heads, live=live)
    except MachineUnavailable as missing:
        if live:
            raise
        rows = [_timing({}, name, base, config) for config in wanted]
        return Measured(name, base, rows, missing_banner(str(missing)), recorded=False)
    by_place = {(row.stage, row.config): row for row in found.rows}
    result = Measured(
        stage=name,
        against=base,
        rows=[_timing(by_place, name, base, config) for config in wanted],
        banner=measured_banner(found.banner, recorded=found.recorded),
        recorded=found.recorded,
        heads=found.heads,
        sms=found.sms,
    )
    if live:
        _measured_now[name, base] = result
    return result


_measured_now: dict[tuple[str, str | None], Measured] = {}


def latest(stage: str, against: str | None) -> Measured:
    """What this process measured last of a stage and its base, else the recorded times: measures nothing."""
    return _measured_now.get((stage, against)) or measure(stage, against, live=False)


def _timing(by_place: dict[tuple[str, str], LadderRow], stage: str, base: str | None, config: str) -> Timing:
    """One row from those of the ladder, by stage and config.

    The ladder compares a stage with its own base, round by round. Where another one was asked for and only
    medians are known, the change has no interval and so no verdict.
    """
    row = by_place.get((stage, config))
    base_row = by_place.get((base or "", config))
    us, base_us = row and row.median_us, base_row and base_row.median_us
    delta, interval_pct, verdict, reason = None, None, None, row and row.reason
    if row is not None and base is not None and row.base == base:
        delta, interval_pct, verdict = row.delta_pct, row.delta_ci_pct, row.verdict
    elif us is not None and base_us is not None:
        delta, reason = (us / base_us - 1) * 100, "only the two medians are known"
    article = article_us(stage, config)
    return Timing(
        config=config,
        ms=None if us is None else us / 1000,
        interval_ms=_pair(row and row.ci_us, 1 / 1000),
        base_ms=None if base_us is None else base_us / 1000,
        delta_pct=delta,
        delta_interval_pct=_pair(interval_pct),
        article_ms=None if article is None else article / 1000,
        article_delta_pct=article_delta(stage, base, config),
        verdict=verdict,
        reason=reason,
        v_split=row and row.v_split,
        blocks=row and row.blocks_per_sm,
        base_blocks=base_row and base_row.blocks_per_sm,
    )


def _pair(ends: Sequence[float] | None, scale: float = 1.0) -> tuple[float, float] | None:
    return None if ends is None else (ends[0] * scale, ends[1] * scale)
