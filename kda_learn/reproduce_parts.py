"""The parts of a reproduction: what each measures, and how what was measured is kept for the next run.

A part is one file in a folder. It is measured once and then read, as long as what it depends on (the GPU,
the stages' sources, the request) stays the same: a run that was cut off goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import ceilings, records
from .cache import write_atomically
from .check import check
from .check_set import Case, emulator_cases, gpu_cases
from .errors import BadInput, KdaError
from .ladder import measured_ladders
from .parallel_compile import compile_at_once
from .profile import Profile, Target
from .profile_measure import measure as measure_profiles
from .profile_measure import simulate

Say = Callable[[str], None]
BATCH = 4
"""Kernels that ncu watches in one run."""


@dataclass(frozen=True)
class Plan:
    """What to measure: stage ids, configs, heads, and how many SMs to use (None: all)."""

    stages: tuple[str, ...]
    configs: tuple[str, ...]
    heads: int
    sms: int | None


class Store:
    """The folder of the parts. `gpu`: what they belong to, a GPU's name or "emulator"."""

    def __init__(self, folder: Path, gpu: str, say: Say) -> None:
        self.folder = folder
        self.gpu = gpu
        self.say = say

    def part(self, name: str, stages: Sequence[str], request: Any, measure: Callable[[], Any]) -> Any:
        """A part from its file, or measured and written there.

        stages: whose sources it depends on. request: what else it depends on; JSON. Raises what `measure`
        raises, and BadInput if the file cannot be written.
        """
        path = self.folder / f"{name}.json"
        key = {"gpu": self.gpu, "sources": records.digests(stages), "request": request}
        found = _read(path)
        if found is not None and found["key"] == json.loads(json.dumps(key)):
            self.say(f"{name}: kept from {found['date']}")
            return found["content"]
        self.say(name)
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
    cases = gpu_cases() if machine == "gpu" else emulator_cases()
    rows = []
    for number, case in enumerate(cases, 1):
        of_case = [case.problem.name, case.v_split, case.snapshot_dtype, machine]

        def measure(case: Case = case) -> list[dict[str, Any]]:
            if machine == "gpu":
                varlen = case.problem.cu_seqlens is not None
                compile_at_once((stage, case.v_split, varlen, case.snapshot_dtype) for stage in plan.stages)
            return [
                asdict(
                    check(
                        stage,
                        case.problem,
                        machine=machine,
                        v_split=case.v_split,
                        snapshot_dtype=case.snapshot_dtype,
                    )
                )
                for stage in plan.stages
            ]

        name = f"check-{number:02d}-of-{len(cases):02d}"
        rows += store.part(name, plan.stages, [*of_case, plan.stages], measure)
    return rows


def limits(store: Store, plan: Plan) -> dict[str, Any]:
    """The ceilings of this GPU, as a record: {kind, provenance, content}."""
    return store.part("ceilings", [], [plan.sms], lambda: asdict(ceilings.measure([plan.sms])))


def ladders(store: Store, plan: Plan) -> list[dict[str, Any]]:
    """The stages timed, a part for each config: {provenance, ladder} as `measured_ladders` gives them."""
    found = []
    for config in plan.configs:

        def measure(config: str = config) -> dict[str, Any]:
            compile_at_once((stage, split, False, "float32") for stage in plan.stages for split in (1, 4))
            (one,) = measured_ladders(plan.stages, [config], [plan.sms], plan.heads)
            return {"provenance": asdict(one["provenance"]), "ladder": one["ladder"]}

        name = f"ladder-{config.replace('/', '-')}"
        found.append(store.part(name, plan.stages, [asdict(plan), config], measure))
    return found


def profiles(
    store: Store, targets: Sequence[Target], time_is_up: Callable[[], bool]
) -> tuple[list[Profile], list[str]]:
    """The targets' profiles, in batches, and a sentence for each that failed or was not begun in time.

    Raises MachineUnavailable if counters cannot be read here at all.
    """
    found: list[Profile] = []
    failed: list[str] = []
    for first in range(0, len(targets), BATCH):
        batch = targets[first : first + BATCH]
        names = ", ".join(f"{target.name} at VSplit {target.v_split}" for target in batch)
        name = f"profile-{first // BATCH + 1:02d}"
        stages = list(dict.fromkeys(target.name for target in batch))
        request = [[target.stage, target.v_split, target.config, target.heads] for target in batch]
        if time_is_up() and not (store.folder / f"{name}.json").exists():
            failed.append(f"{names}: not begun, the time was up; run the same command again to go on.")
            continue
        try:
            part = store.part(name, stages, request, lambda batch=batch: _profiled(batch, store.say))
        except KdaError as error:
            if type(error) is not KdaError:  # no GPU, no ncu, no leave: the others would fail too
                raise
            failed.append(f"{names}: {error}")
            continue
        found += [Profile.from_dict(values) for values in part["profiles"]]
        failed += part["failed"]
    return found, failed


def _profiled(batch: Sequence[Target], say: Say) -> dict[str, Any]:
    """One run of ncu: {profiles, failed: sentences}."""
    compile_at_once((target.path, target.v_split, False, "float32") for target in batch)
    _prepare_traces(batch)
    done = measure_profiles(batch, report=say)
    return {
        "profiles": [one.as_dict() for one in done if isinstance(one, Profile)],
        "failed": [
            f"{target.name} at VSplit {target.v_split}: {one}"
            for target, one in zip(batch, done, strict=True)
            if not isinstance(one, Profile)
        ],
    }


def _prepare_traces(batch: Sequence[Target]) -> None:
    """Build the kernels for the emulator, several at a time: a profile is compared with their traces."""

    def one(target: Target) -> None:
        with contextlib.suppress(KdaError):  # it shows again when the profile needs the trace
            simulate(target)

    with ThreadPoolExecutor() as pool:
        list(pool.map(one, batch))


def _read(path: Path) -> dict[str, Any] | None:
    """A part's file; None if there is none or if it is damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return found if {"key", "date", "content"} <= found.keys() else None
    except (OSError, ValueError, AttributeError):
        return None
