"""The ladder with a sentence for each row that says why: what `verdict_reasons` knows, put together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from . import counter_evidence, records
from .bench import Config
from .counter_evidence import EvidenceMap
from .profile import Profile
from .timing_statistics import Estimate
from .verdict_reasons import OtherDelta, Setting, core, size
from .verdicts import OPPOSITE, OTHER_SIZE, WITHIN_NOISE, verdict

ARTICLE_RULE = "4 if N*H < SMs, else 1"
LAST = "s12"


def explained(result: dict[str, Any], profiles: Sequence[Profile] | None = None) -> dict[str, Any]:
    """A ladder whose rows have a `reason`, with {reasons_from, v_split_rule, roofline} added.

    result: as `ladder.ladder` returns it. profiles: whose counters explain it (None: the recorded ones). A
    row that was not timed keeps its reason.
    """
    if profiles is None:
        profiles = counter_evidence.recorded_profiles()
        evidence = counter_evidence.recorded()
    else:
        evidence = counter_evidence.of_profiles(profiles)
    others = list(_other_records(result["machine"], result["sms"]))
    return result | {
        "reasons_from": counter_evidence.banner(profiles),
        "v_split_rule": v_split_rule(),
        "roofline": roofline_sentence(result, evidence),
        "rows": [row | {"reason": _reason(row, result, evidence, others)} for row in result["rows"]],
    }


def v_split_rule() -> dict[str, str | None]:
    """The rule by which VSplit was chosen, the article's, and the one that our times make, if recorded."""
    from .split_v import recorded_rule

    rule = recorded_rule()
    return {"article": ARTICLE_RULE, "measured": None if rule is None else str(rule)}


def roofline_sentence(result: dict[str, Any], evidence: EvidenceMap) -> str | None:
    """Where the last stage stands at the first config, beside the ceilings recorded of the same GPU.

    None if these were not recorded, or the stage was not timed.
    """
    from . import ceilings, roofline

    limits = ceilings.recorded(result["sms"], result["machine"])
    if limits is None or limits.sms != result["sms"]:
        return None
    rows = [row for row in roofline.place(result, limits, evidence) if row.stage == LAST]
    return roofline.sentence(rows[0], evidence.get((LAST, rows[0].v_split))) if rows else None


def _reason(
    row: dict[str, Any], result: dict[str, Any], evidence: EvidenceMap, others: list[records.Record]
) -> str:
    """The sentences for one row."""
    if row["median_us"] is None:
        return row["reason"]
    delta = row["delta_pct"]
    setting = _setting(row, result)
    counters = core(row["stage"], row["base"], setting, evidence)
    if delta is None:
        return _sentences(["no base to compare with", counters])
    found, why = verdict(Estimate(delta, *row["delta_ci_pct"]), row["article_delta_pct"])
    if found is None or found == WITHIN_NOISE:
        return _sentences([why, counters])
    if found not in (OTHER_SIZE, OPPOSITE):
        return _sentences([counters or why])
    elsewhere = list(_elsewhere(row, result["machine"], others))
    return _sentences([counters or why, size(row["stage"], row["base"], delta, evidence, elsewhere)])


def _setting(row: dict[str, Any], result: dict[str, Any]) -> Setting:
    """Where a row was measured, with what is known of its base there."""
    fitting = {
        one["stage"]: one.get("blocks_per_sm") for one in result["rows"] if one["config"] == row["config"]
    }
    return Setting(
        config=row["config"],
        pairs=Config.parse(row["config"]).sequences * result["heads"],
        v_split=row["v_split"],
        sms=result["sms"],
        delta_pct=row["delta_pct"],
        fitting=fitting[row["stage"]],
        fitting_before=fitting.get(row["base"]),
    )


def _other_records(machine: str, sms: int) -> Iterable[records.Record]:
    """Ladders of other numbers of SMs or other GPUs, those of the same GPU first."""
    others = [
        record
        for record in records.all_of("ladder")
        if (record.provenance.gpu, record.provenance.sms) != (machine, sms)
    ]
    return sorted(others, key=lambda record: record.provenance.gpu != machine)


def _elsewhere(row: dict[str, Any], machine: str, others: list[records.Record]) -> Iterable[OtherDelta]:
    """The same row in these records."""
    for record in others:
        for other in record.content["rows"]:
            same = all(other[key] == row[key] for key in ("stage", "base", "config", "v_split"))
            if same and other["delta_pct"] is not None:
                where = record.provenance
                same_gpu = where.gpu == machine
                name = f"{where.sms} SMs" if same_gpu else f"the recorded {where.gpu} ({where.sms} SMs)"
                yield OtherDelta(name, other["delta_pct"], same_gpu)


def _sentences(parts: Iterable[str]) -> str:
    """Parts as sentences, one after the other."""
    return " ".join(f"{part[:1].upper()}{part[1:]}." for part in parts if part)
