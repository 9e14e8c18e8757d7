"""The shape of a batch to time or to profile, such as B32/T8192, and how much of it fits in GPU memory."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..ground.errors import BadInput
from .tiling import CHUNK, HEAD_DIM

CONFIGS = ("B32/T8192", "B8/T32768", "B1/T131072")
"""The article's three: the same batch cut into many short, fewer longer and one very long sequence."""

BYTES_PER_TOKEN_AND_HEAD = (
    3 * 2 * HEAD_DIM  # q, k, do, bf16
    + 4 * HEAD_DIM  # gc, fp32
    + 4  # beta, fp32
    + 2 * 2 * CHUNK  # inv and mqk, bf16, one row per token
    + 4 * HEAD_DIM * HEAD_DIM // CHUNK  # snapshots, fp32, one per tile
)
WORKING_BYTES = 3 * 10**9  # what preparing the data takes for a while
USABLE_FRACTION = 0.9


@dataclass(frozen=True)
class Config:
    """The shape of a batch: so many sequences of so many tokens each."""

    sequences: int
    length: int

    @classmethod
    def parse(cls, text: str) -> Config:
        """From "B32/T8192". Raises BadInput for anything else; lengths are multiples of 16 tokens."""
        match = re.fullmatch(r"B([1-9]\d*)/T([1-9]\d*)", text) if isinstance(text, str) else None
        if match is None or int(match.group(2)) % CHUNK:
            raise BadInput(
                f"The config is {text!r}: give one such as {', '.join(CONFIGS)} (B: sequences, T: tokens of "
                f"each, a multiple of {CHUNK})."
            )
        return cls(int(match.group(1)), int(match.group(2)))

    @property
    def name(self) -> str:
        """As `parse` reads it."""
        return f"B{self.sequences}/T{self.length}"

    @property
    def tokens(self) -> int:
        """Tokens of all sequences."""
        return self.sequences * self.length


def fitting_heads(heads: int, tokens: int, free_bytes: int) -> int:
    """The most heads, at most `heads` and else its halves, with which `tokens` tokens fit in GPU memory; 0 if
    none do.
    """
    usable = USABLE_FRACTION * free_bytes - WORKING_BYTES
    while heads > 0 and heads * tokens * BYTES_PER_TOKEN_AND_HEAD > usable:
        heads //= 2
    return heads
