"""What a kernel of Kernel A is called with: sixteen arguments, as kernels/kernel_a/problem.cuh has them."""

from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

import numpy as np

Array = Any
"""A NumPy array in host memory, or one of CuPy or PyTorch on a GPU."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of every stage, in the order of its parameters. bf16 arrays of NumPy are uint16.

    `length`: tokens of every sequence; not read when cu_seqlens is given.
    """

    q: Array  # bf16 [T_total, H, D], and k
    k: Array
    gc: Array  # float32 [H * total_tiles, 16, D]
    beta: Array  # float32 [H, T_total]
    inv: Array  # bf16 [H * total_tiles, 16, 16], and mqk
    mqk: Array
    do: Array  # bf16 [T_total, H, D]
    dht: Array | None  # float32 [N, H, K, V]
    snapshots: Array  # float32 or bf16 [H * total_tiles, K, V], written
    ds0: Array  # float32 [N, H, K, V], written
    cu_seqlens: Array | None  # int64 [N + 1]
    scale: float
    length: int
    tokens: int
    total_tiles: int
    heads: int

    def in_order(self) -> tuple[Any, ...]:
        """The same as a runnable takes them: numbers with the parameters' types."""
        *arrays, scale, length, tokens, total_tiles, heads = _all(self)
        return (*arrays, np.float32(scale), *map(np.int32, (length, tokens, total_tiles, heads)))


_NAMES = [one.name for one in fields(Arguments)]
_all = attrgetter(*_NAMES)

OUTPUTS = {name: place for place, name in enumerate(_NAMES) if name in ("snapshots", "ds0")}
"""The arrays that a stage writes, and their places among the arguments."""
