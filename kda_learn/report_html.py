"""Pieces of HTML for a report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def figure(drawing: str, caption: str) -> str:
    """An SVG drawing in a box that scrolls, with a caption below."""
    box = f'<div class="box" tabindex="0" role="group" aria-label="Figure">{drawing}</div>'
    return f"<figure>{box}<figcaption>{escape(caption)}</figcaption></figure>\n"


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int]) -> str:
    """A table in a box that scrolls; cells are HTML. numbers: which columns are set to the right."""
    right = set(numbers)

    def line(cells: Sequence[str], tag: str) -> str:
        kinds = [' class="number"' if column in right else "" for column in range(len(cells))]
        inner = "".join(f"<{tag}{kind}>{cell}</{tag}>" for cell, kind in zip(cells, kinds, strict=True))
        return f"<tr>{inner}</tr>"

    head = line([escape(header) for header in headers], "th")
    body = "".join(line(row, "td") for row in rows)
    return (
        '<div class="box" tabindex="0" role="group" aria-label="Table"><table>'
        f"<thead>{head}</thead><tbody>{body}</tbody></table></div>"
    )


def bullets(lines: Sequence[str]) -> str:
    """A list of plain lines; nothing if there are none."""
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>" if lines else ""


def number(value: float | None, form: str, scale: float = 1.0) -> str:
    """A number times `scale`, in a format such as "{:.2f}"; empty for None."""
    return "" if value is None else form.format(value * scale)


def interval(ends: Sequence[float] | None) -> str:
    """The two ends of an interval of percentages; empty for None."""
    return "" if ends is None else f"{ends[0]:+.1f} to {ends[1]:+.1f}"
