"""The banks lab: one warp writes a tile along its rows and reads it down its columns, 16 bytes a lane."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ground.files import KERNELS
from ..hardware.limits import KIB, LANES
from ..machines.runnable import Runnable, on_host
from ..sources.kernel_source import KernelSource

SOURCE = KERNELS / "lab" / "banks.cu"
GIVEN_BYTES = 16 * KIB
"""Of shared memory: more than the tile takes, so that it can be said by how much a layout exceeds it."""


def shape(source: Path = SOURCE) -> tuple[int, int, int]:
    """Rows, pieces in a row, elements in a piece."""
    constants = KernelSource.load(source).constants()
    return constants["ROWS"], constants["PIECES"], constants["PIECE"]


def tile_bytes(source: Path = SOURCE) -> int:
    """Bytes of the tile."""
    return int(np.prod(shape(source))) * 2


def runnable(source: Path = SOURCE) -> Runnable:
    """A launch on a tile whose elements hold their own numbers; source: the kernel, or one made of it."""
    rows, pieces, piece = shape(source)
    tile = np.arange(rows * pieces * piece, dtype=np.uint16)
    copy = np.empty((pieces, rows, piece), np.uint16)
    return Runnable(
        source=source,
        entry="copy_tile",
        arguments=(tile, copy),
        grid=(1, 1, 1),
        threads=LANES,
        dynamic_smem_bytes=GIVEN_BYTES,
        outputs={"copy": 1},
        judge=_judge,
    )


def expected(copy_shape: tuple[int, ...]) -> NDArray[np.int64]:
    """What the copy, [pieces, rows, elements in a piece], must hold."""
    pieces, rows, piece = copy_shape
    return np.arange(rows * pieces * piece).reshape(rows, pieces, piece).swapaxes(0, 1)


def _judge(outputs: Mapping[str, Any]) -> list[str]:
    copy = on_host(outputs["copy"])
    wrong = int((copy != expected(copy.shape)).sum())
    return [f"{wrong} of {copy.size} elements came back wrong"] if wrong else []
