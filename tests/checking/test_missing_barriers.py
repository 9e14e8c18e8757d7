"""What is said of a stage without one of its barriers: the right barrier, at the right place."""

import pytest

from kda_learn.kernel_a.mutants import Mutant, without_synchronisation
from kda_learn.kernel_a.problem import random_problem
from kda_learn.kernel_a.run import run
from kda_learn.sources.stages import STAGES

CURES = {"syncthreads": "__syncthreads()", "syncwarp": "__syncwarp()"}


@pytest.fixture(scope="module")
def problem():
    return random_problem(lengths=[40])


def lies_between(mutant: Mutant, after: int, before: int) -> bool:
    """Whether the changed line does, in a loop perhaps that comes round."""
    if after < before:
        return after <= mutant.line <= before
    return mutant.line >= after or mutant.line <= before


@pytest.mark.parametrize("rung", STAGES, ids=lambda rung: rung.id)
def test_a_removed_barrier_is_named_at_its_place(rung, problem):
    wrong = []
    for mutant in without_synchronisation(rung):
        what = mutant.id.split(".")[-2]
        if what not in CURES:
            continue
        faults = run(mutant.write(), problem, machine="emulator").launch.faults
        first = faults[0]
        named = lies_between(mutant, first.after[1], first.before[1])
        if len(faults) > 3 or first.cure != CURES[what] or not named:
            wrong.append((mutant.place, [str(fault) for fault in faults]))
    assert wrong == []
