"""The standard set of problems: what a stage must get right before anybody times it.

The gates matter most. Under a strong gate a tile forgets nearly all of the state, and a kernel without its
recurrence would pass; so most problems have a weak one. Every template parameter takes each of its values.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import records
from .check import CheckRow, check, small_problem
from .compile import compile_stage
from .device import hopper
from .errors import BadInput
from .problem import STRONG_GATE, Problem, random_problem
from .run import choose_machine, stage_name

if TYPE_CHECKING:
    from .stages import Stage


@dataclass(frozen=True)
class Case:
    """A problem and the variant of the kernel that takes it."""

    problem: Problem
    v_split: int
    snapshot_dtype: str


def emulator_cases() -> list[Case]:
    """Seconds of work: full tiles, short tails, an empty sequence, a single token, two heads."""
    tails = {"lengths": [17, 0, 31, 1], "varlen": True}
    strong = random_problem(lengths=[40, 40], gate=STRONG_GATE, seed=1, name="2 x 40 tokens, strong gate")
    no_dht = random_problem(
        **tails, heads=2, final_gradient=False, seed=2, name="varlen 17+0+31+1, 2 heads, no dht"
    )
    two_heads = random_problem(**tails, heads=2, seed=3, name="varlen 17+0+31+1, 2 heads")
    one_token = random_problem(lengths=[1], final_gradient=False, seed=4, name="1 token, no dht")
    return [
        Case(small_problem(), 1, "float32"),
        Case(strong, 4, "bfloat16"),
        Case(no_dht, 2, "bfloat16"),
        Case(two_heads, 8, "float32"),
        Case(one_token, 1, "float32"),
    ]


def gpu_cases() -> list[Case]:
    """Long sequences, in which an error of the recurrence has time to grow, and the small ones."""

    def fixed(tokens: int, sequences: int, name: str, **options: Any) -> Problem:
        return random_problem(lengths=[tokens] * sequences, heads=2, name=f"{tokens} tokens{name}", **options)

    def batch(name: str, **options: Any) -> Problem:
        lengths = [1300, 547, 2048, 963, 271, 3063]
        shape = "varlen " + "+".join(map(str, lengths))
        return random_problem(lengths=lengths, varlen=True, heads=2, name=f"{shape}{name}", **options)

    return [
        *emulator_cases(),
        Case(fixed(4096, 1, ""), 1, "float32"),
        Case(fixed(4096, 1, ", no dht", final_gradient=False, seed=1), 4, "float32"),
        Case(fixed(4096, 1, ", strong gate", gate=STRONG_GATE, seed=2), 2, "bfloat16"),
        Case(fixed(1000, 3, ", 3 sequences", seed=3), 8, "bfloat16"),
        Case(batch("", seed=4), 1, "float32"),
        Case(batch(", no dht", final_gradient=False, seed=5), 4, "bfloat16"),
        Case(batch(", strong gate", gate=STRONG_GATE, seed=6), 8, "float32"),
    ]


def check_stages(
    stages: Sequence[Stage | str | Path],
    *,
    machine: str = "auto",
    report: Callable[[CheckRow], None] | None = None,
) -> list[CheckRow]:
    """Check each stage on the standard set of the machine; the rows come stage by stage.

    report: called with each row as soon as it is known, in no order. Errors: as `check.check`.
    """
    machine = choose_machine(machine)
    names = [stage_name(stage) for stage in stages]
    cases = gpu_cases() if machine == "gpu" else emulator_cases()
    # Case by case, so that the stages share the float64 truth and no more than two lie in memory.
    jobs = [(stage, case) for case in cases for stage in stages]

    def work(job: tuple[Stage | str | Path, Case]) -> CheckRow:
        stage, case = job
        row = check(
            stage, case.problem, machine=machine, v_split=case.v_split, snapshot_dtype=case.snapshot_dtype
        )
        if report is not None:
            report(row)
        return row

    with ThreadPoolExecutor(1 if machine == "gpu" else os.cpu_count()) as pool:
        rows = list(pool.map(work, jobs))
    return sorted(rows, key=lambda row: names.index(row.stage))


def record_check(checked: Sequence[CheckRow], path: Path) -> None:
    """Keep what a check on a GPU found, in a file. Raises BadInput if the rows come from the emulator."""
    if checked[0].machine != "gpu":
        raise BadInput(
            f"The check ran on the {checked[0].machine} and was to be recorded: records say what a GPU did, "
            "so leave out --record or give --machine gpu."
        )
    stages = list(dict.fromkeys(row.stage for row in checked))
    where = records.provenance(hopper(), stages, nvrtc=compile_stage(stages[0]).nvrtc)
    records.save(records.Record("check", where, {"rows": [asdict(row) for row in checked]}), path)
