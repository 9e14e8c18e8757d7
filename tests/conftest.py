"""What all tests share: those marked `gpu` are skipped where no Hopper GPU can be used.

Compiled kernels are kept in the user's cache folder from run to run; KDA_LEARN_CACHE names another one.
"""

from functools import cache

import pytest


@cache
def reason_without_gpu() -> str:
    """Why no Hopper GPU can be used here; empty if one can."""
    from kda_learn.ground.errors import MachineUnavailable
    from kda_learn.machines.device import hopper

    try:
        hopper()
    except MachineUnavailable as error:
        return str(error)
    return ""


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and reason_without_gpu():
        pytest.skip(reason_without_gpu())
