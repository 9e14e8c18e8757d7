"""The trace of one tile: what a stage does to shared memory, line by line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..sources.stages import Stage, as_stage
from ..tracing.rows import Row, rows, traced
from .problem import random_problem
from .run import of_problem
from .tiling import CHUNK

if TYPE_CHECKING:
    from ..machines.emulator_launch import Launch


def trace(stage: Stage | str | Path, *, v_split: int = 1) -> list[Row]:
    """Run a stage on the emulator for one full tile of one head, and count each line's shared-memory traffic.

    The rows are in the order of the source. Those of the sections "start" and "finish" happen once per
    sequence, all others once per tile; the counts are of all v_split blocks together. Arguments and errors:
    as `run.run`.
    """
    stage = as_stage(stage)
    return rows(traced_tile(stage, v_split=v_split), stage.source, VSPLIT=v_split)


def traced_tile(stage: Stage, *, v_split: int = 1) -> Launch:
    """The traced launch for one full tile of one head. Errors: as `run.run`."""
    return traced(of_problem(stage, random_problem(lengths=[CHUNK]), v_split))
