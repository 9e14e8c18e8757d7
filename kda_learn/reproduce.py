"""The whole ladder on one GPU with one command: is what the article found on its H20 true here as well?

Doctor, check, ceilings, ladder and profile, part by part; then one page to read, report.html, and one file to
share, pack.json. A run that was cut off goes on where it stopped. On a computer that cannot measure, the page
shows what is recorded.
"""

from __future__ import annotations

import json
import shutil
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from . import counter_evidence, records, reproduce_parts, roofline
from .bench import CONFIGS, check_request
from .ceilings import Ceilings, of_record
from .ceilings import recorded as recorded_ceilings
from .device import Gpu, describe, hopper
from .doctor import doctor
from .errors import BadInput, KdaError, MachineUnavailable
from .ladder import ladder
from .ladder_reasons import explained
from .plain_json import plain
from .profile import Profile
from .profile_pack import targets
from .reproduce_parts import Plan, Store
from .roofline import RooflineRow
from .stages import STAGES
from .stages import stage as stage_named
from .text_table import WIDTH

MINUTES = 12.0
"""After this long no further run of ncu is begun, so that all is done within a quarter of an hour."""

PARTS = "parts"


@dataclass(frozen=True)
class LeftOut:
    """A part that was not measured, and why, in a sentence."""

    part: str
    reason: str


