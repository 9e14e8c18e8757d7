"""Figures of VSplit and of the roofline, and keeping a figure in a file."""

from collections.abc import Sequence
from typing import Any

from matplotlib import rc_context

from ..ground.errors import BadInput, MachineUnavailable
from ..kernel_a.variants import V_SPLITS
from ..performance.roofline import FLOORS, RooflineRow
from ..performance.roofline import recorded as recorded_rows
from ..performance.split_v import STAGE, split_v
from .figure import ARTICLE, FAINT, GREY, OURS, SIZES, Chart

SHADES = {1: GREY, 2: "#3a9a6b", 4: OURS, 8: "#9a5fc0"}
"""The colour of each VSplit."""

TICKS_NS = (10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000)
TICKS_PAIRS = (8, 16, 32, 64, 128, 256, 512, 1024)
MARKS = {1: "o", 2: "s", 4: "D", 8: "^"}


def split_v_chart(
    stage: str = STAGE, *, sms: int | None = None, result: dict[str, Any] | None = None
) -> Chart:
    """A stage's time at VSplit 1, 2, 4 and 8 over the number of (sequence, head) pairs.

    Below the times: which VSplit each rule takes. result: what `split_v.split_v` gave (None: the newest
    record). sms: None takes the most that were measured. Raises BadInput for what was not measured,
    MachineUnavailable without a record.
    """
    result = split_v(live=False) if result is None else result
    there = sorted({row["sms"] for row in result["rows"] if row["stage"] == stage}, reverse=True)
    chosen = there[0] if sms is None and there else sms
    if chosen not in there:
        raise BadInput(
            f"{stage} on {sms} SMs was asked for, and of it these were measured: "
            f"{', '.join(map(str, there)) or 'none'}."
        )
    rows = [row for row in result["rows"] if (row["stage"], row["sms"]) == (stage, chosen)]
    points = [point for point in result["points"] if (point["stage"], point["sms"]) == (stage, chosen)]
    with rc_context(SIZES):
        figure = Chart(figsize=(7.2, 4.6), layout="constrained")
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[2.2, 1])
        for split in V_SPLITS:
            of_split = [row for row in rows if row["v_split"] == split]
            top.plot(
                [row["pairs"] for row in of_split],
                [row["ns_per_tile"] for row in of_split],
                color=SHADES[split],
                marker=MARKS[split],
                markersize=4,
                linewidth=1.2,
                label=f"VSplit {split}",
            )
        top.set_xscale("log", base=2)
        top.set_yscale("log")
        lowest, highest = (choose(row["ns_per_tile"] for row in rows) for choose in (min, max))
        ticks = [tick for tick in TICKS_NS if 0.9 * lowest < tick < 1.1 * highest]
        top.set_yticks(ticks, [str(tick) for tick in ticks])
        top.set_title(f"{stage} on {chosen} SMs: ns for a tile and head")
        top.legend(ncols=4, labelcolor=GREY)
        pairs = [point["pairs"] for point in points]
        bottom.plot(pairs, [point["best"] for point in points], "o", color=GREY, label="fastest")
        bottom.step(
            pairs, [point["rule"] for point in points], where="mid", color=OURS, label="measured rule"
        )
        bottom.step(
            pairs,
            [point["article"] for point in points],
            where="mid",
            color=ARTICLE,
            linestyle="--",
            label="article's rule",
        )
        bottom.set_yscale("log", base=2)
        bottom.set_yticks(V_SPLITS, [str(split) for split in V_SPLITS])
        bottom.set_xticks(TICKS_PAIRS, [str(tick) for tick in TICKS_PAIRS])
        bottom.set_xlabel("N*H, (sequence, head) pairs")
        bottom.set_title("VSplit")
        bottom.legend(ncols=3, labelcolor=GREY)
        for axes in (top, bottom):
            axes.minorticks_off()
            axes.grid(color=FAINT, linewidth=0.6)
    said = "; ".join(f"{point['pairs']} pairs: VSplit {point['best']}" for point in points)
    figure.alt = f"{stage} on {chosen} SMs, the fastest VSplit by number of pairs. {said}."
    rule = result["rule"]
    figure.caption = (
        f"{result['banner']} Measured rule: {rule['words']}; {rule['mean_loss_pct']:.1f} % slower than the "
        f"fastest on average, the article's {rule['article_mean_loss_pct']:.1f} %."
    )
    return figure


def roofline_chart(rows: Sequence[RooflineRow] | None = None, config: str = "B32/T8192") -> Chart:
    """Every stage's time for a tile and head, over the floors that it cannot go below.

    rows: from `roofline.place` (None: the recorded ones). Raises MachineUnavailable if nothing is recorded,
    BadInput for a config that was not measured.
    """
    if rows is None:
        rows = recorded_rows()
        if not rows:
            raise MachineUnavailable(
                "No ceilings are recorded: run `python -m kda_learn.maintain ceilings` on a Hopper GPU."
            )
    shown = [row for row in rows if row.config == config]
    if not shown:
        there = ", ".join(dict.fromkeys(row.config for row in rows))
        raise BadInput(f"The config {config!r} was given, and these were measured: {there}.")
    places = range(len(shown))
    with rc_context(SIZES):
        figure = Chart(figsize=(7.2, 3.4), layout="constrained")
        axes = figure.subplots()
        axes.bar(places, [row.time_ns for row in shown], width=0.6, color=OURS, label="time")
        styles = dict(zip(FLOORS, ((ARTICLE, "-"), (GREY, "-"), (SHADES[8], ":")), strict=True))
        for name, (color, line) in styles.items():
            heights = [row.floors.get(name) for row in shown]
            for place, height in zip(places, heights, strict=True):
                if height is not None:
                    label = f"floor by {name}" if place == 0 else None
                    ends = [place - 0.42, place + 0.42]
                    axes.plot(ends, [height] * 2, line, color=color, linewidth=1.8, label=label)
        for place, row in zip(places, shown, strict=True):
            over = {"xytext": (0, 3), "textcoords": "offset points", "ha": "center", "fontsize": 8.5}
            axes.annotate(f"{row.times_traffic:.1f}x", (place, row.time_ns), **over)
        axes.set_xticks(places, [row.stage for row in shown])
        axes.set_title(f"ns for a tile and head at {config}; above each bar: times the traffic floor")
        axes.legend(labelcolor=GREY)
        axes.grid(axis="y", color=FAINT, linewidth=0.6)
        axes.margins(y=0.12)
    said = "; ".join(
        f"{row.stage} {row.time_ns:.1f} ns, floor {row.floor_ns:.1f} by {row.floor}" for row in shown
    )
    figure.alt = f"Time for a tile and head at {config}, and the highest floor. {said}."
    return figure
