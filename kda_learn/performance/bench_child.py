"""What the child process does that times stages, started by bench.measure: those that pass their check."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

from ..checking.check import check
from ..ground.errors import MachineUnavailable
from ..ground.say import say
from ..kernel_a.arguments import Arguments
from ..kernel_a.batch import Config, fitting_heads
from ..kernel_a.device_data import Agreement, for_config, make_data, torch_device
from ..kernel_a.problem import Problem, random_problem
from ..kernel_a.variants import article_v_split, compile_stage, runnable_of
from ..machines.cuda import SmPartition, part_of_gpu
from ..machines.device import Gpu, free_memory, hopper
from ..machines.runnable import Runnable
from ..records.store import provenance
from ..sources.stages import stage
from ..timing.rounds import time_in_rounds
from .bench import Variant


def run(request: dict[str, Any]) -> dict[str, Any]:
    """The whole measurement; request and answer as in bench.measure."""
    device = hopper()
    configs = [Config.parse(text) for text in request["configs"]]
    variants = [Variant.parse(text) for text in request["stages"]]
    tokens = max(config.tokens for config in configs)
    free_bytes = free_memory(device)
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
    say(f"data for {tokens} tokens in {heads} heads")
    sequences = max(config.sequences for config in configs)
    data = make_data(heads, tokens, sequences, device=torch_device(device.index))
    parts = []
    for sms in request["sms"]:
        with part_of_gpu(sms, device) as part:
            runs = [
                time_config(
                    variants,
                    config,
                    for_config(data, config),
                    device,
                    part,
                    seconds=request["seconds"],
                    clock_samples=request["clock_samples"],
                )
                for config in configs
            ]
        parts.append({"sms": part.sms, "runs": runs, "notes": notes + part.notes})
    ids = list(dict.fromkeys(variant.stage for variant in variants))
    return {
        "provenance": asdict(provenance(device, ids, nvrtc=compile_stage(stage(ids[0])).nvrtc)),
        "heads": heads,
        "notes": list(dict.fromkeys(note for part in parts for note in part["notes"])),
        "parts": parts,
    }


def time_config(
    variants: Sequence[Variant],
    config: Config,
    arguments: Arguments,
    device: Gpu,
    part: SmPartition,
    *,
    seconds: float,
    clock_samples: int,
) -> dict[str, Any]:
    """Time the stages on one config; returns a run as in bench.measure."""
    by_rule = article_v_split(config.sequences, arguments.heads, part.sms)
    rejected: dict[str, str] = {}
    runnables: dict[str, Runnable] = {}
    agreement = Agreement(config)
    for variant in variants:
        v_split = variant.v_split or by_rule
        reason = fails_its_check(variant.stage, v_split)
        if reason is not None:
            rejected[variant.name] = reason
            continue
        runnables[variant.name] = runnable_of(
            stage(variant.stage),
            arguments,
            config.sequences,
            v_split=v_split,
            extra_smem=variant.extra_smem,
            judge=agreement.judge,
        )
    found = time_in_rounds(runnables, device, part, seconds=seconds, clock_samples=clock_samples)
    return (
        {"config": config.name, "v_split": by_rule} | asdict(found) | {"rejected": rejected | found.rejected}
    )


@cache
def fails_its_check(name: str, v_split: int) -> str | None:
    """Why the stage must not be timed; None if it passed. Looked at once per VSplit, on the whole GPU."""
    say(f"checking {name}, VSplit {v_split}")
    row = check(name, check_problem(), machine="gpu", v_split=v_split)
    return None if row.ok else f"not timed, its check fails: {'; '.join(row.faults)}"


@cache
def check_problem() -> Problem:
    """Two sequences of 16 tiles, two heads: enough for every index to count, and quick on the CPU's side."""
    return random_problem(lengths=[256, 256], heads=2)
