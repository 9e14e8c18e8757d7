"""The chunked formulas against automatic differentiation through the token recurrence, in float64.

Each well-known wrong formula is then planted and must be caught: an oracle that misses them proves nothing.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recurrence import (
    LayerInputs,
    chunked_backward,
    chunked_forward,
    layer_operands,
    token_recurrence,
    token_step,
)

from kda_learn.kernel_a.reverse_scan import TileOperands, reverse_scan
from kda_learn.kernel_a.tile_math import normalise, unit_lower_inverse
from kda_learn.kernel_a.tiling import Tiling

MILD_GATE = -0.1
WEAK_GATE = -0.002
STRONG_GATE = -3.3
"""Mean g, in nat, of the public forward tests (-5 times a sigmoid): a tile keeps 1e-23 of the state."""

AGREEMENT = 1e-12
CAUGHT = 1e-9


def random_layer(
    lengths: list[int], *, heads: int = 2, key_dim: int = 24, value_dim: int = 16, gate: float = MILD_GATE
) -> LayerInputs:
    """K and V differ, so that a product in the wrong order cannot pass."""
    random = np.random.default_rng(0)
    tokens = sum(lengths)
    states = (len(lengths), heads, key_dim, value_dim)
    return LayerInputs(
        q=random.standard_normal((tokens, heads, key_dim)),
        k=random.standard_normal((tokens, heads, key_dim)),
        v=random.standard_normal((tokens, heads, value_dim)),
        g=gate * np.exp(0.5 * random.standard_normal((tokens, heads, key_dim))),
        beta=1.0 / (1.0 + np.exp(-random.standard_normal((tokens, heads)))),
        initial_state=random.standard_normal(states),
        do=random.standard_normal((tokens, heads, value_dim)),
        dht=random.standard_normal(states),
        tiling=Tiling.of(lengths),
    )


def autograd(layer: LayerInputs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients of the states that leave the tiles [H, total_tiles, K, V], of the initial ones, and of v."""
    tiling = layer.tiling
    q_hat = torch.from_numpy(layer.scale * normalise(layer.q))
    k_hat = torch.from_numpy(normalise(layer.k))
    decay = torch.from_numpy(np.exp(layer.g))
    beta = torch.from_numpy(layer.beta)
    do = torch.from_numpy(layer.do)
    v = torch.from_numpy(layer.v).requires_grad_()
    initial_state = torch.from_numpy(layer.initial_state).requires_grad_()
    loss = torch.zeros((), dtype=torch.float64)
    leaving_states = []
    for sequence in range(tiling.sequences):
        state = initial_state[sequence]
        for tile in tiling.tiles_of(sequence):
            for token in tiling.rows[tile][tiling.valid[tile]]:
                state, output = token_step(
                    state, q_hat[token], k_hat[token], v[token], decay[token], beta[token]
                )
                loss = loss + (output * do[token]).sum()
            # A node of its own, made after the last output was read: the gradient of the state before it
            # would hold that output's term too.
            state = state.clone()
            state.retain_grad()
            leaving_states.append(state)
        loss = loss + (state * torch.from_numpy(layer.dht[sequence])).sum()
    loss.backward()
    state_gradients = np.stack([state.grad.numpy() for state in leaving_states], axis=1)
    return state_gradients, initial_state.grad.numpy(), v.grad.numpy()


def difference(actual: np.ndarray, truth: np.ndarray) -> float:
    """Largest error over the largest true value."""
    return float(np.abs(actual - truth).max(initial=0.0) / np.abs(truth).max(initial=1e-300))


CASES = {
    "whole tiles": dict(lengths=[64, 64]),
    "varlen with tails": dict(lengths=[40, 16, 7, 33]),
    "empty sequences": dict(lengths=[0, 17, 0, 31, 0]),
    "one token": dict(lengths=[1]),
    "weak gate": dict(lengths=[96], gate=WEAK_GATE),
    "strong gate": dict(lengths=[48, 5], gate=STRONG_GATE),
    "no gate": dict(lengths=[48], gate=0.0),
    "full width": dict(lengths=[40], heads=1, key_dim=128, value_dim=128),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_chunked_backward_is_the_gradient_of_the_token_recurrence(case):
    layer = random_layer(**case)
    state_gradients, initial_gradients, dv = autograd(layer)
    result = chunked_backward(layer)
    assert difference(result.snapshots.reshape(state_gradients.shape), state_gradients) < AGREEMENT
    assert difference(result.ds0, initial_gradients) < AGREEMENT
    assert difference(result.dv, dv) < AGREEMENT


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_chunked_forward_is_the_token_recurrence(case):
    layer = random_layer(**case)
    chunked = chunked_forward(layer)
    by_token = token_recurrence(layer)
    assert difference(chunked.outputs, by_token.outputs) < AGREEMENT
    assert difference(chunked.states, by_token.states) < AGREEMENT
    assert difference(chunked.final_states, by_token.final_states) < AGREEMENT


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=4), st.floats(-5.0, 0.0))
def test_chunks_and_tokens_agree_for_any_lengths_and_gate(lengths, gate):
    layer = random_layer(lengths, heads=1, key_dim=5, value_dim=3, gate=gate)
    chunked = chunked_forward(layer)
    by_token = token_recurrence(layer)
    assert difference(chunked.outputs, by_token.outputs) < AGREEMENT
    assert difference(chunked.final_states, by_token.final_states) < AGREEMENT


