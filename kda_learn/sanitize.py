"""compute-sanitizer over every stage: what the hardware's own checker says, recorded beside the emulator's.

    python -m kda_learn.sanitize --out sanitizers.json [STAGE ...]

The tool starts a program and watches each of its kernels. The program is this module again, with --target: it
runs the stages on the small problems of the standard set.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import records
from .check_set import emulator_cases
from .compile import compile_stage
from .device import hopper
from .errors import MachineUnavailable
from .run import run
from .stages import STAGES, stage

TOOLS = ("memcheck", "racecheck", "synccheck")
"""Accesses out of bounds or misaligned; hazards in shared memory; barriers not met by all."""

_SUMMARY = re.compile(r"(?:ERROR SUMMARY: (?P<errors>\d+) error|RACECHECK SUMMARY: (?P<hazards>\d+) hazard)")


def sanitize(stages: Sequence[str], *, seconds: float = 300) -> list[dict[str, Any]]:
    """Run each tool over the stages: rows {tool, stages, launches, findings, report}.

    report: what the tool printed of its findings, empty if there are none. Raises MachineUnavailable without
    a Hopper GPU, without compute-sanitizer, or if the tool ends without a verdict within so many seconds.
    """
    hopper()
    program = shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path="/usr/local/cuda/bin"
    )
    if program is None:
        raise MachineUnavailable(
            "compute-sanitizer is not on the PATH: install the CUDA toolkit, and add its bin folder to PATH."
        )
    return [_row(program, tool, stages, seconds) for tool in TOOLS]


def _row(program: str, tool: str, stages: Sequence[str], seconds: float) -> dict[str, Any]:
    command = [program, "--tool", tool, sys.executable, "-m", "kda_learn.sanitize", "--target", *stages]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        raise MachineUnavailable(
            f"{tool} took more than {seconds:.0f} s: give fewer stages, or more seconds."
        ) from error
    output = done.stdout + done.stderr
    found = findings(output)
    launches = re.search(r"(\d+) launches", output)
    if found is None or launches is None:
        raise MachineUnavailable(
            f"{tool} ended without a verdict (exit code {done.returncode}): it said {output[-300:]!r}."
        )
    return {
        "tool": tool,
        "stages": list(stages),
        "launches": int(launches.group(1)),
        "findings": found,
        "report": output[-4000:] if found else "",
    }


def findings(output: str) -> int | None:
    """How many findings compute-sanitizer's output speaks of; None if it gives no verdict."""
    found = _SUMMARY.search(output)
    return None if found is None else int(found.group("errors") or found.group("hazards"))


def _target(stages: Sequence[str]) -> None:
    """The program that compute-sanitizer watches: every stage on every small case."""
    launches = 0
    for name in stages:
        for case in emulator_cases():
            run(name, case.problem, machine="gpu", v_split=case.v_split, snapshot_dtype=case.snapshot_dtype)
            launches += 1
    print(f"{launches} launches")


def main() -> None:
    """The command line of this module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("stages", nargs="*", metavar="STAGE", help="stage ids; none: all")
    parser.add_argument("--out", type=Path, default=Path("sanitizers.json"), help="where the record goes")
    parser.add_argument("--target", action="store_true", help=argparse.SUPPRESS)
    request = parser.parse_args()
    stages = [stage(name).id for name in request.stages] or [each.id for each in STAGES]
    if request.target:
        _target(stages)
        return
    rows = sanitize(stages)
    where = records.provenance(hopper(), stages, nvrtc=compile_stage(stages[0]).nvrtc)
    records.save(records.Record("sanitizers", where, {"rows": rows}), request.out)
    for row in rows:
        print(f"{row['tool']}: {row['findings']} findings in {row['launches']} launches")


if __name__ == "__main__":
    main()
