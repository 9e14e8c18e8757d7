"""Figures that stand still: the ladder, changes beside the article's, occupancy, fewer blocks on an SM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import rc_context
from matplotlib.patches import Patch

from ..ground.errors import BadInput, MachineUnavailable
from ..hardware.limits import HOPPER, KIB
from ..hardware.occupancy import blocks_per_sm, room_for_blocks
from ..kernel_a.variants import compile_stage, shared_memory_of, threads_of
from ..performance.blocks import BlocksRow
from ..performance.explained import ladder
from ..performance.ladder_rows import Ladder, LadderRow
from ..records.article import H20_SMS, article_delta
from ..records.article import figures as article_figures
from ..sources.stages import LADDER, STAGES, Stage, as_stage
from .figure import ARTICLE, FAINT, GREY, OURS, SIZES, Chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CONFIG = "B32/T8192"
CLOSE = 12 * KIB
"""Bytes of shared memory between two stages that share a label."""


def ladder_chart(config: str = CONFIG, *, sms: int | None = None, result: Ladder | None = None) -> Chart:
    """Every stage's change against its base, in percent, beside the article's; above it the times.

    result: what `ladder` gave (None: the newest record; the article alone if there is none).
    config, sms: as there. Raises BadInput for a config that the result does not have.
    """
    here, label, caption = _ladder_rows(config, sms, result)
    changes = []
    for stage in LADDER:
        row = here.get(stage.id)
        article = article_delta(stage.id, stage.base, config)
        changes.append(Change(stage.id, row and row.delta_pct, row and row.delta_ci_pct, article))
    with rc_context(SIZES):
        figure = Chart(figsize=(7.2, 4.6 if here else 3.2), layout="constrained")
        if here:
            top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[1, 1.25])
            _times(top, [here[stage.id].median_us if stage.id in here else None for stage in LADDER])
        else:
            bottom = figure.subplots()
        _changes(bottom, changes, label)
        bottom.set_title(f"change of the time against its base, %  ({config})")
    figure.alt = f"Change of each stage's time against its base at {config}. {_in_words(changes)}."
    figure.caption = caption
    return figure


@dataclass(frozen=True)
class Change:
    """One pair of bars: a change in percent with its interval, and the article's. None: not known."""

    name: str
    delta_pct: float | None
    interval_pct: Sequence[float] | None
    article_pct: float | None


def delta_chart(stage: str, against: str | None, changes: Sequence[Change], caption: str) -> Chart:
    """A stage's change against another at each config, beside the article's."""
    with rc_context(SIZES):
        figure = Chart(figsize=(5.6, 2.8), layout="constrained")
        axes = figure.subplots()
        _changes(axes, changes)
        axes.set_title(f"{stage} against {against}: change of the time, %")
    figure.alt = f"{stage} against {against}. {_in_words(changes)}."
    figure.caption = caption
    return figure


def occupancy_chart(
    *stages: str | Stage, registers: int = 64, threads: int | None = None, v_split: int = 1
) -> Chart:
    """How many blocks fit an SM, over the shared memory that a block asks for; stages marked where they are.

    stages: which to mark (none: all). registers of a thread, threads of a block (None: the stages'): for the
    line; each stage is drawn with its own registers. Raises BadInput for an unknown stage, MachineUnavailable
    without a compiler.
    """
    shown = [as_stage(stage) for stage in stages or STAGES]
    threads = threads or threads_of(shown[0])
    sm = HOPPER
    bytes_per_block = np.arange(0, sm.shared_memory_per_block + 1, 128)
    blocks = [blocks_per_sm(registers, int(size), threads).blocks for size in bytes_per_block]
    places = []
    for stage in shown:
        compiled = compile_stage(stage, v_split)
        smem = shared_memory_of(stage, v_split)
        places.append((blocks_per_sm(compiled.registers, smem, threads).blocks, smem, stage.id))
    places.sort()
    with rc_context(SIZES):
        figure = Chart(figsize=(7.2, 3.2), layout="constrained")
        axes = figure.subplots()
        axes.step(bytes_per_block / KIB, blocks, where="post", color=GREY, linewidth=1.3)
        for group in _neighbours(places):
            for count, size, _ in group:
                axes.plot(size / KIB, count, "o", color=OURS, markersize=6)
            count, size, _ = group[0]
            label = ", ".join(name for _, _, name in group[:3]) + (" ..." if len(group) > 3 else "")
            axes.annotate(label, (size / KIB, count), xytext=(0, 8), textcoords="offset points")
        axes.set_xlabel("shared memory a block asks for, KiB")
        axes.set_title(f"blocks on an SM ({threads} threads a block; line: {registers} registers a thread)")
        axes.set_ylim(0, max(blocks) + 1.2)
        axes.set_xlim(0, sm.shared_memory_per_block / KIB)
        axes.yaxis.get_major_locator().set_params(integer=True)
        axes.grid(axis="y", color=FAINT, linewidth=0.6)
    steps = "; ".join(
        f"{count} up to {room_for_blocks(count, 0):,} bytes" for count in range(1, min(max(blocks), 4) + 1)
    )
    marks = "; ".join(f"{name}: {size:,} bytes, {count}" for count, size, name in places)
    figure.alt = f"Blocks on an SM by the shared memory of a block: {steps}. Marked: {marks}."
    figure.caption = "By the hardware's rule: 228 KiB an SM, 1 KiB of it taken from every block."
    return figure


