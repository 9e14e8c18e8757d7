"""What the compiler says of every stage, recorded, for computers that cannot compile for a GPU (macOS).

`python -m kda_learn.lessons.builds` writes the record anew, on any computer with NVRTC; no GPU is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from .. import records
from ..compile import Compiled, compile_stage
from ..sass import SassInstruction
from ..stages import STAGES
from .display import Banner

KIND = "builds"
FILE = "builds.json"
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
    banner: Banner | None = None  # of recorded ones


def facts_of(compiled: Compiled) -> Facts:
    """The facts of a kernel compiled here; its opcodes are not counted."""
    return Facts(
        entry=compiled.entry,
        registers=compiled.registers,
        spill_bytes=compiled.spill_bytes,
        shared_memory=compiled.static_smem + compiled.dynamic_smem_bytes,
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
    record = _record()
    if record is None:
        return None
    found = [row for row in record.content["rows"] if (row["stage"], row["entry"]) == (stage, entry)]
    if not found:
        return None
    values = {name: value for name, value in found[0].items() if name != "stage"}
    words = f"{reason} Compiled elsewhere on {record.provenance.date[:10]}."
    if stage in record.outdated():
        words += f" The source of {stage} has changed since."
    return Facts(**values, banner=Banner("Recorded", words, "recorded"))


def record_builds(path: Path | None = None) -> Path:
    """Compile every stage at VSplit 1 and keep what the compiler says. path: None writes into the package."""
    rows = []
    for stage in STAGES:
        compiled = compile_stage(stage)
        values = asdict(facts_of(compiled)) | {"opcodes": count_opcodes(instructions_of(compiled))}
        del values["banner"]
        rows.append({"stage": stage.id} | values)
    where = records.Provenance(
        gpu=NOBODY,
        sms=0,
        driver=NOBODY,
        cuda=NOBODY,
        nvrtc=rows[0]["nvrtc"],
        date=records.now(),
        digest=records.digests(stage.id for stage in STAGES),
    )
    path = path or records.DATA / FILE
    records.save(records.Record(KIND, where, {"rows": rows}), path)
    _record.cache_clear()
    return path


@cache
def _record() -> records.Record | None:
    return records.find(KIND)


if __name__ == "__main__":
    print(record_builds())
