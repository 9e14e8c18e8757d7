"""Lab kernels with their arrays on the GPU, made by the process that ncu watches."""

from kda_learn.lab import banks, mma_ceiling, traffic_twin
from kda_learn.machines.gpu import on_device
from kda_learn.machines.runnable import Runnable

TILES, BLOCKS, ROUNDS = 100, 40, 50


def in_host_memory(family: str) -> Runnable:
    """A small launch of a family: "twin", "multiply" or "banks"."""
    if family == "twin":
        return traffic_twin.runnable(traffic_twin.inputs(TILES), BLOCKS)
    if family == "multiply":
        return mma_ceiling.runnable(BLOCKS, ROUNDS)
    return banks.runnable()


def on_gpu(family: str) -> Runnable:
    """The same with its arrays on the GPU."""
    return on_device(in_host_memory(family))
