"""Kernel A on inputs that nobody thought of, and on poisoned ones: what is wrong must not spread."""

from dataclasses import replace
from datetime import date
from functools import cache

import numpy as np
import pytest
from poison import HEADS, poisoned, spread

from kda_learn.checking.random_set import LONGEST, check_random, random_case, seeds_of
from kda_learn.cli.main import main
from kda_learn.ground.errors import BadInput
from kda_learn.kernel_a.mutants import replaced
from kda_learn.kernel_a.problem import Problem, random_problem
from kda_learn.kernel_a.run import Result, run
from kda_learn.sources.stages import STAGES, Stage, stage

FIRST_SEED = seeds_of(date(2026, 11, 29))
"""Of the random problems of every test run, which stay the same; `check --random` has others every day."""

EVERY_RUN = 20
EMULATOR = {"machine": "emulator"}
VARIANTS = {False: {"v_split": 1}, True: {"v_split": 2, "snapshot_dtype": "bfloat16"}}
"""By varlen: those that other tests build as well."""

every_stage = pytest.mark.parametrize("rung", STAGES, ids=lambda rung: rung.id)


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two float32 arrays agree bit for bit, NaN included."""
    return np.array_equal(one.view(np.uint32), other.view(np.uint32))


# ---- random problems ----


def test_twenty_random_problems():
    """Lengths with tails, fixed and varlen, heads, gates, VSplit, snapshot types and stages as they come."""
    rows = check_random(EVERY_RUN, first_seed=FIRST_SEED, **EMULATOR)
    wrong = [
        f"kda-learn check --random 1 --seed {FIRST_SEED + index}: {row.stage}, VSplit {row.v_split}, "
        f"{row.snapshot_dtype}, {row.problem}: {row.faults}"
        for index, row in enumerate(rows)
        if not row.ok
    ]
    assert not wrong, "\n".join(wrong)


def test_what_the_random_problems_cover():
    made = [random_case(FIRST_SEED + index) for index in range(200)]
    problems = [case.problem for _, case in made]
    assert {rung.id for rung, _ in made} == {rung.id for rung in STAGES}
    assert {case.v_split for _, case in made} == {1, 2, 4, 8}
    assert {case.snapshot_dtype for _, case in made} == {"float32", "bfloat16"}
    assert {problem.cu_seqlens is None for problem in problems} == {True, False}
    assert {problem.dht is None for problem in problems} == {True, False}
    assert {problem.heads for problem in problems} == {1, 2, 3}
    assert {problem.sequences for problem in problems} == {1, 2, 3}
    lengths = {length for problem in problems for length in problem.lengths}
    assert {0, 1, 15, 16, 17} <= lengths <= set(range(LONGEST + 1))
    decays = [float(np.median(np.exp2(problem.gc[:, -1]))) for problem in problems if problem.total_tiles]
    assert min(decays) < 1e-6 and max(decays) > 0.95


def test_a_seed_is_a_case_whatever_the_stages_are():
    (_, first), (_, again), (of_one, alike) = (random_case(7, *some) for some in ([], [], [[stage("s12")]]))
    assert first.problem.name == again.problem.name == alike.problem.name
    assert np.array_equal(first.problem.q, alike.problem.q)
    assert (first.v_split, of_one.id) == (alike.v_split, "s12")
    assert seeds_of(date(2026, 11, 29)) == 20261129000


def test_random_problems_on_demand(capsys):
    assert main(["check", "s12", "--random", "2", "--seed", "20261129004", "--machine", "emulator"]) == 0
    text = capsys.readouterr().out
    assert "2 of 2 checks passed on the CPU machine." in text
    assert "20261129005" in " ".join(text.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seed", "3"], "--seed was given without --random"),
        (["--random", "0"], "'0' is no whole number of at least 1"),
        (["s99", "--random", "1"], "stage 's99' was given"),
        (["s12", "--all", "--random", "1"], "--all and stages were given"),
    ],
)
def test_requests_that_do_not_fit(arguments: list[str], said: str, capsys):
    assert main(["check", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_check_random_says_what_does_not_fit():
    for arguments in ({"count": 0}, {"stages": []}, {"first_seed": -1}):
        with pytest.raises(BadInput, match=f"{next(iter(arguments))} is .*: give a"):
            check_random(**{"count": 1} | arguments, **EMULATOR)


# ---- one poisoned element ----

LENGTHS = [20, 36, 4, 33]
REPRESENTATIVE = ["s00", "s02", "s07", "s12"]
"""With T1; element by element; ldmatrix and a pass of its own; all by asynchronous copies."""


@cache
def clean_problem(varlen: bool) -> Problem:
    """Sequences with tails, neighbours in memory."""
    lengths = LENGTHS if varlen else [20] * 4
    return random_problem(lengths=lengths, heads=HEADS, varlen=varlen)


@cache
def clean_run(name: str, varlen: bool) -> Result:
    """A stage's run on the clean problem."""
    return run(name, clean_problem(varlen), **VARIANTS[varlen], **EMULATOR)


