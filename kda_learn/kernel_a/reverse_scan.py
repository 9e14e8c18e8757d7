"""Kernel A in NumPy: the reverse scan of the state gradient, tile by tile, last tile first.

One function serves the float64 truth, the simulation of the kernels' rounding and the chunked backward pass:
they differ only in the operands they give it and in where it rounds. Everything is vectorised over the heads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..ground.errors import BadInput
from ..hardware.bf16 import FORMATS, round_to
from .tiling import Tiling


@dataclass(frozen=True)
class Rounding:
    """Where the scan rounds, each as a number format of `bf16.round_to`.

    operand: what the tensor cores multiply (qd, kd, kr, dU, beta*dvcorr, and dS in the product with kr);
    state: dS as it is kept from tile to tile; snapshot: what is written for each tile.
    Sums are always kept in float64: a float32 accumulator's own error is far below that of a bf16 operand.
    """

    operand: str = "bfloat16"
    state: str = "bfloat16"
    snapshot: str = "float32"

    def __post_init__(self) -> None:
        for number_format in (self.operand, self.state, self.snapshot):
            if number_format not in FORMATS:
                raise BadInput(
                    f"Rounding got the format {number_format!r}: give one of {', '.join(FORMATS)}."
                )


EXACT = Rounding("float64", "float64", "float64")
"""No rounding beyond float64's own."""


@dataclass(frozen=True)
class TileOperands:
    """What the scan reads of each tile, float64, all heads; padding rows of qd, kd, kr, do are zeros."""

    qd: np.ndarray  # [H, total_tiles, C, K]  decayed query: scale * q_hat * 2^gc
    kd: np.ndarray  # [H, total_tiles, C, K]  decayed key: k_hat * 2^gc
    kr: np.ndarray  # [H, total_tiles, C, K]  restored key: k_hat * 2^(gT - gc)
    decay: np.ndarray  # [H, total_tiles, K]  2^gT, the whole tile's decay
    beta: np.ndarray  # [H, total_tiles, C]
    inv: np.ndarray  # [H, total_tiles, C, C]
    mqk: np.ndarray  # [H, total_tiles, C, C]
    do: np.ndarray  # [H, total_tiles, C, V]  gradient of the outputs

    def rounded(self, number_format: str) -> TileOperands:
        """The operands as a kernel keeps them in shared memory: qd, kd and kr rounded.

        do, INV and Mqk come to the kernel as bf16 already; 2^gT and beta stay float32.
        """
        return replace(
            self,
            qd=round_to(self.qd, number_format),
            kd=round_to(self.kd, number_format),
            kr=round_to(self.kr, number_format),
        )


def tile_operands(
    q_hat: np.ndarray,
    k_hat: np.ndarray,
    gc: np.ndarray,
    beta: np.ndarray,
    inv: np.ndarray,
    mqk: np.ndarray,
    do: np.ndarray,
    scale: float,
) -> TileOperands:
    """Operands from normalised q and k, gc and do, all [H, total_tiles, C, ...] (see TileOperands)."""
    total = gc[:, :, -1:, :]
    return TileOperands(
        qd=scale * q_hat * np.exp2(gc),
        kd=k_hat * np.exp2(gc),
        kr=k_hat * np.exp2(total - gc),
        decay=np.exp2(total[:, :, 0, :]),
        beta=beta,
        inv=inv,
        mqk=mqk,
        do=do,
    )


class ScanResult(NamedTuple):
    """What the reverse scan gives, float64."""

    snapshots: np.ndarray  # [H * total_tiles, K, V]  gradient of the state that leaves each tile
    ds0: np.ndarray  # [N, H, K, V]  gradient of each sequence's initial state
    dv: np.ndarray  # [T_total, H, V]  gradient of v, a by-product


def reverse_scan(
    operands: TileOperands, tiling: Tiling, dht: np.ndarray | None, rounding: Rounding = EXACT
) -> ScanResult:
    """Scan every sequence from its last tile to its first.

    dht [N, H, K, V] is the gradient of the final states (None: zeros). The snapshot of a tile is dS before
    the tile is processed; a sequence without tiles returns its dht as ds0, rounded as dS is.
    """
    tiles = operands.rounded(rounding.operand)
    heads, total_tiles, rows, key_dim = tiles.kr.shape
    value_dim = tiles.do.shape[-1]
    snapshots = np.empty((heads, total_tiles, key_dim, value_dim))
    ds0 = np.empty((tiling.sequences, heads, key_dim, value_dim))
    dv = np.empty((heads, total_tiles, rows, value_dim))
    for sequence in range(tiling.sequences):
        ds = np.zeros((heads, key_dim, value_dim))
        if dht is not None:
            ds = round_to(dht[sequence].astype(np.float64), rounding.state)
        for tile in reversed(tiling.tiles_of(sequence)):
            snapshots[:, tile] = round_to(ds, rounding.snapshot)
            ds, dv[:, tile] = _one_tile(tiles, tile, ds, rounding)
        ds0[sequence] = ds
    return ScanResult(snapshots.reshape(-1, key_dim, value_dim), ds0, tiling.scatter(dv))


def _one_tile(
    tiles: TileOperands, tile: int, ds: np.ndarray, rounding: Rounding
) -> tuple[np.ndarray, np.ndarray]:
    """One tile's six steps, named as in the kernel.

    ds [H, K, V] is the gradient of the state that leaves the tile; returns that of the state that enters it,
    and the gradient of v, [H, C, V].
    """
    do = tiles.do[:, tile]
    mqk_transposed = tiles.mqk[:, tile].swapaxes(-1, -2)
    inv_transposed = tiles.inv[:, tile].swapaxes(-1, -2)
    qd_transposed = tiles.qd[:, tile].swapaxes(-1, -2)
    kd_transposed = tiles.kd[:, tile].swapaxes(-1, -2)

    du = mqk_transposed @ do  # G1
    du = du + tiles.kr[:, tile] @ round_to(ds, rounding.operand)  # G2
    dvcorr = inv_transposed @ round_to(du, rounding.operand)  # G3
    dv = round_to(tiles.beta[:, tile, :, None] * dvcorr, rounding.operand)
    t1 = qd_transposed @ do  # G4
    t1 = t1 - kd_transposed @ dv  # G5
    ds = round_to(tiles.decay[:, tile, :, None] * ds + t1, rounding.state)  # combine
    return ds, dv
