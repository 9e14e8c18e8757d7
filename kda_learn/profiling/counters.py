"""The counters of a whole kernel that a profile shows: their names here, in ncu, and what they mean."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared"
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"
_OF_PEAK = "avg.pct_of_peak_sustained"
_BY_INSTRUCTION = ("memory_l1_wavefronts_shared", "memory_l1_wavefronts_shared_ideal")
NOT_WAITING = ("selected", "not_selected")
"""Of the reasons of the profiler: the warp issues, or another one does."""

_STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")


@dataclass(frozen=True)
class Counter:
    """A counter: `metrics` are ncu's names, the first that it knows counts; `unit` is of the scaled value."""

    name: str
    metrics: tuple[str, ...]
    unit: str
    meaning: str
    scale: float = 1.0


COUNTERS = (
    Counter("time_us", ("gpu__time_duration.sum",), "us", "the launch, under ncu and with cold caches", 1e-3),
    Counter("registers", ("launch__registers_per_thread",), "", "registers of a thread"),
    Counter(
        "occupancy_pct", (f"sm__warps_active.{_OF_PEAK}_active",), "%", "resident warps, as a share of 64"
    ),
    Counter(
        "warps_active", ("smsp__warps_active.avg.per_cycle_active",), "warps", "resident on each scheduler"
    ),
    Counter(
        "warps_eligible",
        ("smsp__warps_eligible.avg.per_cycle_active",),
        "warps",
        "ready to issue their next instruction, per scheduler (an SM has 4)",
    ),
    Counter(
        "issue_pct",
        (f"smsp__issue_active.{_OF_PEAK}_active",),
        "%",
        "cycles in which a scheduler issues an instruction",
    ),
    Counter(
        "cycles_per_instruction",
        ("smsp__average_warp_latency_per_inst_issued.ratio",),
        "cycles",
        "from one instruction of a warp to its next",
    ),
    Counter("instructions", ("smsp__inst_executed.sum",), "warps", "instructions of all warps"),
    Counter(
        "l1_pct",
        (f"l1tex__throughput.{_OF_PEAK}_elapsed",),
        "%",
        "how busy the unit of shared memory and L1 cache is",
    ),
    Counter("l2_pct", (f"lts__throughput.{_OF_PEAK}_elapsed",), "%", "how busy the L2 cache is"),
    Counter("dram_pct", (f"dram__throughput.{_OF_PEAK}_elapsed",), "%", "how busy global memory (DRAM) is"),
    Counter("dram_read_bytes", ("dram__bytes_read.sum",), "B", "read from global memory"),
    Counter("dram_write_bytes", ("dram__bytes_write.sum",), "B", "written to global memory"),
    Counter(
        "tensor_pct",
        (
            f"sm__pipe_tensor_cycles_active.{_OF_PEAK}_active",
            f"sm__pipe_tensor_op_hmma_cycles_active.{_OF_PEAK}_active",
            f"sm__inst_executed_pipe_tensor.{_OF_PEAK}_active",
            f"sm__inst_executed_pipe_tensor_op_hmma.{_OF_PEAK}_active",
        ),
        "%",
        "how busy the tensor cores are",
    ),
    Counter("shared_wavefronts", (f"{_SHARED}.sum",), "wavefronts", "of shared memory, copies too"),
    Counter("shared_load_wavefronts", (f"{_SHARED}_op_ld.sum",), "wavefronts", "of loads"),
    Counter("shared_store_wavefronts", (f"{_SHARED}_op_st.sum",), "wavefronts", "of stores"),
    Counter("bank_conflicts", (f"{_CONFLICTS}.sum",), "wavefronts", "above the fewest, copies too"),
    Counter("load_bank_conflicts", (f"{_CONFLICTS}_op_ld.sum",), "wavefronts", "of loads"),
    Counter("store_bank_conflicts", (f"{_CONFLICTS}_op_st.sum",), "wavefronts", "of stores"),
)


def wanted(known: Iterable[str]) -> list[str]:
    """The metrics to ask ncu for: the first one of each counter that is `known`, or all first ones if nothing
    is known, and the wavefronts of each instruction. Those of a launch (launch__...) come with a section.
    """
    known = set(known)
    chosen = []
    for counter in COUNTERS:
        found = [name for name in counter.metrics if not known or name.partition(".")[0] in known]
        chosen += [name for name in found[:1] if not name.startswith("launch__")]
    return [*chosen, *_BY_INSTRUCTION]


def values(metrics: Mapping[str, float]) -> dict[str, float]:
    """The counters by their names here, of one launch; without those that ncu did not give."""
    found = {}
    for counter in COUNTERS:
        name = next((name for name in counter.metrics if name in metrics), None)
        if name is not None:
            found[counter.name] = metrics[name] * counter.scale
    return found


def stalls(metrics: Mapping[str, float]) -> dict[str, float]:
    """Warps that wait, per instruction issued, by what they wait for, the most frequent first.

    They add up to the latency: cycles from one instruction of a warp to its next.
    """
    matches = {name: _STALL.fullmatch(name) for name in metrics}
    found = {match[1]: metrics[name] for name, match in matches.items() if match and metrics[name]}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def longest_wait(stalls: Iterable[str]) -> str | None:
    """Of the reasons of `stalls`, the most frequent first, the first that is a wait."""
    return next((reason for reason in stalls if reason not in NOT_WAITING), None)
