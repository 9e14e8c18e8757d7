"""Pages as Nsight Compute prints them, made up for a stage: its real machine code, counts from its trace.

Every instruction of a source line gets an equal part of what the trace has for that line, so that measured
and simulated wavefronts agree. Layout and headings are those of ncu 2022 to 2025.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from functools import cache

from kda_learn.compile import compile_stage
from kda_learn.profile import Target
from kda_learn.profile_measure import simulate
from kda_learn.profile_rows import op_class, stage_line, traced_class
from kda_learn.sass import SassInstruction
from kda_learn.source import StageSource

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


@cache
def source_page(targets: tuple[Target, ...], *, extra_wavefronts: int = 0) -> str:
    """`--page source --print-source sass --csv`; extra_wavefronts: on each target's first LDS."""
    out = io.StringIO()
    for target in targets:
        out.write('"Kernel Name","kernel_a<1, 0, float>(const bf16 *, const float *, int)",\n')
        writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerow(SOURCE_HEADINGS)
        writer.writerows(_instructions(target, extra_wavefronts))
    return out.getvalue()


@cache
def raw_page(targets: tuple[Target, ...], *, load_factor: float = 1.0) -> str:
    """`--page raw --csv`, with one of ncu's own messages before it."""
    names = [*RAW, f"{_SHARED}.sum", f"{_SHARED}_op_ld.sum", f"{_SHARED}_op_st.sum"]
    out = io.StringIO()
    out.write("==PROF== Connected to process 4242 (/usr/bin/python3.12)\n")
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(["ID", "Process ID", "Kernel Name", "Block Size", "Grid Size", *names])
    writer.writerow(["", "", "", "", "", *[unit for unit, _ in RAW.values()], "", "", ""])
    for number, target in enumerate(targets):
        values = [f"{value:,}" if isinstance(value, int) else value for _, value in RAW.values()]
        by_key = _launch_wavefronts(target)
        loads = sum(count for (_, kind), count in by_key.items() if kind in ("LDS", "LDSM"))
        stores = sum(count for (_, kind), count in by_key.items() if kind in ("STS", "STSM"))
        copies = simulate(target).copy_wavefronts * target.work.tiles
        padding = sum(one.never_runs and one.opcode == "LDS" for one in _sass(target)) * EXECUTED
        counted = [loads + stores + int(copies) + padding, loads, stores]
        counted = [f"{round(count * load_factor):,}" for count in counted]
        writer.writerow([number, 4242, "kernel_a", "(256, 1, 1)", "(32, 32, 1)", *values, *counted])
    return out.getvalue()


_SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared"


@cache
def _launch_wavefronts(target: Target) -> Counter[tuple[int, str]]:
    """Wavefronts of the whole launch by line and class, from the trace."""
    counted: Counter[tuple[int, str]] = Counter()
    for row in simulate(target).rows:
        counted[row.line, traced_class(row.op)] += int(row.wavefronts) * target.work.times(row.section)
    return counted


@cache
def _sass(target: Target) -> list[SassInstruction]:
    return compile_stage(target.path, target.v_split).sass()


def _instructions(target: Target, extra_wavefronts: int) -> list[list[object]]:
    source = StageSource.load(target.path)
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
