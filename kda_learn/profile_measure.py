"""Measuring profiles: ncu watches a child process that launches the kernels, and its report becomes rows."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import counters, ncu
from .compile import Compiled, compile_stage
from .device import hopper
from .errors import KdaError, MachineUnavailable
from .ncu_pages import InstructionCounts, parse_raw, parse_source
from .profile import Profile, Target
from .profile_rows import Simulation, comparisons, line_rows, match, padding_loads, shared_rows
from .records import Provenance, provenance
from .source import StageSource

if TYPE_CHECKING:
    from .sass import SassInstruction

SECONDS_PER_TARGET = 60


@dataclass(frozen=True)
class Capture:
    """What ncu printed of one launch, and what the child process said about it."""

    target: Target
    metrics: dict[str, float]
    counts: list[InstructionCounts]
    launch: dict[str, Any]  # as profile_target.main describes it


@dataclass(frozen=True)
class Pages:
    """The report of one run of ncu: its file, and the two pages that are read."""

    report: Path
    raw: str
    source: str


Keep = Callable[[Pages, Sequence[dict[str, Any]]], None]


def measure(
    targets: Sequence[Target],
    *,
    device: int = 0,
    report: Callable[[str], None] | None = None,
    keep: Keep | None = None,
) -> list[Profile | KdaError]:
    """Profile some launches in one child process; for one that fails, the error in its place.

    report: called with a line of text as the work goes on. keep: called with ncu's pages and the child's
    answers, before they are read. Raises MachineUnavailable without a Hopper GPU, ncu, or leave to read the
    counters; KdaError if ncu fails altogether.
    """
    say = report or (lambda text: None)
    gpu = hopper(device)
    ncu.program()
    say("compiling")
    compiled = {target: compile_stage(target.path, target.v_split) for target in targets}
    results: list[Profile | KdaError] = []
    for target, captured in zip(targets, capture(targets, device, say, keep), strict=True):
        if isinstance(captured, KdaError):
            results.append(captured)
            continue
        say(f"{target.name}, VSplit {target.v_split}: rows by source line")
        where = provenance(gpu, [target.name], nvrtc=captured.launch["nvrtc"])
        try:
            results.append(of_capture(captured, compiled[target], where))
        except KdaError as error:
            results.append(error)
    return results


def capture(
    targets: Sequence[Target],
    device: int,
    say: Callable[[str], None],
    keep: Keep | None = None,
) -> list[Capture | KdaError]:
    """Run the targets under ncu, all in one process. Errors as in `measure`."""
    wanted = counters.wanted(ncu.known_counters())
    with tempfile.TemporaryDirectory() as folder:
        request, answer = Path(folder) / "request.json", Path(folder) / "answer.json"
        asked = [
            {
                "path": str(target.path),
                "v_split": target.v_split,
                "config": target.config,
                "heads": target.heads,
            }
            for target in targets
        ]
        request.write_text(json.dumps({"device": device, "targets": asked}), encoding="utf-8")
        command = [sys.executable, "-m", "kda_learn.profile_target", str(request), str(answer)]
        report = Path(folder) / "profile.ncu-rep"
        say(f"ncu on {', '.join(f'{target.name} (VSplit {target.v_split})' for target in targets)}")
        _collect(command, report, wanted, SECONDS_PER_TARGET * (1 + len(targets)), say)
        say("reading ncu's report")
        launches = json.loads(answer.read_text(encoding="utf-8"))
        pages = Pages(report, ncu.page(report, "raw"), ncu.page(report, "source", "--print-source", "sass"))
        if keep is not None:
            keep(pages, launches)
    return pair(targets, launches, pages)


def _collect(
    command: list[str], report: Path, wanted: list[str], seconds: float, say: Callable[[str], None]
) -> None:
    """Run ncu; if it fails, again with fewer counters: it stops at one that it does not know."""
    environment = os.environ | {"PYTHONPATH": _search_path()}
    attempts = ((ncu.SECTIONS, wanted), (ncu.SECTIONS, []), (ncu.FEWEST_SECTIONS, []))
    for number, (sections, metrics) in enumerate(attempts, start=1):
        try:
            ncu.collect(command, report, metrics, sections=sections, environment=environment, seconds=seconds)
            return
        except MachineUnavailable:
            raise
        except KdaError as error:
            if number == len(attempts):
                raise
            say(f"again with fewer counters: {error}")


def pair(
    targets: Sequence[Target], launches: Sequence[dict[str, Any]], pages: Pages
) -> list[Capture | KdaError]:
    """Each target with its launch's part of the pages: these have the launches that succeeded, in order."""
    metrics, counts = parse_raw(pages.raw), parse_source(pages.source)
    launched = [launch for launch in launches if "error" not in launch]
    if not len(launched) == len(metrics) == len(counts):
        raise KdaError(
            f"{len(launched)} kernels were launched; ncu's pages have {len(metrics)} and {len(counts)}: "
            "profile one stage alone, and another ncu if that fails too."
        )
    found: list[Capture | KdaError] = []
    done = iter(zip(metrics, counts, strict=True))
    for number, target in enumerate(targets):
        if number >= len(launches):
            found.append(KdaError(f"The profiled process ended before {target.name}: profile it alone."))
        elif "error" in launches[number]:
            found.append(KdaError(launches[number]["error"]))
        else:
            found.append(Capture(target, *next(done), launches[number]))
    return found


def of_capture(captured: Capture, compiled: Compiled, where: Provenance) -> Profile:
    """The profile: counts mapped to source lines, beside the trace. Raises KdaError if the code differs."""
    return build(captured, compiled.sass(), simulate(captured.target), where)


def build(
    captured: Capture, sass: Sequence[SassInstruction], simulation: Simulation | None, where: Provenance
) -> Profile:
    """As `of_capture`, from the kernel's instructions and the trace of one tile."""
    target = captured.target
    work = target.work
    source = StageSource.load(target.path)
    matched = match(captured.counts, sass, target.name)
    shared = shared_rows(matched, source, simulation, work)
    values = counters.values(captured.metrics)
    return Profile(
        stage=target.name,
        v_split=target.v_split,
        config=target.config,
        heads=target.heads,
        blocks_per_sm=captured.launch["blocks_per_sm"],
        dynamic_smem_bytes=captured.launch["dynamic_smem_bytes"],
        counters=values,
        stalls=counters.stalls(captured.metrics),
        comparisons=comparisons(shared, values, work, simulation, padding_loads(matched, work)),
        shared=shared,
        lines=line_rows(matched, source, work),
        provenance=where,
    )


def simulate(target: Target) -> Simulation | None:
    """The trace of one tile; None where there is no C++ compiler for the emulator."""
    from .tile_trace import traced_tile
    from .trace import per_tile, rows

    try:
        launch = traced_tile(target.path, v_split=target.v_split)
    except MachineUnavailable:
        return None
    source = StageSource.load(target.path)
    one_tile = per_tile(rows(launch, source, v_split=target.v_split), 1)
    copies = sum(row.wavefronts for row in one_tile if row.kind == "copy")
    operations = [name.replace("cp.async.cg", "cp.async.ca") for name in launch.operations]
    as_patched = rows(replace(launch, operations=operations), source, v_split=target.v_split)
    return Simulation(as_patched, copies)


def _search_path() -> str:
    """PYTHONPATH for the child: this package first."""
    package_folder = str(Path(__file__).resolve().parent.parent)
    return os.pathsep.join(filter(None, [package_folder, os.environ.get("PYTHONPATH")]))
