"""The whole ladder on one GPU with one command: is what the article found on its H20 true here as well?

Doctor, check, ceilings, ladder and profile, part by part; then one page to read, report.html, and one file to
share, pack.json. A run that was cut off goes on where it stopped. On a computer that cannot measure, the page
shows what is recorded.
"""

import json
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..ground.errors import BadInput, KdaError, MachineUnavailable
from ..ground.files import plain
from ..ground.given import real
from ..kernel_a.batch import CONFIGS
from ..machines.device import Gpu, describe, hopper
from ..performance import evidence as counter_evidence
from ..performance import roofline
from ..performance.bench import check_request
from ..performance.ceilings import of_record
from ..performance.ceilings import recorded as recorded_ceilings
from ..performance.explained import explained, ladder
from ..performance.ladder import ids_of
from ..performance.profile import targets
from ..records import store as records
from ..setup.doctor import doctor
from . import parts as reproduce_parts
from .parts import Plan, Store
from .reproduction import LeftOut, Reproduction

MINUTES = 12.0
"""After this long no further run of ncu is begun, so that all is done within a quarter of an hour."""

PARTS = "parts"


def reproduce(
    out: Path,
    *,
    stages: Sequence[str] | None = None,
    configs: Sequence[str] = CONFIGS,
    heads: int = 32,
    sms: int | None = None,
    fresh: bool = False,
    minutes: float = MINUTES,
) -> Reproduction:
    """Measure what this computer can, and write `out`/report.html and `out`/pack.json.

    stages: ids (None: all). configs, heads, sms: as in `ladder.ladder`. fresh: forget what earlier runs left
    in `out`, which git ignores if it is new. minutes: begin no run of ncu after so many. What cannot be
    measured is left out, with its reason; without a Hopper GPU the ladder is the recorded one. Raises
    BadInput for a request that does not fit or a folder that cannot be written.
    """
    from .page import write_report

    start = time.monotonic()
    if not isinstance(out, (str, Path)):
        raise BadInput(f"out is {out!r}: give the path of a folder.")
    out, minutes = Path(out), real("minutes", minutes, "a number of minutes, 0 or above", 0)
    names = ids_of(stages)
    check_request(names, configs, [sms], heads, None)
    plan = Plan(tuple(names), tuple(dict.fromkeys(configs)), heads, sms)
    gpu, why_not = _gpu()
    check_request(plan.stages, plan.configs, [sms], heads, gpu)
    _make_folder(out)
    if fresh:
        shutil.rmtree(out / PARTS, ignore_errors=True)
    where = "emulator" if gpu is None else f"{gpu.name}, driver {gpu.driver}"
    store = Store(out / PARTS, where)
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
        _attempt(found, "ladder", lambda: found.ladders.extend(reproduce_parts.ladders(store, plan)))

        def time_is_up() -> bool:
            return time.monotonic() > start + 60 * minutes

        _attempt(found, "profile", lambda: _measure_profiles(found, store, plan, time_is_up))
    _explain(found, plan)
    found.sentence = _sentence(found, gpu, why_not)
    write_report(found, out / "report.html")
    _write_pack(found, out / "pack.json")
    return found


def _make_folder(out: Path) -> None:
    """The folder, if it is not there; a new one is none of git's business, and tells it so."""
    try:
        if not out.is_dir():
            out.mkdir(parents=True)
            (out / ".gitignore").write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{out} cannot be made ({error.strerror}): give another folder.") from None


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


def _measure_profiles(found: Reproduction, store: Store, plan: Plan, time_is_up: Callable[[], bool]) -> None:
    """Profiles explain the rows if there is one of every stage; if some are missing, recorded ones do."""
    v_splits = {row.v_split for row in found.rows} | {1}
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
        found.limits = recorded_ceilings(found.ladders[0].sms)
    else:
        found.ladders = [explained(one, found.profiles) for one in found.ladders]
        found.sms = found.ladders[0].sms
    if found.limits is not None and found.limits.sms == found.ladders[0].sms:
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
