"""The float64 truth and the rounding simulation of whole problems."""

import subprocess
import sys
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recurrence import LayerInputs, chunked_backward

from kda_learn.ground.errors import BadInput
from kda_learn.hardware.bf16 import from_bf16, round_to, to_bf16
from kda_learn.kernel_a.accuracy import errors
from kda_learn.kernel_a.problem import STRONG_GATE, WEAK_GATE, Problem, random_problem
from kda_learn.kernel_a.reference import problem_operands, scan, simulate
from kda_learn.kernel_a.reverse_scan import EXACT, Rounding
from kda_learn.kernel_a.tile_math import LOG2_E
from kda_learn.kernel_a.tiling import HEAD_DIM

BF16_NAN = np.uint16(0x7FFF)


def part(problem: Problem, sequence: int) -> Problem:
    """One sequence of a varlen problem as a problem of its own, with fixed length."""
    tokens = slice(*problem.tiling.token_base[sequence : sequence + 2])
    tiles = slice(*problem.tiling.tile_base[sequence : sequence + 2])

    def workspace(array: np.ndarray) -> np.ndarray:
        per_head = array.reshape(problem.heads, problem.total_tiles, *array.shape[1:])[:, tiles]
        return np.ascontiguousarray(per_head).reshape(-1, *array.shape[1:])

    return replace(
        problem,
        q=problem.q[tokens],
        k=problem.k[tokens],
        do=problem.do[tokens],
        beta=np.ascontiguousarray(problem.beta[:, tokens]),
        gc=workspace(problem.gc),
        inv=workspace(problem.inv),
        mqk=workspace(problem.mqk),
        dht=problem.dht[sequence : sequence + 1],
        cu_seqlens=None,
        sequences=1,
    )


def layer_of(problem: Problem) -> LayerInputs:
    """The layer that a problem came from, as far as the backward pass of the state depends on it."""
    gc = problem.gc.reshape(problem.heads, problem.total_tiles, *problem.gc.shape[1:]).astype(np.float64)
    g = np.diff(gc, axis=2, prepend=0.0) / LOG2_E
    values = from_bf16(problem.do).astype(np.float64)
    return LayerInputs(
        q=from_bf16(problem.q).astype(np.float64),
        k=from_bf16(problem.k).astype(np.float64),
        v=np.zeros_like(values),
        g=problem.tiling.scatter(g),
        beta=problem.beta.T.astype(np.float64),
        initial_state=np.zeros_like(problem.dht, dtype=np.float64),
        do=values,
        dht=problem.dht.astype(np.float64),
        tiling=problem.tiling,
    )


@pytest.mark.parametrize("gate", [WEAK_GATE, STRONG_GATE])
def test_the_scan_is_the_chunked_backward_pass_but_for_the_rounding_of_inv_and_mqk(gate):
    problem = random_problem(lengths=[40, 0, 17, 1], heads=2, varlen=True, gate=gate)
    snapshots, ds0 = scan(problem)
    exact = chunked_backward(layer_of(problem))
    assert snapshots.shape == (2 * problem.total_tiles, HEAD_DIM, HEAD_DIM)
    assert ds0.shape == (4, 2, HEAD_DIM, HEAD_DIM)
    assert errors(snapshots, exact.snapshots).worst < 5e-3
    assert errors(ds0, exact.ds0).worst < 5e-3


def test_snapshot_of_the_last_tile_is_the_final_gradient():
    problem = random_problem(lengths=[40, 20], heads=2, varlen=True)
    snapshots, _ = scan(problem)
    for head in range(2):
        np.testing.assert_array_equal(snapshots[head * 5 + 2], problem.dht[0, head])
        np.testing.assert_array_equal(snapshots[head * 5 + 4], problem.dht[1, head])


