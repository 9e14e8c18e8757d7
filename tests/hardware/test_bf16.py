"""bf16 in NumPy against torch's bfloat16, against the definition in exact fractions, and bit by bit."""

import struct
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kda_learn.ground.errors import BadInput
from kda_learn.hardware.bf16 import from_bf16, round_to, to_bf16


def torch_bits(values: np.ndarray) -> np.ndarray:
    return torch.from_numpy(values).bfloat16().view(torch.uint16).numpy()


def test_rounds_as_torch_does_for_bits_of_every_kind():
    bits = np.random.default_rng(0).integers(0, 2**32, 200_000, dtype=np.uint64).astype(np.uint32)
    values = bits.view(np.float32)
    values = values[~np.isnan(values)]
    np.testing.assert_array_equal(to_bf16(values), torch_bits(values))


def number(bits: int) -> Fraction:
    """The number that bf16 bits stand for, without its sign; past the largest the next would be 2^128."""
    if bits == 0x7F80:
        return Fraction(2) ** 128
    (value,) = struct.unpack(">f", struct.pack(">HH", bits, 0))
    return Fraction(value)


@given(st.integers(0, 0x7F7F_FFFF), st.booleans())
def test_the_nearest_number_is_taken_and_of_two_the_even_one(bits, is_negative):
    below, above = bits >> 16, (bits >> 16) + 1
    (single,) = struct.unpack(">f", struct.pack(">I", bits))
    down, up = Fraction(single) - number(below), number(above) - Fraction(single)
    wanted = min((down, below % 2, below), (up, above % 2, above))[2]
    sign = 0x8000 if is_negative else 0
    assert to_bf16(np.array([-single if is_negative else single])).tolist() == [wanted | sign]


ROUNDINGS = {  # float32 -> bf16, bit by bit
    "a tie goes down to even": (0x3F80_8000, 0x3F80),
    "a tie goes up to even": (0x3F81_8000, 0x3F82),
    "just below a tie": (0x3F81_7FFF, 0x3F81),
    "just above a tie": (0x3F80_8001, 0x3F81),
    "a negative tie goes down to even": (0xBF80_8000, 0xBF80),
    "a negative tie goes up to even": (0xBF81_8000, 0xBF82),
    "the carry reaches the exponent": (0x3FFF_8000, 0x4000),
    "nearly the next power of two": (0x3FFF_FFFF, 0x4000),
    "the largest number that does not overflow": (0x7F7F_7FFF, 0x7F7F),
    "overflow to infinity by a tie": (0x7F7F_8000, 0x7F80),
    "overflow of the largest float32": (0x7F7F_FFFF, 0x7F80),
    "overflow to minus infinity": (0xFF7F_FFFF, 0xFF80),
    "infinity": (0x7F80_0000, 0x7F80),
    "minus infinity": (0xFF80_0000, 0xFF80),
    "zero": (0x0000_0000, 0x0000),
    "negative zero": (0x8000_0000, 0x8000),
    "the smallest subnormal is nothing": (0x0000_0001, 0x0000),
    "and keeps its sign": (0x8000_0001, 0x8000),
    "a subnormal tie goes down to even": (0x0000_8000, 0x0000),
    "a subnormal just above a tie": (0x0000_8001, 0x0001),
    "a subnormal tie goes up to even": (0x0001_8000, 0x0002),
    "the largest subnormal becomes normal": (0x007F_FFFF, 0x0080),
}


@pytest.mark.parametrize(("single", "wanted"), ROUNDINGS.values(), ids=ROUNDINGS.keys())
def test_rounding_bit_by_bit(single, wanted):
    assert to_bf16(np.array([single], np.uint32).view(np.float32)).tolist() == [wanted]


def test_float64_is_rounded_to_float32_first():
    """2^-40 above a tie: rounded at once it would go up. In float32 it is the tie, which goes to even."""
    value = 1 + 2.0**-8
    assert to_bf16(np.array([value + 2.0**-40])).tolist() == to_bf16(np.array([value])).tolist() == [0x3F80]


def test_any_shape_of_numbers_becomes_bits_of_that_shape():
    for values in (np.ones((2, 3)), np.float32(1), 1.0, [[1.0], [1.0]]):
        bits = to_bf16(values)
        assert bits.dtype == np.uint16
        assert bits.shape == np.shape(values)
        assert from_bf16(bits).dtype == np.float32
        np.testing.assert_array_equal(from_bf16(bits), values)


def test_bits_that_are_no_16_bits_are_refused():
    with pytest.raises(BadInput, match="bits is 81792: give whole numbers from 0 to 65535"):
        from_bf16([0x1_3F80])


def test_all_bf16_numbers_survive_the_round_trip():
    bits = np.arange(2**16, dtype=np.uint16)
    values = from_bf16(bits)
    numbers = ~np.isnan(values)
    np.testing.assert_array_equal(to_bf16(values)[numbers], bits[numbers])


@given(st.integers(1, 0x7F_FFFF), st.booleans())
def test_every_nan_becomes_the_one_that_the_gpu_writes(payload, is_negative):
    """cvt.rn.bf16 drops payload and sign; rounding would make infinities and zeros of some NaNs."""
    nan = np.array([0x7F80_0000 | payload | (0x8000_0000 if is_negative else 0)], np.uint32).view(np.float32)
    assert to_bf16(nan).tolist() == [0x7FFF]
    assert np.isnan(from_bf16(to_bf16(nan))).all()


def test_nans_at_the_ends():
    nans = np.array([0x7F80_0001, 0x7FFF_FFFF, 0xFF80_0001, 0xFFFF_FFFF], np.uint32).view(np.float32)
    assert to_bf16(nans).tolist() == [0x7FFF] * 4


def test_round_to():
    values = np.array([1.0 + 2.0**-40, 1.0 + 2.0**-20])
    np.testing.assert_array_equal(round_to(values, "float64"), values)
    np.testing.assert_array_equal(round_to(values, "float32"), [1.0, 1.0 + 2.0**-20])
    np.testing.assert_array_equal(round_to(values, "bfloat16"), [1.0, 1.0])
    for number_format in ("float64", "float32", "bfloat16"):
        assert round_to(values, number_format).dtype == np.float64


def test_unknown_format():
    with pytest.raises(BadInput, match="'fp8' is unknown: give one of float64, float32, bfloat16"):
        round_to(np.ones(1), "fp8")
