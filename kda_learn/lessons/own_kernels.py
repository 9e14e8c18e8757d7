"""The word `run_file`: a kernel of one's own, launched as the header in its file says."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from ..display.own_kernel import run_parts
from ..display.parts import Part, Shown
from ..lab.own_kernel import OwnRun, run_own


@dataclass(frozen=True, repr=False)
class FileRun(Shown, OwnRun):
    """One run: what `lab.own_kernel.OwnRun` holds. `output("y")` is the array that was written as y."""

    def parts(self) -> list[Part]:
        return run_parts(self)


def run_file(
    path: str | Path, *, machine: str = "auto", seed: int | None = None, trace: bool = False
) -> FileRun:
    """Run a kernel of any signature as the launch header in its .cu file says, and show what it did.

    Arguments and errors: as `lab.own_kernel.run_own`; a file without header is told what to write.
    """
    found = run_own(path, machine=machine, seed=seed, trace=trace)
    return FileRun(**{field.name: getattr(found, field.name) for field in fields(OwnRun)})
