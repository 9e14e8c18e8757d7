"""The check that says whether a stage may be trusted: run it, compare with float64, look for faults.

A GPU run shows wrong numbers. The emulator also shows faults that a GPU can hide (races, missing waits, reads
of what nobody wrote), and counts the wavefronts that a stage promises.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ..ground.given import several
from ..ground.say import say
from ..kernel_a.accuracy import Results, gate
from ..kernel_a.problem import Problem, random_problem
from ..kernel_a.reference import scan, simulate
from ..kernel_a.reverse_scan import Rounding
from ..kernel_a.run import check_problem, run
from ..machines.device import choose_machine
from ..machines.launching import faults_in_orders
from ..sources.stages import Stage, as_stage
from ..sources.stages import stage as stage_named
from . import budget

SEEDS = (0, 1)
"""Two orders in which the emulator lets warps and lanes run; results must not depend on the order."""


@dataclass(frozen=True)
class CheckRow:
    """The verdict on one stage and one problem."""

    stage: str
    problem: str
    machine: str
    v_split: int
    snapshot_dtype: str
    rel_rms: float  # the worst snapshot's or ds0's error against float64, relative RMS
    simulated_rel_rms: float  # the same for a NumPy simulation that rounds where the stage rounds
    max_err: float  # the largest error, relative to the largest element of the matrix it lies in
    faults: list[str]  # one sentence each; empty if all is well
    ok: bool


@dataclass(frozen=True)
class Case:
    """A problem, and the variant of the kernel that takes it."""

    problem: Problem
    v_split: int
    snapshot_dtype: str


def check_jobs(
    jobs: Sequence[tuple[Stage, Case]],
    machine: str,
    *,
    seeds: Sequence[int] = SEEDS,
    like: str | None = None,
) -> list[CheckRow]:
    """Check each stage on its case, several at a time on the emulator, and say each verdict once it is known.

    machine: "gpu" or "emulator". The rows are in the order of the jobs. like, and errors: as `check`.
    """

    def work(job: tuple[Stage, Case]) -> CheckRow:
        stage, case = job
        row = check(
            stage,
            case.problem,
            machine=machine,
            v_split=case.v_split,
            snapshot_dtype=case.snapshot_dtype,
            seeds=seeds,
            like=like,
        )
        say(f"{row.stage}, {row.problem}: {'passed' if row.ok else 'failed'}")
        return row

    with ThreadPoolExecutor(1 if machine == "gpu" else os.cpu_count()) as pool:
        return list(pool.map(work, jobs))


def check(
    stage: Stage | str | Path,
    problem: Problem | None = None,
    *,
    machine: str = "auto",
    v_split: int = 1,
    snapshot_dtype: str = "float32",
    seeds: Sequence[int] = SEEDS,
    like: str | None = None,
) -> CheckRow:
    """Run a stage once per seed and judge it.

    It passes if the numbers are as near to float64 as rounding allows (`accuracy.gate`), every run gives the
    same bits, every element is written, the emulator finds no fault and, on the emulator at VSplit 1, the
    wavefronts per tile are those of the budget (`budget`). problem: None takes a small one. like: the stage
    by whose budget a .cu file of your own is judged, on whichever machine it runs; None: the stage itself,
    and no budget for a file of your own. Other arguments and errors: as `run`.
    """
    problem = problem if problem is not None else small_problem()
    check_problem(problem)
    seeds = several("seeds", seeds, "whole numbers, such as (0, 1)")
    stage = as_stage(stage)
    machine = choose_machine(machine)
    promise = _promise(stage, like, machine)
    results = [
        run(stage, problem, machine=machine, v_split=v_split, snapshot_dtype=snapshot_dtype, seed=seed)
        for seed in seeds
    ]
    first = results[0]
    faults = faults_in_orders(results)
    if not all(first.same_bits(other) for other in results[1:]):
        faults.append(f"seeds {list(seeds)} give different results: they hang on the order of the warps")
    truth, simulated = expected(problem, snapshot_dtype)
    numbers = gate((first.snapshots, first.ds0), truth, simulated)
    if not numbers.ok:
        faults.append(numbers.message)
    if promise is not None and v_split == 1:
        faults += budget.faults(stage, like=promise)
    return CheckRow(
        stage=stage.id,
        problem=problem.name,
        machine=machine,
        v_split=v_split,
        snapshot_dtype=snapshot_dtype,
        rel_rms=numbers.rel_rms,
        simulated_rel_rms=numbers.simulated_rel_rms,
        max_err=numbers.max_err,
        faults=faults,
        ok=not faults,
    )


def _promise(stage: Stage, like: str | None, machine: str) -> str | None:
    """The stage whose budget of wavefronts holds; None if none does."""
    if like is not None:
        return stage_named(like).id
    return stage.id if machine == "emulator" and not stage.is_own else None


@lru_cache(maxsize=1)
def small_problem() -> Problem:
    """Three tiles of one head under a weak gate: the smallest problem in which a tile shows all it does."""
    return random_problem(lengths=[48], name="48 tokens")


@lru_cache(maxsize=2)
def expected(problem: Problem, snapshot_dtype: str) -> tuple[Results, Results]:
    """The float64 truth of a problem, and the simulation of the rounding that all stages share."""
    return scan(problem), simulate(problem, Rounding(snapshot=snapshot_dtype))
