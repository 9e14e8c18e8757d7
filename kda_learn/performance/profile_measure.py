"""Profiling a stage: what ncu captured mapped to source lines, beside what the trace of one tile says."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ..compilers.sass import SassInstruction
from ..ground.errors import KdaError, MachineUnavailable
from ..ground.say import say
from ..kernel_a.tile import traced_tile
from ..kernel_a.variants import compile_at_once, compile_stage
from ..machines.device import Gpu, hopper
from ..profiling import counters, ncu
from ..profiling.capture import Capture, Pages, capture
from ..profiling.rows import (
    Simulation,
    comparisons,
    line_rows,
    match,
    padding_loads,
    shared_rows,
)
from ..records.store import Provenance, provenance
from ..sources.stages import Stage, as_stage
from ..tracing.rows import per_tile, rows
from .profile import CONFIG, HEADS, Profile, Target, recorded


def profile(
    stage: Stage | str | Path, *, config: str = CONFIG, v_split: int = 1, heads: int = HEADS
) -> Profile:
    """Profile a stage on this computer's GPU, in a child process; where that cannot be, the recorded profile.

    config: sequences and their tokens, "B32/T2048". v_split:
    1, 2, 4 or 8 blocks share the state's columns. Raises MachineUnavailable, with what to do, if nothing can
    be measured here and nothing was recorded; BadInput for an argument that does not fit.
    """
    kernel = as_stage(stage)
    target = Target(str(kernel.path) if kernel.is_own else kernel.id, v_split, config, heads)
    try:
        (measured,) = measure([target])
    except MachineUnavailable as missing:
        found = recorded(target.name, v_split)
        if found is None:
            raise
        return replace(found, reason=str(missing))
    if isinstance(measured, Exception):
        raise measured
    return measured


BATCH = 4
"""Launches that ncu watches in one run."""

Keep = Callable[[Sequence[Target], Pages, Sequence[dict[str, Any]]], None]


def in_batches(targets: Sequence[Target]) -> list[Sequence[Target]]:
    """The targets in groups for `measure`, so that little is lost when a run is cut off."""
    return [targets[first : first + BATCH] for first in range(0, len(targets), BATCH)]


def measure(
    targets: Sequence[Target], *, device: int = 0, keep: Keep | None = None
) -> list[Profile | KdaError]:
    """Profile some launches in one run of ncu, or one by one if that fails; an error stands for its launch.

    keep: called with the launches of a run, ncu's pages and the child's answers, before they are read.
    Raises MachineUnavailable without a Hopper GPU, ncu, or leave to read the counters.
    """
    gpu = hopper(device)
    ncu.program()
    say(f"compiling {', '.join(target.label for target in targets)}")
    with ThreadPoolExecutor() as pool:
        simulations = list(pool.map(_simulation, targets))
    try:
        captures = capture([target.watched for target in targets], device, keep and partial(keep, targets))
    except MachineUnavailable:
        raise
    except KdaError as error:
        if len(targets) == 1:
            return [error]
        return [one for target in targets for one in measure([target], device=device, keep=keep)]
    return [
        captured if isinstance(captured, KdaError) else _built(target, captured, simulation, gpu)
        for target, captured, simulation in zip(targets, captures, simulations, strict=True)
    ]


def _simulation(target: Target) -> Simulation | None:
    """The trace; meanwhile the GPU's compiler has made the kernel that the child process will load."""
    compile_at_once([(target.kernel, target.v_split, False, "float32")])
    try:
        return simulate(target)
    except KdaError:  # it shows again when the kernel is launched
        return None


def _built(target: Target, captured: Capture, simulation: Simulation | None, gpu: Gpu) -> Profile | KdaError:
    where = provenance(gpu, [target.name], nvrtc=captured.launch["nvrtc"])
    try:
        return build(target, captured, compile_stage(target.kernel, target.v_split).sass(), simulation, where)
    except KdaError as error:
        return error


def build(
    target: Target,
    captured: Capture,
    sass: Sequence[SassInstruction],
    simulation: Simulation | None,
    where: Provenance,
) -> Profile:
    """The profile, from what ncu captured, the kernel's instructions and the trace of one tile.

    Raises KdaError if the code that was profiled is not this one.
    """
    work = target.work
    source = target.kernel.source
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
    try:
        launch = traced_tile(target.kernel, v_split=target.v_split)
    except MachineUnavailable:
        return None
    source = target.kernel.source
    one_tile = per_tile(rows(launch, source, VSPLIT=target.v_split), 1)
    copies = sum(row.wavefronts for row in one_tile if row.kind == "copy")
    operations = [name.replace("cp.async.cg", "cp.async.ca") for name in launch.operations]
    as_patched = rows(replace(launch, operations=operations), source, VSPLIT=target.v_split)
    return Simulation(as_patched, copies)
