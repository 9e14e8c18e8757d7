"""Invented measurements for the tests of the lessons: they have the form of real ones, and no meaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from kda_learn.kernel_a.batch import CONFIGS
from kda_learn.performance.bench import Variant
from kda_learn.performance.blocks import rows_of
from kda_learn.performance.ladder import record_of, rows
from kda_learn.performance.ladder_rows import Ladder
from kda_learn.performance.profile import Profile
from kda_learn.profiling.rows import Comparison, LineRow, SharedRow
from kda_learn.records import store as records
from kda_learn.sources.stages import STAGES

WHERE = records.Provenance(
    gpu="NVIDIA H200",
    sms=132,
    driver="580.1",
    cuda="13.0",
    nvrtc="13.0",
    date="2026-11-30T10:00:00+00:00",
    digest=records.digests(stage.id for stage in STAGES),
)
MS = {stage.id: 80.0 * 0.88**number for number, stage in enumerate(STAGES)}
"""Milliseconds of each stage."""

ROUNDS = 15


def times_us(milliseconds: float, seed: int) -> list[float]:
    """Times of some rounds that scatter by 0.2 %."""
    noise = np.random.default_rng(seed).normal(1, 0.002, ROUNDS)
    return list(1000 * milliseconds * noise)


def run(config: str, milliseconds: dict[str, float]) -> dict:
    """One timed config, as `performance.bench.measure` gives it."""
    times = {name: times_us(ms, seed) for seed, (name, ms) in enumerate(milliseconds.items())}
    last = list(times)[-1]
    return {
        "config": config,
        "v_split": 1,
        "rounds": ROUNDS,
        "times_us": times,
        "control": last,
        "control_us": times[last],
        "blocks_per_sm": dict.fromkeys(times, 4),
        "rejected": {},
        "clocks": [],
    }


def ladder(
    stages: Sequence[str] = tuple(MS), configs: Sequence[str] = CONFIGS, milliseconds: dict[str, float] = MS
) -> Ladder:
    """A ladder measured now, without sentences."""
    return Ladder(
        machine=WHERE.gpu,
        sms=WHERE.sms,
        recorded=False,
        date=WHERE.date,
        banner=f"Measured now on an {WHERE.gpu} with {WHERE.sms} SMs.",
        heads=32,
        notes=[],
        rows=rows([run(config, milliseconds) for config in configs], stages),
        controls=[],
        clocks={},
        provenance=asdict(WHERE),
    )


def blocks_run(variants: list[Variant]) -> dict:
    """A stage timed with fewer and fewer blocks on an SM, each as slow as there are few."""
    count = len(variants)
    milliseconds = {one.name: 60.0 + 2.0 * number for number, one in enumerate(variants)}
    driver = {one.name: count - number for number, one in enumerate(variants)}
    return run("B32/T8192", milliseconds) | {"blocks_per_sm": driver}


def blocks_record(stage: str = "s02") -> records.Record:
    """The record of that."""
    variants = [Variant(stage), Variant(stage, 26048), Variant(stage, 64960), Variant(stage, 181696)]
    content = {
        "stage": stage,
        "config": "B32/T8192",
        "heads": 32,
        "v_split": 1,
        "notes": [],
        "rows": [asdict(row) for row in rows_of(blocks_run(variants), variants)],
    }
    return records.Record("blocks", WHERE, content)


def profile(stage: str, **changes) -> Profile:
    """A profile in which MIO throttle binds."""
    values = {
        "stage": stage,
        "v_split": 1,
        "config": "B32/T256",
        "heads": 32,
        "blocks_per_sm": 4,
        "dynamic_smem_bytes": 50752,
        "counters": {"time_us": 2000.0, "occupancy_pct": 44.0, "issue_pct": 20.5, "l1_pct": 96.0},
        "stalls": {"mio_throttle": 10.0, "short_scoreboard": 4.0, "not_selected": 3.0, "selected": 1.0},
        "comparisons": [
            Comparison("loads", None, 11380.0, 11280.0, 0.9),
            Comparison("stores", None, 5220.0, 5168.0, 1.0),
            Comparison("LDS", 2576.0, 11280.0, 11280.0, 0.0),
            Comparison("LDGSTS", 11.0, 41.0, 41.0, 0.0),
        ],
        "shared": [
            SharedRow(53, "load_a", "LDS", ("KR",), 256.0, 2048.0, 2048.0, 256.0, 1792.0, 40, {"wait": 40})
        ],
        "lines": [
            LineRow(53, "load_a", (247,), 256.0, 40, 40.0, {"mio_throttle": 30, "wait": 10}),
            LineRow(221, "r1", (), 64.0, 60, 60.0, {"short_scoreboard": 60}),
        ],
        "provenance": WHERE,
        "recorded": True,
    }
    return Profile(**values | changes)


def write_records(folder: Path) -> None:
    """Puts a ladder and the blocks of s02 in a folder."""
    records.save(record_of(ladder()), folder / "ladder.json")
    records.save(blocks_record(), folder / "blocks.json")
