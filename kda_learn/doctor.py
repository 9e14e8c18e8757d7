"""What this computer can run of the course, what it cannot, why, and what to do about it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from . import findings
from .findings import Finding, StageFinding
from .setup.machine import Facts, look
from .stages import STAGES, Stage

STYLES = {"ok": "green", "limited": "yellow", "missing": "red"}


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

    def print(self, console: Console | None = None) -> None:
        """Show the report on a terminal."""
        console = console or Console()
        table = Table("", "", "", box=None, pad_edge=False, show_header=False)
        for item in self.items:
            advice = f"\n[bold]-> {escape(item.advice)}[/]" if item.advice else ""
            style = STYLES[item.status]
            table.add_row(item.name, f"[{style}]{item.status}[/]", escape(item.sentence) + advice)
        console.print(table)
        console.print(f"\n{escape(self.summary)}")

    def __str__(self) -> str:
        text = io.StringIO()
        self.print(Console(width=110, color_system=None, file=text))
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())

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
        findings.of_torch(facts),
        findings.of_jupyter(facts),
        findings.of_stages(facts, on_gpu),
        findings.of_chapters(facts, on_gpu),
    )
    return Report(items, on_gpu, findings.summary(facts, on_gpu))
