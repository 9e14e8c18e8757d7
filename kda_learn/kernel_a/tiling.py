"""How sequences of tokens are cut into tiles of 16 rows.

A tile never crosses a sequence, so the last tile of a sequence may be short: its rows past the end are
padding. Tokens of all sequences lie one after another (T_total of them); so do tiles (total_tiles of them),
and arrays that hold one entry per head and tile are indexed `head * total_tiles + tile`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..ground.errors import BadInput
from ..ground.given import one_of, several, shown, whole

CHUNK = 16
"""Rows (tokens) of a tile, written C in the formulas."""

HEAD_DIM = 128
"""Width of q and k (K) and of v and do (V) that Kernel A is built for, written D in the formulas."""

WARPS = 8  # of a block of Kernel A
WARP_COLUMNS = 16  # columns v of dS that one warp owns
DS_COLUMNS = 128  # columns v of dS over all blocks that share a head


@dataclass(frozen=True)
class Tiling:
    """The tiles of a batch of sequences with the given `lengths` in tokens (each >= 0)."""

    lengths: tuple[int, ...]

    @classmethod
    def of(cls, lengths: Sequence[int]) -> Tiling:
        """The tiling of sequences with these lengths; takes NumPy integers too. Else raises BadInput."""
        return cls(tuple(lengths_given(lengths, least=0)))

    @classmethod
    def from_cu_seqlens(cls, cu_seqlens: np.ndarray, *, tokens: int) -> Tiling:
        """The tiling of sequences whose borders among `tokens` tokens are cu_seqlens, int64 [N + 1].

        Raises BadInput unless the borders start at 0, never fall and end at `tokens`.
        """
        wanted = f"give int64 [N + 1] that starts at 0, never falls and ends at T_total = {tokens}"
        if not isinstance(cu_seqlens, np.ndarray) or cu_seqlens.dtype != np.int64:
            given = getattr(cu_seqlens, "dtype", type(cu_seqlens).__name__)
            raise BadInput(f"cu_seqlens is of type {given}: {wanted}.")
        if cu_seqlens.ndim != 1 or len(cu_seqlens) < 2:
            raise BadInput(f"cu_seqlens has the shape {cu_seqlens.shape}: {wanted}.")
        if cu_seqlens[0] != 0 or cu_seqlens[-1] != tokens:
            raise BadInput(f"cu_seqlens runs from {cu_seqlens[0]} to {cu_seqlens[-1]}: {wanted}.")
        lengths = np.diff(cu_seqlens)
        if lengths.min() < 0:
            sequence = int(lengths.argmin())
            borders = f"{cu_seqlens[sequence]} to {cu_seqlens[sequence + 1]}"
            raise BadInput(f"cu_seqlens falls from {borders} at sequence {sequence}: {wanted}.")
        return cls.of(lengths)

    @cached_property
    def tile_counts(self) -> np.ndarray:
        """Tiles of each sequence, int64 [N]; 0 for an empty sequence."""
        return -(-np.array(self.lengths, dtype=np.int64) // CHUNK)

    @cached_property
    def token_base(self) -> np.ndarray:
        """First token of each sequence and, at the end, T_total: int64 [N + 1]. This is cu_seqlens."""
        return np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])

    @cached_property
    def tile_base(self) -> np.ndarray:
        """First tile of each sequence and, at the end, total_tiles: int64 [N + 1]."""
        return np.concatenate([[0], np.cumsum(self.tile_counts)])

    @property
    def sequences(self) -> int:
        """Number of sequences N."""
        return len(self.lengths)

    @property
    def tokens(self) -> int:
        """Tokens of all sequences, T_total."""
        return int(self.token_base[-1])

    @property
    def total_tiles(self) -> int:
        """Tiles of all sequences (of one head)."""
        return int(self.tile_base[-1])

    def tiles_of(self, sequence: int) -> range:
        """The tiles of one sequence, first to last."""
        return range(int(self.tile_base[sequence]), int(self.tile_base[sequence + 1]))

    @cached_property
    def rows(self) -> np.ndarray:
        """Token of each row of each tile, int64 [total_tiles, 16].

        A padding row repeats its sequence's last token, so that an index never leaves the sequence.
        """
        return np.minimum(self._unclipped_rows, self._last_token[:, None])

    @cached_property
    def valid(self) -> np.ndarray:
        """Whether each row of each tile is a token and not padding, bool [total_tiles, 16]."""
        return self._unclipped_rows <= self._last_token[:, None]

    @cached_property
    def _sequence_of_tile(self) -> np.ndarray:
        return np.repeat(np.arange(self.sequences), self.tile_counts)

    @cached_property
    def _last_token(self) -> np.ndarray:
        return self.token_base[1:][self._sequence_of_tile] - 1

    @cached_property
    def _unclipped_rows(self) -> np.ndarray:
        tile_in_sequence = np.arange(self.total_tiles) - self.tile_base[self._sequence_of_tile]
        first_token = self.token_base[self._sequence_of_tile] + CHUNK * tile_in_sequence
        return first_token[:, None] + np.arange(CHUNK)

    def gather(self, tokens: np.ndarray) -> np.ndarray:
        """Per-token values [T_total, H, ...] as tiles [H, total_tiles, 16, ...]; padding rows are zeros."""
        tiles = np.moveaxis(tokens[self.rows], 2, 0)
        tiles = np.ascontiguousarray(tiles)
        tiles[:, ~self.valid] = 0
        return tiles

    def scatter(self, tiles: np.ndarray) -> np.ndarray:
        """The inverse of `gather`: tiles [H, total_tiles, 16, ...] as [T_total, H, ...], padding left out."""
        return np.moveaxis(tiles[:, self.valid], 0, 1)


def lengths_given(lengths: Sequence[int], least: int = 1) -> list[int]:
    """The tokens of at least so many sequences, each 0 or above. Raises BadInput for anything else."""
    wanted = "whole numbers from 0 on, the tokens of each sequence, such as [16, 48]"
    given = several("lengths", lengths, wanted, least=least)
    try:
        return [whole("one", length) for length in given]
    except BadInput:
        raise BadInput(f"lengths is {shown(given)}: give a list of {wanted}.") from None


def ds_owner(column: int, v_split: int = 1) -> tuple[int, int]:
    """Which block (along v) and which of its warps own column v of dS, for V cut into `v_split` blocks.

    A warp owns 16 columns, so 8 / v_split of a block's 8 warps take part in the products.
    """
    one_of("v_split", v_split, (1, 2, 4, 8))
    whole("column", column, 0, DS_COLUMNS - 1)
    block, inside = divmod(column, DS_COLUMNS // v_split)
    return block, inside // WARP_COLUMNS
