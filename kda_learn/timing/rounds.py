"""Rounds of timing: in each, every runnable runs once, in an order drawn anew, on one stream of one GPU.

So a drift of clock or temperature falls on all alike. One of them runs twice in each round, the control: it
shows what two equal things differ by. Only what gives the right answer at its full size is timed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import prod
from typing import Any

import numpy as np

from ..ground.say import say
from ..machines.cuda import SmPartition, elapsed_ms, record_event, synchronize, wait
from ..machines.device import Gpu, sample_clocks
from ..machines.gpu import Kernel, kernel_of, poison
from ..machines.runnable import Runnable

FEWEST_ROUNDS = 5
MOST_ROUNDS = 25
CONTROL = "again"

CLOCK_SAMPLES = 3
"""How often nvidia-smi is asked while the rounds run; each takes a moment."""


@dataclass
class Rounds:
    """What was timed. times_us: one launch's microseconds in each round, by name; control_us: of the control.

    rejected: why a runnable was not timed. clocks: what nvidia-smi said meanwhile.
    """

    rounds: int = 0
    times_us: dict[str, list[float]] = field(default_factory=dict)
    control: str | None = None
    control_us: list[float] = field(default_factory=list)
    blocks_per_sm: dict[str, int] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)
    clocks: list[dict[str, Any]] = field(default_factory=list)


def time_in_rounds(
    runnables: Mapping[str, Runnable],
    device: Gpu,
    part: SmPartition,
    *,
    seconds: float,
    clock_samples: int = CLOCK_SAMPLES,
) -> Rounds:
    """Time runnables whose arrays lie on the GPU; seconds: how long all rounds may take, as far as 5 to 25
    rounds allow.
    """
    found = Rounds()
    kernels: dict[str, Kernel] = {}
    warm_ms = 0.0
    for name, runnable in runnables.items():
        kernel = kernel_of(runnable, device=device.index)
        milliseconds, wrong = first_launch(kernel, runnable, part.stream)
        if wrong:
            found.rejected[name] = "; ".join(wrong)
            continue
        kernels[name] = kernel
        warm_ms += milliseconds
        found.blocks_per_sm[name] = kernel.blocks_per_sm(prod(runnable.block))
    if not kernels:
        return found
    found.control = list(kernels)[-1]
    found.rounds = int(np.clip(seconds * 1e3 / warm_ms, FEWEST_ROUNDS, MOST_ROUNDS))
    say(f"{found.rounds} rounds of {', '.join(kernels)} on {part.sms} SMs")
    launches = {name: (kernel, runnables[name]) for name, kernel in kernels.items()}
    launches[CONTROL] = launches[found.control]
    samples = np.linspace(0, found.rounds - 2, clock_samples).astype(int).tolist()
    found.times_us, found.clocks = _timed(launches, device, part.stream, found.rounds, samples)
    found.control_us = found.times_us.pop(CONTROL)
    return found


def first_launch(kernel: Kernel, runnable: Runnable, stream: int) -> tuple[float, list[str]]:
    """The warm-up, on poisoned outputs: milliseconds, and what its judge finds wrong."""
    for output in runnable.poisoned.values():
        poison(output)
    synchronize(kernel.gpu)
    start = record_event(stream)
    kernel.start(runnable, stream)
    milliseconds = elapsed_ms(start, record_event(stream))
    return milliseconds, runnable.judge(runnable.written)


def _timed(
    launches: Mapping[str, tuple[Kernel, Runnable]],
    device: Gpu,
    stream: int,
    rounds: int,
    samples: Sequence[int],
) -> tuple[dict[str, list[float]], list[dict[str, Any]]]:
    """Microseconds per launch, one per round, and clocks, sampled after these rounds. All rounds are queued
    before the first is awaited, so that the GPU never waits for the host.
    """
    random = np.random.default_rng(0)
    names = list(launches)

    def start(name: str) -> None:
        kernel, runnable = launches[name]
        kernel.start(runnable, stream)

    start(names[-1])  # covers the time that the host takes to queue the first timed one
    events: dict[str, list] = {name: [] for name in names}
    for _ in range(rounds):
        for name in random.permutation(names):
            begin = record_event(stream)
            start(name)
            events[name].append((begin, record_event(stream)))
    clocks = []
    for round_ in samples:
        wait(events[names[0]][round_][1])  # later rounds still run while nvidia-smi looks
        clocks.append(sample_clocks(device))
    times = {name: [1e3 * elapsed_ms(*pair) for pair in events[name]] for name in names}
    return times, [asdict(sample) for sample in clocks if sample is not None]
