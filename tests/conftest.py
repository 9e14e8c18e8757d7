"""What all tests share: those marked `gpu` are skipped where no Hopper GPU can be used.

Compiled kernels are kept in the user's cache folder from run to run; KDA_LEARN_CACHE names another one.
"""

from functools import cache

import pytest


@cache
def reason_without_gpu() -> str:
    """Why no Hopper GPU can be used here; empty if one can."""
    from kda_learn.device import hopper
    from kda_learn.errors import MachineUnavailable

    try:
        hopper()
    except MachineUnavailable as error:
        return str(error)
    return ""


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and reason_without_gpu():
        pytest.skip(reason_without_gpu())
