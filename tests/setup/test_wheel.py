"""The package as a wheel, away from the checkout: it carries the kernels, the records and the notebooks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from paths import NOTEBOOKS, REPOSITORY

from kda_learn.sources.stages import STAGES

pytest.importorskip("hatchling", reason="hatchling is not installed: pip install -e '.[test]'")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the package as pip installs it from a wheel, and nothing else."""
    wheels, folder = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(REPOSITORY)]
    subprocess.run(build, cwd=wheels, check=True)
    (wheel,) = wheels.glob("kda_learn-*.whl")
    subprocess.run(
        [*pip, "install", "--no-deps", "--no-index", "--target", str(folder), str(wheel)], check=True
    )
    return folder


def python(installed: Path, cwd: Path, *arguments: str) -> str:
    """What this Python prints when it finds the package there; it must end well."""
    environment = os.environ | {"PYTHONPATH": str(installed), "KDA_LEARN_MACHINE": "emulator"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_the_wheels_package_that_is_tested(installed: Path, tmp_path: Path):
    found = python(installed, tmp_path, "-c", "import kda_learn; print(kda_learn.__file__)")
    assert Path(found.strip()) == installed / "kda_learn" / "__init__.py"


def test_the_wheel_says_what_this_computer_can_do(installed: Path, tmp_path: Path):
    assert "CPU machine" in python(installed, tmp_path, "-m", "kda_learn", "doctor")


def test_the_wheel_knows_the_stages_and_their_records(installed: Path, tmp_path: Path):
    found = json.loads(python(installed, tmp_path, "-m", "kda_learn", "stages", "--json"))["rows"]
    assert [row["id"] for row in found] == [rung.id for rung in STAGES]
    assert "H200" in python(installed, tmp_path, "-m", "kda_learn", "ladder", "--stages", "s02")


def test_the_wheel_checks_a_stage(installed: Path, tmp_path: Path):
    assert "passed" in python(installed, tmp_path, "-m", "kda_learn", "check", "s12")


def test_the_wheel_opens_the_notebooks(installed: Path, tmp_path: Path):
    pytest.importorskip("nbclient", reason="nbclient is not installed: pip install -e '.[test]'")
    work = tmp_path / "work"
    text = python(installed, tmp_path, "-m", "kda_learn.setup.learn", "--no-lab")
    assert "Passed." in text
    copied = {path.relative_to(work) for path in work.rglob("*.ipynb")}
    assert copied == {path.relative_to(NOTEBOOKS) for path in NOTEBOOKS.rglob("*.ipynb")}
    start = work / "1-foundations" / "00_start_here.ipynb"
    program = (
        "import nbclient, nbformat, sys; "
        "book = nbformat.read(sys.argv[1], 4); nbclient.NotebookClient(book, timeout=300).execute()"
    )
    python(installed, tmp_path, "-c", program, str(start))
