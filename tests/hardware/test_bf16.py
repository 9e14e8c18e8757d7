"""bf16 in NumPy against torch's bfloat16."""

import numpy as np
import pytest
import torch

from kda_learn.ground.errors import BadInput
from kda_learn.hardware.bf16 import from_bf16, round_to, to_bf16


def torch_bits(values: np.ndarray) -> np.ndarray:
    return torch.from_numpy(values).bfloat16().view(torch.uint16).numpy()


def test_rounds_as_torch_does_for_bits_of_every_kind():
    bits = np.random.default_rng(0).integers(0, 2**32, 200_000, dtype=np.uint64).astype(np.uint32)
    values = bits.view(np.float32)
    values = values[~np.isnan(values)]
    np.testing.assert_array_equal(to_bf16(values), torch_bits(values))


def test_ties_go_to_even():
    between = np.array([0x3F808000, 0x3F818000], np.uint32).view(np.float32)
    np.testing.assert_array_equal(to_bf16(between), [0x3F80, 0x3F82])


def test_all_bf16_numbers_survive_the_round_trip():
    bits = np.arange(2**16, dtype=np.uint16)
    values = from_bf16(bits)
    numbers = ~np.isnan(values)
    np.testing.assert_array_equal(to_bf16(values)[numbers], bits[numbers])


def test_every_nan_stays_a_nan():
    nans = np.array([0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001, 0x7FC00000], np.uint32).view(np.float32)
    assert np.isnan(from_bf16(to_bf16(nans))).all()


def test_round_to():
    values = np.array([1.0 + 2.0**-40, 1.0 + 2.0**-20])
    np.testing.assert_array_equal(round_to(values, "float64"), values)
    np.testing.assert_array_equal(round_to(values, "float32"), [1.0, 1.0 + 2.0**-20])
    np.testing.assert_array_equal(round_to(values, "bfloat16"), [1.0, 1.0])


def test_unknown_format():
    with pytest.raises(BadInput, match="'fp8' is unknown: give one of float64, float32, bfloat16"):
        round_to(np.ones(1), "fp8")
