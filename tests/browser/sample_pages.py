"""The pages of explorers that the tests of this folder open."""

from __future__ import annotations

from typing import Any

import numpy as np

from kda_learn.tracing.patterns import access
from kda_learn.widgets.bank_map import bank_map
from kda_learn.widgets.explorer import state
from kda_learn.widgets.tiles import tiles

LANES = np.arange(32)
RECORDED = [
    access("lds", 2, LANES % 16 * 256, line=101, text="lds<bf16>(row)", section="r1", count=8),
    access("lds", 2, LANES % 16 * 272, line=101, text="lds<bf16>(row)", section="r1", count=2),
    access(
        "stmatrix.x4.trans",
        16,
        LANES * 16,
        line=212,
        text="stmatrix_x4_trans(at, x)",
        section="combine",
        region="DS",
    ),
]
PAGES: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "bank": [("bank_map", state(bank_map()))],
    "recorded": [("bank_map", state(bank_map(RECORDED)))],
    "both": [("bank_map", state(bank_map(width=16))), ("tiles", state(tiles("dS", v_split=2)))],
} | {f"tiles-{view}": [("tiles", state(tiles(view)))] for view in ("A", "B", "C", "dS", "dual")}
"""Page name -> explorers on it: the name of the script and its state."""
