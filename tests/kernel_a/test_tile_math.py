"""The formulas of one tile against their definitions, written out in plain loops of float64 and in torch."""

import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kda_learn.kernel_a.tile_math import (
    array_module,
    causal_products,
    gate_sum,
    normalise,
    tile_matrices,
    unit_lower_inverse,
)
from kda_learn.kernel_a.tiling import CHUNK
from kda_learn.sources.stages import STAGES, Stage

EPSILON = 1e-6  # of the layer's L2 norm
HEADS, DIM = 2, 5

some = settings(max_examples=20, deadline=None)
seeds = st.integers(0, 2**32 - 1)
sizes = st.sampled_from([0.0, 1e-160, 1e-20, 1e-6, 1e-4, 1e-3, 1e-2, 1.0, 1e3])
kinds = pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])


def tile(seed: int, gate: float = -0.3) -> tuple[np.ndarray, ...]:
    """q_hat, k_hat, gc [H, C, D] and beta [H, C]."""
    random = np.random.default_rng(seed)
    q, k = random.standard_normal((2, HEADS, CHUNK, DIM))
    gc = np.cumsum(gate * random.uniform(0.1, 1, (HEADS, CHUNK, DIM)), axis=1)
    return q, k, gc, random.uniform(0, 1, (HEADS, CHUNK))


# ---- normalise ----


@some
@given(seeds, sizes)
def test_the_epsilon_stands_inside_the_root(seed, size):
    """Vectors so short that it decides, and long ones: x / sqrt(x . x + 1e-6), component by component."""
    vectors = size * np.random.default_rng(seed).standard_normal((3, DIM))
    for vector, found in zip(vectors, normalise(vectors), strict=True):
        length = math.sqrt(math.fsum(x * x for x in vector) + EPSILON)
        np.testing.assert_allclose(found, [x / length for x in vector], rtol=1e-14)


@some
@given(seeds, sizes)
def test_norm_and_gradient_are_torchs_own(seed, size):
    """x / sqrt(x . x + e) is x over the norm of (x, sqrt e): that is how torch is asked here."""
    vectors = torch.from_numpy(size * np.random.default_rng(seed).standard_normal((3, DIM))).requires_grad_()
    longer = torch.cat([vectors, torch.full((3, 1), math.sqrt(EPSILON), dtype=torch.float64)], dim=1)
    wanted = torch.nn.functional.normalize(longer, dim=1, eps=0)[:, :DIM]
    torch.testing.assert_close(normalise(vectors), wanted, rtol=1e-12, atol=0)
    weights = torch.arange(1.0, DIM + 1, dtype=torch.float64)
    (gradient,) = torch.autograd.grad((normalise(vectors) * weights).sum(), vectors)
    (wanted_gradient,) = torch.autograd.grad((wanted * weights).sum(), vectors)
    torch.testing.assert_close(gradient, wanted_gradient, rtol=1e-9, atol=1e-9)


def test_the_zero_vector_stays_zero_and_a_tiny_one_becomes_a_thousand_times_as_long():
    assert normalise(np.zeros((2, DIM))).tolist() == [[0.0] * DIM] * 2
    tiny = np.array([[1e-9, -2e-9, 0.0]])
    np.testing.assert_allclose(normalise(tiny), 1000 * tiny, rtol=1e-9)


def test_a_vector_as_short_as_the_epsilon_gets_the_length_of_a_diagonal():
    """x . x = 1e-6 too: half of the sum under the root."""
    np.testing.assert_allclose(normalise(np.array([1e-3])), [1 / math.sqrt(2)], rtol=1e-14)


@pytest.mark.parametrize("rung", STAGES, ids=lambda rung: rung.id)
def test_every_stage_has_the_same_epsilon(rung: Stage):
    assert re.findall(r"constexpr float EPSILON = (.+)f;", rung.source.text) == ["1e-6"]


# ---- gates ----


@kinds
@some
@given(seed=seeds)
def test_the_gate_sum_is_the_logarithm_of_the_decay_so_far(kind, seed):
    g = -np.random.default_rng(seed).uniform(0, 3, (HEADS, CHUNK, DIM))
    decay = np.ones((HEADS, DIM))
    found = gate_sum(kind(g))
    for row in range(CHUNK):
        decay = decay * np.exp(g[:, row])
        np.testing.assert_allclose(found[:, row], np.log2(decay), rtol=1e-12)


# ---- products, inverse, matrices ----


@kinds
@some
@given(seed=seeds)
def test_causal_products_are_the_sums_of_all_terms(kind, seed):
    q, k, gc, _ = tile(seed)
    query_products, key_products = causal_products(kind(q), kind(k), kind(gc))
    decay = 2.0 ** (gc[:, :, None] - gc[:, None])  # [H, i, j, D]
    all_query_products, all_key_products = (np.einsum("hid,hijd,hjd->hij", rows, decay, k) for rows in (q, k))
    np.testing.assert_allclose(query_products, np.tril(all_query_products), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(key_products, np.tril(all_key_products, -1), rtol=1e-11, atol=1e-13)


@pytest.mark.filterwarnings("error")
def test_no_gate_is_so_strong_that_a_product_overflows():
    """The gates above the diagonal would be 2^+36000; they must not even be computed."""
    q, k, gc, _ = tile(0, gate=-4000.0)
    for products in causal_products(q, k, gc):
        assert np.isfinite(products).all()


@kinds
@some
@given(seed=seeds)
def test_the_inverse_undoes_the_matrix(kind, seed):
    lower = np.tril(np.random.default_rng(seed).uniform(-1, 1, (HEADS, CHUNK, CHUNK)), -1)
    inverse = np.asarray(unit_lower_inverse(kind(lower)))
    np.testing.assert_allclose(inverse, np.linalg.inv(np.eye(CHUNK) + lower), rtol=1e-6, atol=1e-8)
    assert not np.triu(inverse, 1).any()
    assert (np.diagonal(inverse, axis1=1, axis2=2) == 1).all()


@kinds
@some
@given(seed=seeds, scale=st.floats(0.01, 10))
def test_the_matrices_of_a_tile(kind, seed, scale):
    """INV (I + diag(beta) K) = I with beta on the rows; Mqk has the scale, its diagonal, and no beta."""
    q, k, gc, beta = tile(seed)
    query_products, key_products = causal_products(q, k, gc)
    inv, mqk = tile_matrices(kind(q), kind(k), kind(gc), kind(beta), scale)
    unit_lower = np.eye(CHUNK) + np.einsum("hi,hij->hij", beta, key_products)
    for product in np.asarray(inv) @ unit_lower:
        np.testing.assert_allclose(product, np.eye(CHUNK), atol=1e-6)
    np.testing.assert_allclose(mqk, scale * query_products, rtol=1e-12, atol=1e-14)


@kinds
@pytest.mark.parametrize("element_type", [np.float32, np.float64])
def test_results_have_the_kind_and_the_type_of_the_inputs(kind, element_type):
    q, k, gc, beta = (kind(part.astype(element_type)) for part in tile(0))
    matrices = tile_matrices(q, k, gc, beta, 0.5)
    for result in (normalise(q), gate_sum(gc), *causal_products(q, k, gc), *matrices):
        assert type(result) is type(q)
        assert result.dtype == q.dtype


def test_the_module_of_an_array():
    assert array_module(np.zeros(1)) is np
    assert array_module(torch.zeros(1)) is torch
