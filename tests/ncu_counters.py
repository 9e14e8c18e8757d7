"""Reads the hardware's counters for kernels/lab/wavefronts.cu with Nsight Compute (ncu)."""

import csv
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"
CYCLES = "sm__cycles_active.max"
PLAIN_METRICS = [
    f"{SHARED}.sum",
    f"{SHARED}_op_ld.sum",
    f"{SHARED}_op_st.sum",
    f"{CONFLICTS}.sum",
    f"{CONFLICTS}_op_ld.sum",
    f"{CONFLICTS}_op_st.sum",
]
COPY_METRICS = [
    *PLAIN_METRICS,
    "l1tex__data_pipe_lsu_wavefronts.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_lg.sum",
    "l1tex__data_bank_reads.sum",
    "l1tex__data_bank_writes.sum",
    "smsp__inst_executed_op_ldgsts.sum",
    CYCLES,
]
BUSY_METRICS = [f"{SHARED}.sum", CYCLES]
# Of the many counters whose name holds "ldgsts" (the machine's name of cp.async), those that count work.
COPY_COUNTER = re.compile(
    r"ldgsts.*|.*(wavefronts|bank_conflicts|inst_executed|t_sectors|t_requests).*ldgsts.*"
)
LOOKUP = re.compile(r"lookup|pred|thread|avg|peak")
MOST_EXTRA_METRICS = 12


def ncu() -> str:
    """Path of the program. Raises FileNotFoundError."""
    candidates = [shutil.which("ncu"), "/usr/local/cuda/bin/ncu"]
    candidates += map(str, sorted(Path("/opt/nvidia/nsight-compute").glob("*/ncu")))
    for candidate in candidates:
        if candidate and Path(candidate).exists():
            return candidate
    raise FileNotFoundError(
        "ncu is not installed: nothing named ncu on the PATH, in /usr/local/cuda or /opt/nvidia"
    )


def available_metrics(seconds: float = 60) -> set[str]:
    """Names of the counters this GPU has, without suffix; empty when ncu does not tell."""
    answer = subprocess.run([ncu(), "--query-metrics"], capture_output=True, text=True, timeout=seconds)
    return parse_metric_names(answer.stdout)


def parse_metric_names(text: str) -> set[str]:
    """The first word of every line that starts with a counter's name (unit__quantity)."""
    return set(re.findall(r"^\s*([a-z0-9]+__\w+)", text, re.MULTILINE))


def choose(wanted: Sequence[str], available: set[str]) -> list[str]:
    """The wanted metrics that exist here; all of them when it is not known what exists."""
    return [metric for metric in wanted if not available or metric.split(".")[0] in available]


def copy_counters(available: Iterable[str], from_sass: bool) -> list[str]:
    """Metrics that exist here and count cp.async; from_sass: those that ncu gets by patching code, slowly."""
    names = [name for name in available if COPY_COUNTER.fullmatch(name) and not LOOKUP.search(name)]
    chosen = [name for name in names if ("__sass_" in name) == from_sass]
    chosen.sort(key=lambda name: ("wavefronts" not in name, "conflicts" not in name, name))
    return [f"{name}.sum" for name in chosen[:MOST_EXTRA_METRICS]]


def profile(
    command: Sequence[str], metrics: Sequence[str], log: Path, seconds: float
) -> list[dict[str, float]]:
    """Run `command` under ncu; what it counted for each launch of a kernel named count_..., in launch order.

    Clocks are left alone; caches are emptied before each launch (ncu's default), so that first accesses miss.
    Raises RuntimeError with ncu's last words if it fails.
    """
    call = [ncu(), "--clock-control", "none", "--csv", "--print-units", "base", "--log-file", str(log)]
    call += ["--kernel-name", "regex:^count_", "--metrics", ",".join(metrics), *command]
    ended, said = _run(call, seconds)
    text = log.read_text() if log.exists() else ""
    launches = parse_csv(text)
    if ended or not launches:
        words = " | ".join((text + said).strip().splitlines()[-6:])
        raise RuntimeError(f"ncu ended with {ended} after {len(launches)} launches: {words}")
    return launches


def _run(call: Sequence[str], seconds: float) -> tuple[int | str, str]:
    """Exit status and output of a program; after `seconds` it and its children are ended."""
    process = subprocess.Popen(
        call, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        said, _ = process.communicate(timeout=seconds)
        return process.returncode, said
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        return f"a stop after {seconds} s", said


def parse_csv(text: str) -> list[dict[str, float]]:
    """Metric to value for each launch, in launch order, from `ncu --csv`: one line per launch and metric.

    Lines before the heading are ncu's own messages. Values that are no numbers ("n/a") are left out.
    """
    lines = text.splitlines()
    heading = next((index for index, line in enumerate(lines) if line.startswith('"ID"')), None)
    if heading is None:
        return []
    launches: dict[int, dict[str, float]] = {}
    for row in csv.DictReader(line for line in lines[heading:] if line.startswith('"')):
        launch = launches.setdefault(int(row["ID"]), {})
        try:
            launch[row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
        except ValueError:
            continue
    return [launches[identifier] for identifier in sorted(launches)]
