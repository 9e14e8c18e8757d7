"""What this computer can run of the course, what it cannot, why, and what to do about it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from ..ground.text_table import table
from ..machines.computer import Facts, look
from ..sources.stages import STAGES, Stage
from . import findings
from .findings import Finding, StageFinding


@dataclass(frozen=True)
class Report:
    """What `doctor` found. `str(report)` is what a person reads, `as_dict()` what a program reads."""

    items: tuple[Finding, ...]
    stages: tuple[StageFinding, ...]
    summary: str

    def item(self, name: str) -> Finding:
        """The finding of that name, such as "GPU"."""
        return next(item for item in self.items if item.name == name)

    def as_dict(self) -> dict:
        """The report as plain lists, dictionaries and strings."""
        return asdict(self)

    def __str__(self) -> str:
        rows = []
        for item in self.items:
            rows.append([item.name, item.status, item.sentence])
            if item.advice:
                rows.append(["", "", f"-> {item.advice}"])
        return f"{table(['what', 'is', 'found'], rows, wrap='found')}\n\n{self.summary}"

    __repr__ = __str__  # what a notebook shows under a cell


def doctor() -> Report:
    """What this computer can run. Takes a fraction of a second; loads neither CuPy nor PyTorch."""
    return diagnose(look())


def diagnose(facts: Facts, stages: Sequence[Stage] = STAGES) -> Report:
    """The report on a computer with these facts (a test may invent them)."""
    on_gpu = tuple(findings.of_stage(stage, facts) for stage in stages)
    items = (
        findings.of_python(facts),
        findings.of_gpu(facts),
        findings.of_driver(facts),
        findings.of_cupy(facts),
        findings.of_nvrtc(facts),
        findings.of_compiler(facts),
        findings.of_counters(facts),
        findings.of_memory(facts),
        findings.of_disk(facts),
        findings.of_cache(facts),
        findings.of_torch(facts),
        findings.of_jupyter(facts),
        findings.of_stages(facts, on_gpu),
        findings.of_chapters(facts, on_gpu),
    )
    return Report(items, on_gpu, findings.summary(facts, on_gpu))
