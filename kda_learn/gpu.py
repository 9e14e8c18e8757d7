"""The GPU machine: the only file that launches a kernel on a GPU.

Arrays are passed as device addresses, so PyTorch's and CuPy's work alike, and the caller says on which
stream. Nothing here keeps a buffer, so two streams may run at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .compile import Compiled, compile_stage
from .cuda_runtime import cuda_errors, elapsed_ms, record_event, synchronize, wait
from .device import Gpu, describe, free_memory, hopper, sample_clocks
from .errors import BadInput, MachineUnavailable
from .sm_partition import SmPartition, sm_partition
from .tiling import HEAD_DIM

if TYPE_CHECKING:
    from .problem import Problem
    from .stages import Stage

__all__ = [
    "THREADS",
    "Gpu",
    "GpuRun",
    "Kernel",
    "KernelArguments",
    "SmPartition",
    "describe",
    "elapsed_ms",
    "free_memory",
    "hopper",
    "launch_kernel_a",
    "load",
    "record_event",
    "run_on_gpu",
    "sample_clocks",
    "sm_partition",
    "synchronize",
    "wait",
]

THREADS = 256
"""Threads of a block of Kernel A, in every stage."""


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel, loaded on one GPU and allowed `dynamic_smem_bytes` of dynamic shared memory per
    block.
    """

    function: Any
    compiled: Compiled
    gpu: Gpu
    dynamic_smem_bytes: int

    def launch(
        self, grid: tuple[int, int, int], block: tuple[int, int, int], arguments: Sequence, stream: int = 0
    ) -> None:
        """Start the kernel on the CUDA stream with handle `stream` (0: the default one); do not wait for it.

        `arguments`: NumPy scalars of the parameters' types, np.uint64 for a device address.
        """
        import cupy

        values = [np.array(argument) for argument in arguments]
        addresses = (ctypes.c_void_p * len(values))(*[value.ctypes.data for value in values])
        with cupy.cuda.Device(self.gpu.index), cuda_errors(f"{self.compiled.path.stem} cannot be started"):
            cupy.cuda.driver.launchKernel(
                self.function.ptr,
                *grid,
                *block,
                self.dynamic_smem_bytes,
                stream,
                ctypes.addressof(addresses),
                0,
            )

    def blocks_per_sm(self, threads: int = THREADS) -> int:
        """How many blocks of `threads` threads the driver says fit on one SM at a time."""
        import cupy

        with cupy.cuda.Device(self.gpu.index):
            return cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
                self.function.ptr, threads, self.dynamic_smem_bytes
            )


@dataclass(frozen=True)
class KernelArguments:
    """What a stage's kernel is called with: device addresses (0: none), then sizes.

    The fields stand in the order of the kernel's parameters; kernels/kernel_a/problem.cuh gives the arrays'
    shapes.
    """

    q: int
    k: int
    gc: int
    beta: int
    inv: int
    mqk: int
    do: int
    dht: int
    snapshots: int
    ds0: int
    cu_seqlens: int
    scale: float
    length: int  # tokens of every sequence; not read when cu_seqlens is given
    tokens: int
    total_tiles: int
    heads: int

    def as_list(self) -> list:
        """NumPy scalars with the parameters' types."""
        addresses = (self.q, self.k, self.gc, self.beta, self.inv, self.mqk, self.do, self.dht)
        outputs = (self.snapshots, self.ds0)
        sizes = (self.length, self.tokens, self.total_tiles, self.heads)
        return [
            *map(np.uint64, (*addresses, *outputs, self.cu_seqlens)),
            np.float32(self.scale),
            *map(np.int32, sizes),
        ]


@dataclass(frozen=True)
class GpuRun:
    """What one launch wrote, on the host.

    snapshots [H * total_tiles, K, V]: float32, or uint16 with the bits of bf16. ds0 float32 [N, H, K, V].
    """

    snapshots: np.ndarray
    ds0: np.ndarray
    milliseconds: float
    gpu: Gpu


_loaded: dict[tuple, Kernel] = {}
_loading = threading.Lock()


def load(compiled: Compiled, *, extra_smem: int = 0, device: int = 0) -> Kernel:
    """Load a compiled kernel on a GPU; a second call returns the same one.

    `extra_smem` bytes are added to each block's dynamic shared memory, so that fewer blocks fit on an SM.
    Raises BadInput if a block would take more shared memory than the GPU gives, MachineUnavailable without a
    Hopper GPU.
    """
    smem = compiled.dynamic_smem_bytes + extra_smem
    key = (compiled.cubin, compiled.symbol, smem, device)
    with _loading:
        if key not in _loaded:
            gpu = hopper(device)
            check_shared_memory(compiled, smem, gpu)
            _loaded[key] = Kernel(_load_function(compiled, smem, gpu), compiled, gpu, smem)
        return _loaded[key]


