"""The verb `run`: a kernel of one's own."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .verbs import Answer

if TYPE_CHECKING:
    from ..lab.own_kernel import OwnRun


def run(request: argparse.Namespace) -> Answer:
    """Launch the kernel of a file as its header says; exit code 1 if that shows a fault."""
    from ..display.own_kernel import run_parts
    from ..lab.own_kernel import run_own

    found = run_own(request.file, machine=request.machine, seed=request.seed, trace=request.trace)
    text = "\n\n".join(part.text() for part in run_parts(found))
    return Answer(_data(found), text, exit_code=0 if found.ok else 1)


def _data(run: OwnRun) -> dict[str, Any]:
    header = run.header
    counts = {} if run.launch is None else run.launch.counts
    return {
        "file": str(header.path),
        "entry": header.entry,
        "grid": header.grid,
        "block": header.block,
        "shared": header.shared,
        "seed": header.seed,
        "machine": run.machine,
        "seconds": run.seconds,
        "ok": run.ok,
        "faults": run.faults,
        "outputs": [
            {
                "name": one.name,
                "type": one.type,
                "shape": one.values.shape,
                "digest": one.digest,
                "values": one.values.reshape(-1).tolist(),
            }
            for one in run.outputs
        ],
        "rows": [asdict(row) for row in run.rows],
        "widths": asdict(run.widths),
        "instructions": [
            {"file": file, "line": line, "op": op, "instructions": count}
            for (file, line, op), count in counts.items()
        ],
    }
