"""How a result shows itself: a few parts, banners, tables and sentences, each as HTML and as plain text.

The HTML takes the page's colours, light or dark, and adds only translucent greys and tints; what is too wide
for a narrow page scrolls in a box of its own.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import ClassVar, Literal

from ..ground.text_table import WIDTH, table

Tone = Literal["", "good", "bad", "quiet", "strong"]

LONG = 24
"""Letters from which on the name of a row is broken into lines where the page is narrow."""

STYLE = """
.kda { color: inherit; max-width: 100%; margin: .4em 0; line-height: 1.45; }
.kda .kda-banner { border-left: 4px solid rgba(128, 128, 128, .6); padding: .15em .7em; margin: .3em 0;
  font-size: .92em; }
.kda .kda-recorded { border-left-color: #b8860b; }
.kda .kda-missing { border-left-style: dashed; }
.kda .kda-note { margin: .3em 0; font-size: .92em; opacity: .85; }
.kda .kda-sentence { margin: .3em 0; }
.kda .kda-box { overflow-x: auto; max-width: 100%; margin: .3em 0; }
.kda .kda-box:focus-visible { outline: 2px solid currentColor; outline-offset: 2px; }
.kda table.kda-table { border-collapse: collapse; border: 0; margin: 0; width: auto; color: inherit;
  background: none; font-size: .92em; display: table; table-layout: auto; }
.kda table.kda-table caption { text-align: left; font-weight: 600; padding: .2em 0; color: inherit;
  caption-side: top; white-space: nowrap; }
.kda table.kda-table tr, .kda table.kda-table tr:hover { background: none; }
.kda table.kda-table th, .kda table.kda-table td { padding: .22em .75em .22em 0; border: 0; color: inherit;
  border-bottom: 1px solid rgba(128, 128, 128, .3); text-align: left; vertical-align: top;
  white-space: nowrap; min-width: 0; max-width: none; font-size: inherit; }
.kda table.kda-table th { font-weight: 600; vertical-align: bottom; }
.kda table.kda-table tbody th { vertical-align: top; font-weight: inherit; }
.kda table.kda-table .kda-right { text-align: right; font-variant-numeric: tabular-nums; }
.kda table.kda-table td.kda-wrap { white-space: normal; min-width: 15em; max-width: 34em; }
.kda table.kda-table tbody th.kda-long { white-space: normal; min-width: 12em; max-width: 24em; }
.kda table.kda-table tr.kda-total > * { font-weight: 600; }
.kda .kda-good { background: rgba(46, 160, 67, .18); border-radius: 3px; padding: 0 .3em; }
.kda .kda-bad { background: rgba(248, 81, 73, .2); border-radius: 3px; padding: 0 .3em; }
.kda .kda-quiet { opacity: .7; }
.kda .kda-strong { font-weight: 600; }
.kda .kda-bar { display: inline-flex; width: 9em; height: .8em; vertical-align: middle; }
.kda .kda-bar i { height: 100%; background: rgba(128, 128, 128, .65); }
.kda .kda-bar i + i { background: repeating-linear-gradient(135deg, #d9622b 0 3px, #f0a37c 3px 5px); }
"""


@dataclass(frozen=True)
class Cell:
    """A cell of a table that is more than a bare value."""

    value: str
    tone: Tone = ""
    right: bool = False


@dataclass(frozen=True)
class Bar:
    """A bar of two pieces, the first plain and the second hatched, in shares of the widest bar (0 to 1)."""

    first: float
    second: float = 0.0


Value = str | int | float | None | Cell | Bar
"""int and float are set to the right; a float is shown with three digits, None as an empty cell."""


@dataclass(frozen=True)
class Banner:
    """Which machine the figures come from. `label` is the word in bold, `kind` decides how it looks."""

    label: str
    words: str
    kind: Literal["here", "recorded", "missing"] = "here"

    def html(self) -> str:
        return (
            f'<p class="kda-banner kda-{self.kind}"><strong>{escape(self.label)}.</strong> '
            f"{escape(self.words)}</p>"
        )

    def text(self) -> str:
        return textwrap.fill(f"[{self.label}] {self.words}", WIDTH)


@dataclass(frozen=True)
class Sentence:
    """A paragraph: the answer in words, or (`quiet`) what must be known to read a table."""

    words: str
    quiet: bool = False

    def html(self) -> str:
        return f'<p class="kda-{"note" if self.quiet else "sentence"}">{escape(self.words)}</p>'

    def text(self) -> str:
        return textwrap.fill(self.words, WIDTH)


@dataclass(frozen=True)
class Table:
    """Rows of values under headers. The first cell of a row names it.

    wrap: the header of a column of sentences, which may be broken. totals: how many rows at the end are sums.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[Value]]
    caption: str = ""
    wrap: str | None = None
    totals: int = 0

    def without_blanks(self) -> Table:
        """The same without the columns in which no row has anything."""
        kept = [
            number for number, column in enumerate(zip(*self.rows, strict=True)) if any(map(_plain, column))
        ]
        return replace(
            self,
            headers=[self.headers[number] for number in kept],
            rows=[[row[number] for number in kept] for row in self.rows],
        )

    def html(self) -> str:
        right = self._right()
        heads = [
            f'<th scope="col"{_class("kda-right" if at_right else "")}>{escape(header)}</th>'
            if header
            else "<td></td>"  # a screen reader would announce a heading that says nothing
            for header, at_right in zip(self.headers, right, strict=True)
        ]
        body = [self._row_html(number, row, right) for number, row in enumerate(self.rows)]
        caption = f"<caption>{escape(self.caption)}</caption>" if self.caption else ""
        label = escape(self.caption or ", ".join(filter(None, self.headers)), quote=True)
        return (
            f'<div class="kda-box" tabindex="0" role="group" aria-label="{label}">'
            f'<table class="kda-table">{caption}<thead><tr>{"".join(heads)}</tr></thead>'
            f"<tbody>{''.join(body)}</tbody></table></div>"
        )

    def text(self) -> str:
        right = self._right()
        columns = []
        for header, at_right, *cells in zip(self.headers, right, *self.rows, strict=True):
            shown = [header, *map(_plain, cells)]
            width = max(map(len, shown))
            if width:
                columns.append([cell.rjust(width) if at_right else cell for cell in shown])
        headers, *rows = zip(*columns, strict=True)
        wrapped = next((header for header in headers if header.strip() == self.wrap), None)
        lines = table(list(headers), [list(row) for row in rows], wrap=wrapped)
        return f"{self.caption}\n{lines}" if self.caption else lines

    def _row_html(self, number: int, row: Sequence[Value], right: Sequence[bool]) -> str:
        cells = []
        for column, (value, at_right) in enumerate(zip(row, right, strict=True)):
            tag = 'th scope="row"' if column == 0 else "td"
            name = "kda-right" if at_right else ""
            if column == 0 and len(_plain(value)) > LONG:
                name = "kda-long"
            if self.headers[column] == self.wrap:
                name = "kda-wrap"
            cells.append(f"<{tag}{_class(name)}>{_html(value)}</{tag.split()[0]}>")
        is_total = number >= len(self.rows) - self.totals
        return f"<tr{_class('kda-total' if is_total else '')}>{''.join(cells)}</tr>"

    def _right(self) -> list[bool]:
        """For each column whether it is set to the right: if it holds a number, and otherwise only blanks."""
        return [
            any(map(_is_right, column)) and all(value in (None, "") or _is_right(value) for value in column)
            for column in zip(*self.rows, strict=True)
        ] or [False] * len(self.headers)


Part = Banner | Sentence | Table


class Shown:
    """What a word of the course gives: shows its parts below a cell of a notebook, or as plain text."""

    style: ClassVar[str] = ""  # beside that of every part

    def parts(self) -> Sequence[Part]:
        """What is shown, from top to bottom."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return page("".join(part.html() for part in self.parts()), self.style)

    def __repr__(self) -> str:
        return "\n\n".join(part.text() for part in self.parts())


def page(body: str, style: str = "") -> str:
    """HTML that brings its own style; `style` is more of it."""
    return f'<style>{STYLE}{style}</style><div class="kda">{body}</div>'


def whole(value: float | None) -> Cell:
    """A count, with commas between thousands: 13824 as "13,824"; None as an empty cell."""
    return Cell("" if value is None else f"{value:,.0f}", right=True)


def decimal(value: float | None, digits: int = 1, unit: str = "") -> Cell:
    """A number with so many decimals; None as an empty cell."""
    return Cell("" if value is None else f"{value:,.{digits}f}{unit}", right=True)


def percent(value: float | None, digits: int = 1) -> Cell:
    """A change in percent, with its sign; None as an empty cell."""
    return Cell("" if value is None else f"{value:+.{digits}f} %", right=True)


def interval(ends: Sequence[float] | None, digits: int = 1) -> Cell:
    """The two ends of an interval; None as an empty cell."""
    return Cell("" if ends is None else f"{ends[0]:,.{digits}f} to {ends[1]:,.{digits}f}", right=True)


def _is_right(value: Value) -> bool:
    if isinstance(value, Cell):
        return value.right
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _plain(value: Value) -> str:
    """A value in plain text."""
    if value is None:
        return ""
    if isinstance(value, Cell):
        return value.value
    if isinstance(value, Bar):
        return "#" * round(20 * value.first) + "!" * round(20 * value.second)
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _html(value: Value) -> str:
    """A value in HTML."""
    if isinstance(value, Bar):
        pieces = "".join(
            f'<i style="width: {100 * share:.1f}%"></i>' for share in (value.first, value.second)
        )
        return f'<span class="kda-bar" aria-hidden="true">{pieces}</span>'
    if isinstance(value, Cell) and value.tone:
        return f'<span class="kda-{value.tone}">{escape(value.value)}</span>'
    return escape(_plain(value))


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
