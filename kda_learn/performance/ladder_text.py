"""The ladder as plain text for terminals, and as Markdown for a report or an issue."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from ..ground.text_table import WIDTH, table
from ..kernel_a.batch import CONFIGS
from ..records.store import Record
from ..sources.stages import STAGES
from .ladder_rows import Ladder, LadderRow

WHY_HEADER = "| stage | base | ms | change | interval | article | verdict | why |"
HEADERS = ("config", "stage", "base", "VSplit", "ms", "change %", "interval", "article %", "verdict")


def as_text(result: Ladder) -> str:
    """Everything: where the figures come from, the table, how sure they are, and a reason for each row."""
    parts = [
        _filled(result.banner),
        table(HEADERS, [_cells(row) for row in result.rows], wrap="verdict"),
        _filled(result.roofline or ""),
        "\n".join(_filled(sentence) for sentence in notes(result)),
        "\n".join(_reasons_as_text(result)),
    ]
    return "\n\n".join(part for part in parts if part)


def as_markdown(result: Ladder) -> str:
    """The same as Markdown, a table for each config."""
    parts = [result.banner]
    for config in result.configs:
        rows = [row for row in result.rows if row.config == config]
        split = rows[0].v_split
        parts.append(f"### {config}, VSplit {split}")
        lines = []
        for row in rows:
            _, stage, base, _, ms, change, interval, article, verdict = _cells(row)
            cells = [
                stage,
                base or "",
                "" if ms is None else f"{ms:.2f}",
                _percent(change),
                interval or "",
                _percent(article),
                verdict if row.verdict else "",
                row.reason,
            ]
            lines.append(cells)
        parts.append(_markdown(WHY_HEADER, lines, "|---|---|---:|---:|---:|---:|---|---|"))
    if result.roofline:
        parts.append(result.roofline)
    parts.append("\n".join(f"- {sentence}" for sentence in notes(result)))
    return "\n\n".join(parts)


def notes(result: Ladder) -> list[str]:
    """What must be known to judge the figures: the rule for VSplit, the noise, whose counters are used."""
    rule = result.v_split_rule
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
        for one in result.controls
        if one["delta_pct"] is not None and one["config"] in result.configs
    ]
    if same:
        sentences.append(f"The same stage timed twice seems to differ by {', '.join(same)}.")
    return [*sentences, result.reasons_from]


def _cells(row: LadderRow) -> list[Any]:
    """One row of the table, under HEADERS."""
    interval = row.delta_ci_pct
    median = row.median_us
    return [
        row.config,
        row.stage,
        row.base,
        row.v_split,
        None if median is None else median / 1000,
        _rounded(row.delta_pct),
        None if interval is None else f"{interval[0]:.1f} .. {interval[1]:.1f}",
        _rounded(row.article_delta_pct),
        row.verdict or ("not timed" if median is None else ""),
    ]


def _reasons_as_text(result: Ladder) -> list[str]:
    """A paragraph for each stage; configs whose reason is the same share it."""
    lines = []
    for stage in dict.fromkeys(row.stage for row in result.rows):
        by_reason: dict[str, list[str]] = {}
        for row in result.rows:
            if row.stage == stage and row.reason:
                by_reason.setdefault(row.reason, []).append(row.config)
        for reason, configs in by_reason.items():
            start = f"{stage}, {', '.join(configs)}: "
            lines.append(textwrap.fill(start + reason, WIDTH, subsequent_indent="    "))
    return lines


def _filled(text: str) -> str:
    return textwrap.fill(text, WIDTH)


def _rounded(value: float | None) -> float | None:
    """To a tenth, which is as much as a change of the time is worth."""
    return None if value is None or not math.isfinite(value) else round(value, 1)


def readme_table(record: Record | None) -> str:
    """The record's times at the first config as a Markdown table; without a record, a list of the stages."""
    if record is None:
        return _markdown("| stage | what it is |", [[stage.id, stage.title] for stage in STAGES])
    where, found = record.provenance, Ladder.from_dict(record.content)
    words = (
        f"One launch at {CONFIGS[0]} with {found.heads} heads, recorded on {where.date[:10]} on an "
        f"{where.gpu} with {where.sms} SMs (driver {where.driver}, CUDA {where.cuda}); changes are against "
        "the base. `kda-learn ladder` says which sources have changed since."
    )
    rows = {row.stage: row for row in found.rows if row.config == CONFIGS[0] and row.median_us is not None}
    cells = [
        [
            stage.id,
            stage.title,
            row.base or "",
            f"{row.median_us / 1000:.1f}",
            _percent(row.delta_pct),
            _percent(row.article_delta_pct),
            row.verdict or "",
        ]
        for stage in STAGES
        if (row := rows.get(stage.id)) is not None
    ]
    header = "| stage | what it is | base | ms | change | article, H20 | verdict |"
    return f"{words}\n\n{_markdown(header, cells)}"


def _markdown(header: str, rows: Sequence[Sequence[str]], line: str = "") -> str:
    """A table: its first line, what is below that (empty: all columns to the left), its rows."""
    below = line or "|".join(["", *["---"] * (header.count("|") - 1), ""])
    return "\n".join([header, below, *(f"| {' | '.join(cells)} |" for cells in rows)])


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:+.1f} %"
