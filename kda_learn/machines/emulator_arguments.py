"""The arguments of a launch on the emulator: checked against the kernel's parameters, laid out in memory."""

import ctypes
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ground.errors import BadInput
from ..ground.given import several

ALIGNMENT = 256  # buffers start at multiples of it, as on a GPU
_RESERVED = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
GUARD_BYTES = 1 << 20  # between two buffers: an access past the end of one must not fall into the next


@dataclass(frozen=True)
class Parameter:
    """What a kernel takes in one place."""

    kind: str  # "p" pointer, "c" pointer to constant data, "i" signed, "u" unsigned, "f" floating number
    bytes: int  # of the number, or of an element behind the pointer (0: of any size)

    @property
    def is_pointer(self) -> bool:
        return self.kind in ("p", "c")


class ParameterType(ctypes.Structure):
    """ParameterType of kernels/emulator/entry.h."""

    _fields_ = (("letter", ctypes.c_char), ("bytes", ctypes.c_uint8))


class Buffer(ctypes.Structure):
    """Buffer of kernels/emulator/runtime.h."""

    _fields_ = (
        ("start", ctypes.c_void_p),
        ("home", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("argument", ctypes.c_uint32),
    )


class KernelArguments:
    """Arguments as the kernel takes them. Arrays are copied to one stretch of memory, far from each other.

    A kernel gets addresses of a second stretch, of which nothing can be read or written: like addresses on a
    GPU, which the CPU cannot follow. The operations of gpu.cuh know where the bytes are, and plain C++
    (`in[i]`) is found out. Arrays that overlap in the caller's memory overlap here, too.

    Raises BadInput if there are too few or too many, or one does not fit its parameter.
    """

    def __init__(self, kernel: str, parameters: Sequence[Parameter], args: Sequence[Any]) -> None:
        args = several("args", args, "arrays, numbers and None, one for each parameter", least=0)
        if len(args) != len(parameters):
            raise BadInput(f"{kernel} takes {len(parameters)} arguments and was given {len(args)}: give all.")
        for index, (parameter, arg) in enumerate(zip(parameters, args, strict=True)):
            if parameter.is_pointer:
                _check_array(index, parameter, arg)
        places, size = _places([arg for arg in args if isinstance(arg, np.ndarray)])
        self._homes = np.frombuffer(mmap.mmap(-1, size), dtype=np.uint8)
        self._addresses = np.frombuffer(mmap.mmap(-1, size, flags=_RESERVED, prot=0), dtype=np.uint8)
        self._written: list[tuple[NDArray[Any], NDArray[Any]]] = []  # the caller's array and our copy
        self.buffers: list[Buffer] = []
        self._cells: list[Any] = []
        for index, (parameter, arg) in enumerate(zip(parameters, args, strict=True)):
            if parameter.is_pointer:
                self._cells.append(ctypes.c_void_p(self._place(index, parameter, arg, places)))
            else:
                self._cells.append(_number(index, parameter, arg))
        self.pointers = (ctypes.c_void_p * len(args))(*[ctypes.addressof(cell) for cell in self._cells])

    def _place(
        self, index: int, parameter: Parameter, array: NDArray[Any] | None, places: dict[int, int]
    ) -> int | None:
        """Copies an array to our memory and returns the address that the kernel is given."""
        if array is None:
            self.buffers.append(Buffer(None, None, 0, index))
            return None
        place = places[id(array)]
        copy = self._homes[place : place + array.nbytes]
        copy[:] = array.reshape(-1).view(np.uint8)
        start = self._addresses.ctypes.data + place
        self.buffers.append(Buffer(start, self._homes.ctypes.data + place, array.nbytes, index))
        if parameter.kind == "p":
            self._written.append((array, copy))
        return start

    def copy_back(self) -> None:
        """Brings what the kernel wrote to the caller's arrays."""
        for array, copy in self._written:
            array.reshape(-1).view(np.uint8)[:] = copy


def _places(arrays: Sequence[NDArray[Any]]) -> tuple[dict[int, int], int]:
    """Where each array begins in our memory, by its id, and how long that is.

    Arrays that share bytes keep their distances; all others lie GUARD_BYTES apart.
    """
    places: dict[int, int] = {}
    free = GUARD_BYTES
    first, end = 0, -1  # the caller's addresses of the arrays that overlap so far
    for array in sorted(arrays, key=lambda array: array.ctypes.data):
        address = array.ctypes.data
        if address >= end:
            free += _rounded(max(end - first, 0)) + GUARD_BYTES
            first, end = address, address
        places[id(array)] = free + address - first
        end = max(end, address + array.nbytes)
    return places, free + _rounded(max(end - first, 0)) + GUARD_BYTES


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _check_array(index: int, parameter: Parameter, arg: Any) -> None:
    if arg is None:
        return
    if not isinstance(arg, np.ndarray):
        raise BadInput(f"argument {index} is a {type(arg).__name__}: give a NumPy array, or None for null.")
    if parameter.bytes and arg.dtype.itemsize != parameter.bytes:
        raise BadInput(
            f"argument {index} is an array of {arg.dtype}: "
            f"the kernel wants elements of {parameter.bytes} bytes."
        )
    if not arg.flags.c_contiguous:
        raise BadInput(f"argument {index} is not contiguous: give numpy.ascontiguousarray(...) of it.")
    if parameter.kind == "p" and not arg.flags.writeable:
        raise BadInput(f"argument {index} is read-only, but the kernel may write it: give a copy.")


def _number(index: int, parameter: Parameter, arg: Any) -> Any:
    """A number as the C type of its parameter."""
    dtype = np.dtype(f"{parameter.kind}{parameter.bytes}")
    if isinstance(arg, (str, bytes)) or not np.isscalar(arg):
        raise BadInput(f"argument {index} is {arg!r}: give a number that fits {dtype}.")
    with np.errstate(all="ignore"):
        value = np.asarray(arg).astype(dtype)
    if parameter.kind != "f" and value != arg:
        raise BadInput(f"argument {index} is {arg!r}: give an integer that fits {dtype}.")
    return (ctypes.c_char * parameter.bytes).from_buffer_copy(value.tobytes())