def _load_function(compiled: Compiled, smem: int, gpu: Gpu):
    import cupy

    what = f"{compiled.path.stem}, made by NVRTC {compiled.nvrtc}, cannot be loaded by driver {gpu.driver}"
    with cupy.cuda.Device(gpu.index), cuda_errors(what):
        module = cupy.cuda.Module()
        module.load(compiled.cubin)
        function = module.get_function(compiled.symbol)
        attribute = cupy.cuda.driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        cupy.cuda.driver.funcSetAttribute(function.ptr, attribute, smem)
    return function


def check_shared_memory(compiled: Compiled, dynamic_smem_bytes: int, gpu: Gpu) -> None:
    """Raise BadInput if a block with this much dynamic shared memory does not fit on the GPU."""
    available = gpu.smem_per_block_bytes - compiled.static_smem
    if not 0 <= dynamic_smem_bytes <= available:
        raise BadInput(
            f"A block of {compiled.entry} would take {dynamic_smem_bytes} B of dynamic shared memory and the "
            f"{gpu.name} gives a block 0 to {available} B: give another extra_smem, or a larger v_split."
        )


def launch_kernel_a(
    kernel: Kernel, arguments: KernelArguments, sequences: int, v_split: int, stream: int = 0
) -> None:
    """Start a stage's kernel, one block per sequence, head and part of the state's columns; do not wait for
    it.
    """
    kernel.launch((sequences, arguments.heads, v_split), (THREADS, 1, 1), arguments.as_list(), stream)


def run_on_gpu(
    stage: Stage | str,
    problem: Problem,
    *,
    v_split: int = 1,
    snapshot_dtype: str = "float32",
    extra_smem: int = 0,
    device: int = 0,
) -> GpuRun:
    """Run a stage once on a problem held in host memory, and bring back what it wrote.

    The outputs start as NaN, so that an element the kernel leaves out is seen. All GPU memory taken is given
    back. Raises MachineUnavailable if there is no Hopper GPU or too little memory, BadInput for a variant no
    stage has.
    """
    gpu = hopper(device)
    compiled = compile_stage(stage, v_split, problem.cu_seqlens is not None, snapshot_dtype)
    kernel = load(compiled, extra_smem=extra_smem, device=device)
    import cupy

    written = None
    pool = cupy.cuda.MemoryPool()
    with (
        contextlib.suppress(cupy.cuda.memory.OutOfMemoryError),
        cupy.cuda.Device(device),
        cupy.cuda.using_allocator(pool.malloc),
        cuda_errors(f"{compiled.path.stem} failed"),
    ):
        written = _run(kernel, problem, v_split, snapshot_dtype)
    pool.free_all_blocks()
    if written is None:
        raise MachineUnavailable(
            f"{_snapshot_bytes(problem, snapshot_dtype) / 1e9:.1f} GB of snapshots and their inputs do not "
            f"fit in the {free_memory(gpu) / 1e9:.1f} GB free on the {gpu.name}: give fewer tokens or "
            "heads, or free memory."
        )
    return GpuRun(*written, gpu)


def _run(
    kernel: Kernel, problem: Problem, v_split: int, snapshot_dtype: str
) -> tuple[np.ndarray, np.ndarray, float]:
    import cupy

    names = ("q", "k", "gc", "beta", "inv", "mqk", "do", "dht", "cu_seqlens")
    inputs = {name: cupy.asarray(value) for name in names if (value := getattr(problem, name)) is not None}
    snapshot_type = np.float32 if snapshot_dtype == "float32" else np.uint16
    snapshots = cupy.empty((problem.heads * problem.total_tiles, HEAD_DIM, HEAD_DIM), snapshot_type)
    ds0 = cupy.empty((problem.sequences, problem.heads, HEAD_DIM, HEAD_DIM), np.float32)
    for output in (snapshots, ds0):
        if output.size:
            output.data.memset(0xFF, output.nbytes)  # NaN, in fp32 and in bf16
    arguments = KernelArguments(
        **{name: inputs[name].data.ptr if name in inputs else 0 for name in names},
        snapshots=snapshots.data.ptr,
        ds0=ds0.data.ptr,
        scale=problem.scale,
        length=0 if problem.cu_seqlens is not None else problem.length,
        tokens=problem.tokens,
        total_tiles=problem.total_tiles,
        heads=problem.heads,
    )
    synchronize(kernel.gpu)
    start = record_event()
    launch_kernel_a(kernel, arguments, problem.sequences, v_split)
    end = record_event()
    milliseconds = elapsed_ms(start, end)
    return snapshots.get(), ds0.get(), milliseconds


def _snapshot_bytes(problem: Problem, snapshot_dtype: str) -> int:
    element_bytes = 4 if snapshot_dtype == "float32" else 2
    return problem.heads * problem.total_tiles * HEAD_DIM**2 * element_bytes