def test_no_final_gradient_is_a_gradient_of_zeros():
    problem = random_problem(lengths=[40, 40], final_gradient=False)
    zeros = np.zeros((2, 1, HEAD_DIM, HEAD_DIM), np.float32)
    for actual, expected in zip(scan(problem), scan(replace(problem, dht=zeros)), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_empty_sequences_return_their_final_gradient():
    problem = random_problem(lengths=[0, 16, 0], varlen=True)
    _, ds0 = scan(problem)
    np.testing.assert_array_equal(ds0[[0, 2]], problem.dht[[0, 2]])
    _, simulated = simulate(problem)
    np.testing.assert_array_equal(simulated[[0, 2]], from_bf16(to_bf16(problem.dht[[0, 2]])))
    nothing = random_problem(lengths=[0, 0])
    snapshots, ds0 = scan(nothing)
    assert snapshots.shape == (0, HEAD_DIM, HEAD_DIM)
    np.testing.assert_array_equal(ds0, nothing.dht)


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(0, 35), min_size=1, max_size=4), st.integers(1, 2))
def test_sequences_do_not_touch_each_other(lengths, heads):
    problem = random_problem(lengths=lengths, heads=heads, varlen=True)
    snapshots, ds0 = simulate(problem)
    per_head = snapshots.reshape(heads, problem.total_tiles, HEAD_DIM, HEAD_DIM)
    for sequence in range(len(lengths)):
        alone_snapshots, alone_ds0 = simulate(part(problem, sequence))
        tiles = problem.tiling.tiles_of(sequence)
        in_batch = per_head[:, tiles.start : tiles.stop].reshape(-1, HEAD_DIM, HEAD_DIM)
        np.testing.assert_array_equal(in_batch, alone_snapshots)
        np.testing.assert_array_equal(ds0[sequence], alone_ds0[0])


def test_a_nan_next_door_is_not_read():
    problem = random_problem(lengths=[20, 20, 20], varlen=True)
    poisoned = {name: getattr(problem, name).copy() for name in ("q", "k", "do", "beta")}
    for name in ("q", "k", "do"):
        poisoned[name][20:40] = BF16_NAN
    poisoned["beta"][:, 20:40] = np.nan
    clean_snapshots, clean_ds0 = scan(problem)
    snapshots, ds0 = scan(replace(problem, **poisoned))
    np.testing.assert_array_equal(snapshots[[0, 1, 4, 5]], clean_snapshots[[0, 1, 4, 5]])
    np.testing.assert_array_equal(ds0[[0, 2]], clean_ds0[[0, 2]])
    assert np.isnan(ds0[1]).any()


# ---- rounding ----


def test_exact_rounding_changes_nothing():
    problem = random_problem(lengths=[40])
    for actual, expected in zip(simulate(problem, EXACT), scan(problem), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_a_kernel_keeps_qd_kd_and_kr_rounded_and_nothing_else():
    exact = problem_operands(random_problem(lengths=[20]))
    rounded = exact.rounded("bfloat16")
    for field in fields(exact):
        before, after = getattr(exact, field.name), getattr(rounded, field.name)
        if field.name in ("qd", "kd", "kr"):
            assert np.any(before != after)
            before = round_to(before, "bfloat16")
        np.testing.assert_array_equal(after, before)


def test_a_bf16_state_makes_bf16_snapshots_and_a_float32_state_does_not():
    problem = random_problem(lengths=[40])
    usual, ds0 = simulate(problem)
    np.testing.assert_array_equal(usual, round_to(usual, "bfloat16"))
    np.testing.assert_array_equal(ds0, round_to(ds0, "bfloat16"))
    np.testing.assert_array_equal(usual, simulate(problem, Rounding(snapshot="bfloat16"))[0])
    wide, wide_ds0 = simulate(problem, Rounding(state="float32"))
    np.testing.assert_array_equal(wide, round_to(wide, "float32"))
    narrow, narrow_ds0 = simulate(problem, Rounding(state="float32", snapshot="bfloat16"))
    np.testing.assert_array_equal(narrow, round_to(wide, "bfloat16"))
    np.testing.assert_array_equal(narrow_ds0, wide_ds0)
    assert np.any(wide != narrow)


@pytest.mark.parametrize(("state", "worst"), [("bfloat16", 5.0e-3), ("float32", 2.5e-3)])
def test_what_the_number_formats_cost(state, worst):
    """Known figures for T = 4096, no dht, weak gates; they set the scale of every check."""
    problem = random_problem(lengths=[4096], final_gradient=False)
    error = errors(simulate(problem, Rounding(state=state))[0], scan(problem)[0])
    assert error.worst == pytest.approx(worst, rel=0.1)


def test_unknown_rounding():
    with pytest.raises(BadInput, match="'half': give one of"):
        Rounding(state="half")


def test_numpy_is_all_it_needs():
    """Nothing of torch, CuPy or Jupyter is imported on the way to a checked problem."""
    program = (
        "import sys\n"
        "from kda_learn.kernel_a.problem import random_problem\n"
        "from kda_learn.kernel_a.accuracy import gate\n"
        "from kda_learn.kernel_a.reference import scan, simulate\n"
        "problem = random_problem(lengths=[20])\n"
        "assert gate(simulate(problem), scan(problem), simulate(problem)).ok\n"
        "assert not {'torch', 'cupy', 'IPython', 'ipywidgets'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
