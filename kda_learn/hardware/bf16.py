"""bfloat16 in NumPy, which has no such type: 16 bits kept in a uint16, the upper half of a float32.

A bf16 number has the sign, the 8 exponent bits and the first 7 fraction bits of a float32. Reading one back
is a shift; writing one rounds to nearest, ties to even, as the GPU's cvt.rn.bf16 instruction does.
"""

import numpy as np

from ..ground.errors import BadInput
from ..ground.given import shown
from .given import whole_numbers

FORMATS = ("float64", "float32", "bfloat16")
_QUIET_NAN = np.uint32(0x7FFF)  # what the GPU writes for every NaN


def to_bf16(values: np.ndarray) -> np.ndarray:
    """Round numbers to bf16. Any shape, any float type; returns the bits as uint16 of the same shape.

    float64 passes through float32 first, as a kernel's float32 accumulator does.
    """
    try:
        single = np.asarray(values, dtype=np.float32)
        is_number = np.asarray(values).dtype.kind in "fiu"
    except (TypeError, ValueError):
        is_number = False
    if not is_number:
        raise BadInput(f"values is {shown(values)}: give an array of numbers.")
    bits = single.view(np.uint32)
    # Adding one less than half of the last kept place, plus that place's own bit, carries into it exactly
    # when the value must be rounded up; the own bit makes ties go to even.
    last_kept_bit = (bits >> 16) & np.uint32(1)
    rounded = (bits + np.uint32(0x7FFF) + last_kept_bit) >> 16
    # The carry would turn some NaNs into infinities or zeros.
    return np.where(np.isnan(single), _QUIET_NAN, rounded).astype(np.uint16)


def from_bf16(bits: np.ndarray) -> np.ndarray:
    """Read bf16 bits (uint16, any shape) as float32; exact."""
    return (whole_numbers("bits", bits, 0, 0xFFFF).astype(np.uint32) << 16).view(np.float32)


def round_to(values: np.ndarray, number_format: str) -> np.ndarray:
    """The nearest numbers that `number_format` ("float64", "float32", "bfloat16") can hold, as float64.

    Raises BadInput for any other format.
    """
    if number_format == "float64":
        return values
    if number_format == "float32":
        return values.astype(np.float32).astype(np.float64)
    if number_format == "bfloat16":
        return from_bf16(to_bf16(values)).astype(np.float64)
    raise BadInput(f"Number format {number_format!r} is unknown: give one of {', '.join(FORMATS)}.")
