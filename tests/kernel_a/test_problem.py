"""Problems are what they say, and refuse arrays that do not fit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kda_learn.ground.errors import BadInput
from kda_learn.hardware.bf16 import from_bf16
from kda_learn.kernel_a.problem import STRONG_GATE, WEAK_GATE, Problem, problem_from_layer, random_problem
from kda_learn.kernel_a.tiling import HEAD_DIM

ARRAYS = ("q", "k", "gc", "beta", "inv", "mqk", "do", "dht")


def test_fixed_length():
    problem = random_problem(lengths=[20, 20, 20], heads=2)
    assert (problem.sequences, problem.heads, problem.length, problem.tokens) == (3, 2, 20, 60)
    assert (problem.lengths, problem.total_tiles) == ([20, 20, 20], 6)
    assert problem.cu_seqlens is None
    assert problem.gc.shape == (12, 16, HEAD_DIM)
    assert problem.dht.shape == (3, 2, HEAD_DIM, HEAD_DIM)
    assert problem.scale == HEAD_DIM**-0.5
    assert problem.name == "3 x 20 tokens, 2 heads, gate -0.002, seed 0"


def test_varlen_and_no_final_gradient():
    problem = random_problem(lengths=[40, 0, 7], varlen=True, final_gradient=False)
    np.testing.assert_array_equal(problem.cu_seqlens, [0, 40, 40, 47])
    assert problem.cu_seqlens.dtype == np.int64
    assert (problem.sequences, problem.length, problem.total_tiles) == (3, 40, 4)
    assert problem.dht is None
    assert problem.name == "varlen 40+0+7 tokens, 1 head, gate -0.002, no dht, seed 0"
    many = random_problem(lengths=[1] * 9, varlen=True, name=None)
    assert many.name.startswith("varlen 9 sequences, 9 tokens")
    assert random_problem(lengths=[1], name="mine").name == "mine"


@pytest.mark.parametrize("varlen", [False, True])
@pytest.mark.parametrize("length", [0, 1, 15, 16, 17])
def test_short_sequences(varlen, length):
    problem = random_problem(lengths=[length, length], varlen=varlen)
    assert problem.lengths == [length, length]
    assert problem.total_tiles == 2 * -(-length // 16)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=4), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_any_lengths_make_a_valid_problem(lengths, heads, seed):
    problem = random_problem(lengths=lengths, heads=heads, varlen=True, seed=seed)
    assert problem.lengths == lengths
    assert problem.inv.shape == (heads * problem.total_tiles, 16, 16)
    for name in ARRAYS:
        assert getattr(problem, name).flags.c_contiguous


def test_seeds():
    def problem(seed: int | None) -> Problem:
        return random_problem(lengths=[16], seed=seed)

    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(problem(7), name), getattr(problem(7), name))
    assert not np.array_equal(problem(7).q, problem(8).q)
    fresh = problem(None)
    assert not np.array_equal(fresh.q, problem(None).q)
    seed = int(fresh.name.rpartition("seed ")[2])
    np.testing.assert_array_equal(problem(seed).q, fresh.q)


@pytest.mark.parametrize(("gate", "kept"), [(WEAK_GATE, (0.96, 0.98)), (STRONG_GATE, (1e-12, 1e-9))])
def test_gates_have_the_mean_asked_for(gate, kept):
    problem = random_problem(lengths=[512], gate=gate)
    last_row = problem.gc[:, -1]
    mean_nat_per_token = last_row.mean() / 16 * np.log(2)
    assert mean_nat_per_token == pytest.approx(gate, rel=0.02)
    assert kept[0] < np.median(np.exp2(last_row)) < kept[1]


def test_beta_scale():
    usual = random_problem(lengths=[64])
    small = random_problem(lengths=[64], beta_scale=0.01)
    np.testing.assert_allclose(small.beta, 0.01 * usual.beta, rtol=1e-6)
    off_diagonal = from_bf16(small.inv) - np.eye(16)
    assert 0 < np.abs(off_diagonal).max() < 0.01


def test_values_are_not_looked_at():
    problem = random_problem(lengths=[16])
    replace(problem, q=np.full_like(problem.q, 0x7FFF), gc=np.full_like(problem.gc, np.nan))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (dict(lengths=[]), r"lengths is \[\]: give a list of whole numbers"),
        (
            dict(lengths=[5, -1], varlen=True),
            r"lengths is \[5, -1\]: give a list of whole numbers from 0 on",
        ),
        (dict(lengths=[5, 6]), r"lengths is \[5, 6\], which differ: give varlen=True"),
        (dict(lengths=[5], heads=0), "heads is 0: give a whole number from 1 on"),
        (dict(lengths=[5], gate=0.1), "gate is 0.1: give"),
        (dict(lengths=[5], beta_scale=2), "beta_scale is 2: give"),
    ],
)
def test_bad_requests(arguments, complaint):
    with pytest.raises(BadInput, match=complaint):
        random_problem(**arguments)


FIXED = random_problem(lengths=[20, 20])
VARLEN = random_problem(lengths=[20, 5], varlen=True)


@pytest.mark.parametrize(
    ("problem", "changes", "complaint"),
    [
        (FIXED, dict(sequences=0), "has 0 sequences: give at least one"),
        (FIXED, dict(sequences=3), "q has 40 tokens for 3 sequences of fixed length: give"),
        (FIXED, dict(q=FIXED.q[0]), r"q has the shape \(1, 128\): give"),
        (FIXED, dict(q=FIXED.q[:, :0]), "give at least one head"),
        (FIXED, dict(k=FIXED.k[:-1]), r"k is uint16 \[39, 1, 128\]: give .* uint16 \[40, 1, 128\]"),
        (FIXED, dict(do=FIXED.do.astype(np.float32)), "do is float32 .*: give .* uint16"),
        (FIXED, dict(gc=FIXED.gc[:3]), r"gc is float32 \[3, 16, 128\]: give .* \[4, 16, 128\]"),
        (FIXED, dict(beta=FIXED.beta.T), r"beta is float32 \[40, 1\]: give .* \[1, 40\]"),
        (FIXED, dict(mqk=FIXED.mqk.swapaxes(1, 2)), "mqk is not contiguous: give"),
        (FIXED, dict(inv=FIXED.inv.tolist()), "inv is list: give"),
        (FIXED, dict(dht=FIXED.dht[:1]), r"dht is float32 \[1, 1, 128, 128\]: give"),
        (FIXED, dict(dht=FIXED.dht.astype(np.float64)), "dht is float64"),
        (
            VARLEN,
            dict(sequences=3),
            r"cu_seqlens is int64 \[3\]: give a contiguous NumPy array of int64 \[4\]",
        ),
        (VARLEN, dict(cu_seqlens=np.array([0, 9, 20, 9, 25])[::2]), "cu_seqlens is not contiguous"),
        (VARLEN, dict(cu_seqlens=np.array([0, 26, 25])), "falls from 26 to 25 at sequence 1"),
        (VARLEN, dict(cu_seqlens=np.array([0, 20, 24])), "from 0 to 24: give"),
    ],
)
def test_arrays_that_do_not_fit(problem, changes, complaint):
    with pytest.raises(BadInput, match=complaint):
        replace(problem, **changes)


def test_a_layer_of_another_width_is_refused():
    narrow = np.zeros((1, 16, 1, 64), np.uint16)
    gate = np.zeros((1, 16, 1, 64), np.float32)
    beta = np.zeros((1, 16, 1), np.float32)
    with pytest.raises(BadInput, match=r"q has the shape \[1, 16, 1, 64\]: give \[1, 16, 1, 128\]"):
        problem_from_layer(narrow, narrow, gate, beta, narrow)
