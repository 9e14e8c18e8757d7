"""What the lab kernels must write, worked out apart from the judges that come with them."""

import numpy as np

from kda_learn.hardware.bf16 import from_bf16
from kda_learn.hardware.fragments import FRAGMENTS, owner
from kda_learn.machines.runnable import Runnable


def products_of(runnable: Runnable) -> np.ndarray:
    """float64 [products, lanes, registers]: what every warp of the mma ceiling ends with."""
    left, right = matrices("A", runnable.arguments[0]), matrices("B", runnable.arguments[1])
    exact = left @ right
    held = np.zeros((len(exact), 32, 4))
    for row, column in np.ndindex(16, 8):
        lane, register, _ = owner("C", row, column)
        held[:, lane, register] = exact[:, row, column]
    return held


def matrices(name: str, held: np.ndarray) -> np.ndarray:
    """float64 [matrices, rows, columns], from bf16 fragments, uint32 [matrices, lanes, registers]."""
    shape = FRAGMENTS[name]
    halves = held.view(np.uint16).reshape(*held.shape, 2)
    bits = np.zeros((len(held), shape.rows, shape.columns), np.uint16)
    for row, column in np.ndindex(shape.rows, shape.columns):
        lane, register, half = owner(name, row, column)
        bits[:, row, column] = halves[:, lane, register, half]
    return from_bf16(bits).astype(np.float64)