def spread_on_the_emulator(name: str, value: float, varlen: bool) -> list[str]:
    """What a bad value does in a stage that it must not (`poison.spread`)."""
    problem = clean_problem(varlen)
    bad = run(name, poisoned(problem, value), **VARIANTS[varlen], **EMULATOR)
    return spread(problem, clean_run(name, varlen), bad)


@every_stage
def test_nan_stays_inside_its_sequence_and_head(rung: Stage):
    """At fixed length: the next sequence's tokens lie right behind a tail."""
    assert spread_on_the_emulator(rung.id, np.nan, varlen=False) == []


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", REPRESENTATIVE)
def test_a_bad_element_stays_inside_in_a_varlen_batch(name: str, value: float):
    assert spread_on_the_emulator(name, value, varlen=True) == []


def test_poison_that_spreads_is_seen():
    """The judge itself: a run in which another sequence changed, and one in which nothing did."""
    problem = clean_problem(varlen=False)
    clean = clean_run("s12", varlen=False)
    other = replace(clean, ds0=clean.ds0.copy())
    other.ds0[2, 0, 5, 5] += 1
    found = spread(problem, clean, other)
    assert "1 elements of ds0 changed that no poison may reach" in found
    assert "the poison in mqk does not show" in found


# ---- outputs ----


@every_stage
def test_every_stage_gives_the_bits_of_s12_and_writes_every_element(rung: Stage):
    """The outputs begin as NaN; `run` names elements that still are, and writes outside of them."""
    for varlen in VARIANTS:
        first, this = clean_run("s12", varlen), clean_run(rung.id, varlen)
        assert this.faults == []
        assert same_bits(first.snapshots, this.snapshots)
        assert same_bits(first.ds0, this.ds0)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("stg(ds0 + state", "stg(ds0 + 1 + state", "out of bounds"),
        ("stg(ds0 + state", "stg(ds0 - 1 + state", "out of bounds"),
        ("= snapshots + tile * D * D", "= snapshots + 2 + tile * D * D", "out of bounds"),
        ("= snapshots + tile * D * D", "= snapshots - 2 + tile * D * D", "out of bounds"),
    ],
)
def test_a_write_beside_an_output_is_seen(before: str, after: str, said: str):
    """All around an output lie bytes that no kernel may touch: one element too far is a fault."""
    path = replaced(stage("s12"), before, after).write()
    faults = run(path, random_problem(lengths=[16]), **EMULATOR).faults
    assert any(fault.startswith(said) for fault in faults), faults
    assert any("were never written" in fault for fault in faults), faults


# ---- a varlen batch is its sequences ----


def alone(problem: Problem, sequence: int) -> Problem:
    """One sequence of a batch as a problem of its own, of fixed length."""
    tiling = problem.tiling
    tokens = slice(int(tiling.token_base[sequence]), int(tiling.token_base[sequence + 1]))
    tiles = list(tiling.tiles_of(sequence))

    def workspace(array: np.ndarray) -> np.ndarray:
        per_head = array.reshape(problem.heads, problem.total_tiles, *array.shape[1:])[:, tiles]
        return np.ascontiguousarray(per_head.reshape(-1, *array.shape[1:]))

    return Problem(
        q=problem.q[tokens],
        k=problem.k[tokens],
        gc=workspace(problem.gc),
        beta=np.ascontiguousarray(problem.beta[:, tokens]),
        inv=workspace(problem.inv),
        mqk=workspace(problem.mqk),
        do=problem.do[tokens],
        dht=problem.dht[sequence : sequence + 1],
        cu_seqlens=None,
        sequences=1,
        scale=problem.scale,
    )


@every_stage
def test_a_varlen_batch_is_its_sequences_run_alone(rung: Stage):
    """Bit for bit, though alone they take another variant of the kernel: fixed length, VSplit 1, fp32."""
    problem = clean_problem(varlen=True)
    together = clean_run(rung.id, varlen=True)
    snapshots = together.snapshots.reshape(HEADS, -1, 128, 128)
    for sequence in range(problem.sequences):
        single = run(rung, alone(problem, sequence), **VARIANTS[False], **EMULATOR)
        tiles = list(problem.tiling.tiles_of(sequence))
        assert same_bits(single.snapshots, snapshots[:, tiles].reshape(-1, 128, 128))
        assert same_bits(single.ds0[0], together.ds0[sequence])


def test_a_run_can_be_had_again_in_every_order_of_the_warps():
    problem = random_problem(lengths=[30, 30], heads=2)
    first, *others = (run("s12", problem, seed=seed, **EMULATOR) for seed in (0, 0, 1, 2))
    for other in others:
        assert same_bits(first.snapshots, other.snapshots) and same_bits(first.ds0, other.ds0)
