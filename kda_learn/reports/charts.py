"""The figures of a report as SVG, drawn without any package: a GPU server often has none that draws.

Colours come from the page's classes, so that a figure follows light and dark.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from ..performance.evidence import Evidence
from ..performance.roofline import RooflineRow

WIDTH = 720
LABELS = 52  # for the names of the stages, at the left
MARGIN = 16
ROW = 22
HEAD = 46  # for the legend and the numbers of the axis
MOST_TICKS = 8


@dataclass(frozen=True)
class Change:
    """One row of a figure of changes, in percent; None: not known."""

    stage: str
    ours: float | None
    interval: tuple[float, float] | None
    article: float | None
    peers: tuple[float | None, ...]  # one for each of the records beside it


def changes(rows: Sequence[Change], peers: Sequence[str], alt: str) -> str:
    """Each stage's change: measured, the article's, and those of other records, named by `peers`."""
    known = [0.0]
    for row in rows:
        found = [row.ours, row.article, *(row.interval or ()), *row.peers]
        known += [value for value in found if value is not None]
    place, ticks = _scale(min(known), max(known))
    parts = [_axis(ticks, place, len(rows), "%")]
    entries = [("measured", _dot), ("article, H20", _diamond)]
    entries += [(name, mark) for name, mark in zip(peers, (_ring, _square), strict=False)]
    parts.append(_legend(entries))
    for number, row in enumerate(rows):
        y = _middle(number)
        parts.append(_label(row.stage, y))
        if row.interval is not None:
            low, high = (place(end) for end in row.interval)
            parts.append(f'<line class="interval" x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}"/>')
        marks = zip((_ring, _square), row.peers, strict=False)
        for mark, value in [*marks, (_diamond, row.article), (_dot, row.ours)]:
            if value is not None:
                parts.append(mark(place(value), y))
    return _figure(parts, len(rows), alt)


def floors(rows: Sequence[RooflineRow], alt: str) -> str:
    """Each stage's time for a tile and head as a bar, with a line and a dot where its floors are."""
    place, ticks = _scale(0.0, max(row.time_ns for row in rows))
    parts = [_axis(ticks, place, len(rows), "ns")]
    entries = [("time", _bar_mark), ("floor by traffic", _floor_mark), ("by shared memory", _shared_mark)]
    parts.append(_legend(entries))
    for number, row in enumerate(rows):
        y = _middle(number)
        parts.append(_label(row.stage, y))
        parts.append(_bar(place(0.0), place(row.time_ns), y, "ours"))
        x = place(row.traffic_ns)
        parts.append(f'<line class="floor" x1="{x:.1f}" x2="{x:.1f}" y1="{y - 10}" y2="{y + 10}"/>')
        if row.shared_ns is not None:
            parts.append(_shared_mark(place(row.shared_ns), y))
        text = f"{row.times_traffic:.1f} x"
        parts.append(_beside_bar(text, place(row.time_ns), y))
    return _figure(parts, len(rows), alt)


def cycles(rows: Sequence[Evidence], alt: str) -> str:
    """Each stage's SM cycles for a tile: with shared memory, with global memory, and the rest."""
    known = [row for row in rows if row.l1_cycles is not None and row.shared_cycles is not None]
    place, ticks = _scale(0.0, max(row.cycles for row in known))
    parts = [_axis(ticks, place, len(known), "")]
    names = (("L1 serves shared memory", "ours"), ("L1 serves global memory", "global"), ("L1 idle", "idle"))
    parts.append(_legend([(name, _swatch(kind)) for name, kind in names]))
    for number, row in enumerate(known):
        y = _middle(number)
        parts.append(_label(row.stage, y))
        ends = [0.0, row.shared_cycles, max(row.l1_cycles, row.shared_cycles), row.cycles]
        for (_, kind), start, end in zip(names, ends, ends[1:], strict=False):
            parts.append(_bar(place(start), place(end), y, kind))
    return _figure(parts, len(known), alt)


def _scale(low: float, high: float) -> tuple[Callable[[float], float], list[float]]:
    """A function from values to x, and round numbers that lie within and at the ends."""
    step = _round_step((high - low or 1.0) / MOST_TICKS)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    last = max(last, first + 1)
    left, right = LABELS + MARGIN, WIDTH - 2.5 * MARGIN

    def place(value: float) -> float:
        return left + (value - first * step) / ((last - first) * step) * (right - left)

    return place, [number * step for number in range(first, last + 1)]


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, ... (and 0.1, 0.2, ...) that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def _axis(ticks: Sequence[float], place: Callable[[float], float], rows: int, unit: str) -> str:
    """Vertical lines with their numbers above."""
    parts = []
    for tick in ticks:
        x, kind = place(tick), "zero" if tick == 0 else "grid"
        end = HEAD + rows * ROW
        parts.append(f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{HEAD}" y2="{end}"/>')
        text = f"{tick:,.10g} {unit}".strip()
        parts.append(f'<text class="small" x="{x:.1f}" y="{HEAD - 6}" text-anchor="middle">{text}</text>')
    return "".join(parts)


def _legend(entries: Sequence[tuple[str, Callable[[float, float], str]]]) -> str:
    """Marks with their names, in one line at the top."""
    parts, x = [], float(LABELS + MARGIN)
    for name, mark in entries:
        parts.append(mark(x, 12) + f'<text x="{x + 12:.0f}" y="16">{escape(name)}</text>')
        x += 34 + 7.0 * len(name)
    return "".join(parts)


def _figure(parts: Sequence[str], rows: int, alt: str) -> str:
    height = HEAD + rows * ROW + 8
    label = escape(alt, quote=True)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def _middle(number: int) -> float:
    return HEAD + number * ROW + ROW / 2


def _label(text: str, y: float) -> str:
    return f'<text x="{LABELS}" y="{y + 4}" text-anchor="end">{escape(text)}</text>'


def _beside_bar(text: str, x: float, y: float) -> str:
    return f'<text class="small" x="{x + 6:.1f}" y="{y + 4}">{escape(text)}</text>'


def _bar(start: float, end: float, y: float, kind: str) -> str:
    width = max(end - start, 0.0)
    return f'<rect class="{kind}" x="{start:.1f}" y="{y - 7}" width="{width:.1f}" height="14"/>'


def _dot(x: float, y: float) -> str:
    return f'<circle class="ours" cx="{x:.1f}" cy="{y}" r="4.5"/>'


def _ring(x: float, y: float) -> str:
    return f'<circle class="peer" cx="{x:.1f}" cy="{y}" r="4.5"/>'


def _square(x: float, y: float) -> str:
    return f'<rect class="peer" x="{x - 4:.1f}" y="{y - 4}" width="8" height="8"/>'


def _diamond(x: float, y: float) -> str:
    return f'<path class="article" d="M{x:.1f} {y - 6}l6 6l-6 6l-6 -6z"/>'


def _bar_mark(x: float, y: float) -> str:
    return f'<rect class="ours" x="{x - 6:.1f}" y="{y - 5}" width="12" height="10"/>'


def _floor_mark(x: float, y: float) -> str:
    return f'<line class="floor" x1="{x:.1f}" x2="{x:.1f}" y1="{y - 8}" y2="{y + 8}"/>'


def _shared_mark(x: float, y: float) -> str:
    return f'<circle class="shared" cx="{x:.1f}" cy="{y}" r="4"/>'


def _swatch(kind: str) -> Callable[[float, float], str]:
    def mark(x: float, y: float) -> str:
        return f'<rect class="{kind}" x="{x - 6:.1f}" y="{y - 5}" width="12" height="10"/>'

    return mark
