"""Without a home folder that can be written: what works, works; what does not names the variable to set."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from paths import REPOSITORY

from kda_learn.ground.errors import MachineUnavailable
from kda_learn.lessons import progress
from kda_learn.setup.doctor import doctor

PYTHON = "/usr/bin/python3"  # another user may not reach the virtual environment's own
NOBODY = 12345


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that anybody may write to; pytest's own are shut."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o777)
        yield Path(made)


def as_nobody(folder: Path, *verb: str, **environment: str) -> subprocess.CompletedProcess:
    """A verb as a user without an entry in passwd, and without HOME unless it is given."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become another user")
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    found = subprocess.run([PYTHON, "--version"], capture_output=True, text=True, check=False).stdout
    if f" {version}." not in found:
        pytest.skip(f"{PYTHON} is not Python {version}")
    packages = [REPOSITORY, *(path for path in sys.path if path.endswith("site-packages"))]
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    plain = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": ":".join(map(str, packages)),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run(
        [*user, PYTHON, "-m", "kda_learn", *verb],
        capture_output=True,
        text=True,
        cwd=folder,
        env=plain | environment,
        check=False,
    )


def test_a_home_that_cannot_be_written_needs_a_cache_elsewhere(folder):
    cache = str(folder / "cache")
    for verb in (["check", "s12"], ["stages"], ["doctor"]):
        if verb == ["stages"]:
            pytest.importorskip("cupy")
        run = as_nobody(folder, *verb, HOME="/nonexistent", KDA_LEARN_CACHE=cache)
        assert (run.returncode, run.stderr) == (0, "")
    assert (folder / "cache" / "cupy").is_dir()


@pytest.mark.parametrize(
    "environment",
    [{}, {"HOME": "/nonexistent"}, {"XDG_CACHE_HOME": "/nonexistent"}, {"KDA_LEARN_CACHE": "/nonexistent"}],
)
@pytest.mark.parametrize("verb", ["check", "stages", "doctor"])
def test_the_sentence_names_the_variable(folder, environment, verb):
    if verb == "stages":
        pytest.importorskip("cupy")
    run = as_nobody(folder, verb, *["s12"] * (verb == "check"), **environment)
    said = run.stdout if verb == "doctor" else run.stderr
    assert run.returncode == (0 if verb == "doctor" else 2)
    assert "KDA_LEARN_CACHE" in said and "NVRTC is missing" not in said
    assert verb == "doctor" or said.count("\n") == 1
    assert not (folder / "~").exists()


def test_what_needs_no_cache_works_without_one(folder):
    for verb in (["ladder"], ["diff", "s12"], ["split-v"]):
        run = as_nobody(folder, *verb)
        assert (run.returncode, run.stderr) == (0, "")


def test_doctor_looks_at_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("KDA_LEARN_CACHE", str(tmp_path))
    assert doctor().item("cache").status == "ok"
    monkeypatch.setenv("KDA_LEARN_CACHE", str(Path(__file__) / "cache"))
    found = doctor().item("cache")
    assert found.status == "missing" and found.advice.startswith("Set KDA_LEARN_CACHE to a folder")


def test_a_readers_progress_names_its_own_variable(monkeypatch):
    def no_home() -> Path:
        raise RuntimeError("no home")

    for name in ("XDG_DATA_HOME", progress.VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(MachineUnavailable, match=f"no home folder .*: set {progress.VARIABLE} to a file"):
        progress.load()
