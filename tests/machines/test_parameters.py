"""What the CUDA driver finds behind the table that a launch hands it."""

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

from kda_learn.machines.parameters import Parameters, address_of


def behind(parameters: Parameters, count: int, sizes: list[int]) -> list[bytes]:
    """The bytes that each entry of the table points at."""
    table = (ctypes.c_void_p * count).from_address(parameters.address)
    return [ctypes.string_at(table[i], sizes[i]) for i in range(count)]


class OnGpu:
    """An array as CuPy's looks."""

    def __init__(self, address: int) -> None:
        self.data = SimpleNamespace(ptr=address)


@pytest.mark.parametrize("seed", range(20))
def test_each_entry_points_at_its_value(seed):
    random = np.random.default_rng(seed)
    makers = [
        lambda: np.float32(random.standard_normal()),
        lambda: np.int32(random.integers(-(2**31), 2**31)),
        lambda: np.uint64(random.integers(2**63)),
        lambda: np.int64(random.integers(-(2**62), 2**62)),
        lambda: np.uint16(random.integers(2**16)),
        lambda: np.float64(random.standard_normal()),
        lambda: np.bool_(random.integers(2)),
        lambda: None,
        lambda: OnGpu(int(random.integers(2**48))),
    ]
    given = [makers[random.integers(len(makers))]() for _ in range(random.integers(1, 17))]
    wanted = [a.tobytes() if isinstance(a, np.generic) else np.uint64(address_of(a)).tobytes() for a in given]
    parameters = Parameters(given)
    assert behind(parameters, len(given), [len(value) for value in wanted]) == wanted


def test_addresses():
    torch = pytest.importorskip("torch")
    tensor = torch.ones(3)
    assert address_of(tensor) == tensor.data_ptr()
    assert address_of(None) == 0
    assert address_of(OnGpu(1 << 40)) == 1 << 40
