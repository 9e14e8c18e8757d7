"""What all tests share: those marked `gpu` are skipped where no Hopper GPU can be used, those marked `slow`
unless `-m slow` asks for them; the built site.

Compiled kernels are kept in the user's cache folder from run to run; KDA_LEARN_CACHE names another one.
"""

import importlib.util
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from node import missing
from paths import REPOSITORY
from site_pages import Page, read_pages

pytest_plugins = ["parts", "workers"]

BUILD_SECONDS = 600  # where others use the processor too; on two free cores it takes less than 180


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
    if item.get_closest_marker("slow") and "slow" not in item.config.option.markexpr:
        pytest.skip("it takes minutes: -m slow")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site."""
    if importlib.util.find_spec("material") is None:
        missing("MkDocs is not installed: pip install -e '.[site]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    run = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS
    )
    assert run.returncode == 0, run.stderr
    return folder


@pytest.fixture(scope="session")
def site_pages(site: Path) -> dict[str, Page]:
    """Its pages, by their address."""
    return read_pages(site)
