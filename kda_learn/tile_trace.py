"""The trace of one tile: what a stage does to shared memory, line by line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .problem import random_problem
from .run import kernel_path, run
from .source import StageSource
from .tiling import CHUNK
from .trace import Row, rows

if TYPE_CHECKING:
    from .emulator import Launch
    from .stages import Stage


def trace(stage: Stage | str | Path, *, v_split: int = 1) -> list[Row]:
    """Run a stage on the emulator for one full tile of one head, and count each line's shared-memory traffic.

    The rows are in the order of the source. Those of the sections "start" and "finish" happen once per
    sequence, all others once per tile; the counts are of all v_split blocks together. Arguments and errors:
    as `run.run`.
    """
    launch = traced_tile(stage, v_split=v_split)
    return rows(launch, StageSource.load(kernel_path(stage)), v_split=v_split)


def traced_tile(stage: Stage | str | Path, *, v_split: int = 1) -> Launch:
    """The traced launch for one full tile of one head. Arguments and errors: as `run.run`."""
    return run(stage, random_problem(lengths=[CHUNK]), machine="emulator", v_split=v_split, trace=True).launch
