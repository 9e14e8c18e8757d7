"""Timing the stages on a GPU: what is asked for, and the child process that does it.

The child holds the GPU memory, tens of GB, and gives it back by ending: an idle notebook holds none.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import errors
from .device import Gpu, hopper
from .errors import BadInput, KdaError
from .tiling import CHUNK, HEAD_DIM

CONFIGS = ("B32/T8192", "B8/T32768", "B1/T131072")
"""The article's three: the same batch cut into many short, fewer longer and one very long sequence."""

SECONDS_PER_CONFIG = 8.0
"""How long the rounds of one config may take, in all; fewer rounds where the stages are slow."""

CLOCK_SAMPLES = 3
"""How often nvidia-smi is asked while one config is timed; each takes a moment."""

BYTES_PER_TOKEN_AND_HEAD = (
    3 * 2 * HEAD_DIM  # q, k, do, bf16
    + 4 * HEAD_DIM  # gc, fp32
    + 4  # beta, fp32
    + 2 * 2 * CHUNK  # inv and mqk, bf16, one row per token
    + 4 * HEAD_DIM * HEAD_DIM // CHUNK  # snapshots, fp32, one per tile
)
WORKING_BYTES = 3 * 10**9  # what preparing the data takes for a while
USABLE_FRACTION = 0.9


@dataclass(frozen=True)
class Config:
    """The shape of a batch: so many sequences of so many tokens each."""

    sequences: int
    length: int

    @classmethod
    def parse(cls, text: str) -> Config:
        """From "B32/T8192". Raises BadInput for anything else; lengths are multiples of 16 tokens."""
        match = re.fullmatch(r"B([1-9]\d*)/T([1-9]\d*)", text)
        if match is None or int(match.group(2)) % CHUNK:
            raise BadInput(
                f"The config is {text!r}: give one such as {', '.join(CONFIGS)} (B: sequences, T: tokens of "
                f"each, a multiple of {CHUNK})."
            )
        return cls(int(match.group(1)), int(match.group(2)))

    @property
    def name(self) -> str:
        """As `parse` reads it."""
        return f"B{self.sequences}/T{self.length}"

    @property
    def tokens(self) -> int:
        """Tokens of all sequences."""
        return self.sequences * self.length


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


def fitting_heads(heads: int, tokens: int, free_bytes: int) -> int:
    """The most heads, at most `heads` and else its halves, with which `tokens` tokens fit in GPU memory; 0 if
    none do.
    """
    usable = USABLE_FRACTION * free_bytes - WORKING_BYTES
    while heads > 0 and heads * tokens * BYTES_PER_TOKEN_AND_HEAD > usable:
        heads //= 2
    return heads


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
    return run_in_child("kda_learn.bench_child", request)


def check_request(
    stages: Sequence[str],
    configs: Sequence[str],
    sms: Sequence[int | None],
    heads: int,
    gpu: Gpu | None,
) -> None:
    """Raise BadInput for what `measure` cannot do on this GPU (None: on any)."""
    for config in configs:
        Config.parse(config)
    if not stages or not configs or not sms:
        raise BadInput("Nothing is to be timed: give at least one stage, one config and one number of SMs.")
    if isinstance(heads, bool) or not isinstance(heads, int) or heads < 1:
        raise BadInput(f"heads is {heads!r}: give a whole number from 1 on.")
    for number in sms:
        if gpu is not None and number is not None and not 1 <= number <= gpu.sms:
            raise BadInput(
                f"{number} SMs were asked for: give a number from 1 to {gpu.sms}, which the {gpu.name} has."
            )


def run_in_child(module: str, request: dict[str, Any]) -> dict[str, Any]:
    """Run `python -m module REQUEST ANSWER`, which reads a request from one JSON file and writes its answer
    to another.

    The answer is {"measured": ...}, which is returned, or {"error": [kind, message]}, which is raised. What
    the child prints to its standard error is passed on, line by line. If this process is interrupted, the
    child is ended.
    """
    package_folder = str(Path(__file__).resolve().parent.parent)
    search_path = os.pathsep.join(filter(None, [package_folder, os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory() as folder:
        request_file, answer_file = Path(folder) / "request.json", Path(folder) / "answer.json"
        request_file.write_text(json.dumps(request), encoding="utf-8")
        child = subprocess.Popen(
            [sys.executable, "-m", module, str(request_file), str(answer_file)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": search_path},
        )
        last_line = "nothing"
        try:
            for line in child.stderr:
                print(line, end="", file=sys.stderr, flush=True)
                last_line = line.strip() or last_line
            status = child.wait()
        except BaseException:
            child.kill()
            raise
        finally:
            child.stderr.close()
        if not answer_file.exists():
            raise KdaError(
                f"The timing process ended with exit status {status} and no answer (its last words: "
                f"{last_line}): try fewer stages or heads, and `kda-learn check --machine gpu`."
            )
        answer = json.loads(answer_file.read_text(encoding="utf-8"))
    if "error" in answer:
        kind, message = answer["error"]
        raise getattr(errors, kind, KdaError)(message)
    return answer["measured"]
