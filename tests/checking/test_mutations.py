"""Every barrier, wait, commit and layout of every stage is needed: without any one of them a check must fail.

A stage's file is changed in one place at a time (kernel_a/mutants.py). What survives its check is either
redundant in the kernel, or a fault that the emulator cannot see; both want to be known. No stage has a fence;
one that gets one has it left out here too. Each mutant is built and run, though many look alike: what makes a
barrier needed in one stage may be gone in the next.
"""

import os
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from kda_learn.checking.check import check
from kda_learn.kernel_a.mutants import (
    SYNCHRONISATION,
    Mutant,
    mutants_of,
    with_plain_layouts,
    with_weaker_waits,
    without_synchronisation,
)
from kda_learn.kernel_a.problem import Problem, random_problem
from kda_learn.sources.stages import STAGES, Stage, stage

FOUND_BY_THE_EMULATOR = re.compile(
    r"(?:race|race within a warp|uninitialised read|copy not waited for|copy never waited for): "
)
FOUND_BY_THE_BUDGET = re.compile(r".* takes \d+ wavefronts a tile, the budget of s\w+ is \d+")

every_stage = pytest.mark.parametrize("rung", STAGES, ids=lambda rung: rung.id)


@pytest.fixture(scope="module")
def problem() -> Problem:
    """Two full tiles and a short one."""
    return random_problem(lengths=[40])


def faults_of(mutants: list[Mutant], problem: Problem) -> dict[str, list[str]]:
    """What a check finds wrong with each mutant."""

    def work(mutant: Mutant) -> list[str]:
        return check(mutant.write(), problem, machine="emulator", like=mutant.stage.id).faults

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(work, mutants))
    return {mutant.place: faults for mutant, faults in zip(mutants, found, strict=True)}


@every_stage
def test_every_synchronisation_is_needed(rung: Stage, problem: Problem):
    """The emulator itself sees it, not only the numbers, which a GPU may get right by luck."""
    mutants = without_synchronisation(rung) + with_weaker_waits(rung)
    assert len(mutants) >= 7
    survivors = [
        place
        for place, faults in faults_of(mutants, problem).items()
        if not any(FOUND_BY_THE_EMULATOR.match(fault) for fault in faults)
    ]
    assert survivors == []


@every_stage
def test_every_layout_is_needed(rung: Stage, problem: Problem):
    """Without it the numbers stay right: the wavefront budget alone sees it."""
    for place, faults in faults_of(with_plain_layouts(rung), problem).items():
        assert faults, place
        assert all(FOUND_BY_THE_BUDGET.fullmatch(fault) for fault in faults), (place, faults)


@every_stage
def test_nothing_that_orders_memory_is_overlooked(rung: Stage):
    """Every word of gpu.cuh or CUDA that waits for something is one that the mutants leave out."""
    code = "\n".join(rung.source.code_lines)
    words = re.findall(r"\b(?:__sync\w+|__threadfence\w*|\w*fence\w*|\w*_(?:wait|commit|arrive)\w*)\b", code)
    assert len(words) == len(SYNCHRONISATION.findall(code))
    assert len(without_synchronisation(rung)) == len(words)


def test_every_mutant_has_an_id_of_its_own():
    """The chapters and the verb that breaks a stage name them; they must not change from run to run."""
    for rung in STAGES:
        found = mutants_of(rung)
        one_by_one = without_synchronisation(rung) + with_weaker_waits(rung) + with_plain_layouts(rung)
        assert list(found.values()) == one_by_one
        assert all(re.fullmatch(r"[a-z0-9_]+\.[a-z_0-9]+\.\d", name) for name in found)
    assert {"g3.syncwarp.1", "r1.syncthreads.2", "r1.weaker_wait.1"} <= mutants_of(stage("s02")).keys()
    assert mutants_of(stage("s12"))["layout.ds.1"].change.endswith("-> using DsLayout = Rows<bf16, D>;")


def test_the_unchanged_stages_pass_the_same_check(problem: Problem):
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = list(pool.map(lambda rung: check(rung, problem, machine="emulator"), STAGES))
    assert {row.stage: row.faults for row in rows if not row.ok} == {}
