"""What the child process does that ncu watches: each kernel launched twice, the second time for ncu.

The first launch warms up; the second stands between cudaProfilerStart and cudaProfilerStop, where ncu looks.
"""

from math import prod
from typing import Any

from ..ground.errors import KdaError
from ..machines.child import function_named
from ..machines.cuda import synchronize
from ..machines.gpu import Kernel, kernel_of, poison
from ..machines.runnable import Runnable


def launch_all(request: dict[str, Any]) -> list[dict[str, Any]]:
    """request: {device, watched: [{name, make, options}]}, as capture.Watched has them.

    The answer has one object for each, {blocks_per_sm, dynamic_smem_bytes, nvrtc} or {error}: one that fails
    is not profiled.
    """
    answers: list[dict[str, Any]] = []
    for watched in request["watched"]:
        try:
            answers.append(launch(watched, request["device"]))
        except KdaError as error:
            answers.append({"error": str(error)})
    return answers


def launch(watched: dict[str, Any], device: int) -> dict[str, Any]:
    """Warm up, then launch for ncu. Returns what the driver says about the kernel."""
    import cupy

    pool = cupy.cuda.MemoryPool()
    try:
        with cupy.cuda.Device(device), cupy.cuda.using_allocator(pool.malloc):
            runnable = function_named(watched["make"])(**watched["options"])
            kernel = kernel_of(runnable, device=device)
            _launch_twice(kernel, runnable)
            wrong = runnable.judge(runnable.written)
    except cupy.cuda.memory.OutOfMemoryError:
        raise KdaError(
            f"{watched['name']} does not fit in the free memory of the GPU: give fewer tokens or heads."
        ) from None
    finally:
        pool.free_all_blocks()
    if wrong:
        raise KdaError(f"{watched['name']}: {'; '.join(wrong)}: run `kda-learn check` on it.")
    return {
        "blocks_per_sm": kernel.blocks_per_sm(prod(runnable.block)),
        "dynamic_smem_bytes": kernel.dynamic_smem_bytes,
        "nvrtc": kernel.compiled.nvrtc,
    }


def _launch_twice(kernel: Kernel, runnable: Runnable) -> None:
    """The second launch is the one that ncu sees."""
    import cupy

    for seen in (False, True):
        for output in runnable.poisoned.values():
            poison(output)
        synchronize(kernel.gpu)
        if seen:
            cupy.cuda.runtime.profilerStart()
        kernel.start(runnable)
        synchronize(kernel.gpu)
        if seen:
            cupy.cuda.runtime.profilerStop()
