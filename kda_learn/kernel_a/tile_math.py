"""The formulas of one tile that need no state; each accepts NumPy arrays and torch tensors alike.

Shapes end in [..., C, D] or [..., C, C] with C = 16 rows; leading axes (heads, tiles) are carried along.
Gates are in log2 units: gc is the running sum over the tile's rows, inclusive, of g * log2(e). Names follow
the forward pass of MoonshotAI/FlashKDA and of fla-org/flash-linear-attention (both MIT).
"""

import math
from types import ModuleType
from typing import Any

import numpy as np

from .tiling import CHUNK

Array = Any
"""A NumPy array or a torch tensor."""

LOG2_E = math.log2(math.e)
NORM_EPSILON = 1e-6

FORGETS_ALL = -160.0
"""Log2 of the decay of one token that stands for every stronger one, minus infinity included: 2^-160 is zero
in float32. Without it the difference of two rows of gc would be infinity minus infinity, and behind a gate of
-1e30 the other gates of a tile would be lost to rounding.
"""


def array_module(array: Array) -> ModuleType:
    """The module whose functions take this array: numpy or torch (imported only if a tensor comes)."""
    if isinstance(array, np.ndarray):
        return np
    import torch

    return torch


def normalise(vectors: Array) -> Array:
    """L2-normalise the last axis: x / sqrt(sum x^2 + 1e-6); the epsilon stands inside the root."""
    square_sum = (vectors * vectors).sum(-1)
    return vectors * (square_sum[..., None] + NORM_EPSILON) ** -0.5


def gate_sum(g: Array) -> Array:
    """gc [..., C, D]: the inclusive running sum over a tile's rows, in log2 units, of g (natural log, <= 0).

    Rows of padding must hold g = 0; there gc then repeats the last valid row. A gate that forgets everything
    counts as FORGETS_ALL.
    """
    xp = array_module(g)
    return xp.cumsum(xp.clip(g * LOG2_E, FORGETS_ALL, None), -2)


def causal_products(q_hat: Array, k_hat: Array, gc: Array) -> tuple[Array, Array]:
    """Decayed dot products inside a tile: q_hat_i . k_hat_j (j <= i) and k_hat_i . k_hat_j (j < i).

    Both are [..., C, C] with zeros elsewhere, and each term of a dot product is weighted by 2^(gc_i - gc_j).
    The textbook form multiplies 2^gc_i by 2^-gc_j, and the second factor overflows under strong gates. The
    difference is never positive where j <= i, so here nothing can overflow: 2^difference lies in (0, 1].
    """
    xp = array_module(gc)
    query_products = _zeros((*gc.shape[:-1], CHUNK), like=gc)
    key_products = _zeros((*gc.shape[:-1], CHUNK), like=gc)
    for row in range(CHUNK):
        up_to_row = slice(0, row + 1)
        decay = xp.exp2(gc[..., row, None, :] - gc[..., up_to_row, :])
        decayed_keys = decay * k_hat[..., up_to_row, :]
        query_and_key = xp.stack([q_hat[..., row, :], k_hat[..., row, :]], -2)
        products = query_and_key @ decayed_keys.swapaxes(-1, -2)
        query_products[..., row, up_to_row] = products[..., 0, :]
        key_products[..., row, :row] = products[..., 1, :row]
    return query_products, key_products


def unit_lower_inverse(lower: Array) -> Array:
    """(I + lower)^-1 by forward substitution, for a strictly lower triangular `lower` [..., C, C].

    Row i of the inverse is e_i minus lower[i, :i] times the rows above it. The well-known product
    (I - L)(I + L^2)(I + L^4)(I + L^8) equals it on paper, but L^8 grows to thousands when keys are
    nearly the same, and what should cancel then drowns in rounding (or overflows to NaN); substitution keeps
    every number small.
    """
    inverse = _zeros(lower.shape, like=lower)
    for row in range(CHUNK):
        above = slice(0, row)
        inverse[..., row, row] = 1.0
        inverse[..., row, above] = -(lower[..., row, None, above] @ inverse[..., above, above])[..., 0, :]
    return inverse


def tile_matrices(q_hat: Array, k_hat: Array, gc: Array, beta: Array, scale: float) -> tuple[Array, Array]:
    """INV and Mqk, each [..., C, C], from normalised q and k, gc [..., C, D] and beta [..., C].

    Mqk = scale * q_hat_i . k_hat_j (decayed, diagonal kept, no beta); INV = (I + L)^-1 where L has beta on
    its rows.
    """
    query_products, key_products = causal_products(q_hat, k_hat, gc)
    inv = unit_lower_inverse(beta[..., None] * key_products)
    return inv, scale * query_products


def _zeros(shape: tuple[int, ...], *, like: Array) -> Array:
    """Zeros of the element type (and on the device) of another array."""
    if isinstance(like, np.ndarray):
        return np.zeros(shape, like.dtype)
    return like.new_zeros(shape)
