"""The ladder with a sentence for each row that says why: what `reasons` knows, put together."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ..kernel_a.batch import CONFIGS, Config
from ..machines.device import has_hopper
from ..records import store as records
from ..sources.stages import LAST
from ..timing.statistics import Estimate
from . import ceilings, roofline
from . import evidence as counter_evidence
from .bench import check_request
from .evidence import EvidenceMap
from .ladder import ids_of, measured_ladders, record_of, recorded_ladder
from .ladder_rows import Ladder, LadderRow
from .profile import Profile
from .reasons import OtherDelta, Setting, core, size
from .split_v import recorded_rule
from .verdicts import OPPOSITE, OTHER_SIZE, WITHIN_NOISE, verdict

ARTICLE_RULE = "4 if N*H < SMs, else 1"


def ladder(
    *,
    stages: Sequence[str] | None = None,
    configs: Sequence[str] = CONFIGS,
    sms: int | None = None,
    heads: int = 32,
    live: bool | None = None,
    record: Path | None = None,
) -> Ladder:
    """Time the stages (None: all) and set each beside its base and beside the article.

    configs: "B32/T8192" means 32 sequences of 8192 tokens. sms: use only so many SMs of the GPU (None: all).
    live: True measures, False shows the newest record, None measures if there is a Hopper GPU. record: a file
    to keep the measurement in.

    A stage that does not pass its check is not timed: its median_us is None and `reason` says why. Raises
    BadInput for a stage or config that is unknown, MachineUnavailable without GPU and without a record.
    """
    names = ids_of(stages)
    check_request(names, configs, [sms], heads, None)
    if live is None:
        live = record is not None or has_hopper()
    if not live:
        return explained(recorded_ladder(names, configs, sms))
    (measured,) = measured_ladders(names, configs, [sms], heads)
    found = explained(measured)
    if record is not None:
        records.save(record_of(found), record)
    return found


def explained(result: Ladder, profiles: Sequence[Profile] | None = None) -> Ladder:
    """A ladder whose rows have a `reason`, with reasons_from, v_split_rule and roofline.

    profiles: whose counters explain it (None: the recorded ones). A row that was not timed keeps its reason.
    """
    if profiles is None:
        profiles = counter_evidence.recorded_profiles()
        evidence = counter_evidence.recorded()
    else:
        evidence = counter_evidence.of_profiles(profiles)
    others = list(_other_records(result.machine, result.sms))
    return replace(
        result,
        reasons_from=counter_evidence.banner(profiles),
        v_split_rule=v_split_rule(),
        roofline=roofline_sentence(result, evidence),
        rows=[replace(row, reason=_reason(row, result, evidence, others)) for row in result.rows],
    )


def v_split_rule() -> dict[str, str | None]:
    """The rule by which VSplit was chosen, the article's, and the one that our times make, if recorded."""
    rule = recorded_rule()
    return {"article": ARTICLE_RULE, "measured": None if rule is None else str(rule)}


def roofline_sentence(result: Ladder, evidence: EvidenceMap) -> str | None:
    """Where the last stage stands at the first config, beside the ceilings recorded of the same GPU.

    None if these were not recorded, or the stage was not timed.
    """
    limits = ceilings.recorded(result.sms, result.machine)
    if limits is None or limits.sms != result.sms:
        return None
    rows = [row for row in roofline.place(result, limits, evidence) if row.stage == LAST]
    return roofline.sentence(rows[0], evidence.get((LAST, rows[0].v_split))) if rows else None


def _reason(row: LadderRow, result: Ladder, evidence: EvidenceMap, others: list[records.Record]) -> str:
    """The sentences for one row."""
    if row.median_us is None:
        return row.reason
    delta = row.delta_pct
    setting = _setting(row, result)
    counters = core(row.stage, row.base, setting, evidence)
    if delta is None:
        return _sentences(["no base to compare with", counters])
    found, why = verdict(Estimate(delta, *row.delta_ci_pct), row.article_delta_pct)
    if found is None or found == WITHIN_NOISE:
        return _sentences([why, counters])
    if found not in (OTHER_SIZE, OPPOSITE):
        return _sentences([counters or why])
    elsewhere = list(_elsewhere(row, result.machine, others))
    return _sentences([counters or why, size(row.stage, row.base, delta, evidence, elsewhere)])


def _setting(row: LadderRow, result: Ladder) -> Setting:
    """Where a row was measured, with what is known of its base there."""
    fitting = {one.stage: one.blocks_per_sm for one in result.rows if one.config == row.config}
    return Setting(
        config=row.config,
        pairs=Config.parse(row.config).sequences * result.heads,
        v_split=row.v_split,
        sms=result.sms,
        delta_pct=row.delta_pct,
        fitting=fitting[row.stage],
        fitting_before=fitting.get(row.base),
    )


def _other_records(machine: str, sms: int) -> Iterable[records.Record]:
    """Ladders of other numbers of SMs or other GPUs, those of the same GPU first."""
    others = [
        record
        for record in records.all_of("ladder")
        if (record.provenance.gpu, record.provenance.sms) != (machine, sms)
    ]
    return sorted(others, key=lambda record: record.provenance.gpu != machine)


def _elsewhere(row: LadderRow, machine: str, others: list[records.Record]) -> Iterable[OtherDelta]:
    """The same row in these records."""
    for record in others:
        for other in record.content["rows"]:
            same = all(other[key] == getattr(row, key) for key in ("stage", "base", "config", "v_split"))
            if same and other["delta_pct"] is not None:
                where = record.provenance
                same_gpu = where.gpu == machine
                name = f"{where.sms} SMs" if same_gpu else f"the recorded {where.gpu} ({where.sms} SMs)"
                yield OtherDelta(name, other["delta_pct"], same_gpu)


def _sentences(parts: Iterable[str]) -> str:
    """Parts as sentences, one after the other."""
    return " ".join(f"{part[:1].upper()}{part[1:]}." for part in parts if part)
