"""The child process that measures ceilings: `python -m kda_learn.ceilings_child REQUEST ANSWER`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from . import ceilings, gpu
from .bench_child import part_of_gpu
from .bf16 import to_bf16
from .compile import compile as compile_kernel
from .errors import KdaError
from .records import provenance
from .source import StageSource, digest
from .timing_statistics import Estimate, median_estimate

TILES = 1 << 16
USABLE_FRACTION = 0.8
TRIES = 5
LAUNCHES = 21
BLOCKS_PER_SM = (2, 4, 8)
"""What is tried for the twin, beside one block for each tile; the fastest counts."""

MMA_ROUNDS = 8000


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
    """The whole measurement, as `ceilings.measure` describes it, with "provenance"."""
    device = gpu.hopper()
    parts, notes = [], []
    for sms in request["sms"]:
        with part_of_gpu(sms, device) as part:
            if sms is not None and part.sms != sms:
                notes.append(f"{part.sms} SMs instead of {sms}: the driver cuts the GPU into such parts.")
            print(f"kda-learn: ceilings on {part.sms} SMs", file=sys.stderr, flush=True)
            twins = {name: time_twin(name, device, part) for name in ceilings.ELEMENT_BYTES}
            mma = time_mma(part)
            clocks = gpu.sample_clocks(device)
        parts.append(
            {"sms": part.sms, "twins": twins, "mma": mma, "clocks": [asdict(clocks)] if clocks else []}
        )
    nvrtc = compile_kernel(ceilings.MMA, entry="multiply").nvrtc
    return {
        "provenance": asdict(provenance(device, [], nvrtc=nvrtc)),
        "sources": {path.name: digest(path) for path in (ceilings.TWIN, ceilings.MMA)},
        "notes": notes,
        "parts": parts,
    }


def time_twin(snapshot_dtype: str, device: gpu.Gpu, part: gpu.SmPartition) -> dict[str, Any]:
    """The time that a tile's bytes take. Raises KdaError if they did not arrive."""
    import cupy

    bytes_in, bytes_out = ceilings.tile_bytes(snapshot_dtype)
    tiles = min(TILES, int(USABLE_FRACTION * gpu.free_memory(device)) // (bytes_in + bytes_out))
    entry = f"move_tiles<{ceilings.ELEMENT_BYTES[snapshot_dtype]}>"
    kernel = gpu.load(compile_kernel(ceilings.TWIN, entry=entry))
    threads = StageSource.load(ceilings.TWIN).constants()["THREADS"]
    random = cupy.random.default_rng(0)
    source = random.standard_normal((tiles, bytes_in // 16, 4), dtype=cupy.float32).view(cupy.uint32)
    target = cupy.full((tiles, bytes_out // 16, 4), 0xFFFFFFFF, cupy.uint32)
    arguments = [np.uint64(source.data.ptr), np.uint64(target.data.ptr), np.uint32(tiles)]

    def launch(blocks: int) -> None:
        kernel.launch((blocks, 1, 1), (threads, 1, 1), arguments, part.stream)

    gpu.synchronize(device)
    choices = [part.sms * number for number in BLOCKS_PER_SM] + [tiles]
    tried = {blocks: float(np.median(_times(partial(launch, blocks), part, TRIES))) for blocks in choices}
    blocks = min(tried, key=tried.get)
    time = median_estimate(_times(partial(launch, blocks), part, LAUNCHES))
    for tile in (0, tiles // 2, tiles - 1):
        if not np.array_equal(target[tile].get(), ceilings.moved(source[tile].get(), snapshot_dtype)):
            raise KdaError(f"The traffic twin wrote something else than it read (tile {tile} of {tiles}).")
    del source, target
    cupy.get_default_memory_pool().free_all_blocks()
    per_tile = _scaled(time, 1e3 / tiles)
    return {
        "ns_per_tile": per_tile.median,
        "ci_ns": [per_tile.low, per_tile.high],
        "blocks": blocks,
        "tiles": tiles,
        "bytes_in": bytes_in,
        "bytes_out": bytes_out,
        "tb_per_s": (bytes_in + bytes_out) / per_tile.median / 1e3,
    }


def time_mma(part: gpu.SmPartition) -> dict[str, Any]:
    """How fast products run that stay in registers. Raises KdaError if the sums are wrong."""
    import cupy

    constants = StageSource.load(ceilings.MMA).constants()
    threads, lanes, sums = (constants[name] for name in ("THREADS", "LANES", "SUMS"))
    kernel = gpu.load(compile_kernel(ceilings.MMA, entry="multiply"))
    blocks = part.sms * kernel.blocks_per_sm(threads)
    warps = blocks * threads // lanes
    random = np.random.default_rng(0)
    a, b = (cupy.asarray(_random_pairs(random, sums * lanes * words)) for words in (4, 2))
    target = cupy.full((warps, sums, lanes, 4), np.nan, cupy.float32)

    def launch(rounds: int) -> None:
        addresses = [np.uint64(array.data.ptr) for array in (a, b, target)]
        kernel.launch((blocks, 1, 1), (threads, 1, 1), [*addresses, np.uint32(rounds)], part.stream)

    gpu.synchronize(kernel.gpu)
    launch(0)
    gpu.synchronize(kernel.gpu)
    once = target.get()
    times = median_estimate(_times(partial(launch, MMA_ROUNDS), part, LAUNCHES))
    difference = np.abs(target.get() - once).max() / np.abs(once).max()
    if not difference < 0.01:
        raise KdaError(f"The products of the tensor cores are {difference:.1e} off after many rounds.")
    operations = warps * sums * (1 + 2 * MMA_ROUNDS) * ceilings.FLOPS_PER_MMA
    rates = sorted(operations / us / 1e6 for us in (times.low, times.median, times.high))
    return {"tflops": rates[1], "ci_tflops": [rates[0], rates[2]], "blocks": blocks}


def _times(launch: Callable[[], None], part: gpu.SmPartition, count: int) -> list[float]:
    """Microseconds of each of `count` launches in a row, after one that warms up."""
    launch()
    moments = [gpu.record_event(part.stream)]
    for _ in range(count):
        launch()
        moments.append(gpu.record_event(part.stream))
    return [1e3 * gpu.elapsed_ms(*pair) for pair in pairwise(moments)]


def _random_pairs(random: np.random.Generator, count: int) -> np.ndarray:
    """uint32 [count], each two bf16 numbers from a normal distribution."""
    return to_bf16(random.standard_normal(2 * count)).view(np.uint32)


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(estimate.median * factor, estimate.low * factor, estimate.high * factor)


if __name__ == "__main__":
    main()
