"""The parts of a reproduction: what each measures, and how what was measured is kept for the next run.

A part is one file in a folder. It is measured once and then read, as long as what it depends on (the GPU,
the stages' sources, the request) stays the same: a run that was cut off goes on where it stopped.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..checking.check import Case, check_jobs
from ..checking.standard_set import cases_of
from ..ground.errors import BadInput, KdaError
from ..ground.files import write_atomically
from ..ground.say import say
from ..kernel_a.variants import compile_at_once
from ..performance import ceilings
from ..performance.ladder import measured_ladders
from ..performance.ladder_rows import Ladder
from ..performance.profile import PROFILED_V_SPLITS, Profile, Target
from ..performance.profile_measure import in_batches
from ..performance.profile_measure import measure as measure_profiles
from ..records import store as records
from ..sources.stages import stage


@dataclass(frozen=True)
class Plan:
    """What to measure: stage ids, configs, heads, and how many SMs to use (None: all)."""

    stages: tuple[str, ...]
    configs: tuple[str, ...]
    heads: int
    sms: int | None


class Store:
    """The folder of the parts. `gpu`: what they belong to, a GPU's name or "emulator"."""

    def __init__(self, folder: Path, gpu: str) -> None:
        self.folder = folder
        self.gpu = gpu

    def part(self, name: str, stages: Sequence[str], request: Any, measure: Callable[[], Any]) -> Any:
        """A part from its file, or measured and written there.

        stages: whose sources it depends on. request: what else it depends on; JSON. Raises what `measure`
        raises, and BadInput if the file cannot be written.
        """
        path = self.folder / f"{name}.json"
        key = {"gpu": self.gpu, "sources": records.digests(stages), "request": request}
        found = _read(path)
        if found is not None and found["key"] == json.loads(json.dumps(key)):
            say(f"{name}: kept from {found['date']}")
            return found["content"]
        say(name)
        content = measure()
        text = json.dumps({"key": key, "date": records.now(), "content": content})
        try:
            write_atomically(path, text.encode())
        except OSError as error:
            raise BadInput(
                f"The results cannot be kept in {self.folder} ({error.strerror}): give another folder."
            ) from None
        return json.loads(text)["content"]


def checks(store: Store, plan: Plan, machine: str) -> list[dict[str, Any]]:
    """Every stage against float64: rows as `kda-learn check --json` has them. A part is one problem."""
    cases = cases_of(machine)
    stages = [stage(name) for name in plan.stages]
    rows = []
    for number, case in enumerate(cases, 1):

        def measure(case: Case = case) -> list[dict[str, Any]]:
            if machine == "gpu":
                varlen = case.problem.cu_seqlens is not None
                compile_at_once((one, case.v_split, varlen, case.snapshot_dtype) for one in stages)
            return [asdict(row) for row in check_jobs([(one, case) for one in stages], machine)]

        name = f"check-{number:02d}-of-{len(cases):02d}"
        request = [case.problem.name, case.v_split, case.snapshot_dtype, machine, plan.stages]
        rows += store.part(name, plan.stages, request, measure)
    return rows


def limits(store: Store, plan: Plan) -> dict[str, Any]:
    """The ceilings of this GPU, as a record: {kind, provenance, content}."""
    return store.part("ceilings", [], [plan.sms], lambda: asdict(ceilings.measure([plan.sms])))


def ladders(store: Store, plan: Plan) -> list[Ladder]:
    """The stages timed, a part for each config."""
    found = []
    for config in plan.configs:

        def measure(config: str = config) -> dict[str, Any]:
            compile_at_once(
                (stage(name), split, False, "float32") for name in plan.stages for split in PROFILED_V_SPLITS
            )
            (one,) = measured_ladders(plan.stages, [config], [plan.sms], plan.heads)
            return one.as_dict()

        name = f"ladder-{config.replace('/', '-')}"
        found.append(Ladder.from_dict(store.part(name, plan.stages, [asdict(plan), config], measure)))
    return found


def profiles(
    store: Store, targets: Sequence[Target], time_is_up: Callable[[], bool]
) -> tuple[list[Profile], list[str]]:
    """The targets' profiles, in batches, and a sentence for each that failed or was not begun in time.

    Raises MachineUnavailable if counters cannot be read here at all.
    """
    found: list[Profile] = []
    failed: list[str] = []
    for number, batch in enumerate(in_batches(targets), 1):
        names = ", ".join(target.label for target in batch)
        name = f"profile-{number:02d}"
        stages = list(dict.fromkeys(target.name for target in batch))
        request = [[target.stage, target.v_split, target.config, target.heads] for target in batch]
        if time_is_up() and not (store.folder / f"{name}.json").exists():
            failed.append(f"{names}: not begun, the time was up; run the same command again to go on.")
            continue
        try:
            part = store.part(name, stages, request, lambda batch=batch: _profiled(batch))
        except KdaError as error:
            if type(error) is not KdaError:  # no GPU, no ncu, no leave: the others would fail too
                raise
            failed.append(f"{names}: {error}")
            continue
        found += [Profile.from_dict(values) for values in part["profiles"]]
        failed += part["failed"]
    return found, failed


def _profiled(batch: Sequence[Target]) -> dict[str, Any]:
    """One run of ncu: {profiles, failed: sentences}."""
    done = measure_profiles(batch)
    return {
        "profiles": [one.as_dict() for one in done if isinstance(one, Profile)],
        "failed": [
            f"{target.label}: {one}"
            for target, one in zip(batch, done, strict=True)
            if not isinstance(one, Profile)
        ],
    }


def _read(path: Path) -> dict[str, Any] | None:
    """A part's file; None if there is none or if it is damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return found if {"key", "date", "content"} <= found.keys() else None
    except (OSError, ValueError, AttributeError):
        return None
