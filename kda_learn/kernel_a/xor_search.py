"""Chapter s12x: how few wavefronts R1's 2-byte reads of q and k can take when rows move in 16-byte chunks.

A tile of q is 16 rows (tokens) of 16 chunks of 8 bf16, 256 bytes a row, so that the low three bits of a
chunk's number say which 16 of the 128 bytes across the banks it fills. `search` tries every linear XOR of
these three bits by the four bits of the row: each row bit flips the chunk bits of its own mask, which makes
8 ** 4 = 4,096 layouts. `bound` says why none of them, nor any other permutation of chunks, gets below 4.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ..hardware.banks import wavefronts
from ..hardware.limits import BANK_BYTES, BANKS, LANES
from .tiling import CHUNK as ROWS
from .tiling import HEAD_DIM

CHUNK_BYTES = 16  # what one cp.async copies: a layout may move chunks, and not what is inside them
ROW_BYTES = HEAD_DIM * 2
CHUNKS_ACROSS_BANKS = BANKS * BANK_BYTES // CHUNK_BYTES
ROW_BITS = ROWS.bit_length() - 1
WARPS = 8
FEATURES = 8  # neighbours that a lane reads, one after the other: one chunk

SW128 = (1, 2, 4, 0)
"""The 128-byte swizzle of the tensor cores, and of s12x, in this notation: row % 8 flips the chunk bits."""


@dataclass(frozen=True)
class XorSearch:
    """Every layout that was tried and what it costs."""

    masks: NDArray[np.int64]  # [4096, 4]  for each bit of the row, lowest first, the chunk bits that it flips
    wavefronts: NDArray[np.int64]  # [4096]  of the worst of R1's reads of q

    @property
    def best(self) -> int:
        """The fewest wavefronts that any layout takes."""
        return int(self.wavefronts.min())

    @property
    def histogram(self) -> dict[int, int]:
        """Wavefronts to how many layouts take so many, fewest first."""
        counts, layouts = np.unique(self.wavefronts, return_counts=True)
        return dict(zip(counts.tolist(), layouts.tolist(), strict=True))

    def of(self, masks: tuple[int, ...]) -> int:
        """What the layout with these masks takes, such as `SW128`; (0, 0, 0, 0) are plain rows."""
        return int(self.wavefronts[(self.masks == masks).all(axis=1)][0])


def bound(*, lanes: int = LANES, chunk_bytes: int = CHUNK_BYTES) -> int:
    """The fewest wavefronts of a read in which every lane wants the same place inside a chunk of its own.

    Chunks start at multiples of their size, so one place inside them comes to lie in 128 / chunk_bytes banks
    only: 8 of the 32 with 16-byte chunks. That many words can be delivered at once; by the pigeonhole
    principle 32 lanes with a word each wait for the bank that has at least 32 / 8 = 4 of them.
    """
    reachable_banks = BANKS * BANK_BYTES // max(chunk_bytes, BANK_BYTES)
    return -(-lanes // reachable_banks)


@cache
def search() -> XorSearch:
    """All 4,096 linear XORs of the chunk by the row, each with the wavefronts of R1's reads of q.

    A lane of R1 owns 8 neighbouring features of token lane % 16: 64 * (warp / 4) + 8 * (warp % 4) + 32 *
    (lane / 16) and up. k lies like q and is read the same way.
    """
    masks = np.indices((CHUNKS_ACROSS_BANKS,) * ROW_BITS).reshape(ROW_BITS, -1).T.astype(np.int64)
    row_bits = np.arange(ROWS)[:, None] >> np.arange(ROW_BITS) & 1
    flips = np.bitwise_xor.reduce(masks[:, None, :] * row_bits, axis=2)  # [layouts, rows]

    lane = np.arange(LANES)
    warp = np.arange(WARPS)[:, None]
    row = lane % ROWS
    chunk = (64 * (warp // 4) + 8 * (warp % 4) + 32 * (lane // ROWS)) // FEATURES  # [warps, lanes]
    moved = chunk ^ flips[:, None, row]  # [layouts, warps, lanes]
    # The 8 reads of a warp differ by the place inside the chunk alone, the same for all lanes: one tells all.
    addresses = row * ROW_BYTES + moved * CHUNK_BYTES
    taken = wavefronts(addresses.reshape(-1, LANES), np.full(moved[..., 0].size, 0xFFFFFFFF, np.uint32), 2)
    return XorSearch(masks, taken.reshape(len(masks), WARPS).max(axis=1))
