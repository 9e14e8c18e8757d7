"""What Kernel A must compute: the float64 truth, and a simulation that rounds where a kernel rounds.

The truth starts from the same bf16 INV and Mqk and the same float32 gc that the kernel gets, so that it
measures the kernel and not the rounding of its inputs.
"""

import numpy as np

from ..hardware.bf16 import from_bf16
from .problem import Problem
from .reverse_scan import EXACT, Rounding, TileOperands, reverse_scan, tile_operands
from .tile_math import normalise


def problem_operands(problem: Problem) -> TileOperands:
    """The operands of a problem's tiles in float64, from the arrays that the kernel reads."""
    tiling = problem.tiling

    def gather_bf16(tokens: np.ndarray) -> np.ndarray:
        return from_bf16(tiling.gather(tokens)).astype(np.float64)

    def per_tile(workspace: np.ndarray) -> np.ndarray:
        """[H * total_tiles, 16, ...] as float64 [H, total_tiles, 16, ...]."""
        shape = (problem.heads, problem.total_tiles, *workspace.shape[1:])
        return workspace.astype(np.float64).reshape(shape)

    return tile_operands(
        q_hat=normalise(gather_bf16(problem.q)),
        k_hat=normalise(gather_bf16(problem.k)),
        gc=per_tile(problem.gc),
        beta=tiling.gather(problem.beta.T.astype(np.float64)),
        inv=per_tile(from_bf16(problem.inv)),
        mqk=per_tile(from_bf16(problem.mqk)),
        do=gather_bf16(problem.do),
        scale=problem.scale,
    )


def scan(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """The truth: snapshots [H * total_tiles, K, V] and ds0 [N, H, K, V], float64 without rounding."""
    result = reverse_scan(problem_operands(problem), problem.tiling, problem.dht, EXACT)
    return result.snapshots, result.ds0


def simulate(problem: Problem, rounding: Rounding | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The same scan, rounding where a stage rounds (default: bf16 operands and dS, float32 snapshots).

    Its error against `scan` is what the number formats alone cost; `gate` allows a kernel little more.
    """
    result = reverse_scan(problem_operands(problem), problem.tiling, problem.dht, rounding or Rounding())
    return result.snapshots, result.ds0