@dataclass
class Reproduction:
    """What was found. Ladders are those of `ladder.ladder`, one for each config if they were measured."""

    machine: str | None  # the GPU's name; None if nothing was measured on one
    sms: int | None
    date: str
    sentence: str  # what was done, and what could not be
    doctor: dict[str, Any]
    checks: list[dict[str, Any]] = field(default_factory=list)
    ladders: list[dict[str, Any]] = field(default_factory=list)
    recorded: bool = True  # whether the ladders are recorded ones
    own_profiles: list[Profile] = field(default_factory=list)
    profiles: list[Profile] = field(default_factory=list)  # whose counters explain the ladders
    limits: Ceilings | None = None
    ceilings_record: dict[str, Any] | None = None
    roofline: list[RooflineRow] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of all ladders."""
        return [row for one in self.ladders for row in one["rows"]]

    @property
    def verdicts(self) -> dict[str, int]:
        """How many rows got each verdict, the most frequent first."""
        return dict(Counter(row["verdict"] for row in self.rows if row["verdict"]).most_common())

    @property
    def faults(self) -> int:
        """Checks that failed."""
        return sum(not row["ok"] for row in self.checks)

    def as_text(self, out: Path) -> str:
        """For the terminal; out: where the files are."""
        lines = [self.sentence]
        if self.checks:
            lines.append(f"{len(self.checks) - self.faults} of {len(self.checks)} checks passed.")
        if self.ladders:
            counts = ", ".join(f"{count} {verdict}" for verdict, count in self.verdicts.items())
            lines.append(f"{'Recorded verdicts' if self.recorded else 'Verdicts'}: {counts or 'none'}.")
        lines += [f"Left out: {line}" for line in self.what_is_missing()]
        lines.append(f"To read: {out / 'report.html'}. To share: {out / 'pack.json'}.")
        return "\n".join(textwrap.fill(line, WIDTH, subsequent_indent="  ") for line in lines)

    def what_is_missing(self) -> list[str]:
        """What was left out, by reason; a reason that `sentence` has given is not repeated."""
        parts: dict[str, list[str]] = {}
        for one in self.left_out:
            parts.setdefault(one.reason, []).append(one.part)
        return [
            ", ".join(names) + ("." if self.sentence.startswith(reason) else f": {reason}")
            for reason, names in parts.items()
        ]

    def as_dict(self) -> dict[str, Any]:
        """The pack: everything that was measured here, for JSON."""
        return {
            "kind": "reproduction",
            "machine": self.machine,
            "sms": self.sms,
            "date": self.date,
            "sentence": self.sentence,
            "verdicts": {} if self.recorded else self.verdicts,
            "doctor": self.doctor,
            "check": {"ok": self.faults == 0, "rows": self.checks},
            "ladders": [] if self.recorded else self.ladders,
            "ceilings": self.ceilings_record,
            "profiles": [one.as_dict() for one in self.own_profiles],
            "roofline": [] if self.recorded else [asdict(row) for row in self.roofline],
            "left_out": [asdict(one) for one in self.left_out],
        }


def reproduce(
    out: Path,
    *,
    stages: Sequence[str] | None = None,
    configs: Sequence[str] = CONFIGS,
    heads: int = 32,
    sms: int | None = None,
    fresh: bool = False,
    minutes: float = MINUTES,
    report: Callable[[str], None] | None = None,
) -> Reproduction:
    """Measure what this computer can, and write `out`/report.html and `out`/pack.json.

    stages: ids (None: all). configs, heads, sms: as in `ladder.ladder`. fresh: forget what earlier runs left
    in `out`. minutes: begin no run of ncu after so many. report: called with a line of text as the work goes
    on. What cannot be measured is left out, with its reason; without a Hopper GPU the ladder is the recorded
    one. Raises BadInput for a request that does not fit or a folder that cannot be written.
    """
    from .report import write_report

    start = time.monotonic()
    say = report or (lambda text: None)
    names = [one.id for one in STAGES] if stages is None else [stage_named(name).id for name in stages]
    plan = Plan(tuple(dict.fromkeys(names)), tuple(dict.fromkeys(configs)), heads, sms)
    gpu, why_not = _gpu()
    check_request(plan.stages, plan.configs, [sms], heads, gpu)
    if fresh:
        shutil.rmtree(out / PARTS, ignore_errors=True)
    where = "emulator" if gpu is None else f"{gpu.name}, driver {gpu.driver}"
    store = Store(out / PARTS, where, say)
    found = Reproduction(
        machine=gpu.name if gpu else None,
        sms=None,
        date=records.now(),
        sentence="",
        doctor=doctor().as_dict(),
    )
    if gpu is None:
        _without_hopper(found, store, plan, why_not)
    else:
        _attempt(found, "check", lambda: found.checks.extend(reproduce_parts.checks(store, plan, "gpu")))
        _attempt(found, "ceilings", lambda: _measure_ceilings(found, store, plan))
        _attempt(found, "ladder", lambda: found.ladders.extend(_measure_ladders(store, plan)))

        def time_is_up() -> bool:
            return time.monotonic() > start + 60 * minutes

        _attempt(found, "profile", lambda: _measure_profiles(found, store, plan, time_is_up))
    _explain(found, plan)
    found.sentence = _sentence(found, gpu, why_not)
    write_report(found, out / "report.html")
    _write_pack(found, out / "pack.json")
    return found


def _gpu() -> tuple[Gpu | None, str]:
    """The Hopper GPU, or None and why there is none."""
    try:
        return hopper(), ""
    except MachineUnavailable as missing:
        return None, str(missing)


def _without_hopper(found: Reproduction, store: Store, plan: Plan, why_not: str) -> None:
    """What is possible without a Hopper GPU: with another GPU the CPU machine checks, without any nothing."""
    found.left_out += [LeftOut(part, why_not) for part in ("ceilings", "ladder", "profile")]
    try:
        other = describe()
    except MachineUnavailable:
        found.left_out.insert(0, LeftOut("check", why_not))
        return
    found.machine, found.sms = other.name, other.sms
    _attempt(found, "check", lambda: found.checks.extend(reproduce_parts.checks(store, plan, "emulator")))


def _attempt(found: Reproduction, part: str, measure: Callable[[], None]) -> None:
    """Measure a part; if that cannot be, note why. A request that does not fit is not caught."""
    try:
        measure()
    except BadInput:
        raise
    except KdaError as error:
        found.left_out.append(LeftOut(part, str(error)))


def _measure_ceilings(found: Reproduction, store: Store, plan: Plan) -> None:
    found.ceilings_record = reproduce_parts.limits(store, plan)
    record = found.ceilings_record
    where = records.Provenance(**record["provenance"])
    (found.limits,) = of_record(records.Record(record["kind"], where, record["content"]))


def _measure_ladders(store: Store, plan: Plan) -> list[dict[str, Any]]:
    found = reproduce_parts.ladders(store, plan)
    return [one["ladder"] | {"provenance": one["provenance"]} for one in found]


def _measure_profiles(found: Reproduction, store: Store, plan: Plan, time_is_up: Callable[[], bool]) -> None:
    """Profiles explain the rows if there is one of every stage; if some are missing, recorded ones do."""
    v_splits = {row["v_split"] for row in found.rows} | {1}
    found.own_profiles, failed = reproduce_parts.profiles(
        store, targets(plan.stages, sorted(v_splits)), time_is_up
    )
    found.left_out += [LeftOut("profile", sentence) for sentence in failed]
    if set(plan.stages) <= {one.stage for one in found.own_profiles if one.v_split == 1}:
        found.profiles = found.own_profiles


def _explain(found: Reproduction, plan: Plan) -> None:
    """Reasons and the roofline, of what was measured or else of what is recorded."""
    found.recorded = not found.ladders
    if not found.profiles:
        found.profiles = list(counter_evidence.recorded_profiles())
    if found.recorded:
        try:
            found.ladders = [ladder(stages=plan.stages, configs=plan.configs, sms=plan.sms, live=False)]
        except MachineUnavailable as missing:
            found.left_out.append(LeftOut("recorded ladder", str(missing)))
            return
        found.limits = recorded_ceilings(found.ladders[0]["sms"])
    else:
        found.ladders = [explained(one, found.profiles) for one in found.ladders]
        found.sms = found.ladders[0]["sms"]
    if found.limits is not None and found.limits.sms == found.ladders[0]["sms"]:
        evidence = counter_evidence.of_profiles(found.profiles)
        found.roofline = [row for one in found.ladders for row in roofline.place(one, found.limits, evidence)]


def _sentence(found: Reproduction, gpu: Gpu | None, why_not: str) -> str:
    """What was done, in one or two sentences."""
    if gpu is None:
        what = "The stages were checked on the CPU machine; times" if found.checks else "Times"
        return f"{why_not} {what} and counters shown here are recorded ones."
    parts = sorted({one.part for one in found.left_out})
    text = f"Measured on an {gpu.name} with {found.sms or gpu.sms} SMs."
    return f"{text} Left out, at least in part: {', '.join(parts)}." if parts else text


def _write_pack(found: Reproduction, path: Path) -> None:
    try:
        path.write_text(json.dumps(plain(found.as_dict())) + "\n", encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{path} cannot be written ({error.strerror}): give another folder.") from None
