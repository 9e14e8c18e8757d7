"""What the compiler says of every stage, recorded, for computers that cannot compile for a GPU (macOS).

`python -m kda_learn.maintain builds` writes the record anew, on any computer with NVRTC; no GPU is needed.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from ..compilers.nvrtc import Compiled
from ..compilers.sass import SassInstruction
from ..records import store as records
from ..sources.stages import STAGES
from .variants import compile_stage, shared_memory_of

KIND = "builds"
NOBODY = "none"  # in the record's provenance: no GPU took part


@dataclass(frozen=True)
class Facts:
    """What is known of a compiled kernel; sizes in bytes. `opcodes`: how often each stands in the code."""

    entry: str
    registers: int
    spill_bytes: int
    shared_memory: int
    seconds: float
    nvrtc: str
    opcodes: dict[str, int] | None = None  # None: not counted yet
    recorded: str = ""  # of recorded ones: why they were not found here, and when they were


def facts_of(compiled: Compiled, dynamic_smem_bytes: int) -> Facts:
    """The facts of a kernel compiled here; its opcodes are not counted."""
    return Facts(
        entry=compiled.entry,
        registers=compiled.registers,
        spill_bytes=compiled.spill_bytes,
        shared_memory=compiled.static_smem + dynamic_smem_bytes,
        seconds=compiled.seconds,
        nvrtc=compiled.nvrtc,
    )


def instructions_of(compiled: Compiled) -> list[SassInstruction]:
    """The machine code without the compiler's padding. Raises MachineUnavailable without nvdisasm."""
    return [one for one in compiled.sass() if not one.never_runs]


def count_opcodes(instructions: Iterable[SassInstruction]) -> dict[str, int]:
    """Instructions by opcode without its modifiers."""
    return dict(Counter(one.opcode.partition(".")[0] for one in instructions))


def recorded(stage: str, entry: str, reason: str) -> Facts | None:
    """What was recorded of a stage's kernel; None if nothing was. reason: why it is not compiled here."""
    record = records.find(KIND)
    if record is None:
        return None
    found = [row for row in record.content["rows"] if (row["stage"], row["entry"]) == (stage, entry)]
    if not found:
        return None
    values = {name: value for name, value in found[0].items() if name != "stage"}
    words = f"{reason} Compiled elsewhere on {record.provenance.date[:10]}."
    if record.outdated([stage]):
        words += f" The source of {stage} has changed since."
    return Facts(**values, recorded=words)


def recording() -> records.Record:
    """Every stage compiled at VSplit 1, and what the compiler says."""
    rows = []
    for stage in STAGES:
        compiled = compile_stage(stage)
        facts = asdict(facts_of(compiled, shared_memory_of(stage)))
        del facts["recorded"]
        rows.append({"stage": stage.id} | facts | {"opcodes": count_opcodes(instructions_of(compiled))})
    where = records.Provenance(
        gpu=NOBODY,
        sms=0,
        driver=NOBODY,
        cuda=NOBODY,
        nvrtc=rows[0]["nvrtc"],
        date=records.now(),
        digest=records.digests(stage.id for stage in STAGES),
    )
    return records.Record(KIND, where, {"rows": rows})
