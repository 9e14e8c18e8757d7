"""What the names in a profile mean, in plain words: what warps wait for, and what counts wavefronts."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


OPCODES = {
    "LDS": "load from shared memory",
    "LDSM": "load of 8 x 8 matrices from shared memory (ldmatrix)",
    "STS": "store to shared memory",
    "STSM": "store of 8 x 8 matrices to shared memory (stmatrix)",
    "LDGSTS": "asynchronous copy from global to shared memory (cp.async)",
    "MOVM": "transposing of an 8 x 8 matrix in registers (movmatrix)",
    "LDG": "load from global memory",
    "STG": "store to global memory",
    "SHFL": "exchange of registers between lanes (shuffle)",
    "HMMA": "product of small matrices by a tensor core (mma)",
    "BAR": "barrier, at which the warps of a block wait for each other",
}
"""The machine instructions that this course is about."""

REASONS = {
    "barrier": "for the other warps at a block barrier",
    "branch_resolving": "for a branch to be decided",
    "dispatch_stall": "for the dispatcher, which hands instructions to the units",
    "drain": "for its last stores, at the end",
    "imc_miss": "for a constant that is not in its cache",
    "lg_throttle": "for room in the queue to global memory",
    "long_scoreboard": "for data from global memory",
    "math_pipe_throttle": "for a busy arithmetic unit or tensor core",
    "membar": "for a memory fence",
    "mio_throttle": "for room in the queue to the load-store unit, which serves shared memory",
    "no_instruction": "for its next instruction to be fetched",
    "not_selected": "not waiting: it could issue, another warp was taken",
    "selected": "not waiting: it issues",
    "short_scoreboard": "for data from shared memory",
    "sleeping": "because it sleeps",
    "tex_throttle": "for room in the queue to the texture unit",
    "wait": "a fixed delay after its own previous instruction",
}
"""What a warp waits for, by the reason's name in ncu."""

COUNTED = {
    "loads": "all loads, by the whole kernel's counter",
    "stores": "all stores, by the whole kernel's counter",
    **{name: f"{name}: {OPCODES[name]}" for name in ("LDS", "LDSM", "STS", "STSM")},
}
"""The rows of the table of wavefronts. Copies are not among them: one counter leaves their 16-byte form out,
which does not pass through the unit that is counted here, and another one counts it as a store.
"""

STALLS_NOTE = "A warp waits: shares of its time from one instruction to the next."
WAVEFRONTS_NOTE = (
    "Wavefronts of shared memory, without copies: counted by the hardware, and simulated from the addresses "
    "in the trace."
)
SURPLUS_NOTE = (
    "The whole kernel's counters lie some percent above where several blocks share an SM, and agree where "
    "each has one to itself; the count by instruction agrees in both cases."
)
NCU_NOTE = "Counters are read by NVIDIA's profiler ncu, which runs the launch dozens of times."
SAMPLES_NOTE = (
    "Samples: again and again the profiler looks where a warp is. mostly: what warps waited for there, as in "
    "`profile`."
)


def plain(reason: str) -> str:
    """A reason as it is shown: "mio throttle" for "mio_throttle"."""
    return reason.replace("_", " ")
