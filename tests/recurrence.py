"""KDA forward and backward in float64, token by token (as defined) and chunk by chunk (as computed).

The state S is [K, V] per head. The token recurrence is the definition; the chunked forms must give the same
numbers (tests compare them, and the chunked backward pass with automatic differentiation through the token
recurrence).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kda_learn.kernel_a.reverse_scan import ScanResult, TileOperands, reverse_scan, tile_operands
from kda_learn.kernel_a.tile_math import Array, gate_sum, normalise, tile_matrices
from kda_learn.kernel_a.tiling import Tiling


@dataclass(frozen=True)
class LayerInputs:
    """A KDA layer's inputs and the gradients that come back to it, float64, any K and V."""

    q: np.ndarray  # [T_total, H, K]  not yet normalised
    k: np.ndarray  # [T_total, H, K]  not yet normalised
    v: np.ndarray  # [T_total, H, V]
    g: np.ndarray  # [T_total, H, K]  gate, natural log, <= 0
    beta: np.ndarray  # [T_total, H]  after the sigmoid
    initial_state: np.ndarray  # [N, H, K, V]
    do: np.ndarray  # [T_total, H, V]  gradient of the outputs
    dht: np.ndarray  # [N, H, K, V]  gradient of the final states
    tiling: Tiling

    @property
    def scale(self) -> float:
        """K^-1/2, which multiplies the query."""
        return self.q.shape[-1] ** -0.5


class Forward(NamedTuple):
    """What a forward pass gives, float64."""

    outputs: np.ndarray  # [T_total, H, V]
    states: np.ndarray  # [H, total_tiles, K, V]  the state that leaves each tile
    final_states: np.ndarray  # [N, H, K, V]


def token_step(
    state: Array, q_hat: Array, k_hat: Array, v: Array, decay: Array, beta: Array
) -> tuple[Array, Array]:
    """One token: the state [H, K, V] decays by row, is corrected towards v, and is read.

    q_hat (normalised and scaled), k_hat, decay = exp(g) [H, K]; v [H, V]; beta [H]. Returns the new state and
    the output [H, V]. Plain operators only, so that it runs on torch tensors too, and can be differentiated.
    """
    state = decay[..., None] * state
    remembered = (k_hat[..., None] * state).sum(-2)
    correction = beta[..., None] * (v - remembered)
    state = state + k_hat[..., None] * correction[..., None, :]
    output = (q_hat[..., None] * state).sum(-2)
    return state, output


def token_recurrence(layer: LayerInputs) -> Forward:
    """The forward pass as it is defined, one token after another."""
    tiling = layer.tiling
    q_hat = layer.scale * normalise(layer.q)
    k_hat = normalise(layer.k)
    decay = np.exp(layer.g)
    heads, value_dim = layer.v.shape[1:]
    outputs = np.empty_like(layer.v)
    states = np.empty((heads, tiling.total_tiles, layer.k.shape[-1], value_dim))
    final_states = np.empty_like(layer.initial_state)
    for sequence in range(tiling.sequences):
        state = layer.initial_state[sequence]
        for tile in tiling.tiles_of(sequence):
            for token in tiling.rows[tile][tiling.valid[tile]]:
                state, outputs[token] = token_step(
                    state, q_hat[token], k_hat[token], layer.v[token], decay[token], layer.beta[token]
                )
            states[:, tile] = state
        final_states[sequence] = state
    return Forward(outputs, states, final_states)


def layer_operands(layer: LayerInputs) -> TileOperands:
    """The tiles' operands, INV and Mqk computed in float64 (a kernel gets them rounded to bf16)."""
    gather = layer.tiling.gather
    q_hat = normalise(gather(layer.q))
    k_hat = normalise(gather(layer.k))
    gc = gate_sum(gather(layer.g))
    beta = gather(layer.beta)
    inv, mqk = tile_matrices(q_hat, k_hat, gc, beta, layer.scale)
    return tile_operands(q_hat, k_hat, gc, beta, inv, mqk, gather(layer.do), layer.scale)


def chunked_forward(layer: LayerInputs) -> Forward:
    """The forward pass 16 tokens at a time.

    One triangular inverse gives the corrections U of all rows of a tile, each as if the rows before had been
    written.
    """
    tiling = layer.tiling
    tiles = layer_operands(layer)
    values = tiling.gather(layer.v)
    heads, total_tiles, key_dim = tiles.decay.shape
    outputs = np.empty_like(values)
    states = np.empty((heads, total_tiles, key_dim, values.shape[-1]))
    final_states = np.empty_like(layer.initial_state)
    for sequence in range(tiling.sequences):
        state = layer.initial_state[sequence]
        for tile in tiling.tiles_of(sequence):
            surprise = values[:, tile] - tiles.kd[:, tile] @ state
            u = tiles.inv[:, tile] @ (tiles.beta[:, tile, :, None] * surprise)
            outputs[:, tile] = tiles.qd[:, tile] @ state + tiles.mqk[:, tile] @ u
            state = tiles.decay[:, tile, :, None] * state + tiles.kr[:, tile].swapaxes(-1, -2) @ u
            states[:, tile] = state
        final_states[sequence] = state
    return Forward(tiling.scatter(outputs), states, final_states)


def chunked_backward(layer: LayerInputs) -> ScanResult:
    """The gradients of the states at the tiles' borders, and of v, by the reverse scan, in float64."""
    return reverse_scan(layer_operands(layer), layer.tiling, layer.dht)
