"""Computers for the tests of reproduce: with a pretended GPU, and without any."""

import pytest
from pretended_reproduction import H20, Pretended

from kda_learn.ground.errors import MachineUnavailable
from kda_learn.reports import reproduce as reproduce_module


@pytest.fixture
def machine(monkeypatch):
    """A Hopper GPU, pretended."""
    pretended = Pretended()
    monkeypatch.setattr(reproduce_module, "hopper", lambda: H20)
    pretended.stand_in(monkeypatch)
    return pretended


@pytest.fixture
def no_gpu(machine, monkeypatch):
    """No GPU of any kind; what runs all the same is counted in `machine`."""
    monkeypatch.setattr(reproduce_module, "hopper", missing)
    monkeypatch.setattr(reproduce_module, "describe", missing)


def missing():
    raise MachineUnavailable("No GPU can be used, the NVIDIA driver does not answer.")
