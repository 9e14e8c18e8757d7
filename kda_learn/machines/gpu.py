"""The GPU machine: the only file that launches a kernel on a GPU.

Arrays are passed as device addresses, so PyTorch's and CuPy's work alike, and the caller says on which
stream. Nothing here keeps a buffer, so two streams may run at once.
"""

import contextlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..compilers.nvrtc import Compiled, compile
from ..ground.errors import BadInput, MachineUnavailable
from .cuda import cuda_error, cuda_errors, elapsed_ms, record_event, synchronize
from .device import Gpu, free_memory, hopper
from .parameters import Parameters, address_of
from .runnable import Runnable


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel, loaded on one GPU and allowed `dynamic_smem_bytes` of dynamic shared memory per
    block.
    """

    function: Any
    compiled: Compiled
    gpu: Gpu
    dynamic_smem_bytes: int

    def start(self, runnable: Runnable, stream: int = 0) -> None:
        """Launch a runnable, whose arrays lie on this GPU; else as `launch`."""
        self.launch(runnable.arguments, runnable.grid, runnable.block, stream)

    def launch(
        self,
        arguments: Sequence[Any],
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        stream: int = 0,
    ) -> None:
        """Launch on the CUDA stream with handle `stream` (0: the default one); do not wait for it.

        arguments: as of a runnable, in the order of the kernel's parameters.
        """
        import cupy

        parameters = Parameters(arguments)
        try:
            with cupy.cuda.Device(self.gpu.index):
                cupy.cuda.driver.launchKernel(
                    self.function.ptr,
                    *grid,
                    *block,
                    self.dynamic_smem_bytes,
                    stream,
                    parameters.address,
                    0,
                )
        except cupy.cuda.driver.CUDADriverError as error:
            raise cuda_error(f"{self.compiled.path.stem} cannot be started", error) from None

    def blocks_per_sm(self, threads: int) -> int:
        """How many blocks of `threads` threads the driver says fit on one SM at a time."""
        import cupy

        with cupy.cuda.Device(self.gpu.index):
            return cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
                self.function.ptr, threads, self.dynamic_smem_bytes
            )


_loaded: dict[tuple, Kernel] = {}
_loading = threading.Lock()


def kernel_of(runnable: Runnable, *, device: int = 0) -> Kernel:
    """The runnable's kernel, compiled and loaded. Errors: as `compile` and `load`."""
    compiled = compile(runnable.source, entry=runnable.entry)
    return load(compiled, runnable.dynamic_smem_bytes, device=device)


def load(compiled: Compiled, dynamic_smem_bytes: int = 0, *, device: int = 0) -> Kernel:
    """Load a compiled kernel on a GPU; a second call returns the same one.

    Raises BadInput if a block would take more shared memory than the GPU gives, MachineUnavailable without a
    Hopper GPU.
    """
    key = (compiled.cubin, compiled.symbol, dynamic_smem_bytes, device)
    with _loading:
        if key not in _loaded:
            gpu = hopper(device)
            check_shared_memory(compiled, dynamic_smem_bytes, gpu)
            function = _load_function(compiled, dynamic_smem_bytes, gpu)
            _loaded[key] = Kernel(function, compiled, gpu, dynamic_smem_bytes)
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


def launch_from_host(runnable: Runnable, *, device: int = 0) -> float:
    """Launch once from arrays in host memory, and bring what was written back into them. Returns seconds.

    All GPU memory taken is given back. Raises MachineUnavailable if there is no Hopper GPU or too little
    memory; else as `load`.
    """
    gpu = hopper(device)
    kernel = kernel_of(runnable, device=device)
    import cupy

    seconds = None
    pool = cupy.cuda.MemoryPool()
    with (
        contextlib.suppress(cupy.cuda.memory.OutOfMemoryError),
        cupy.cuda.Device(device),
        cupy.cuda.using_allocator(pool.malloc),
        cuda_errors(f"{runnable.source.stem} failed"),
    ):
        there = on_device(runnable)
        synchronize(gpu)
        start = record_event()
        kernel.start(there)
        seconds = elapsed_ms(start, record_event()) / 1000
        for name, output in runnable.written.items():
            output[...] = there.written[name].get()
    pool.free_all_blocks()
    if seconds is None:
        wanted = sum(one.nbytes for one in runnable.arguments if isinstance(one, np.ndarray))
        raise MachineUnavailable(
            f"{wanted / 1e9:.1f} GB of inputs and outputs do not fit in the {free_memory(gpu) / 1e9:.1f} GB "
            f"free on the {gpu.name}: give a smaller problem (fewer tokens or heads), or free memory."
        )
    return seconds


def on_device(runnable: Runnable) -> Runnable:
    """The same with its NumPy arrays copied to the current GPU, by CuPy."""
    import cupy

    moved = [cupy.asarray(one) if _is_host_array(one) else one for one in runnable.arguments]
    return replace(runnable, arguments=tuple(moved))


def poison(output: Any) -> None:
    """Set every bit of an array on a GPU: NaN in float32 and in bf16."""
    import cupy

    if output.nbytes:
        cupy.cuda.runtime.memset(address_of(output), 0xFF, output.nbytes)


def _is_host_array(argument: Any) -> bool:
    return isinstance(argument, np.ndarray)
