"""Pieces of HTML for a report."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from ..display.parts import Cell, Table, Value, decimal, whole
from ..machines.device import CALLED
from ..performance import evidence as counter_evidence
from ..performance.evidence import Evidence, EvidenceMap
from ..performance.ladder_text import notes
from ..performance.roofline import sentence as roofline_sentence
from ..records.article import figures as article_figures
from ..sources.stages import LAST
from . import charts as report_charts

if TYPE_CHECKING:
    from .reproduction import Reproduction


def figure(drawing: str, caption: str) -> str:
    """An SVG drawing in a box that scrolls, with a caption below."""
    box = f'<div class="box" tabindex="0" role="group" aria-label="Figure">{drawing}</div>'
    return f"<figure>{box}<figcaption>{escape(caption)}</figcaption></figure>\n"


def bullets(lines: Sequence[str]) -> str:
    """A list of plain lines; nothing if there are none."""
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>" if lines else ""


def where_time_goes(found: Reproduction, evidence: EvidenceMap) -> str:
    """The counters behind the reasons, at VSplit 1."""
    shown = {row.stage for row in found.rows}
    known = [one for (stage, split), one in evidence.items() if stage in shown and split == 1]
    if not known:
        return ""
    counted = ["blocks per SM", "barriers", "instructions", "wavefronts", "excess", "L1", "L2", "DRAM"]
    headers = ["stage", *counted, "longest wait"]
    cells = [_evidence_row(one) for one in known]
    drawn = ""
    if any(one.l1_cycles is not None and one.shared_cycles is not None for one in known):
        alt = "; ".join(
            f"{one.stage} {one.cycles:,.0f} cycles, {one.shared_cycles:,.0f} with shared memory"
            for one in known
            if one.cycles is not None and one.shared_cycles is not None
        )
        drawn = figure(
            report_charts.cycles(known, f"Cycles of an SM for a tile and head: {alt}."),
            "Cycles of an SM for a tile and head, at VSplit 1. L1 and shared memory are one unit.",
        )
    banner = escape(counter_evidence.banner(found.profiles))
    more = "" if found.own_profiles else " They are recorded ones, not this GPU's."
    return (
        f"<h2>Where the time goes</h2>\n<p>{banner}{more}</p>\n{drawn}"
        f"{Table(headers, cells).html()}"
        '<p class="quiet">Instructions and wavefronts of shared memory (copies left out) are for one tile '
        "and head; excess: what bank conflicts add. L1, L2, DRAM: how busy, of the time.</p>"
    )


def _evidence_row(one: Evidence) -> list[Value]:
    return [
        one.stage,
        one.blocks_per_sm,
        one.barriers,
        whole(one.instructions),
        whole(one.wavefronts),
        whole(one.excess),
        decimal(one.l1_pct, 0, " %"),
        decimal(one.l2_pct, 0, " %"),
        decimal(one.dram_pct, 0, " %"),
        one.longest_wait,
    ]


def floors(found: Reproduction, evidence: EvidenceMap) -> str:
    """The roofline at the first config, and a sentence about the last stage."""
    if not found.roofline or found.limits is None:
        return ""
    config = found.roofline[0].config
    rows = [row for row in found.roofline if row.config == config]
    alt = "; ".join(f"{row.stage} {row.time_ns:.1f} ns" for row in rows)
    drawn = figure(
        report_charts.floors(rows, f"Time for a tile and head at {config}: {alt}."),
        f"Time for a tile and head at {config}, and the time that its bytes take: "
        f"{found.limits.twin_ns['float32']:.1f} ns. The tensor cores would need "
        f"{found.limits.mma_ns:.1f} ns, shared memory what the dots show.",
    )
    last = next((row for row in rows if row.stage == LAST), rows[-1])
    words = roofline_sentence(last, evidence.get((last.stage, last.v_split)))
    return f"<h2>Beside what the GPU gives at most</h2>\n<p>{escape(words)}</p>\n{drawn}"


def checks(found: Reproduction) -> str:
    if not found.checks:
        return ""
    failed = [row for row in found.checks if not row["ok"]]
    where = f"on the {CALLED[found.checks[0]['machine']]}"
    text = f"{len(found.checks) - len(failed)} of {len(found.checks)} checks passed {where}."
    lines = [f"{row['stage']}, {row['problem']}: {fault}" for row in failed for fault in row["faults"]]
    cells = [
        [
            row["stage"],
            row["problem"],
            row["v_split"],
            row["snapshot_dtype"],
            decimal(100 * row["rel_rms"], 2, " %"),
            decimal(100 * row["simulated_rel_rms"], 2, " %"),
            Cell("passed", "good") if row["ok"] else Cell("failed", "bad"),
        ]
        for row in found.checks
    ]
    headers = ["stage", "problem", "VSplit", "snapshots", "error", "by rounding", "verdict"]
    return (
        f"<h2>Checks against float64</h2>\n<p>{text}</p>{bullets(lines)}"
        f"<details><summary>All of them</summary>{Table(headers, cells, wrap='problem').html()}"
        '<p class="quiet">error: relative RMS of the worst snapshot; by rounding: the same where NumPy '
        "rounds as the stage does.</p></details>"
    )


def computer(found: Reproduction) -> str:
    cells = [
        [item["name"], item["status"], " ".join([item["sentence"], item["advice"]]).strip()]
        for item in found.doctor["items"]
    ]
    return f"<h2>This computer</h2>\n{Table(['what', 'is', 'found'], cells, wrap='found').html()}"


def how(found: Reproduction) -> str:
    """What must be known to judge the figures."""
    lines = list(dict.fromkeys(line for one in found.ladders for line in notes(one)))
    clocks = [
        sample["sm_mhz"]
        for one in found.ladders
        for samples in one.clocks.values()
        for sample in samples
        if sample["sm_mhz"]
    ]
    if clocks:
        lines.append(f"SM clock while timing: {min(clocks):.0f} to {max(clocks):.0f} MHz.")
    software = [_software(one.provenance) for one in found.ladders if one.provenance is not None]
    lines += dict.fromkeys(software)
    source = article_figures()["source"]
    credit = (
        f'The article\'s figures: <a href="{escape(source["url"])}">{escape(source["title"])}</a>, measured '
        f"on an {escape(source['gpu'])} with {source['sm_count']} SMs."
    )
    return f"<h2>How this was measured</h2>\n{bullets(lines)}<p>{credit}</p>"


def _software(where: dict[str, Any]) -> str:
    return f"Driver {where['driver']}, CUDA {where['cuda']}, NVRTC {where['nvrtc']}."
