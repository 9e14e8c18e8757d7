"""Whether the compiler leaves a stage's accesses as wide as its source has them: see `tracing.widths`."""

from __future__ import annotations

from pathlib import Path

from ..compilers.nvrtc import compile
from ..machines.launching import launch
from ..sources.stages import Stage
from ..tracing.widths import Comparison, Widths, compare, in_source
from .problem import random_problem
from .run import of_problem
from .tiling import CHUNK
from .variants import kernel_entry


def widths_of(
    stage: Stage, v_split: int = 1, varlen: bool = False, snapshot_dtype: str = "float32"
) -> Widths:
    """How wide the accesses of one tile are in the source. Errors: as `run.run`."""
    problem = random_problem(lengths=[CHUNK], varlen=varlen)
    traced = launch(of_problem(stage, problem, v_split, snapshot_dtype), "emulator", trace=True)
    return in_source(traced.launch)


def comparison(
    path: Path, source: Widths, v_split: int = 1, varlen: bool = False, snapshot_dtype: str = "float32"
) -> Comparison:
    """Those widths beside the machine code of the same variant of the stage's file."""
    return compare(source, lambda: compile(path, entry=kernel_entry(v_split, varlen, snapshot_dtype)))
