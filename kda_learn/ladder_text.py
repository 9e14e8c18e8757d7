"""The ladder as plain text for terminals, and as Markdown for a report or an issue."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from .text_table import WIDTH, table

HEADERS = ("config", "stage", "base", "VSplit", "ms", "change %", "interval", "article %", "verdict")


def as_text(result: dict[str, Any]) -> str:
    """Everything: where the figures come from, the table, how sure they are, and a reason for each row.

    result: as `ladder.ladder` returns it.
    """
    parts = [
        _filled(result["banner"]),
        table(HEADERS, [_cells(row) for row in result["rows"]], wrap="verdict"),
        _filled(result["roofline"] or ""),
        "\n".join(_filled(sentence) for sentence in notes(result)),
        "\n".join(_reasons_as_text(result)),
    ]
    return "\n\n".join(part for part in parts if part)


def as_markdown(result: dict[str, Any]) -> str:
    """The same as Markdown, a table for each config."""
    parts = [result["banner"]]
    for config in configs_of(result["rows"]):
        rows = [row for row in result["rows"] if row["config"] == config]
        split = rows[0]["v_split"]
        parts.append(f"### {config}, VSplit {split}")
        lines = ["| stage | base | ms | change | interval | article | verdict | why |"]
        lines.append("|---|---|---:|---:|---:|---:|---|---|")
        for row in rows:
            _, stage, base, _, ms, change, interval, article, verdict = _cells(row)
            cells = [
                stage,
                base or "",
                "" if ms is None else f"{ms:.2f}",
                _percent(change),
                interval or "",
                _percent(article),
                verdict if row["verdict"] else "",
                row["reason"],
            ]
            lines.append("| " + " | ".join(cells) + " |")
        parts.append("\n".join(lines))
    if result["roofline"]:
        parts.append(result["roofline"])
    parts.append("\n".join(f"- {sentence}" for sentence in notes(result)))
    return "\n\n".join(parts)


def notes(result: dict[str, Any]) -> list[str]:
    """What must be known to judge the figures: the rule for VSplit, the noise, whose counters are used."""
    rule = result["v_split_rule"]
    sentences = [f"VSplit by the article's rule: {rule['article']}."]
    if rule["measured"] is not None:
        sentences.append(f"Our times make another rule (`kda-learn split-v`): {rule['measured']}.")
    sentences.append(
        "A change whose interval (95 %, of the median over rounds in which all stages took turns) holds zero "
        "names no winner."
    )
    same = [
        f"{one['delta_pct']:+.2f} % ({one['delta_ci_pct'][0]:+.2f} to {one['delta_ci_pct'][1]:+.2f}) at "
        f"{one['config']}"
        for one in result["controls"]
        if one["delta_pct"] is not None and one["config"] in configs_of(result["rows"])
    ]
    if same:
        sentences.append(f"The same stage timed twice seems to differ by {', '.join(same)}.")
    return [*sentences, result["reasons_from"]]


def configs_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The configs of the rows, in their order."""
    return list(dict.fromkeys(row["config"] for row in rows))


def _cells(row: dict[str, Any]) -> list[Any]:
    """One row of the table, under HEADERS."""
    interval = row["delta_ci_pct"]
    median = row["median_us"]
    return [
        row["config"],
        row["stage"],
        row["base"],
        row["v_split"],
        None if median is None else median / 1000,
        _rounded(row["delta_pct"]),
        None if interval is None else f"{interval[0]:.1f} .. {interval[1]:.1f}",
        _rounded(row["article_delta_pct"]),
        row["verdict"] or ("not timed" if median is None else ""),
    ]


def _reasons_as_text(result: dict[str, Any]) -> list[str]:
    """A paragraph for each stage; configs whose reason is the same share it."""
    lines = []
    for stage in dict.fromkeys(row["stage"] for row in result["rows"]):
        by_reason: dict[str, list[str]] = {}
        for row in result["rows"]:
            if row["stage"] == stage and row["reason"]:
                by_reason.setdefault(row["reason"], []).append(row["config"])
        for reason, configs in by_reason.items():
            start = f"{stage}, {', '.join(configs)}: "
            lines.append(textwrap.fill(start + reason, WIDTH, subsequent_indent="    "))
    return lines


def _filled(text: str) -> str:
    return textwrap.fill(text, WIDTH)


def _rounded(value: float | None) -> float | None:
    """To a tenth, which is as much as a change of the time is worth."""
    return None if value is None or not math.isfinite(value) else round(value, 1)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:+.1f} %"
