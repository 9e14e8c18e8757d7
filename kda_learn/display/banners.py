"""The banners that say where figures come from: this computer's GPU, the CPU machine, or a record."""

from ..ground.errors import MachineUnavailable
from ..machines.device import CALLED, hopper
from .parts import Banner

CPU, GPU = CALLED["emulator"], CALLED["gpu"]
RECORDED = "Recorded"
NOT_RECORDED = "not recorded"
NOT_HERE = "Not possible here"

INTERVAL = (
    "interval: where the true median lies with 95 % confidence, judged by how much single launches differ."
)
"""What the intervals of times and changes are; `kda_learn.timing.statistics` computes them."""


def batch_words(config: str) -> str:
    """A config such as "B32/T8192" in words. Raises BadInput if it is none."""
    from ..kernel_a.batch import (
        Config,  # brings NumPy, which a mere `import kda_learn` in a notebook must not
    )

    batch = Config.parse(config)
    sequences = "1 sequence" if batch.sequences == 1 else f"{batch.sequences} sequences"
    return f"{sequences} of {batch.length} tokens"


def machine_banner(machine: str, more: str = "") -> Banner:
    """The banner of a run: machine is "gpu" or "emulator", `more` a sentence to add."""
    if machine == "gpu":
        return Banner(CALLED[machine], f"Run now on {gpu_words()}. {more}".strip())
    return Banner(CALLED[machine], f"Run now on this computer's processor, thread by thread. {more}".strip())


def gpu_words() -> str:
    """This computer's GPU in words; "the GPU" where it cannot be asked."""
    try:
        gpu = hopper()
    except MachineUnavailable:
        return "the GPU"
    return f"this computer's {gpu.name} ({gpu.sms} SMs)"


def measured_banner(words: str, *, recorded: bool) -> Banner:
    """The banner of timings and counters; `words` say when and on what."""
    return Banner(RECORDED, words, "recorded") if recorded else Banner(GPU, words)


def missing_banner(words: str, label: str = NOT_RECORDED.capitalize()) -> Banner:
    """The banner of what is not there: no GPU to measure on and no record, or something else (`label`)."""
    return Banner(label, words, "missing")
