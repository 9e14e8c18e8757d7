"""Nsight Compute without a GPU: a computer that seems to have it, and pages as it prints them.

The pages are made up for a stage: its real machine code, counts from its trace.

Every instruction of a source line gets an equal part of what the trace has for that line, so that measured
and simulated wavefronts agree. Layout and headings are those of ncu 2022 to 2025.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from paths import TESTS

from kda_learn.compilers.sass import SassInstruction
from kda_learn.kernel_a.variants import compile_stage
from kda_learn.performance.profile import Target
from kda_learn.performance.profile_measure import simulate
from kda_learn.profiling import ncu
from kda_learn.profiling.rows import Simulation, op_class, stage_line, traced_class

BASE = 0x7FC48541D900
EXECUTED = 4096  # warps, at every instruction
STALLS = ("stall_barrier", "stall_long_sb", "stall_short_sb", "stall_wait")
SOURCE_HEADINGS = (
    "Address",
    "Source",
    "Warp Stall Sampling (All Samples)",
    "Warp Stall Sampling (Not-issued Samples)",
    "# Samples",
    "Instructions Executed",
    "Thread Instructions Executed",
    "Address Space",
    "L1 Wavefronts Shared Excessive",
    "L1 Wavefronts Shared",
    "L1 Wavefronts Shared Ideal",
    *STALLS,
    *(f"{name} (Not Issued)" for name in STALLS),
)
RAW = {
    "gpu__time_duration.sum": ("ns", 512345.0),
    "launch__registers_per_thread": ("register/thread", 80),
    "l1tex__throughput.avg.pct_of_peak_sustained_elapsed": ("%", 71.25),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", 36.5),
    "dram__bytes_read.sum": ("byte", 1234567890),
    "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active": ("%", 12.5),
    "smsp__average_warp_latency_per_inst_issued.ratio": ("cycle", 9.5),
    "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio": ("inst", 3.25),
    "smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio": ("inst", 4.5),
    "smsp__average_warps_issue_stalled_sleeping_per_issue_active.ratio": ("inst", 0),
    "smsp__pcsamp_sample_buffer_full": ("", "n/a"),
}


LAUNCH = {"blocks_per_sm": 3, "dynamic_smem_bytes": 67520, "nvrtc": "13.0"}
"""What the profiled program answers for a launch that went well."""


def pretend_ncu(monkeypatch, folder: Path) -> Path:
    """Make this a computer whose ncu prints what lies in the folder that is returned (see `lay_out`)."""
    pages = folder / "fake"
    pages.mkdir()
    shim = folder / "ncu"
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{TESTS / "fake_ncu.py"}" "$@"\n')
    shim.chmod(0o755)
    monkeypatch.setenv("FAKE_NCU", str(pages))
    monkeypatch.setattr(ncu, "ncu_program", lambda: str(shim))
    monkeypatch.setattr(ncu, "counters_open", lambda: None)
    monkeypatch.setattr(ncu, "known_counters", cache(ncu.known_counters.__wrapped__))
    return pages


def calls(pages: Path) -> list[str]:
    """The command lines with which the fake ncu was called to profile."""
    return [call for call in (pages / "calls.txt").read_text().splitlines() if "--export" in call]


def lay_out(
    pages: Path,
    targets: Sequence[Target],
    answers: Sequence[dict[str, Any]] | None = None,
    *,
    load_factor: float = 1.0,
    extra_wavefronts: int = 0,
) -> None:
    """What the fake ncu prints of launches, and what the profiled program answers for them.

    load_factor: on the counters of the whole kernel; extra_wavefronts: on each target's first LDS.
    """
    for target, answer in zip(targets, answers or [LAUNCH] * len(targets), strict=True):
        folder = pages / target.label
        folder.mkdir(exist_ok=True)
        (folder / "answer.json").write_text(json.dumps(answer))
        if "error" not in answer:
            (folder / "raw.csv").write_text(raw_page(target, load_factor))
            (folder / "source.csv").write_text(source_page(target, extra_wavefronts))


@cache
def source_page(target: Target, extra_wavefronts: int = 0) -> str:
    """`--page source --print-source sass --csv`, of one launch."""
    out = io.StringIO()
    out.write('"Kernel Name","kernel_a<1, 0, float>(const bf16 *, const float *, int)",\n')
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(SOURCE_HEADINGS)
    writer.writerows(_instructions(target, extra_wavefronts))
    return out.getvalue()


@cache
def raw_page(target: Target, load_factor: float = 1.0) -> str:
    """`--page raw --csv`, of one launch, with one of ncu's own messages before it."""
    names = [*RAW, f"{_SHARED}.sum", f"{_SHARED}_op_ld.sum", f"{_SHARED}_op_st.sum"]
    out = io.StringIO()
    out.write("==PROF== Connected to process 4242 (/usr/bin/python3.12)\n")
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(["ID", "Process ID", "Kernel Name", "Block Size", "Grid Size", *names])
    writer.writerow(["", "", "", "", "", *[unit for unit, _ in RAW.values()], "", "", ""])
    values = [f"{value:,}" if isinstance(value, int) else value for _, value in RAW.values()]
    by_key = _launch_wavefronts(target)
    loads = sum(count for (_, kind), count in by_key.items() if kind in ("LDS", "LDSM"))
    stores = sum(count for (_, kind), count in by_key.items() if kind in ("STS", "STSM"))
    copies = _simulation(target).copy_wavefronts * target.work.tiles
    padding = sum(one.never_runs and one.opcode == "LDS" for one in _sass(target)) * EXECUTED
    counted = [loads + stores + int(copies) + padding, loads, stores]
    counted = [f"{round(count * load_factor):,}" for count in counted]
    writer.writerow([0, 4242, "kernel_a", "(256, 1, 1)", "(32, 32, 1)", *values, *counted])
    return out.getvalue()


_SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared"


@cache
def _simulation(target: Target) -> Simulation:
    return simulate(target)


@cache
def _launch_wavefronts(target: Target) -> Counter[tuple[int, str]]:
    """Wavefronts of the whole launch by line and class, from the trace."""
    counted: Counter[tuple[int, str]] = Counter()
    for row in _simulation(target).rows:
        counted[row.line, traced_class(row.op)] += int(row.wavefronts) * target.work.times(row.section)
    return counted


@cache
def _sass(target: Target) -> list[SassInstruction]:
    return compile_stage(target.kernel, target.v_split).sass()


def _instructions(target: Target, extra_wavefronts: int) -> list[list[object]]:
    source = target.kernel.source
    sass = _sass(target)
    wavefronts = _launch_wavefronts(target)
    keys = [(stage_line(instruction, source), op_class(instruction)) for instruction in sass]
    share = Counter(key for key in keys if key[1])
    left = dict(wavefronts)
    rows = []
    for number, (instruction, key) in enumerate(zip(sass, keys, strict=True)):
        counted = 0
        if key[1]:  # the last of a line's instructions gets what does not divide
            counted = left[key] // share[key]
            left[key] -= counted
            share[key] -= 1
        if extra_wavefronts and key[1] == "LDS":
            counted, extra_wavefronts = counted + extra_wavefronts, 0
        samples = number % 7
        waits = (0, samples // 2, 0, samples - samples // 2)
        space = "Shared(3)" if key[1] else "-"
        counts = (samples, samples, samples, f"{EXECUTED:,}", EXECUTED * 32, space, 0, counted, counted)
        text = f"      {instruction.text} "
        rows.append([hex(BASE + instruction.address), text, *counts, *waits, *waits])
    return rows
