"""The ladder: which stages of Kernel A there are, and which stage each one starts from.

What a stage is about is written in its .cu file; this module holds only its name and its place.
"""

import contextlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..ground.errors import BadInput
from ..ground.files import KERNELS
from .differences import Diff
from .kernel_source import KernelSource
from .kernel_source import diff as diff_sources


@dataclass(frozen=True)
class Stage:
    """One stage of Kernel A: a complete kernel in a file of its own."""

    id: str
    slug: str = ""
    base: str | None = None  # id of the stage that it changes; None for the first
    dead_end: bool = False  # no later stage builds on it
    file: Path | None = None  # of a kernel of your own; None: the ladder's

    @property
    def is_own(self) -> bool:
        """Whether it is a file of your own: no record, no budget and no base is its."""
        return self.file is not None

    @cached_property
    def path(self) -> Path:
        """Its .cu file."""
        return self.file or KERNELS / "kernel_a" / f"{self.id}_{self.slug}.cu"

    @property
    def source(self) -> KernelSource:
        """Its file as it is now. Raises BadInput while there is no such file."""
        return KernelSource.load(self.path)

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

LAST = LADDER[-1].id
"""The champion: the stage that one means who names none."""


def stage(name: str) -> Stage:
    """The stage of an id or of an id with its slug: "s12" or "s12_odd_half_stride".

    Raises BadInput, naming the stages there are, for any other name.
    """
    for candidate in STAGES:
        if name in (candidate.id, f"{candidate.id}_{candidate.slug}"):
            return candidate
    known = ", ".join(candidate.id for candidate in STAGES)
    raise BadInput(f"stage {name!r} was given, which this checkout does not have: choose one of {known}")


def as_stage(given: Stage | str | Path) -> Stage:
    """The door for all that takes a stage: a Stage, its id, or the path of a .cu file of your own.

    Raises BadInput for anything else. A file of your own is a Stage without base whose id is the file's whole
    name, such as "s12.cu": it is never taken for the stage s12, nor shown that one's records. Only the
    ladder's own file is the stage.
    """
    if isinstance(given, Stage):
        if not given.is_own:
            return given
        given = given.path
    if not isinstance(given, (str, Path)):
        raise BadInput(f"stage is {given!r}: give a Stage, an id such as 's12', or the path of a .cu file.")
    if isinstance(given, str) and not given.endswith(".cu"):
        return stage(given)
    path = own_file(given)
    return next((rung for rung in STAGES if rung.path == path), Stage(path.name, file=path))


def own_file(given: str | Path) -> Path:
    """The path of a .cu file, from the root on. Raises BadInput for anything that is none."""
    if not isinstance(given, (str, Path)):
        raise BadInput(f"The file is {given!r}: give the path of a .cu file.")
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # a name that cannot be, links in a circle
        path = Path(given).resolve()
        if path.suffix == ".cu" and path.is_file():
            return path
    raise BadInput(f"There is no CUDA source file {given!s}: give the path of a .cu file.")


def diff(name: str, base: str | None = None) -> Diff:
    """How a stage's file differs from its base's, or from that of another stage; headers left out.

    Raises BadInput for an unknown stage, and for the first one, which has no base.
    """
    changed = stage(name)
    other = base or changed.base
    if other is None:
        raise BadInput(f"stage {changed.id} was given, which has no base: choose a later one or name a base")
    return diff_sources(changed.source, stage(other).source)
