"""The CPU machine: builds a kernel with a C++ compiler and runs it, checked and counted. See kernels/emulator/.

The same .cu file that NVRTC compiles for a GPU is compiled here against `kernels/emulator/device.h`. A launch
reports every fault with the line that commits it, and, if asked, every shared-memory access.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .errors import BadInput
from .host_compiler import build_kernel, build_runtime, compiler

__all__ = ["ACCESS", "Fault", "Launch", "Library", "Traffic", "build", "compiler"]

LANES = 32
MAX_THREADS = 1024
MAX_SHARED_BYTES = 232_448  # what one block may have on sm_90
GUARD_BYTES = 1 << 20  # between two buffers: an access past the end of one must not fall into the next

ACCESS = np.dtype(
    [
        ("line", "u4"),
        ("file", "u1"),
        ("op", "u1"),
        ("bytes", "u1"),
        ("warp", "u1"),
        ("block", "u4"),
        ("order", "u4"),
        ("mask", "u4"),
        ("address", "i4", LANES),
    ]
)
"""One warp instruction on shared memory. `file` and `op` number `Launch.files` and `Launch.operations`; `bytes`
is what one lane moves (of ldmatrix and stmatrix a row of a matrix, 16); `block` counts x first, then y, then z;
`order` counts within a block; `address` is in bytes from the start of dynamic shared memory, -1 for lanes outside
of `mask`."""


@dataclass(frozen=True)
class Fault:
    """What a kernel does wrong at one line, found by the emulator.

    kind is one of "race" (between warps), "race within a warp", "uninitialised read", "copy not waited for",
    "copy never waited for", "out of bounds", "misaligned", "divergent warp", "partial mask", "different
    barriers", "deadlock", "mbarrier misused", "missing fence", "stack overflow", "crash", "too long".
    message says which thread, which address and what would help, for the first time that it happened.
    """

    kind: str
    message: str
    file: str  # empty if the kernel never reached a traced operation
    line: int
    count: int  # how often

    def __str__(self) -> str:
        again = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.kind}: {self.message}{again}"


class Traffic(NamedTuple):
    """Global memory moved by one line: bytes asked for, and 32-byte sectors touched by each warp, added up."""

    bytes: int
    sectors: int


@dataclass(frozen=True)
class Launch:
    """What a launch found. All but `faults` and `seconds` is empty unless it was traced."""

    faults: list[Fault]
    files: list[str]  # full paths, which `accesses["file"]` numbers
    operations: list[str]  # names, which `accesses["op"]` numbers
    accesses: NDArray[Any]  # of dtype ACCESS, ordered by block, then by `order`
    counts: dict[tuple[str, int, str], int]  # warp instructions by (file, line, operation)
    traffic: dict[tuple[str, int, str], Traffic]  # the same for what moves global memory
    seconds: float


class _Buffer(ctypes.Structure):
    _fields_ = (("start", ctypes.c_void_p), ("bytes", ctypes.c_uint64), ("argument", ctypes.c_uint32))


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
        ("buffer_count", ctypes.c_uint32),
        ("buffers", ctypes.POINTER(_Buffer)),
    )


class _ParameterType(ctypes.Structure):
    _fields_ = (("letter", ctypes.c_char), ("bytes", ctypes.c_uint8))


def build(source: Path, entry: str, *, defines: Sequence[str] = ()) -> Library:
    """A kernel, compiled for this CPU; from the cache if neither it nor anything that it includes has changed.

    source: a .cu file. entry: the kernel's name with its template arguments, such as "kernel_a<1, false, float>".
    defines: "NAME" or "NAME=VALUE" for the preprocessor. Raises BadInput with the compiler's first error line,
    MachineUnavailable without a C++ compiler.
    """
    runtime = build_runtime()
    return Library(build_kernel(Path(source), entry, tuple(defines), runtime), runtime, entry)


class Library:
    """A compiled kernel, ready to launch."""

    def __init__(self, path: Path, runtime: Path, entry: str) -> None:
        self.entry = entry
        self._runtime = ctypes.CDLL(str(runtime))
        self._kernel = ctypes.CDLL(str(path))
        self._kernel.emulator_launch.restype = ctypes.c_void_p
        self._runtime.emulator_operation_names.restype = ctypes.c_char_p
        self._runtime.emulator_result_json.restype = ctypes.c_char_p
        self._runtime.emulator_result_json.argtypes = [ctypes.c_void_p]
        self._runtime.emulator_result_accesses.restype = ctypes.c_void_p
        self._runtime.emulator_result_accesses.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)]
        self._runtime.emulator_result_free.argtypes = [ctypes.c_void_p]

    @cached_property
    def parameters(self) -> list[str]:
        """What the kernel takes: "p4" for a pointer to 4-byte elements, "c" to constant ones, "i", "u", "f"."""
        count = ctypes.c_uint32()
        self._kernel.emulator_parameters.restype = ctypes.POINTER(_ParameterType)
        types = self._kernel.emulator_parameters(ctypes.byref(count))
        return [f"{types[i].letter.decode()}{types[i].bytes}" for i in range(count.value)]

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
    ) -> Launch:
        """Run the kernel.

        args: contiguous NumPy arrays for pointers (the kernel may touch these bytes and no others; what it writes
        is in the arrays afterwards), None for a null pointer, numbers. grid, block: up to three sizes, x first.
        shared_bytes: dynamic shared memory of a block. seed: permutes warps and lanes; 0 is their natural order.
        check: look for races, early reads and uninitialised memory (bounds are always looked at). trace: keep
        accesses and counts. threads: of the operating system, None for one per core; results do not depend on it.
        Raises BadInput for arguments that do not fit the kernel or a launch that no GPU would accept.
        """
        grid, block = _three_sizes("grid", grid), _three_sizes("block", block)
        _check_launch(grid, block, shared_bytes, seed)
        arguments = _Arguments(self.entry, self.parameters, args)
        config = _Config(
            grid=(ctypes.c_uint32 * 3)(*grid),
            block=(ctypes.c_uint32 * 3)(*block),
            shared_bytes=shared_bytes,
            seed=seed,
            os_threads=threads or os.cpu_count() or 1,
            check=check,
            trace=trace,
            buffer_count=len(arguments.buffers),
            buffers=(_Buffer * len(arguments.buffers))(*arguments.buffers),
        )
        start = time.perf_counter()
        result = ctypes.c_void_p(self._kernel.emulator_launch(arguments.cells, ctypes.byref(config)))
        seconds = time.perf_counter() - start
        try:
            launch = self._read(result, seconds)
        finally:
            self._runtime.emulator_result_free(result)
        arguments.copy_back()
        return launch

    def _read(self, result: ctypes.c_void_p, seconds: float) -> Launch:
        found = json.loads(self._runtime.emulator_result_json(result).decode())
        operations = self._runtime.emulator_operation_names().decode().split()
        counts: dict[tuple[str, int, str], int] = {}
        traffic: dict[tuple[str, int, str], Traffic] = {}
        for file, line, operation, instructions, moved, sectors in found["counts"]:
            key = (file, line, operations[operation])
            counts[key] = counts.get(key, 0) + instructions
            if moved:
                before = traffic.get(key, Traffic(0, 0))
                traffic[key] = Traffic(before.bytes + moved, before.sectors + sectors)
        count = ctypes.c_uint64()
        records = self._runtime.emulator_result_accesses(result, ctypes.byref(count))
        raw = ctypes.string_at(records, count.value * ACCESS.itemsize) if count.value else b""
        return Launch(
            faults=[Fault(*fault) for fault in found["faults"]],
            files=found["files"],
            operations=operations,
            accesses=np.frombuffer(raw, dtype=ACCESS),
            counts=counts,
            traffic=traffic,
            seconds=seconds,
        )


class _Arguments:
    """A launch's arguments as the kernel takes them: arrays in one stretch of memory, far from each other."""

    def __init__(self, entry: str, parameters: list[str], args: Sequence[Any]) -> None:
        if len(args) != len(parameters):
            raise BadInput(f"{entry} takes {len(parameters)} arguments and was given {len(args)}.")
        self.buffers: list[_Buffer] = []
        self._arrays: list[
            tuple[NDArray[Any], NDArray[Any], bool]
        ] = []  # the caller's, the copy, is it written
        arrays = [
            _checked_array(i, p, a)
            for i, (p, a) in enumerate(zip(parameters, args, strict=True))
            if p[0] in "pc"
        ]
        self._memory = mmap.mmap(
            -1, sum(GUARD_BYTES + _rounded(a.nbytes) for a in arrays if a is not None) + GUARD_BYTES
        )
        self._bytes = np.frombuffer(self._memory, dtype=np.uint8)
        self._offset = GUARD_BYTES
        self._placed: dict[tuple[int, int], int] = {}  # the same array given twice is one buffer
        values = iter(arrays)
        cells = [
            ctypes.c_void_p(self._place(i, next(values), parameter[0] == "p"))
            if parameter[0] in "pc"
            else _number(i, parameter, arg)
            for i, (parameter, arg) in enumerate(zip(parameters, args, strict=True))
        ]
        self._cells = cells
        self.cells = (ctypes.c_void_p * len(cells))(*[ctypes.addressof(cell) for cell in cells])

    def _place(self, index: int, array: NDArray[Any] | None, written: bool) -> int | None:
        """Copies an array to the stretch; its address there."""
        if array is None:
            return None
        key = (array.ctypes.data, array.nbytes)
        offset = self._placed.get(key, self._offset)
        copy = self._bytes[offset : offset + array.nbytes]
        if offset == self._offset:
            copy[:] = array.reshape(-1).view(np.uint8)
            self._placed[key] = offset
            self._offset += _rounded(array.nbytes) + GUARD_BYTES
            self.buffers.append(_Buffer(copy.ctypes.data, array.nbytes, index))
        self._arrays.append((array, copy, written))
        return copy.ctypes.data

    def copy_back(self) -> None:
        """What the kernel wrote, back to the caller's arrays."""
        for array, copy, written in self._arrays:
            if written:
                array.reshape(-1).view(np.uint8)[:] = copy


