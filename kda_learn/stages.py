"""The ladder: which stages of Kernel A there are, and which stage each one starts from.

What a stage is about is written in its .cu file; this module holds only its name and its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .differences import Diff
from .errors import BadInput
from .source import KERNELS, StageSource
from .source import diff as diff_sources


@dataclass(frozen=True)
class Stage:
    """One stage of Kernel A: a complete kernel in a file of its own."""

    id: str
    slug: str
    base: str | None  # id of the stage that it changes; None for the first
    dead_end: bool = False  # no later stage builds on it

    @property
    def path(self) -> Path:
        """Its .cu file."""
        return KERNELS / "kernel_a" / f"{self.id}_{self.slug}.cu"

    @cached_property
    def source(self) -> StageSource:
        """Its file, read when first asked for. Raises BadInput while there is no such file."""
        return StageSource.load(self.path)

    @property
    def title(self) -> str:
        """One line, from the file's header."""
        return self.source.header.title

    @property
    def idea(self) -> str:
        """What this stage does otherwise than its base: the header's "Now"."""
        return self.source.header.now


LADDER = (
    Stage("s00", "baseline", base=None),
    Stage("s01", "register_chain", base="s00"),
    Stage("s02", "no_t1", base="s01"),
    Stage("s03a", "ldmatrix", base="s02"),
    Stage("s03b", "swizzle_qd_kd", base="s03a"),
    Stage("s04", "swizzle_kr", base="s03b"),
    Stage("s05", "swizzle_ds", base="s04"),
    Stage("s06", "row_stores", base="s05"),
    Stage("s07", "producer_pass", base="s06", dead_end=True),
    Stage("s08", "async_prefetch", base="s06"),
    Stage("s09", "async_scatter", base="s08"),
    Stage("s10", "sw32", base="s09", dead_end=True),
    Stage("s11", "pad", base="s09"),
    Stage("s12x", "xor_swizzle", base="s11", dead_end=True),
    Stage("s12", "odd_half_stride", base="s11"),
)

STAGES = tuple(rung for rung in LADDER if rung.path.is_file())


def stage(name: str) -> Stage:
    """The stage of an id or of an id with its slug: "s12" or "s12_odd_half_stride".

    Raises BadInput, naming the stages there are, for any other name.
    """
    for candidate in STAGES:
        if name in (candidate.id, f"{candidate.id}_{candidate.slug}"):
            return candidate
    known = ", ".join(candidate.id for candidate in STAGES)
    raise BadInput(f"stage {name!r} was given, which this checkout does not have: choose one of {known}")


def diff(name: str, base: str | None = None) -> Diff:
    """How a stage's file differs from its base's, or from that of another stage; headers left out.

    Raises BadInput for an unknown stage, and for the first one, which has no base.
    """
    changed = stage(name)
    other = base or changed.base
    if other is None:
        raise BadInput(f"stage {changed.id} was given, which has no base: choose a later one or name a base")
    return diff_sources(changed.source, stage(other).source)
