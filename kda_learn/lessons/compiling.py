"""The word `compile`: what the compiler makes of a stage for the GPU. No GPU is needed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ..compilers.nvrtc import Compiled
from ..display.banners import measured_banner
from ..display.glossary import OPCODES
from ..display.parts import Cell, Part, Sentence, Shown, Table, Value, whole
from ..ground.errors import KdaError, MachineUnavailable
from ..hardware.occupancy import Occupancy, blocks_per_sm
from ..kernel_a.builds import Facts, count_opcodes, facts_of, instructions_of, recorded
from ..kernel_a.variants import compile_stage, kernel_entry, shared_memory_of, threads_of
from ..kernel_a.widths import comparison, widths_of
from ..sources.stages import as_stage
from ..tracing.widths import Comparison

if TYPE_CHECKING:
    from ..sources.stages import Stage


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
    """One stage compiled for Hopper; `base` is the build that it is shown beside.

    compiled: the binary and the compiler's report; None where NVRTC is missing and the facts are recorded.
    """

    kernel: Stage
    facts: Facts
    compiled: Compiled | None
    variant: tuple[int, bool, str]  # VSplit, whether sequences differ in length, type of the snapshots
    base: Build | None = None

    @property
    def stage(self) -> str:
        """Its id."""
        return self.kernel.id

    @property
    def registers(self) -> int:
        """Registers of a thread."""
        return self.facts.registers

    @property
    def spill_bytes(self) -> int:
        """Bytes of a thread's registers that did not fit and are kept in memory; 0 is what one wants."""
        return self.facts.spill_bytes

    @property
    def shared_memory(self) -> int:
        """Bytes of shared memory that a block asks for."""
        return self.facts.shared_memory

    @property
    def seconds(self) -> float:
        """How long the compiler took (when it ran: results are kept)."""
        return self.facts.seconds

    @cached_property
    def occupancy(self) -> Occupancy:
        """Blocks of this kernel on an SM at a time, by the hardware's rule."""
        return blocks_per_sm(self.registers, self.shared_memory, threads_of(self.kernel))

    @property
    def blocks_per_sm(self) -> int:
        """Blocks that an SM holds at once."""
        return self.occupancy.blocks

    @property
    def limited_by(self) -> str:
        """The resource that runs out first."""
        return self.occupancy.limited_by

    @cached_property
    def opcodes(self) -> dict[str, int]:
        """How often each opcode stands in the machine code. Raises MachineUnavailable without nvdisasm."""
        if self.facts.opcodes is not None or self.compiled is None:
            return self.facts.opcodes or {}
        return count_opcodes(instructions_of(self.compiled))

    @cached_property
    def widths(self) -> Comparison:
        """Whether the compiler leaves the accesses of one tile as wide as they are in the source."""
        try:
            return comparison(self.kernel.path, widths_of(self.kernel, *self.variant), *self.variant)
        except KdaError as missing:  # the CPU machine cannot run it
            return Comparison(missing=str(missing))

    def sass_histogram(self) -> Histogram:
        """How often each kind of machine instruction stands in the code, beside the base's if it has one.

        Raises MachineUnavailable without nvdisasm.
        """
        builds = self._sides()
        return Histogram(tuple(build.stage for build in builds), tuple(build.opcodes for build in builds))

    def figures(self) -> list[tuple[str, Value]]:
        """What a table shows of this build."""
        limits = self.occupancy
        return [
            ("registers a thread", whole(self.registers)),
            ("spilled bytes a thread", whole(self.spill_bytes)),
            ("bytes of shared memory a block", whole(self.shared_memory)),
            ("blocks on an SM", whole(limits.blocks)),
            ("limited by", Cell(limits.limited_by, right=True)),
            ("of an SM's 64 warps", Cell(f"{limits.percent:.1f} %", right=True)),
            ("compiled in, seconds", Cell(f"{self.seconds:.2f}", right=True)),
        ]

    def parts(self) -> list[Part]:
        builds = self._sides()
        columns = [build.figures() for build in builds]
        rows = [[line[0][0], *(cell for _, cell in line)] for line in zip(*columns, strict=True)]
        note = (
            f"By NVIDIA's compiler, NVRTC {self.facts.nvrtc}, for Hopper (sm_90a), {threads_of(self.kernel)} "
            f"threads a block. Kernel: {self.facts.entry}, that is, {entry_words(self.facts.entry)}. "
            "Spilled: pushed out of registers into slow memory. Limited by: what runs out first on an SM. No "
            "GPU was needed."
        )
        words = dict.fromkeys(build.facts.recorded for build in builds if build.facts.recorded)
        banners = [measured_banner(text, recorded=True) for text in words]
        return [
            *banners,
            Table(["", *(build.stage for build in builds)], rows),
            Sentence(note, quiet=True),
            *map(Sentence, self.widths.sentences()),
        ]

    def _sides(self) -> list[Build]:
        return [build for build in (self.base, self) if build is not None]


def entry_words(entry: str) -> str:
    """What a kernel's template arguments mean, as in "kernel_a<1, false, float>"."""
    v_split, varlen, snapshot = entry.partition("<")[2].rstrip(">").split(", ")
    lengths = "unequal" if varlen == "true" else "equal"
    number = {"float": "fp32"}.get(snapshot, snapshot)
    blocks = "1 block" if v_split == "1" else f"{v_split} blocks"
    return f"VSplit {v_split} ({blocks} for each state), sequences of {lengths} length, {number} snapshots"


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
    unequal length. snapshot_dtype: "float32" or "bfloat16". Without NVRTC the recorded facts are shown, under
    a banner. Raises BadInput for what no stage has, MachineUnavailable with neither NVRTC nor a record.
    """

    variant = v_split, varlen, snapshot_dtype

    def build(one: Stage | str | Path, base: Build | None = None) -> Build:
        kernel = as_stage(one)
        try:
            compiled = compile_stage(kernel, *variant)
        except MachineUnavailable as missing:
            facts = recorded(kernel.id, kernel_entry(*variant), str(missing))
            if facts is None:
                raise
            return Build(kernel, facts, None, variant, base)
        facts = facts_of(compiled, shared_memory_of(kernel, v_split))
        return Build(kernel, facts, compiled, variant, base)

    return build(stage, None if against is None else build(against))
