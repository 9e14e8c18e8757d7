"""Timing the stages on a GPU: what is asked for, and the child process that does it.

The child holds the GPU memory, tens of GB, and gives it back by ending: an idle notebook holds none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..ground.errors import BadInput
from ..ground.given import several, whole
from ..kernel_a.batch import Config
from ..machines.child import run_in_child
from ..machines.device import Gpu, hopper
from ..timing.rounds import CLOCK_SAMPLES

SECONDS_PER_CONFIG = 8.0
"""How long the rounds of one config may take, in all; fewer rounds where the stages are slow."""


@dataclass(frozen=True)
class Variant:
    """What is timed: a stage; perhaps with a VSplit of its own, perhaps with blocks that ask for shared
    memory that they leave alone, so that fewer fit an SM.
    """

    stage: str
    extra_smem: int = 0  # bytes
    v_split: int | None = None  # None: the article's rule

    @classmethod
    def parse(cls, text: str) -> Variant:
        """From a stage's id, perhaps with a VSplit, "s02/4", and perhaps with bytes to add, "s02/4+25600"."""
        name, _, extra = text.partition("+")
        stage, _, v_split = name.partition("/")
        return cls(stage, int(extra or 0), int(v_split) if v_split else None)

    @property
    def name(self) -> str:
        """As `parse` reads it."""
        v_split = "" if self.v_split is None else f"/{self.v_split}"
        return f"{self.stage}{v_split}" + (f"+{self.extra_smem}" if self.extra_smem else "")


def measure(
    stages: Sequence[str],
    configs: Sequence[str],
    sms: Sequence[int | None],
    heads: int = 32,
    *,
    seconds: float = SECONDS_PER_CONFIG,
    clock_samples: int = CLOCK_SAMPLES,
) -> dict[str, Any]:
    """Check and time `stages` in a child process, for each config and each number of SMs (None: all).

    A stage is given by its id, or with a VSplit or extra shared memory by the name of a Variant.

    Returns {provenance, heads, notes, parts: [{sms, runs, notes}]}; a run is {config, v_split, rounds,
    times_us: {stage: one per round}, control, control_us, blocks_per_sm, rejected: {stage: reason}, clocks}.
    `ladder` makes rows of it. Raises BadInput for a config or a number that does not fit, MachineUnavailable
    without a Hopper GPU.
    """
    check_request(stages, configs, sms, heads, None)
    check_request(stages, configs, sms, heads, hopper())
    request = {
        "stages": list(stages),
        "configs": list(configs),
        "sms": list(sms),
        "heads": heads,
        "seconds": seconds,
        "clock_samples": clock_samples,
    }
    return run_in_child("kda_learn.performance.bench_child:run", request)


def check_request(
    stages: Sequence[str],
    configs: Sequence[str],
    sms: Sequence[int | None],
    heads: int,
    gpu: Gpu | None,
) -> None:
    """Raise BadInput for what `measure` cannot do on this GPU (None: on any)."""
    several("stages", stages, "stages, such as ['s11', 's12']")
    for config in several("configs", configs, "shapes of a batch, such as ['B32/T8192']"):
        Config.parse(config)
    whole("heads", heads, 1)
    for number in several("sms", sms, "numbers of SMs, or None for all"):
        if number is not None:
            whole("sms", number, 1)
        if gpu is not None and number is not None and not 1 <= number <= gpu.sms:
            raise BadInput(
                f"{number} SMs were asked for: give a number from 1 to {gpu.sms}, which the {gpu.name} has."
            )
