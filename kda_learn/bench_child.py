"""The child process that times: `python -m kda_learn.bench_child REQUEST ANSWER`, started by bench.measure.

Only stages that pass their check are timed. In each round every stage runs once, in an order drawn anew, so
that a drift of clock or temperature falls on all alike; one stage runs twice, to show what two equal things
differ by.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import gpu
from .bench import Config, Variant, fitting_heads
from .compile import compile_stage
from .errors import KdaError, MachineUnavailable
from .problem import Problem, random_problem
from .records import provenance

if TYPE_CHECKING:
    from .bench_data import ConfigData

FEWEST_ROUNDS = 5
MOST_ROUNDS = 25
CONTROL = "again"
COMPARED_TILES = 64
LARGEST_DIFFERENCE = 0.03
"""Relative RMS between two stages' snapshots of a tile: both are within about 0.01 of the truth if they are
right.
"""


def main() -> None:
    """Read the request from the file named first, write the answer to the file named second."""
    request_file, answer_file = map(Path, sys.argv[1:])
    request = json.loads(request_file.read_text(encoding="utf-8"))
    try:
        answer = {"measured": run(request)}
    except KdaError as error:
        answer = {"error": [type(error).__name__, str(error)]}
    answer_file.write_text(json.dumps(answer), encoding="utf-8")


def run(request: dict[str, Any]) -> dict[str, Any]:
    """The whole measurement; request and answer as in bench.measure."""
    device = gpu.hopper()
    stages = request["stages"]
    configs = [Config.parse(text) for text in request["configs"]]
    tokens = max(config.tokens for config in configs)
    free_bytes = gpu.free_memory(device)
    heads = fitting_heads(request["heads"], tokens, free_bytes)
    if heads == 0:
        raise MachineUnavailable(
            f"{tokens} tokens do not fit in the {free_bytes / 1e9:.1f} GB free on the "
            f"{device.name}, not even with one head: give a smaller config, or free memory."
        )
    notes = []
    if heads < request["heads"]:
        notes.append(
            f"{heads} heads instead of {request['heads']}: {free_bytes / 1e9:.1f} GB of GPU memory are free."
        )
    from .bench_data import for_config, make_data, torch_device

    _say(f"data for {tokens} tokens in {heads} heads")
    data = make_data(
        heads, tokens, max(config.sequences for config in configs), device=torch_device(device.index)
    )
    checked = _Checks()
    parts = []
    for sms in request["sms"]:
        with part_of_gpu(sms, device) as part:
            part_notes = list(notes)
            if sms is not None and part.sms != sms:
                part_notes.append(
                    f"{part.sms} SMs instead of {sms}: the driver cuts the GPU into such parts."
                )
            runs = [
                time_config(
                    stages,
                    for_config(data, config),
                    part,
                    checked,
                    request["seconds"],
                    request["clock_samples"],
                )
                for config in configs
            ]
        parts.append({"sms": part.sms, "runs": runs, "notes": part_notes})
    ids = list(dict.fromkeys(Variant.parse(stage).stage for stage in stages))
    nvrtc = compile_stage(ids[0]).nvrtc
    return {
        "provenance": asdict(provenance(device, ids, nvrtc=nvrtc)),
        "heads": heads,
        "notes": list(dict.fromkeys(note for part in parts for note in part["notes"])),
        "parts": parts,
    }


def time_config(
    stages: Sequence[str],
    data: ConfigData,
    part: gpu.SmPartition,
    checked: _Checks,
    seconds: float,
    clock_samples: int,
) -> dict[str, Any]:
    """Time the stages on one config; returns a run as in bench.measure."""
    from .kernel_a import article_v_split

    config = data.config
    by_rule = article_v_split(config.sequences, data.arguments.heads, part.sms)
    kernels, splits, rejected, warm_ms = {}, {}, {}, 0.0
    reference = None
    for stage in stages:
        variant = Variant.parse(stage)
        v_split = variant.v_split or by_rule
        reason = checked.reason(variant.stage, v_split)
        if reason is None:
            kernel = gpu.load(compile_stage(variant.stage, v_split), extra_smem=variant.extra_smem)
            milliseconds, reference, reason = _first_launch(kernel, data, v_split, part.stream, reference)
        if reason is not None:
            rejected[stage] = reason
            continue
        kernels[stage], splits[stage] = kernel, v_split
        warm_ms += milliseconds
    run = {
        "config": config.name,
        "v_split": by_rule,
        "rounds": 0,
        "times_us": {},
        "control": None,
        "control_us": [],
        "blocks_per_sm": {stage: kernel.blocks_per_sm() for stage, kernel in kernels.items()},
        "rejected": rejected,
        "clocks": [],
    }
    if not kernels:
        return run
    control = list(kernels)[-1]
    splits[CONTROL] = splits[control]
    rounds = int(np.clip(seconds * 1e3 / warm_ms, FEWEST_ROUNDS, MOST_ROUNDS))
    _say(f"{config.name} on {part.sms} SMs, VSplit {by_rule}: {rounds} rounds of {len(kernels)} stages")
    samples = np.linspace(0, rounds - 2, clock_samples).astype(int).tolist()
    timed = kernels | {CONTROL: kernels[control]}
    times, clocks = _rounds(timed, data, splits, part.stream, rounds, samples)
    control_us = times.pop(CONTROL)
    return run | {
        "rounds": rounds,
        "times_us": times,
        "control": control,
        "control_us": control_us,
        "clocks": clocks,
    }


def _first_launch(
    kernel: gpu.Kernel, data: ConfigData, v_split: int, stream: int, reference: Any
) -> tuple[float, Any, str | None]:
    """The warm-up: run once on NaN-filled outputs and look at them. Returns (milliseconds, reference, what is
    wrong).

    The check before saw a small problem; this one sees that every snapshot was written at the full size, and
    that some of them agree with those of the first stage (`reference`, made here for the first).
    """
    import torch

    for output in (data.snapshots, data.ds0):
        output.fill_(float("nan"))
    gpu.synchronize(kernel.gpu)
    start = gpu.record_event(stream)
    gpu.launch_kernel_a(kernel, data.arguments, data.config.sequences, v_split, stream)
    milliseconds = gpu.elapsed_ms(start, gpu.record_event(stream))
    # A sum is finite only if all its terms are, and takes no memory.
    if not bool(torch.isfinite(data.snapshots.sum() + data.ds0.sum())):
        return (
            milliseconds,
            reference,
            f"it left elements of its outputs unwritten or not finite on {data.config.name}",
        )
    tiles = torch.linspace(0, len(data.snapshots) - 1, COMPARED_TILES, dtype=torch.float64).long()
    sample = data.snapshots[tiles.to(data.snapshots.device)].double()
    if reference is None:
        return milliseconds, sample, None
    difference = float(((sample - reference).norm(dim=1) / reference.norm(dim=1)).max())
    if not difference <= LARGEST_DIFFERENCE:
        return (
            milliseconds,
            reference,
            f"its snapshots on {data.config.name} are {difference:.1e} off the first stage's",
        )
    return milliseconds, reference, None


def _rounds(
    kernels: dict[str, gpu.Kernel],
    data: ConfigData,
    splits: dict[str, int],
    stream: int,
    rounds: int,
    samples: Sequence[int],
) -> tuple[dict[str, list[float]], list[dict]]:
    """Microseconds per launch, one per round, and clocks, sampled after these rounds. All rounds are queued
    before the first is awaited, so that the GPU never waits for the host.
    """
    random = np.random.default_rng(0)
    names = list(kernels)

    def launch(name: str) -> None:
        gpu.launch_kernel_a(kernels[name], data.arguments, data.config.sequences, splits[name], stream)

    launch(names[-1])  # covers the time that the host takes to queue the first timed one
    events: dict[str, list] = {name: [] for name in names}
    for _ in range(rounds):
        for name in random.permutation(names):
            start = gpu.record_event(stream)
            launch(name)
            events[name].append((start, gpu.record_event(stream)))
    clocks = []
    device = kernels[names[0]].gpu
    for round_ in samples:
        gpu.wait(events[names[0]][round_][1])  # later rounds still run while nvidia-smi looks
        clocks.append(gpu.sample_clocks(device))
    times = {name: [1e3 * gpu.elapsed_ms(*pair) for pair in events[name]] for name in names}
    return times, [asdict(sample) for sample in clocks if sample is not None]


class _Checks:
    """Runs each stage's check once per VSplit, on the whole GPU."""

    def __init__(self) -> None:
        self._reasons: dict[tuple[str, int], str | None] = {}

    def reason(self, stage: str, v_split: int) -> str | None:
        """Why the stage must not be timed; None if it passed."""
        from .check import check

        if (stage, v_split) not in self._reasons:
            _say(f"checking {stage}, VSplit {v_split}")
            row = check(stage, check_problem(), machine="gpu", v_split=v_split)
            self._reasons[stage, v_split] = (
                None if row.ok else f"not timed, its check fails: {'; '.join(row.faults)}"
            )
        return self._reasons[stage, v_split]


@cache
def check_problem() -> Problem:
    """Two sequences of 16 tiles, two heads: enough for every index to count, and quick on the CPU's side."""
    return random_problem(lengths=[256, 256], heads=2)


@contextlib.contextmanager
def part_of_gpu(sms: int | None, device: gpu.Gpu) -> Iterator[gpu.SmPartition]:
    """The whole GPU (on the default stream) or a part of it."""
    if sms is None or sms == device.sms:
        yield gpu.SmPartition(device.sms, 0)
        return
    with gpu.sm_partition(sms, device.index) as part:
        yield part


def _say(text: str) -> None:
    print(f"kda-learn: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
