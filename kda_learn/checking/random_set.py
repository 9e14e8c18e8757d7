"""Problems that nobody thought of: random sequences, gates and variants, any stage, as many as wanted.

One number, the seed, makes one case, so that a failing one can be had again, by `kda-learn check --random 1
--seed 20261129004`. Seeds begin with a date: another day brings other problems, the same day the same ones.
"""

from collections.abc import Sequence
from datetime import date
from pathlib import Path

import numpy as np

from ..ground.given import several, whole
from ..kernel_a.problem import random_problem
from ..kernel_a.tiling import CHUNK
from ..kernel_a.variants import V_SPLITS
from ..machines.device import choose_machine
from ..sources.stages import STAGES, Stage, as_stage
from .check import Case, CheckRow, check_jobs

SEEDS_PER_DAY = 1000
LONGEST = 130  # tokens: eight full tiles and a short one
MOST_SEQUENCES = 3
MOST_HEADS = 3
GATES = (-0.0005, -3.0)  # mean nat per token: a tile keeps 99 % of the state, or nothing of it
TELLING_LENGTHS = (0, 1, CHUNK - 1, CHUNK, CHUNK + 1)  # where mistakes at the borders of a tile show


def seeds_of(day: date) -> int:
    """The first of a day's seeds: 20261129000 for 29 November 2026."""
    return int(day.strftime("%Y%m%d")) * SEEDS_PER_DAY


def random_case(seed: int, stages: Sequence[Stage] = STAGES) -> tuple[Stage, Case]:
    """The case of one seed, its stage drawn from `stages`. The problem's name says what it holds."""
    random = np.random.default_rng(seed)
    varlen = bool(random.integers(2))
    sequences = int(random.integers(1, MOST_SEQUENCES + 1))
    lengths = [_length(random) for _ in range(sequences)]
    weakest, strongest = np.log(np.abs(GATES))
    problem = random_problem(
        lengths=lengths if varlen else lengths[:1] * sequences,
        varlen=varlen,
        heads=int(random.integers(1, MOST_HEADS + 1)),
        seed=seed,
        gate=-float(np.exp(random.uniform(weakest, strongest)).round(4)),
        final_gradient=bool(random.integers(4)),
        beta_scale=float(random.choice([0.05, 1.0])),
    )
    v_split = int(random.choice(V_SPLITS))
    snapshot_dtype = str(random.choice(["float32", "bfloat16"]))
    # The stage is drawn last, so that the problem is the same whatever the stages are.
    return stages[random.integers(len(stages))], Case(problem, v_split, snapshot_dtype)


def check_random(
    count: int,
    *,
    first_seed: int | None = None,
    stages: Sequence[Stage | str | Path] = STAGES,
    machine: str = "auto",
    like: str | None = None,
) -> list[CheckRow]:
    """Check the cases of `count` seeds, `first_seed` (None: today's first) and up.

    stages: those among which a case draws its own. Raises BadInput for a count below 1, a negative seed and
    no stages; like, and other errors: as `check.check`.
    """
    count = whole("count", count, 1)
    first_seed = seeds_of(date.today()) if first_seed is None else whole("first_seed", first_seed)
    known = [as_stage(stage) for stage in several("stages", stages, "stages, such as ['s11', 's12']")]
    jobs = [random_case(seed, known) for seed in range(first_seed, first_seed + count)]
    return check_jobs(jobs, choose_machine(machine), like=like)


def _length(random: np.random.Generator) -> int:
    """Tokens of one sequence: now and then a telling length, else any up to the longest."""
    if random.integers(4) == 0:
        return int(random.choice(TELLING_LENGTHS))
    return int(random.integers(LONGEST + 1))