def extra_smem_chart(rows: Sequence[BlocksRow], title: str, caption: str) -> Chart:
    """A stage's time with fewer and fewer blocks on an SM. title: such as "s02, B32/T8192".

    Raises BadInput if no row has a time.
    """
    rows = [row for row in rows if row.ms is not None]
    if not rows:
        raise BadInput(
            "These blocks were not timed, there is nothing to draw: measure them on a GPU, live=True."
        )
    with rc_context(SIZES):
        figure = Chart(figsize=(5.6, 3.0), layout="constrained")
        axes = figure.subplots()
        counts = [row.blocks for row in rows]
        times = np.array([row.ms for row in rows])
        ends = np.array([row.interval_ms or (row.ms, row.ms) for row in rows])
        axes.errorbar(
            counts,
            times,
            yerr=[times - ends[:, 0], ends[:, 1] - times],
            color=OURS,
            marker="o",
            capsize=4,
            linewidth=1.3,
        )
        for count, time, row in zip(counts, times, rows, strict=True):
            text = f"{time:.2f}" if row.delta_pct is None else f"{time:.2f} ({row.delta_pct:+.1f} %)"
            axes.annotate(text, (count, time), xytext=(0, 8), textcoords="offset points", ha="center")
        axes.set_xticks(counts)
        axes.set_xlim(min(counts) - 0.5, max(counts) + 0.5)
        axes.set_ylim(0, times.max() * 1.25)
        axes.set_xlabel("blocks on an SM")
        axes.set_title(f"{title}: ms a launch")
        axes.grid(axis="y", color=FAINT, linewidth=0.6)
    said = "; ".join(f"{_blocks(row.blocks)}: {row.ms:.2f} ms" for row in rows)
    figure.alt = f"{title}, with fewer blocks on an SM. {said}."
    figure.caption = caption
    return figure


def _ladder_rows(
    config: str, sms: int | None, result: Ladder | None
) -> tuple[dict[str, LadderRow], str, str]:
    """The rows of one config by stage (none without a record), the machine, and the caption."""
    known = article_figures()["configs"]
    if result is None:
        try:
            result = ladder(configs=[config], sms=sms, live=False)
        except MachineUnavailable:
            if config not in known:
                raise BadInput(
                    f"The config {config!r} was given, of which nothing is known: give one of "
                    f"{', '.join(known)}."
                ) from None
            return {}, "", f"The article's figures, for an H20 with {H20_SMS} SMs. Our own are not recorded."
    rows = {row.stage: row for row in result.rows if row.config == config}
    if not rows:
        there = ", ".join(dict.fromkeys(row.config for row in result.rows)) or "none"
        raise BadInput(f"The config {config!r} was given, and these were measured: {there}.")
    machine = f"{result.machine}, {result.sms} SMs"
    return rows, machine, f"{result.banner} Article: an H20 with {H20_SMS} SMs."


def _neighbours(places: Sequence[tuple[int, int, str]]) -> Iterator[list[tuple[int, int, str]]]:
    """Stages (blocks, bytes, name), in order, in groups that lie so close that they need one label."""
    group: list[tuple[int, int, str]] = []
    for place in places:
        if group and (place[0] != group[-1][0] or place[1] - group[-1][1] > CLOSE):
            yield group
            group = []
        group.append(place)
    yield group


def _times(axes: Axes, times: Sequence[float | None]) -> None:
    """Milliseconds by stage; dead ends in outline, for no later stage builds on them."""
    for place, (stage, us) in enumerate(zip(LADDER, times, strict=True)):
        if us is None:
            continue
        face = "none" if stage.dead_end else OURS
        axes.bar(place, us / 1000, width=0.6, facecolor=face, edgecolor=OURS, linewidth=1.2)
        label = f"{us / 1000:.1f}"
        over = {"xytext": (0, 3), "textcoords": "offset points", "ha": "center", "fontsize": 8.5}
        axes.annotate(label, (place, us / 1000), **over)
    axes.set_title("ms a launch (in outline: dead ends)")
    axes.margins(y=0.15)


def _changes(axes: Axes, changes: Sequence[Change], label: str = "measured") -> None:
    """Pairs of bars: measured, with `label` in the legend, and in the article."""
    for place, one in enumerate(changes):
        if one.delta_pct is not None:
            axes.bar(place - 0.2, one.delta_pct, width=0.38, color=OURS)
            if one.interval_pct is not None:
                axes.plot([place - 0.2] * 2, one.interval_pct, color=GREY, linewidth=1.2)
        if one.article_pct is not None:
            axes.bar(
                place + 0.2, one.article_pct, width=0.38, facecolor="none", edgecolor=ARTICLE, hatch="////"
            )
    handles = [Patch(color=OURS, label=label)] if any(one.delta_pct is not None for one in changes) else []
    handles.append(Patch(facecolor="none", edgecolor=ARTICLE, hatch="////", label="article, H20"))
    axes.legend(handles=handles, loc="best", ncols=2, labelcolor=GREY)
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set_xticks(range(len(changes)), [one.name for one in changes])
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.margins(y=0.15)


def _in_words(changes: Sequence[Change]) -> str:
    return "; ".join(
        f"{one.name}: {_percent(one.delta_pct)} measured, {_percent(one.article_pct)} in the article"
        for one in changes
        if one.delta_pct is not None or one.article_pct is not None
    )


def _blocks(number: int) -> str:
    return f"{number} {'block' if number == 1 else 'blocks'}"


def _percent(value: float | None) -> str:
    return "no figure" if value is None else f"{value:+.1f} %"
