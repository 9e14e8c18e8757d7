"""A kernel's arguments in memory, as the CUDA driver takes them."""

import ctypes
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np

_NUMBERS = {np.dtype(kind): kind for kind in "bBhHiIqQefd?"}
_POINTER = "Q"


class Parameters:
    """Arguments laid out as the driver takes them: the value of each, behind a table of where each lies.

    An array becomes its address on the GPU, None the address 0, a NumPy scalar itself.
    """

    def __init__(self, arguments: Sequence[Any]) -> None:
        layout, values, places = _layout(tuple(map(type, arguments)))
        self._memory = ctypes.create_string_buffer(layout.size)
        self.address = ctypes.addressof(self._memory)
        table = [self.address + place for place in places]
        layout.pack_into(
            self._memory,
            0,
            *table,
            *[value(argument) for value, argument in zip(values, arguments, strict=True)],
        )


@lru_cache
def _layout(kinds: tuple[type, ...]) -> tuple[struct.Struct, list[Callable[[Any], Any]], list[int]]:
    """For arguments of these types: the memory's layout, what makes each one's value, and where it lies."""
    numbers = [np.dtype(kind) if issubclass(kind, np.generic) else None for kind in kinds]
    letters = [_POINTER if number is None else _NUMBERS[number] for number in numbers]
    values = [
        _address_in(kind) if number is None else kind for kind, number in zip(kinds, numbers, strict=True)
    ]
    sizes = [struct.calcsize(f"={letter}") for letter in [_POINTER] * len(kinds) + letters]
    places = list(accumulate(sizes, initial=0))[len(kinds) : -1]
    return struct.Struct(f"={_POINTER * len(kinds)}{''.join(letters)}"), values, places


def _address_in(kind: type) -> Callable[[Any], int]:
    """How to find the address of an array of this type: CuPy's or PyTorch's, or None."""
    if kind is type(None):
        return lambda none: 0
    return kind.data_ptr if hasattr(kind, "data_ptr") else lambda array: array.data.ptr


def address_of(array: Any) -> int:
    """Where an array of CuPy or PyTorch lies on the GPU; 0 for None."""
    return _address_in(type(array))(array)
