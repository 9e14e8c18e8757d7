"""Why a stage gains what it gains: one sentence for each row of the ladder, made from counters.

The words are written here; every figure comes from profiles, from the ladder's own rows, or from the record
of a stage with fewer blocks on an SM. A remark is made only where its figures bear it out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ..records import store as records
from ..records.article import figures as article_figures
from .evidence import Evidence, EvidenceMap

LITTLE_PCT = 1.0
"""Changes below this, of counts that are exact, are called small."""

ALIKE = 1.5
"""Two changes are alike if neither is more than this many times the other."""

MOOT_OCCUPANCY = 0.5
"""Blocks per SM do not explain a gain if taking them away costs less than this part of it."""


@dataclass(frozen=True)
class Setting:
    """Where a row was measured."""

    config: str  # such as "B32/T8192"
    pairs: int  # sequences times heads
    v_split: int
    sms: int
    delta_pct: float | None = None  # the change of the time against the base
    fitting: int | None = None  # blocks of the stage that fit an SM
    fitting_before: int | None = None  # and of its base

    @property
    def blocks(self) -> int:
        """Blocks of the launch."""
        return self.pairs * self.v_split

    @property
    def spread_out(self) -> bool:
        """Whether no SM needs to hold two blocks, so that it does not matter how many would fit."""
        return self.blocks <= self.sms


@dataclass(frozen=True)
class OtherDelta:
    """The same change on another number of SMs or another GPU."""

    where: str  # such as "80 SMs"
    delta_pct: float
    same_gpu: bool


def core(stage: str, base: str | None, setting: Setting, evidence: EvidenceMap) -> str:
    """What the counters say of a stage against its base, in one sentence without a full stop; empty if there
    are none.
    """
    counted_at = setting.v_split
    if (stage, counted_at) not in evidence or (base is not None and (base, counted_at) not in evidence):
        counted_at = 1
    now, before = evidence.get((stage, counted_at)), evidence.get((base or "", counted_at))
    if now is None or (base is not None and before is None):
        return ""
    say = _SPECIAL.get((base, stage), _compared)
    parts = _alone(now) if before is None else say(now, before, setting)
    text = "; ".join(part for part in parts if part)
    note = "" if counted_at == setting.v_split else f" (counted at VSplit {counted_at})"
    return f"{text[:1].upper()}{text[1:]}{note}"


def size(stage: str, base: str, delta_pct: float, evidence: EvidenceMap, others: Sequence[OtherDelta]) -> str:
    """What is known of a change whose size or sign is not the article's: what the article counted, and
    whether the change is the same elsewhere. Without a full stop; empty if nothing is known.
    """
    parts = [_load_conflicts(stage, base, evidence)]
    for other in others:
        alike = delta_pct * other.delta_pct > 0 and 1 / ALIKE < delta_pct / other.delta_pct < ALIKE
        remark = ": the number of SMs is not the reason" if alike and other.same_gpu else ""
        parts.append(f"{other.delta_pct:+.1f} % on {other.where}{remark}")
    text = "; ".join(part for part in parts if part)
    return f"{text[:1].upper()}{text[1:]}"


def _alone(now: Evidence) -> list[str]:
    """A stage that is compared with nothing: what it is made of."""
    return [_share(now), _busy(now), _wait(now)]


def _compared(now: Evidence, before: Evidence, setting: Setting) -> list[str]:
    """What holds for any two stages: conflicts, and how much of the time they could cost."""
    return [
        _excess(now, before),
        _barriers(now, before),
        _blocks(setting),
        _reach(before),
        _wait(before) if (before.l1_pct or 100) < 80 else "",
    ]


def _s02(now: Evidence, before: Evidence, setting: Setting) -> list[str]:
    """G4, G5 and the combine leave shared memory: fewer barriers and room for more blocks."""
    return [
        _excess(now, before),
        _barriers(now, before),
        _instructions(now, before),
        _blocks(setting),
        _without_occupancy(now, setting),
    ]


def _s03a(now: Evidence, before: Evidence, setting: Setting) -> list[str]:
    """ldmatrix: fewer instructions, and rows in which it has conflicts."""
    return [_instructions(now, before), _excess(now, before), _busy(before)]


def _s08(now: Evidence, before: Evidence, setting: Setting) -> list[str]:
    """R1 reads shared memory instead of global memory."""
    waits = [one.stalls.get("long_scoreboard") for one in (before, now)]
    parts = []
    if None not in waits:
        parts.append(
            f"waits for global memory (long_scoreboard) {waits[0]:.1f} → {waits[1]:.1f} cycles an instruction"
        )
    if before.other_l1_cycles is not None and now.other_l1_cycles is not None:
        parts.append(
            f"L1's busy cycles a tile for global memory {before.other_l1_cycles:,.0f} → "
            f"{now.other_l1_cycles:,.0f}"
        )
    return [*parts, f"but {_excess(now, before)}", _blocks(setting), _fit(setting)]


def _s10(now: Evidence, before: Evidence, setting: Setting) -> list[str]:
    """dS in another swizzle: nothing to gain where there was no conflict."""
    more = now.instructions - before.instructions
    if now.wavefronts != before.wavefronts or abs(more) > LITTLE_PCT / 100 * before.instructions:
        return _compared(now, before, setting)
    return [
        f"no wavefront changes ({now.wavefronts:,.0f} a tile): dS interleaved had no conflicts",
        f"a tile takes {now.instructions:,.0f} instructions against {before.instructions:,.0f}: the compiler "
        "works the XOR out before the loop",
    ]


def _s12x(now: Evidence, before: Evidence, setting: Setting) -> list[str]:
    """An XOR swizzle of 16-byte pieces cannot do better than the padding did."""
    if now.excess != before.excess:
        return _compared(now, before, setting)
    return [f"excess wavefronts a tile stay at {now.excess:,.0f}: as few as 16-byte copies allow"]


_SPECIAL = {
    ("s01", "s02"): _s02,
    ("s02", "s03a"): _s03a,
    ("s06", "s08"): _s08,
    ("s09", "s10"): _s10,
    ("s11", "s12x"): _s12x,
}
"""By base and stage: what is said of this step instead of what holds for any."""


def _excess(now: Evidence, before: Evidence) -> str:
    if now.excess is None or before.excess is None:
        return f"wavefronts a tile {before.wavefronts:,.0f} → {now.wavefronts:,.0f}"
    return (
        f"excess wavefronts a tile {before.excess:,.0f} of {before.wavefronts:,.0f} → {now.excess:,.0f} of "
        f"{now.wavefronts:,.0f}"
    )


def _barriers(now: Evidence, before: Evidence) -> str:
    if now.barriers == before.barriers or None in (now.barriers, before.barriers):
        return ""
    return f"barriers {before.barriers} → {now.barriers}"


def _instructions(now: Evidence, before: Evidence) -> str:
    return f"instructions a tile {before.instructions:,.0f} → {now.instructions:,.0f}"


def _blocks(setting: Setting) -> str:
    fitting, before = setting.fitting, setting.fitting_before
    if fitting == before or None in (fitting, before):
        return ""
    text = f"blocks that fit an SM {before} → {fitting}"
    if setting.spread_out:
        text += f", which does not matter: {setting.blocks} blocks on {setting.sms} SMs"
    return text


def _fit(setting: Setting) -> str:
    """Whether blocks that fitted the GPU all at once no longer do."""
    if setting.fitting is None or setting.fitting_before is None:
        return ""
    room = setting.fitting * setting.sms
    if not room < setting.blocks <= setting.fitting_before * setting.sms:
        return ""
    return f"the {setting.blocks} blocks no longer run all at once, {room} do"


def _without_occupancy(now: Evidence, setting: Setting) -> str:
    """What the record of a stage with fewer blocks on an SM says."""
    record = records.find("blocks", sms=setting.sms)
    if setting.spread_out or record is None:
        return ""
    content = record.content
    if (content["stage"], content["v_split"]) != (now.stage, setting.v_split):
        return ""
    most, fewest = (choose(content["rows"], key=lambda row: row["blocks"]) for choose in (max, min))
    cost = fewest["delta_pct"]
    if cost is None:
        return ""
    text = f"held to {fewest['blocks']} instead of {most['blocks']} it takes {cost:.1f} % longer"
    if content["config"] != setting.config:
        text += f" (at {content['config']})"
    gain = abs(setting.delta_pct or 0)
    return f"{text}: occupancy is not the reason" if cost < MOOT_OCCUPANCY * gain else text


def _reach(before: Evidence) -> str:
    """How much of the time shared memory could account for, before the step."""
    if before.l1_pct is None or before.shared_pct is None:
        return ""
    text = f"L1 was busy {before.l1_pct:.0f} % of the time, {before.shared_pct:.0f} % of that with "
    text += "shared memory" if before.shared_pct > 50 else "shared memory and the rest with global memory"
    if before.l2_pct is not None and before.l2_pct > 0.9 * before.l1_pct:
        text += f", and L2 {before.l2_pct:.0f} %"
    return text


def _share(now: Evidence) -> str:
    if now.excess is None:
        return f"{now.wavefronts:,.0f} wavefronts a tile"
    return f"{now.excess:,.0f} of {now.wavefronts:,.0f} wavefronts a tile are bank conflicts"


def _busy(one: Evidence) -> str:
    return "" if one.l1_pct is None else f"L1 is busy {one.l1_pct:.0f} % of the time"


def _wait(one: Evidence) -> str:
    if one.longest_wait is None:
        return ""
    share = 100 * one.stalls[one.longest_wait] / sum(one.stalls.values())
    return f"warps wait most for {one.longest_wait}, {share:.0f} % of their time"


def _load_conflicts(stage: str, base: str, evidence: EvidenceMap) -> str:
    """Load conflicts that a step takes away, here and in the article, where both count them before and after.

    At VSplit 1, as in the article's profiles.
    """
    counted = {entry["id"]: entry.get("conf_ld") for entry in article_figures()["stages"]}
    there = [counted.get(base), counted.get(stage)]
    here = [evidence[name, 1].load_excess for name in (base, stage) if (name, 1) in evidence]
    if not all(there) or len(here) < 2 or not here[0] or here[1] is None:
        return ""
    fell = [100 * (1 - now / before) for before, now in (here, there)]
    return f"load conflicts fell by {fell[0]:.0f} %, in the article by {fell[1]:.0f} %"
