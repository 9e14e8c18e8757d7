"""The traffic twin: a kernel that moves as many bytes as Kernel A does for a tile, and does nothing else."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ground.files import KERNELS
from ..machines.runnable import Runnable, on_host
from ..sources.kernel_source import KernelSource

SOURCE = KERNELS / "lab" / "traffic_twin.cu"
ELEMENT_BYTES = {"float32": 4, "bfloat16": 2}
"""Of a snapshot's element, by snapshot type."""

PIECE = 16
"""Bytes that a lane moves at a time."""


def tile_bytes(snapshot_dtype: str = "float32") -> tuple[int, int]:
    """Bytes of one tile and head: what is read, and what is written."""
    constants = KernelSource.load(SOURCE).constants()
    return constants["BYTES_IN"], constants["D"] ** 2 * ELEMENT_BYTES[snapshot_dtype]


def inputs(tiles: int, xp: Any = np, seed: int = 0) -> Any:
    """Random bits to move, uint32 [tiles, pieces, 4], an array of NumPy or of CuPy (`xp`)."""
    shape = (tiles, tile_bytes()[0] // PIECE, 4)
    return xp.random.default_rng(seed).standard_normal(shape, dtype=xp.float32).view(xp.uint32)


def runnable(source: Any, blocks: int, snapshot_dtype: str = "float32", *, target: Any = None) -> Runnable:
    """A launch that moves the tiles of `source` (see `inputs`) with so many blocks.

    target: uint32 [tiles, pieces written, 4], to be written; None makes one in host memory.
    """
    tiles = len(source)
    if target is None:
        target = np.empty((tiles, tile_bytes(snapshot_dtype)[1] // PIECE, 4), np.uint32)

    def judge(outputs: Mapping[str, Any]) -> list[str]:
        """Looks at the first tile, one in the middle, and the last."""
        return [
            f"tile {tile} of {tiles} holds something else than what was read"
            for tile in sorted({0, tiles // 2, tiles - 1})
            if not np.array_equal(
                on_host(outputs["target"][tile]), moved(on_host(source[tile]), snapshot_dtype)
            )
        ]

    return Runnable(
        source=SOURCE,
        entry=f"move_tiles<{ELEMENT_BYTES[snapshot_dtype]}>",
        arguments=(source, target, np.uint32(tiles)),
        grid=(blocks, 1, 1),
        threads=KernelSource.load(SOURCE).constants()["THREADS"],
        outputs={"target": 1},
        judge=judge,
    )


def moved(tile: NDArray[np.uint32], snapshot_dtype: str = "float32") -> NDArray[np.uint32]:
    """What is written for one tile, uint32 [pieces written, 4], from what is read, uint32 [pieces, 4].

    Each thread adds up its pieces bit by bit (xor) and writes the sum several times, with a count on it.
    """
    threads = KernelSource.load(SOURCE).constants()["THREADS"]
    padded = np.zeros((-(-len(tile) // threads) * threads, 4), np.uint32)
    padded[: len(tile)] = tile
    seen = np.bitwise_xor.reduce(padded.reshape(-1, threads, 4), axis=0)
    times = tile_bytes(snapshot_dtype)[1] // PIECE // threads
    written = np.broadcast_to(seen, (times, threads, 4)).copy()
    written[:, :, 0] += np.arange(times, dtype=np.uint32)[:, None]
    return written.reshape(-1, 4)