def _rounded(size: int) -> int:
    """Buffers start at multiples of 256 bytes, as on a GPU."""
    return -(-size // 256) * 256


def _three_sizes(name: str, sizes: int | tuple[int, ...]) -> tuple[int, int, int]:
    given = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    if not 1 <= len(given) <= 3 or any(size < 1 for size in given):
        raise BadInput(f"{name} is {sizes}: give one to three sizes of at least 1, such as (2, 1, 4).")
    return (*given, 1, 1)[:3]


def _check_launch(grid: tuple[int, ...], block: tuple[int, ...], shared_bytes: int, seed: int) -> None:
    threads = block[0] * block[1] * block[2]
    if threads % LANES or threads > MAX_THREADS:
        raise BadInput(
            f"block is {block}, {threads} threads: give a multiple of {LANES}, at most {MAX_THREADS} threads."
        )
    if not 0 <= shared_bytes <= MAX_SHARED_BYTES:
        raise BadInput(f"shared_bytes is {shared_bytes}: a block has 0 to {MAX_SHARED_BYTES} bytes on sm_90.")
    if not 0 <= seed < 1 << 32:
        raise BadInput(f"seed is {seed}: give an integer from 0 to {(1 << 32) - 1}.")


def _checked_array(index: int, parameter: str, arg: Any) -> NDArray[Any] | None:
    if arg is None:
        return None
    if not isinstance(arg, np.ndarray):
        raise BadInput(f"argument {index} is a {type(arg).__name__}: the kernel wants a NumPy array or None.")
    wanted = int(parameter[1:])
    if wanted and arg.dtype.itemsize != wanted:
        raise BadInput(
            f"argument {index} is an array of {arg.dtype}: the kernel wants elements of {wanted} bytes."
        )
    if not arg.flags.c_contiguous:
        raise BadInput(f"argument {index} is not contiguous: pass numpy.ascontiguousarray(...) of it.")
    if parameter[0] == "p" and not arg.flags.writeable:
        raise BadInput(f"argument {index} is read-only, but the kernel writes it: pass a copy.")
    return arg


def _number(index: int, parameter: str, arg: Any) -> Any:
    """A number as the C type of its parameter."""
    kind, size = parameter[0], int(parameter[1:])
    dtype = np.dtype(f"{kind}{size}")
    if isinstance(arg, np.ndarray) or not np.isscalar(arg) or isinstance(arg, str):
        raise BadInput(f"argument {index} is {arg!r}: the kernel wants a number ({dtype}).")
    with np.errstate(all="ignore"):
        value = np.asarray(arg).astype(dtype)
    if kind != "f" and value != arg:
        raise BadInput(f"argument {index} is {arg!r}: the kernel wants an integer that fits {dtype}.")
    return (ctypes.c_char * size).from_buffer_copy(value.tobytes())
