"""Tables as plain text, for terminals and logs: every machine can print them, no package is needed."""

import textwrap
from collections.abc import Sequence

WIDTH = 100
"""Columns of text that a table may fill."""

WIDEST = 120
"""Columns of a terminal that we count on."""

GAP = "  "


def table(headers: Sequence[str], rows: Sequence[Sequence[object]], *, wrap: str | None = None) -> str:
    """Rows of cells under headers. Columns that hold only numbers are set to the right.

    wrap: the header of the column whose text is broken into several lines where the table would be wider than
    WIDTH. Floats are shown with three digits; None as a blank.
    """
    cells = [[_text(cell) for cell in row] for row in rows]
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


def _text(cell: object) -> str:
    if cell is None:
        return ""
    return f"{cell:.3g}" if isinstance(cell, float) else str(cell)


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
