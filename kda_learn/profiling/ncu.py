"""Running Nsight Compute (ncu), NVIDIA's profiler of single kernels, and saying why it cannot run.

ncu starts a program, repeats each kernel launch that the program marks, counts something else in every
repeat, and writes a report. It leaves the clocks alone here (`--clock-control none`): cards are shared.
https://docs.nvidia.com/nsight-compute/NsightComputeCli/index.html
"""

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from ..ground.errors import KdaError, MachineUnavailable
from ..machines.computer import counters_open, ncu_program

SECTIONS = (
    "SourceCounters",
    "LaunchStats",
    "Occupancy",
    "SpeedOfLight",
    "SchedulerStats",
    "WarpStateStats",
    "ComputeWorkloadAnalysis",
    "MemoryWorkloadAnalysis",
    "MemoryWorkloadAnalysis_Tables",
)
"""ncu's own groups of counters. SourceCounters has those of single instructions."""

FEWEST_SECTIONS = ("SourceCounters", "LaunchStats")
"""What the rows by source line need."""

_QUERY_SECONDS = 60
_IMPORT_SECONDS = 120
_REFUSALS = (
    (
        r"ERR_NVGPUCTRPERM",
        "ncu may not read this GPU's counters (ERR_NVGPUCTRPERM): run as root, have the administrator load "
        "the driver with NVreg_RestrictProfilingToAdminUsers=0, or start the container with "
        "--cap-add=SYS_ADMIN.",
    ),
    (
        r"driver resource was unavailable",
        "Another program holds the GPU's counters, often the monitor DCGM: pause it with `dcgmi profile "
        "--pause`, wait for other profilers to end, and try again.",
    ),
    (
        r"LibraryNotLoaded|Failed to initialize the profiler",
        "ncu cannot start its profiler here, as in sandboxes (gVisor) and some containers: use a virtual "
        "machine or the host itself.",
    ),
    (
        r"not supported on (?:this|the) (?:device|GPU|platform)|No supported GPU|unsupported GPU",
        "This ncu does not know this GPU: install the Nsight Compute of the driver's CUDA version.",
    ),
)


def program() -> str:
    """The path of ncu. Raises MachineUnavailable, with what to do, if it is missing or has no permission."""
    path = ncu_program()
    if path is None:
        raise MachineUnavailable(
            "Counters cannot be read, ncu is missing: install Nsight Compute (it comes with NVIDIA's CUDA "
            "toolkit, not with pip packages), or put the folder of ncu on the PATH."
        )
    if counters_open() is False:
        raise MachineUnavailable(_REFUSALS[0][1])
    return path


@cache
def known_counters() -> frozenset[str]:
    """The names, without suffix, of the counters that ncu knows for this GPU; empty if it does not tell."""
    try:
        said = subprocess.run(
            [program(), "--query-metrics"], capture_output=True, text=True, timeout=_QUERY_SECONDS
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return frozenset()
    return frozenset(re.findall(r"^\s*([a-z0-9]+__\w+)", said, re.MULTILINE))


def collect(
    command: Sequence[str],
    report: Path,
    counters: Sequence[str],
    *,
    sections: Sequence[str] = SECTIONS,
    environment: Mapping[str, str] | None = None,
    seconds: float = 300,
) -> str:
    """Run a program under ncu and write `report` (a .ncu-rep file). Returns what both printed.

    Only launches between cudaProfilerStart and cudaProfilerStop are profiled. `counters`: on top of those of
    the sections. Raises MachineUnavailable if ncu is refused, KdaError if it fails otherwise or takes longer
    than `seconds`.
    """
    call = [program(), "--force-overwrite", "--export", str(report), "--profile-from-start", "off"]
    call += ["--clock-control", "none", "--target-processes", "all"]
    for section in sections:
        call += ["--section", section]
    if counters:
        call += ["--metrics", ",".join(counters)]
    status, said = _run([*call, *command], environment, seconds)
    reason = refusal(said)
    if reason is not None:
        raise reason
    if status != 0 or not report.exists():
        raise KdaError(
            f"ncu ended with {status} and {'a' if report.exists() else 'no'} report (its last words: "
            f"{last_words(said)}): try `kda-learn check --machine gpu` first."
        )
    return said


def refusal(said: str) -> MachineUnavailable | None:
    """The error that fits if ncu's output says that it may not or cannot profile here."""
    own_words = "\n".join(line for line in said.splitlines() if line.startswith("=="))
    for pattern, sentence in _REFUSALS:
        if re.search(pattern, own_words):
            return MachineUnavailable(sentence)
    return None


def page(report: Path, name: str, *options: str) -> str:
    """A page of a report as CSV, in base units (B, ns). Raises KdaError if ncu cannot print it."""
    call = [program(), "--import", str(report), "--page", name, *options, "--csv", "--print-units", "base"]
    try:
        run = subprocess.run(call, capture_output=True, text=True, timeout=_IMPORT_SECONDS)
    except subprocess.TimeoutExpired:
        raise KdaError(
            f"ncu took more than {_IMPORT_SECONDS} s to print {report}: profile fewer stages at once."
        ) from None
    if run.returncode != 0 or not run.stdout.strip():
        raise KdaError(
            f"ncu cannot print the page {name} of {report} ({last_words(run.stdout + run.stderr)}): use an "
            "ncu of CUDA 12 or 13."
        )
    return run.stdout


def last_words(said: str, lines: int = 4) -> str:
    """The end of a program's output, on one line."""
    return " | ".join(said.strip().splitlines()[-lines:]) or "none"


def _run(call: Sequence[str], environment: Mapping[str, str] | None, seconds: float) -> tuple[int | str, str]:
    """Exit status and output of a program. After `seconds`, or if this process is interrupted, it and what it
    started are ended.
    """
    process = subprocess.Popen(
        call,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=None if environment is None else dict(environment),
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=seconds)
        return process.returncode, said
    except BaseException as error:
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        said, _ = process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            return f"a stop after {seconds:g} s", said
        raise
