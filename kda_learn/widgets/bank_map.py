"""The bank map: what one warp instruction asks of the 32 banks of shared memory, drawn phase by phase."""

from collections.abc import Sequence
from typing import Any

import traitlets

from ..ground.errors import BadInput
from .explorer import Explorer, bundle

# What a reader can build; tests hold it against the script's own lists.
LANE_MAPS = ("linear", "tokens_halves", "accumulator", "accumulator_transposed", "matrix_rows")
SWIZZLES = ("none", "interleaved", "sw32", "sw64", "sw128")
WIDTHS = (2, 4, 8, 16)
MOST_BYTES = 4096  # that a row, its padding, or the way between halves may have
DEFAULT_PATTERN = {
    "lanes": "linear",
    "width": 4,
    "stride": 128,
    "padding": 0,
    "distance": 64,
    "swizzle": "none",
}


class BankMap(Explorer):
    """See `bank_map`. The reader's choices come back in `mode`, `pattern`, `index` and `phase`."""

    script = "bank_map"
    state_names = ("accesses", "pattern", "mode", "index", "phase")
    _esm = bundle("bank_map")
    accesses = traitlets.List(traitlets.Dict()).tag(sync=True)
    pattern = traitlets.Dict().tag(sync=True)
    mode = traitlets.Enum(("recorded", "pattern"), default_value="pattern").tag(sync=True)
    index = traitlets.Int(0).tag(sync=True)
    phase = traitlets.Int(0).tag(sync=True)


def bank_map(accesses: Sequence[dict[str, Any]] | None = None, **pattern: int | str) -> BankMap:
    """An explorer of bank conflicts.

    accesses: recorded instructions, from `tracing.patterns.recorded(launch, source)` or one by one
    from `tracing.patterns.access(...)`; the reader picks the line and the instruction. Without them the
    explorer opens on a pattern, which the reader can change:

    lanes:    which row and column a lane reads: one of LANE_MAPS. "linear" is row = lane; "tokens_halves" is
              row = lane % 16, the second half of the warp `distance` bytes to the right; "accumulator" is
              8 rows x 4 columns; "accumulator_transposed" the same turned; "matrix_rows" the rows whose
              addresses ldmatrix.x4 and stmatrix.x4 take.
    width:    bytes that a lane reads, 2, 4, 8 or 16. stride: bytes of a row. padding: unused bytes behind it.
    swizzle:  how rows are laid out: one of SWIZZLES.
    """
    unknown = set(pattern) - set(DEFAULT_PATTERN)
    if unknown:
        raise BadInput(
            f"{', '.join(sorted(unknown))} was given: a pattern takes {', '.join(DEFAULT_PATTERN)}"
        )
    full = DEFAULT_PATTERN | pattern
    for name, known in (("lanes", LANE_MAPS), ("swizzle", SWIZZLES), ("width", WIDTHS)):
        if full[name] not in known:
            raise BadInput(f"{name}={full[name]!r} was given: choose one of {', '.join(map(repr, known))}")
    for name in ("stride", "padding", "distance"):
        if not isinstance(full[name], int) or not 0 <= full[name] <= MOST_BYTES:
            raise BadInput(f"{name}={full[name]!r} was given: want a number of bytes from 0 to {MOST_BYTES}")
    mode = "recorded" if accesses else "pattern"
    return BankMap(accesses=list(accesses or []), pattern=full, mode=mode)
