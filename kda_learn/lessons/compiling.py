"""The word `compile`: what the compiler makes of a stage for the GPU. No GPU is needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ..compile import Compiled, compile_stage
from ..occupancy import Occupancy, blocks_per_sm
from ..run import THREADS, stage_name
from ..sass import SassInstruction
from .display import Cell, Part, Sentence, Shown, Table, Value, whole

if TYPE_CHECKING:
    from ..stages import Stage

OPCODES = {
    "LDS": "load from shared memory",
    "LDSM": "ldmatrix",
    "STS": "store to shared memory",
    "STSM": "stmatrix",
    "LDGSTS": "cp.async, global to shared memory",
    "MOVM": "movmatrix",
    "LDG": "load from global memory",
    "STG": "store to global memory",
    "SHFL": "shuffle between lanes",
    "HMMA": "tensor-core product",
    "BAR": "block barrier",
}
"""The machine instructions that this course is about."""


@dataclass(frozen=True, repr=False)
class Histogram(Shown):
    """How often each kind of instruction stands in the machine code: written once, not how often it runs."""

    names: tuple[str, ...]  # of the stages
    counts: tuple[dict[str, int], ...]  # for each stage: opcode without modifiers -> instructions

    def __getitem__(self, opcode: str) -> int:
        """The count of one opcode in the stage (the last one), 0 if there is none."""
        return self.counts[-1].get(opcode, 0)

    def parts(self) -> list[Part]:
        rows: list[list[Value]] = []
        for opcode, meaning in OPCODES.items():
            found = [counts.get(opcode, 0) for counts in self.counts]
            if any(found):
                rows.append([opcode, *map(whole, found), meaning])
        rows.append(["all", *(whole(sum(counts.values())) for counts in self.counts), "instructions"])
        note = "Instructions in the machine code (SASS), each counted once, however often it runs."
        return [Table(["SASS", *self.names, "what it is"], rows, totals=1), Sentence(note, quiet=True)]


@dataclass(frozen=True, repr=False)
class Build(Shown):
    """One stage compiled for Hopper; `base` is the build that it is shown beside."""

    stage: str
    compiled: Compiled
    base: Build | None = None

    @property
    def registers(self) -> int:
        """Registers of a thread."""
        return self.compiled.registers

    @property
    def spill_bytes(self) -> int:
        """Bytes of a thread's registers that did not fit and are kept in memory; 0 is what one wants."""
        return self.compiled.spill_bytes

    @property
    def shared_memory(self) -> int:
        """Bytes of shared memory that a block asks for."""
        return self.compiled.static_smem + self.compiled.dynamic_smem_bytes

    @property
    def seconds(self) -> float:
        """How long the compiler took (when it ran: results are kept)."""
        return self.compiled.seconds

    @cached_property
    def occupancy(self) -> Occupancy:
        """Blocks of this kernel on an SM at a time, by the hardware's rule."""
        return blocks_per_sm(self.registers, self.shared_memory, THREADS)

    @property
    def blocks_per_sm(self) -> int:
        """Blocks that an SM holds at once."""
        return self.occupancy.blocks

    @property
    def limited_by(self) -> str:
        """The resource that runs out first."""
        return self.occupancy.limited_by

    @cached_property
    def instructions(self) -> list[SassInstruction]:
        """The machine code without the compiler's padding. Raises MachineUnavailable without nvdisasm."""
        return [one for one in self.compiled.sass() if not one.never_runs]

    def sass_histogram(self) -> Histogram:
        """How often each kind of machine instruction stands in the code, beside the base's if it has one."""
        builds = [build for build in (self.base, self) if build is not None]
        return Histogram(
            tuple(build.stage for build in builds), tuple(opcodes(build.instructions) for build in builds)
        )

    def figures(self) -> list[tuple[str, Value]]:
        """What a table shows of this build."""
        limits = self.occupancy
        return [
            ("registers a thread", whole(self.registers)),
            ("spilled bytes a thread", whole(self.spill_bytes)),
            ("shared memory a block, bytes", whole(self.shared_memory)),
            ("blocks on an SM", whole(limits.blocks)),
            ("limited by", Cell(limits.limited_by, right=True)),
            ("of an SM's 64 warps", Cell(f"{limits.percent:.1f} %", right=True)),
        ]

    def parts(self) -> list[Part]:
        builds = [build for build in (self.base, self) if build is not None]
        columns = [[*build.figures(), _seconds(build)] for build in builds]
        rows = [[line[0][0], *(cell for _, cell in line)] for line in zip(*columns, strict=True)]
        note = (
            f"By NVRTC {self.compiled.nvrtc} for {self.compiled.entry}, sm_90a, {THREADS} threads a block; "
            "blocks on an SM by the hardware's rule. No GPU was needed."
        )
        return [Table(["", *(build.stage for build in builds)], rows), Sentence(note, quiet=True)]


def compile(
    stage: Stage | str | Path,
    against: Stage | str | None = None,
    *,
    v_split: int = 1,
    varlen: bool = False,
    snapshot_dtype: str = "float32",
) -> Build:
    """Compile a stage for Hopper and show registers, spills, shared memory and how many blocks fit an SM.

    against: another stage to set beside it. v_split: 1, 2, 4 or 8. varlen: the variant for sequences of
    unequal length. snapshot_dtype: "float32" or "bfloat16". Raises BadInput for what no stage has,
    MachineUnavailable without NVRTC.
    """

    def build(one: Stage | str | Path, base: Build | None = None) -> Build:
        return Build(stage_name(one), compile_stage(one, v_split, varlen, snapshot_dtype), base)

    return build(stage, None if against is None else build(against))


def opcodes(instructions: Iterable[SassInstruction]) -> dict[str, int]:
    """Instructions by opcode without its modifiers."""
    return dict(Counter(one.opcode.partition(".")[0] for one in instructions))


def _seconds(build: Build) -> tuple[str, Value]:
    return "compiled in, seconds", Cell(f"{build.seconds:.2f}", right=True)
