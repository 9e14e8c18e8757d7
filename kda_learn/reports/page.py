"""A reproduction as one page that needs nothing else: no server, no network, no script."""

from __future__ import annotations

import string
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from ..display.parts import STYLE, Cell, Table, decimal, interval, percent
from ..ground.errors import BadInput
from ..kernel_a.batch import Config
from ..performance import evidence as counter_evidence
from ..performance.ladder_rows import Ladder, LadderRow
from ..performance.verdicts import OPPOSITE, REPRODUCED
from ..records import store as records
from . import charts as report_charts
from . import sections
from .sections import bullets, figure

if TYPE_CHECKING:
    from .reproduction import Reproduction


TEMPLATE = Path(__file__).resolve().parent / "template.html"

TONES = {REPRODUCED: "good", OPPOSITE: "bad"}
MOST_PEERS = 2
"""Records of other GPUs, or of other numbers of SMs, that stand beside the figures."""


def write_report(found: Reproduction, path: Path) -> None:
    """Write the page. Raises BadInput if the file cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(found), encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{path} cannot be written ({error.strerror}): give another folder.") from None


def page(found: Reproduction) -> str:
    """The page as text."""
    peers = _peers(found)
    evidence = counter_evidence.of_profiles(found.profiles)
    parts = [
        _head(found),
        *(_config(found, one, config, peers) for one in found.ladders for config in one.configs),
        sections.where_time_goes(found, evidence),
        sections.floors(found, evidence),
        sections.checks(found),
        sections.computer(found),
        sections.how(found),
    ]
    template = string.Template(TEMPLATE.read_text(encoding="utf-8"))
    return template.substitute(
        title=escape(_title(found)), style=STYLE, body="\n".join(part for part in parts if part)
    )


def _title(found: Reproduction) -> str:
    return "Kernel A's ladder, as recorded" if found.recorded else f"Kernel A's ladder on an {found.machine}"


def _head(found: Reproduction) -> str:
    """What was done, the verdicts, and what is missing."""
    parts = [f"<h1>{escape(_title(found))}</h1>", f"<p>{escape(found.sentence)}</p>"]
    parts.append(f'<p class="quiet">{found.date[:16].replace("T", " ")} UTC</p>')
    if found.recorded and found.ladders:
        parts.append(f'<p class="note">{escape(found.ladders[0].banner)}</p>')
    if found.left_out:
        parts.append(f'<div class="note"><p>Left out:</p>{bullets(found.what_is_missing())}</div>')
    counts = [f"{count} {verdict}" for verdict, count in found.verdicts.items()]
    if counts:
        items = "".join(f"<li>{escape(text)}</li>" for text in counts)
        parts.append(f'<ul class="counts">{items}</ul>')
        parts.append(
            '<p class="quiet">Each stage is compared with the one it starts from, and the change of its time '
            "with the article's, at each config. Reproduced: the same sign, and neither more than twice the "
            "other. Within noise: the interval holds zero, or both changes are small.</p>"
        )
    return "\n".join(parts)


def _config(found: Reproduction, ladder: Ladder, config: str, peers: Sequence[records.Record]) -> str:
    """One config: figure, table, and why."""
    rows = [row for row in ladder.rows if row.config == config]
    names = [f"{peer.provenance.gpu.removeprefix('NVIDIA ')}, {peer.provenance.sms} SMs" for peer in peers]
    beside = [_deltas(peer, rows) for peer in peers]
    marks = [
        report_charts.Change(
            stage=row.stage,
            ours=row.delta_pct,
            interval=None if row.delta_ci_pct is None else tuple(row.delta_ci_pct),
            article=row.article_delta_pct,
            peers=tuple(deltas.get(row.stage) for deltas in beside),
        )
        for row in rows
        if row.base is not None
    ]
    shape = Config.parse(config)
    title = (
        f"{config}: {shape.sequences} sequence{'s' * (shape.sequences > 1)} of {shape.length} tokens, "
        f"{ladder.heads} heads, VSplit {rows[0].v_split}"
    )
    headers = ["stage", "base", "ms", "change", "interval", "article", *names, "verdict"]
    cells = [
        [
            row.stage,
            row.base,
            decimal(None if row.median_us is None else row.median_us / 1000, 2),
            percent(row.delta_pct),
            interval(row.delta_ci_pct),
            percent(row.article_delta_pct),
            *(percent(deltas.get(row.stage)) for deltas in beside),
            Cell(row.verdict or "", TONES.get(row.verdict, "")),
        ]
        for row in rows
    ]
    alt = "; ".join(
        f"{mark.stage} {mark.ours:+.1f} %, article "
        + ("no figure" if mark.article is None else f"{mark.article:+.1f} %")
        for mark in marks
        if mark.ours is not None
    )
    drawn = ""
    if any(mark.ours is not None for mark in marks):
        drawing = report_charts.changes(marks, names, f"Change of each stage's time at {config}: {alt}.")
        drawn = figure(drawing, "Change of the time against each stage's base; negative is faster.")
    why = "".join(
        f"<dt>{row.stage}</dt><dd>{_in_bold(row.verdict)}{escape(row.reason)}</dd>"
        for row in rows
        if row.reason
    )
    return f"<h2>{escape(title)}</h2>\n{drawn}{Table(headers, cells).html()}\n<dl>{why}</dl>"


def _in_bold(verdict: str | None) -> str:
    return f"<strong>{verdict}:</strong> " if verdict else ""


def _peers(found: Reproduction) -> list[records.Record]:
    """Recorded ladders to set beside: other GPUs', or other numbers of SMs, the most SMs first."""
    own = (found.ladders[0].machine, found.ladders[0].sms) if found.ladders else None
    others = [
        record
        for record in records.all_of("ladder")
        if (record.provenance.gpu, record.provenance.sms) != own or not found.recorded
    ]
    return sorted(others, key=lambda record: -record.provenance.sms)[:MOST_PEERS]


def _deltas(record: records.Record, rows: Sequence[LadderRow]) -> dict[str, float]:
    """The same changes in a record, by stage; those against another base are left out."""
    wanted = {(row.config, row.stage, row.base) for row in rows}
    return {
        row["stage"]: row["delta_pct"]
        for row in record.content["rows"]
        if (row["config"], row["stage"], row["base"]) in wanted and row["delta_pct"] is not None
    }
