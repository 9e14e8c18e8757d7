"""The CPU machine: builds a kernel with a C++ compiler and runs it, checked and counted.

The same .cu file that NVRTC compiles for a GPU is compiled here against `kernels/emulator/device.h`. A launch
reports every fault with the line that commits it and, if asked, every shared-memory access.
"""

from __future__ import annotations

import ctypes
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from ..compilers.host import build_kernel, build_runtime
from ..ground.errors import BadInput, MachineUnavailable
from ..ground.given import several, shown, text, whole
from ..hardware.limits import MOST_THREADS
from ..sources.includes import kept_while_unchanged
from .emulator_arguments import Buffer, KernelArguments, Parameter, ParameterType
from .emulator_launch import FOUND_BY_THE_CPU, Launch, read_launch, with_lines_of
from .explaining import faults_of
from .faults import Found, read_found
from .launch_limits import check_launch, launch_bound_of, three_sizes
from .source_lines import source_line

_ALL_BLOCKS = 0xFFFFFFFF


class _Config(ctypes.Structure):
    """LaunchConfig of kernels/emulator/runtime.h."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),
        ("seed", ctypes.c_uint32),
        ("os_threads", ctypes.c_uint32),
        ("check", ctypes.c_uint32),
        ("trace", ctypes.c_uint32),
        ("only_block", ctypes.c_uint32),
        ("patience", ctypes.c_uint32),
        ("buffer_count", ctypes.c_uint32),
        ("buffers", ctypes.POINTER(Buffer)),
    )


def build(source: Path, entry: str, *, defines: Sequence[str] = ()) -> Library:
    """A kernel, compiled for this CPU; kept in memory and on disk while neither it nor anything that it
    includes has changed.

    source: a .cu file. entry: the kernel's name with its template arguments, "scale<128>".
    defines: "NAME" or "NAME=VALUE", for the preprocessor. Raises BadInput with the compiler's first error
    line, and MachineUnavailable without a C++ compiler.
    """
    if not isinstance(source, (str, Path)):
        raise BadInput(f"source is {shown(source)}: give the path of a .cu file.")
    text("entry", entry, "the kernel's name, such as 'scale<128>'")
    defines = several("defines", defines, "texts, such as ['SIZE=16']", least=0)
    for one in defines:
        text("a define", one, "a text, such as 'SIZE=16'")
    return _built(Path(source), entry, tuple(defines), build_runtime())


@kept_while_unchanged
def _built(
    source: Path, entry: str, defines: tuple[str, ...], runtime: Path, by_line: bool = False
) -> Library:
    library = build_kernel(source, entry, defines, runtime, by_line)
    line_by_line = None if by_line else partial(_built, source, entry, defines, runtime, True)
    return Library(library, runtime, entry, launch_bound_of(source, entry), line_by_line)


class Library:
    """A compiled kernel, ready to launch."""

    def __init__(
        self,
        path: Path,
        runtime: Path,
        entry: str,
        launch_bound: int | None,
        line_by_line: Callable[[], Library] | None,
    ) -> None:
        self.entry = entry
        self._path, self._launch_bound, self._line_by_line = path, launch_bound, line_by_line
        self._runtime, self._kernel = _load(runtime), _load(path)
        self._kernel.emulator_launch.restype = ctypes.c_void_p
        self._runtime.emulator_operation_names.restype = ctypes.c_char_p
        self._runtime.emulator_result_json.restype = ctypes.c_char_p
        self._runtime.emulator_result_json.argtypes = [ctypes.c_void_p]
        for records in (self._runtime.emulator_result_accesses, self._runtime.emulator_result_events):
            records.restype = ctypes.c_void_p
            records.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)]
        self._runtime.emulator_result_free.argtypes = [ctypes.c_void_p]

    @cached_property
    def parameters(self) -> list[Parameter]:
        """What the kernel takes, in order."""
        count = ctypes.c_uint32()
        self._kernel.emulator_parameters.restype = ctypes.POINTER(ParameterType)
        types = self._kernel.emulator_parameters(ctypes.byref(count))
        return [Parameter(types[i].letter.decode(), types[i].bytes) for i in range(count.value)]

    def launch(
        self,
        args: Sequence[Any],
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        shared_bytes: int,
        *,
        seed: int = 0,
        check: bool = True,
        trace: bool = False,
        threads: int | None = None,
        patience: int = 30,
    ) -> Launch:
        """Run the kernel.

        args: contiguous NumPy arrays for pointers (the kernel may touch these bytes and no others; what it
        writes is in the arrays afterwards), None for a null pointer, numbers. grid, block: up to three
        sizes, x first. shared_bytes: dynamic shared memory of a block. seed: permutes warps and lanes; 0 is
        their natural order. check: look for races, early reads and uninitialised memory (bounds are looked
        at in any case). trace: keep accesses, events and counts. threads: of the operating system, None for
        one per core; nothing that comes out depends on it. patience: seconds for which a thread may compute
        without touching memory or meeting another thread; then its loop is called endless. Raises BadInput
        for arguments that do not fit the kernel, and for a launch that no GPU would accept.
        """
        grid, block = three_sizes("grid", grid), three_sizes("block", block)
        check_launch(grid, block, shared_bytes, self._launch_bound)
        threads = (os.cpu_count() or 1) if threads is None else whole("threads", threads, 1, MOST_THREADS)
        whole("seed", seed, 0, (1 << 32) - 1)
        whole("patience (in seconds)", patience, 1, 86_400)

        def run(only_block: int, trace: bool) -> tuple[Launch, list[Found], KernelArguments]:
            arguments = KernelArguments(self.entry, self.parameters, args)
            config = _Config(
                grid=(ctypes.c_uint32 * 3)(*grid),
                block=(ctypes.c_uint32 * 3)(*block),
                shared_bytes=shared_bytes,
                seed=seed,
                os_threads=threads,
                check=check,
                trace=trace,
                only_block=only_block,
                patience=patience,
                buffer_count=len(arguments.buffers),
                buffers=(Buffer * len(arguments.buffers))(*arguments.buffers),
            )
            return *self._run(arguments, config), arguments

        launch, found, arguments = run(_ALL_BLOCKS, trace)
        launch = replace(launch, faults=faults_of(found, lambda number: run(number, True)[0]))
        if self._line_by_line and any(fault.kind in FOUND_BY_THE_CPU for fault in launch.faults):
            # Optimised code says only about where. The arrays are still as they were before.
            again = self._line_by_line().launch(args, grid, block, shared_bytes, seed=seed, check=False)
            launch = with_lines_of(launch, again)
        arguments.copy_back()
        return launch

    def _run(self, arguments: KernelArguments, config: _Config) -> tuple[Launch, list[Found]]:
        """A launch, and what is wrong with it, not yet put together."""
        start = time.perf_counter()
        result = ctypes.c_void_p(self._kernel.emulator_launch(arguments.pointers, ctypes.byref(config)))
        seconds = time.perf_counter() - start

        def records(read: Any) -> bytes:
            count = ctypes.c_uint64()
            start = read(result, ctypes.byref(count))
            return ctypes.string_at(start, count.value) if count.value else b""

        try:
            found = json.loads(self._runtime.emulator_result_json(result).decode())
            operations = self._runtime.emulator_operation_names().decode().split()
            accesses = records(self._runtime.emulator_result_accesses)
            events = records(self._runtime.emulator_result_events)
        finally:
            self._runtime.emulator_result_free(result)
        launch = read_launch(found, operations, accesses, events, seconds)
        return launch, read_found(
            found["faults"], operations, lambda instruction: source_line(self._path, instruction)
        )


def _load(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        if os.statvfs(path.parent).f_flag & os.ST_NOEXEC:
            cure = "set KDA_LEARN_CACHE to a folder from which programs may run"
        else:
            cure = f"delete {path.parent}, and if that does not help, see `kda-learn doctor`"
        raise MachineUnavailable(f"{path} cannot be loaded ({error}): {cure}.") from None
