"""The ceiling of the tensor cores: products whose operands and sums stay in registers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ground.files import KERNELS
from ..hardware.bf16 import from_bf16, to_bf16
from ..hardware.fragments import FRAGMENTS, FragmentName, owner
from ..hardware.limits import LANES
from ..machines.runnable import Runnable, on_host
from ..sources.kernel_source import KernelSource

SOURCE = KERNELS / "lab" / "mma_ceiling.cu"
FLOPS_PER_MMA = 2 * 16 * 8 * 16
"""Multiplications and additions of one mma.sync m16n8k16."""

LARGEST_ERROR = 0.01
"""Of a sum after many rounds, relative to the largest: fp32 accumulators drift a little."""


def threads() -> int:
    """Threads of a block."""
    return KernelSource.load(SOURCE).constants()["THREADS"]


def products(blocks: int, rounds: int) -> int:
    """How many mma.sync such a launch executes, of all warps."""
    return blocks * threads() // LANES * KernelSource.load(SOURCE).constants()["SUMS"] * (1 + 2 * rounds)


def runnable(blocks: int, rounds: int, *, seed: int = 0) -> Runnable:
    """A launch on random operands in host memory: all warps compute the same, 1 + 2 * rounds times."""
    sums = KernelSource.load(SOURCE).constants()["SUMS"]
    random = np.random.default_rng(seed)
    lefts = to_bf16(random.standard_normal((sums, 16, 16)))
    rights = to_bf16(random.standard_normal((sums, 16, 8)))
    exact = from_bf16(lefts).astype(np.float64) @ from_bf16(rights)
    target = np.empty((blocks * threads() // LANES, sums, LANES, 4), np.float32)

    def judge(outputs: Mapping[str, Any]) -> list[str]:
        found = on_host(outputs["target"])
        wanted = np.zeros((sums, LANES, 4))
        for row, column in np.ndindex(16, 8):
            lane, register, _ = owner("C", row, column)
            wanted[:, lane, register] = exact[:, row, column]
        error = np.abs(found - wanted).max() / np.abs(wanted).max()
        return [] if error < LARGEST_ERROR else [f"the products are {error:.1e} off after {rounds} rounds"]

    return Runnable(
        source=SOURCE,
        entry="multiply",
        arguments=(_held("A", lefts), _held("B", rights), target, np.uint32(rounds)),
        grid=(blocks, 1, 1),
        threads=threads(),
        outputs={"target": 2},
        judge=judge,
    )


def _held(name: FragmentName, matrices: NDArray[np.uint16]) -> NDArray[np.uint32]:
    """Matrices of bf16 numbers as a warp holds them: uint32 [matrices, lanes, registers]."""
    shape = FRAGMENTS[name]
    halves = np.zeros((len(matrices), LANES, shape.registers, 2), np.uint16)
    for row, column in np.ndindex(shape.rows, shape.columns):
        lane, register, half = owner(name, row, column)
        halves[:, lane, register, half] = matrices[:, row, column]
    return halves.view(np.uint32)[..., 0].copy()