def test_one_token_by_hand():
    layer = random_layer([1], heads=1)
    layer = replace(layer, initial_state=np.zeros_like(layer.initial_state))
    k_hat = normalise(layer.k)[0, 0]
    q_hat = normalise(layer.q)[0, 0]
    written = layer.beta[0, 0] * np.outer(k_hat, layer.v[0, 0])
    forward = token_recurrence(layer)
    np.testing.assert_allclose(forward.final_states[0, 0], written, rtol=1e-12)
    np.testing.assert_allclose(forward.outputs[0, 0], 24**-0.5 * q_hat @ written, rtol=1e-12)


# ---- wrong formulas ----


def key_products(tiles: TileOperands) -> np.ndarray:
    """tril(kd ki^T, -1), in the textbook form: good enough at a mild gate."""
    return np.tril(tiles.kd @ inverse_key(tiles).swapaxes(-1, -2), -1)


def inverse_key(tiles: TileOperands) -> np.ndarray:
    """ki = k_hat * 2^-gc."""
    return tiles.kr / tiles.decay[:, :, None, :]


PLANTED: dict[str, Callable[[TileOperands], TileOperands]] = {
    "Mqk without its diagonal": lambda tiles: replace(tiles, mqk=np.tril(tiles.mqk, -1)),
    "ki for kr": lambda tiles: replace(tiles, kr=inverse_key(tiles)),
    "kd and kr swapped": lambda tiles: replace(tiles, kd=tiles.kr, kr=tiles.kd),
    "no beta in L": lambda tiles: replace(tiles, inv=unit_lower_inverse(key_products(tiles))),
    "beta on the columns of L": lambda tiles: replace(
        tiles, inv=unit_lower_inverse(key_products(tiles) * tiles.beta[:, :, None, :])
    ),
    "INV not transposed": lambda tiles: replace(tiles, inv=tiles.inv.swapaxes(-1, -2)),
    # Past INV, beta is used in G5 alone.
    "no beta in G5": lambda tiles: replace(tiles, beta=np.ones_like(tiles.beta)),
    "no scale in qd": lambda tiles: replace(tiles, qd=tiles.qd * 24**0.5),
    "no G2": lambda tiles: replace(tiles, kr=np.zeros_like(tiles.kr)),
    "no recurrence": lambda tiles: replace(tiles, decay=np.zeros_like(tiles.decay)),
}


def backward_with(layer: LayerInputs, plant: Callable[[TileOperands], TileOperands]) -> np.ndarray:
    """All snapshots and ds0 of the reverse scan with a wrong formula, as [matrices, K, V]."""
    result = reverse_scan(plant(layer_operands(layer)), layer.tiling, layer.dht)
    return np.concatenate([result.snapshots, result.ds0.reshape(-1, *result.ds0.shape[2:])])


@pytest.fixture(scope="module")
def mild_layer() -> LayerInputs:
    return random_layer([64, 40])


@pytest.fixture(scope="module")
def mild_gradients(mild_layer) -> np.ndarray:
    state_gradients, initial_gradients, _ = autograd(mild_layer)
    matrix_shape = initial_gradients.shape[2:]
    return np.concatenate(
        [state_gradients.reshape(-1, *matrix_shape), initial_gradients.reshape(-1, *matrix_shape)]
    )


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED.keys())
def test_a_wrong_formula_is_caught(plant, mild_layer, mild_gradients):
    assert difference(backward_with(mild_layer, lambda tiles: tiles), mild_gradients) < AGREEMENT
    assert difference(backward_with(mild_layer, plant), mild_gradients) > CAUGHT


@pytest.mark.parametrize("name", ["no G2", "no recurrence"])
def test_strong_gates_hide_the_recurrence(name):
    """Two terms carry dS from tile to tile. Inputs like the public forward tests' miss neither."""

    def seen(gate: float) -> float:
        layer = random_layer([96], heads=1, key_dim=128, value_dim=128, gate=gate)
        without = backward_with(layer, PLANTED[name])
        truth = backward_with(layer, lambda tiles: tiles)
        last_tile = 5  # its snapshot is dht, which nothing has touched
        return difference(np.delete(without, last_tile, 0), np.delete(truth, last_tile, 0))

    assert seen(STRONG_GATE) < 1e-9
    assert seen(WEAK_GATE) > 1e-1
