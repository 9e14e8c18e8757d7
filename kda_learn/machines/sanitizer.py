"""NVIDIA's compute-sanitizer over a child process: what it says of every kernel that runs there."""

import json
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..ground.errors import KdaError, MachineUnavailable
from . import child

TOOLS = ("memcheck", "racecheck", "synccheck")
"""Accesses out of bounds or misaligned; hazards in shared memory; barriers not met by all."""

_SUMMARY = re.compile(r"(?:ERROR SUMMARY: (?P<errors>\d+) error|RACECHECK SUMMARY: (?P<hazards>\d+) hazard)")


@dataclass(frozen=True)
class Verdict:
    """What a tool found. answer: of the work. report: what the tool printed, empty without findings."""

    findings: int
    answer: Any
    report: str


def program() -> str:
    """The path of compute-sanitizer. Raises MachineUnavailable if it is missing."""
    found = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if found is None:
        raise MachineUnavailable(
            "compute-sanitizer is not on the PATH: install the CUDA toolkit, and add its bin folder to PATH."
        )
    return found


def watch(tool: str, work: str, request: Any, *, seconds: float) -> Verdict:
    """Do the work in a child process under one of TOOLS; work, request: as `child.run_in_child` has them.

    Raises MachineUnavailable if the tool is missing, or ends without a verdict within so many seconds.
    """
    with tempfile.TemporaryDirectory() as folder:
        request_file, answer_file = Path(folder) / "request.json", Path(folder) / "answer.json"
        request_file.write_text(json.dumps(request), encoding="utf-8")
        call = [program(), "--tool", tool, *child.command(work, request_file, answer_file)]
        try:
            done = subprocess.run(
                call, capture_output=True, text=True, timeout=seconds, env=child.environment(), check=False
            )
        except subprocess.TimeoutExpired:
            raise MachineUnavailable(
                f"{tool} took more than {seconds:.0f} s: give fewer stages, or more seconds."
            ) from None
        output = done.stdout + done.stderr
        found = findings(output)
        if found is None or not answer_file.exists():
            raise MachineUnavailable(
                f"{tool} ended without a verdict (exit code {done.returncode}): it said {output[-300:]!r}."
            )
        try:
            answer = child.answer_in(answer_file)
        except KdaError as error:
            raise MachineUnavailable(f"{tool} watched work that failed: {error}") from None
    return Verdict(found, answer, output[-4000:] if found else "")


def findings(output: str) -> int | None:
    """How many findings compute-sanitizer's output speaks of; None if it gives no verdict."""
    found = _SUMMARY.search(output)
    return None if found is None else int(found.group("errors") or found.group("hazards"))
