"""What the child process does that measures ceilings, started by ceilings.measure."""

from dataclasses import asdict
from typing import Any

from ..compilers.nvrtc import compile
from ..ground.errors import KdaError
from ..ground.say import say
from ..lab import mma_ceiling, traffic_twin
from ..machines.cuda import SmPartition, part_of_gpu
from ..machines.device import Gpu, free_memory, hopper
from ..machines.gpu import kernel_of, on_device
from ..records.store import provenance
from ..sources.includes import digest
from ..timing.rounds import Rounds, time_in_rounds
from ..timing.statistics import median_estimate

TILES = 1 << 16
USABLE_FRACTION = 0.8
BLOCKS_PER_SM = (2, 4, 8)
"""What is tried for the twin, beside one block for each tile; the fastest counts."""

MMA_ROUNDS = 8000
SECONDS = 1.0
"""How long the rounds of one kernel may take."""


def run(request: dict[str, Any]) -> dict[str, Any]:
    """The whole measurement, as `ceilings.measure` describes it, with "provenance"."""
    device = hopper()
    parts, notes = [], []
    for sms in request["sms"]:
        with part_of_gpu(sms, device) as part:
            notes += part.notes
            say(f"ceilings on {part.sms} SMs")
            twins = {name: time_twin(name, device, part) for name in traffic_twin.ELEMENT_BYTES}
            mma = time_mma(device, part)
        clocks = [*twins["float32"].pop("clocks"), *twins["bfloat16"].pop("clocks"), *mma.pop("clocks")]
        parts.append({"sms": part.sms, "twins": twins, "mma": mma, "clocks": clocks})
    nvrtc = compile(mma_ceiling.SOURCE, entry="multiply").nvrtc
    return {
        "provenance": asdict(provenance(device, [], nvrtc=nvrtc)),
        "sources": {path.name: digest(path) for path in (traffic_twin.SOURCE, mma_ceiling.SOURCE)},
        "notes": notes,
        "parts": parts,
    }


def time_twin(snapshot_dtype: str, device: Gpu, part: SmPartition) -> dict[str, Any]:
    """The time that a tile's bytes take. Raises KdaError if they did not arrive."""
    import cupy

    bytes_in, bytes_out = traffic_twin.tile_bytes(snapshot_dtype)
    tiles = min(TILES, int(USABLE_FRACTION * free_memory(device)) // (bytes_in + bytes_out))
    source = traffic_twin.inputs(tiles, cupy)
    target = cupy.empty((tiles, bytes_out // traffic_twin.PIECE, 4), cupy.uint32)
    choices = [part.sms * number for number in BLOCKS_PER_SM] + [tiles]
    runnables = {
        f"{blocks} blocks": traffic_twin.runnable(source, blocks, snapshot_dtype, target=target)
        for blocks in choices
    }
    found = _timed(runnables, device, part)
    times = {name: median_estimate([us * 1e3 / tiles for us in us]) for name, us in found.times_us.items()}
    fastest = min(times, key=lambda name: times[name].median)
    per_tile = times[fastest]
    del source, target, runnables
    cupy.get_default_memory_pool().free_all_blocks()
    return {
        "ns_per_tile": per_tile.median,
        "ci_ns": [per_tile.low, per_tile.high],
        "blocks": int(fastest.split()[0]),
        "tiles": tiles,
        "bytes_in": bytes_in,
        "bytes_out": bytes_out,
        "tb_per_s": (bytes_in + bytes_out) / per_tile.median / 1e3,
        "clocks": found.clocks,
    }


def time_mma(device: Gpu, part: SmPartition) -> dict[str, Any]:
    """How fast products run that stay in registers. Raises KdaError if the sums are wrong."""
    fitting = kernel_of(mma_ceiling.runnable(1, 0)).blocks_per_sm(mma_ceiling.threads())
    blocks = part.sms * fitting
    runnable = on_device(mma_ceiling.runnable(blocks, MMA_ROUNDS))
    found = _timed({"multiply": runnable}, device, part)
    times = median_estimate(found.times_us["multiply"])
    operations = mma_ceiling.products(blocks, MMA_ROUNDS) * mma_ceiling.FLOPS_PER_MMA
    rates = sorted(operations / us / 1e6 for us in (times.low, times.median, times.high))
    return {"tflops": rates[1], "ci_tflops": [rates[0], rates[2]], "blocks": blocks, "clocks": found.clocks}


def _timed(runnables: dict[str, Any], device: Gpu, part: SmPartition) -> Rounds:
    """The rounds; raises KdaError if a kernel did not do what it must."""
    found = time_in_rounds(runnables, device, part, seconds=SECONDS, clock_samples=1)
    for name, reason in found.rejected.items():
        raise KdaError(f"A ceiling cannot be measured, the kernel of {name} is wrong: {reason}.")
    return found
