"""The program that ncu watches: `python -m kda_learn.profile_target REQUEST ANSWER`, started by profile.

It launches each target twice, once to warm up and once between cudaProfilerStart and cudaProfilerStop, where
ncu looks. Nothing is left of it in the caller's process.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from . import gpu
from .bench import Config
from .compile import compile_stage
from .errors import KdaError
from .problem import Problem, random_problem
from .tiling import CHUNK, HEAD_DIM


def main() -> None:
    """Read the request from the file named first, write the answer to the file named second.

    request: {device, targets: [{path, v_split, config, heads}]}. answer: a list with one object for each
    target, {blocks_per_sm, dynamic_smem_bytes, nvrtc} or {error}: a target that fails is not profiled.
    """
    request_file, answer_file = map(Path, sys.argv[1:])
    request = json.loads(request_file.read_text(encoding="utf-8"))
    answers: list[dict[str, Any]] = []
    for target in request["targets"]:
        try:
            answers.append(launch(target, request["device"]))
        except KdaError as error:
            answers.append({"error": str(error)})
        answer_file.write_text(json.dumps(answers), encoding="utf-8")


def launch(target: dict[str, Any], device: int) -> dict[str, Any]:
    """Warm up, then launch for ncu. Returns what the driver says about the kernel."""
    import cupy

    config = Config.parse(target["config"])
    kernel = gpu.load(compile_stage(Path(target["path"]), target["v_split"]), device=device)
    pool = cupy.cuda.MemoryPool()
    try:
        with cupy.cuda.Device(device), cupy.cuda.using_allocator(pool.malloc):
            finite = _launch_twice(kernel, config, target["heads"], target["v_split"])
    except cupy.cuda.memory.OutOfMemoryError:
        raise KdaError(
            f"{config.name} with {target['heads']} heads does not fit in the free memory of the "
            f"{kernel.gpu.name}: give fewer tokens or heads."
        ) from None
    finally:
        pool.free_all_blocks()
    if not finite:
        raise KdaError(
            f"{Path(target['path']).stem} left elements of its outputs unwritten or not finite on "
            f"{config.name}: run `kda-learn check` on it."
        )
    return {
        "blocks_per_sm": kernel.blocks_per_sm(),
        "dynamic_smem_bytes": kernel.dynamic_smem_bytes,
        "nvrtc": kernel.compiled.nvrtc,
    }


def _launch_twice(kernel: gpu.Kernel, config: Config, heads: int, v_split: int) -> bool:
    """The second launch is the one that ncu sees. Returns whether all outputs are finite."""
    import cupy

    arrays, arguments = device_arrays(config, heads)
    outputs = (arrays["snapshots"], arrays["ds0"])
    for watched in (False, True):
        for output in outputs:
            output.fill(np.nan)
        gpu.synchronize(kernel.gpu)
        if watched:
            cupy.cuda.runtime.profilerStart()
        gpu.launch_kernel_a(kernel, arguments, config.sequences, v_split)
        gpu.synchronize(kernel.gpu)
        if watched:
            cupy.cuda.runtime.profilerStop()
    # A sum is finite only if all its terms are.
    return all(bool(cupy.isfinite(output.sum())) for output in outputs)


def device_arrays(config: Config, heads: int) -> tuple[dict[str, Any], gpu.KernelArguments]:
    """Inputs on the GPU, and room for the outputs.

    Every sequence and head gets the same random data, each at its own addresses: what a counter counts does
    not depend on the values, and one sequence is made in no time.
    """
    import cupy

    host, copies = repeated(config, heads)
    arrays = {name: cupy.tile(cupy.asarray(array), copies[name]) for name, array in host.items()}
    tiles = config.tokens // CHUNK
    arrays["snapshots"] = cupy.empty((heads * tiles, HEAD_DIM, HEAD_DIM), np.float32)
    arrays["ds0"] = cupy.empty((config.sequences, heads, HEAD_DIM, HEAD_DIM), np.float32)
    addresses = {name: array.data.ptr for name, array in arrays.items()}
    arguments = gpu.KernelArguments(
        **addresses,
        cu_seqlens=0,
        scale=HEAD_DIM**-0.5,
        length=config.length,
        tokens=config.tokens,
        total_tiles=tiles,
        heads=heads,
    )
    return arrays, arguments


def repeated(config: Config, heads: int) -> tuple[dict[str, np.ndarray], dict[str, tuple[int, ...]]]:
    """One sequence of one head as NumPy arrays, and how often each has to stand beside itself, by axis."""
    one: Problem = random_problem(lengths=[config.length])
    by_token, by_tile = (config.sequences, heads, 1), (heads * config.sequences, 1, 1)
    copies = {
        "q": by_token,
        "k": by_token,
        "do": by_token,
        "gc": by_tile,
        "inv": by_tile,
        "mqk": by_tile,
        "beta": (heads, config.sequences),
        "dht": (config.sequences, heads, 1, 1),
    }
    return {name: getattr(one, name) for name in copies}, copies


if __name__ == "__main__":
    main()
