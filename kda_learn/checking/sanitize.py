"""compute-sanitizer over the stages: recorded beside what the emulator says."""

from collections.abc import Sequence
from typing import Any

from ..kernel_a.run import run
from ..machines.device import hopper
from ..machines.sanitizer import TOOLS, watch
from .standard_set import emulator_cases


def sanitize(stages: Sequence[str], *, seconds: float = 300) -> list[dict[str, Any]]:
    """Run each tool over the stages (ids): rows {tool, stages, launches, findings, report}.

    report: what the tool printed of its findings, empty if there are none. Raises MachineUnavailable without
    a Hopper GPU, without compute-sanitizer, or if the tool ends without a verdict within so many seconds.
    """
    hopper()
    rows = []
    for tool in TOOLS:
        verdict = watch(tool, f"{__name__}:launch_all", list(stages), seconds=seconds)
        rows.append(
            {
                "tool": tool,
                "stages": list(stages),
                "launches": verdict.answer,
                "findings": verdict.findings,
                "report": verdict.report,
            }
        )
    return rows


def launch_all(stages: Sequence[str]) -> int:
    """What compute-sanitizer watches: every stage on every small case. Returns the number of launches."""
    cases = emulator_cases()
    for name in stages:
        for case in cases:
            run(name, case.problem, machine="gpu", v_split=case.v_split, snapshot_dtype=case.snapshot_dtype)
    return len(stages) * len(cases)
