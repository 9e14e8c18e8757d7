"""Every mistake that is planted into the CPU machine is found by as many random kernels as CI judges."""

import pytest

from oracle.planted import PLANTS, planted, table


@pytest.mark.parametrize("name", PLANTS)
def test_its_place_is_there(name):
    with planted(PLANTS[name]):
        pass


@pytest.mark.slow
def test_every_mistake_is_found():
    counts = table()
    assert set(counts) == set(PLANTS)
    assert not [name for name, count in counts.items() if not count]
