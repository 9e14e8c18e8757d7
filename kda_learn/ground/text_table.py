"""Tables as plain text, for terminals and logs: every machine can print them, no package is needed."""

import math
import textwrap
from collections.abc import Sequence

WIDTH = 100
"""Columns of text that a table may fill."""

WIDEST = 120
"""Columns of a terminal that we count on."""

GAP = "  "
MOST_DECIMALS = 6


def table(headers: Sequence[str], rows: Sequence[Sequence[object]], *, wrap: str | None = None) -> str:
    """Rows of cells under headers. Columns that hold only numbers are set to the right.

    wrap: the header of the column whose text is broken into several lines where the table would be wider than
    WIDTH. Floats are shown with as many decimals as give the largest of their column three digits; None as a
    blank.
    """
    columns = [_texts(column) for column in zip(*rows, strict=True)]
    cells = list(zip(*columns, strict=True))
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    if wrap is not None:
        wrapped = headers.index(wrap)
        spare = WIDTH - sum(widths) - len(GAP) * (len(widths) - 1)
        widths[wrapped] = max(len(wrap), widths[wrapped] + min(spare, 0))
    to_the_right = [
        all(isinstance(cell, (int, float)) or cell is None for cell in column)
        for column in zip(*rows, strict=True)
    ] or [False] * len(headers)
    lines = [_line(headers, widths, to_the_right), GAP.join("-" * width for width in widths)]
    for row in cells:
        broken = [textwrap.wrap(cell, width) or [""] for cell, width in zip(row, widths, strict=True)]
        for line in range(max(map(len, broken))):
            pieces = [cell[line] if line < len(cell) else "" for cell in broken]
            lines.append(_line(pieces, widths, to_the_right))
    return "\n".join(lines)


def _texts(column: Sequence[object]) -> list[str]:
    """The cells of a column. One of its floats that would show no digit at all is told as a power of ten."""
    floats = [abs(cell) for cell in column if isinstance(cell, float) and math.isfinite(cell)]
    largest = max(floats, default=0.0)
    decimals = min(max(0, 2 - math.floor(math.log10(largest))), MOST_DECIMALS) if largest else 0
    if not all(value.is_integer() for value in floats):
        decimals = max(decimals, 1)

    def text(cell: object) -> str:
        if not isinstance(cell, float):
            return "" if cell is None else str(cell)
        return f"{cell:.2e}" if 0 < abs(cell) < 0.5 * 10**-decimals else f"{cell:.{decimals}f}"

    return [text(cell) for cell in column]


def _line(cells: Sequence[str], widths: Sequence[int], to_the_right: Sequence[bool]) -> str:
    padded = [
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, to_the_right, strict=True)
    ]
    return GAP.join(padded).rstrip()


def paragraph(text: str) -> str:
    """A sentence in lines that fit a terminal, all but the first set in."""
    return textwrap.fill(
        text, WIDEST, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
