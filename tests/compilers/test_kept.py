"""What lies in the cache is looked at before it is loaded: whatever is wrong with it, it is built anew."""

import os
import secrets
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kda_learn.compilers import host
from kda_learn.compilers.kept import is_whole, keep
from kda_learn.ground.errors import MachineUnavailable
from kda_learn.machines import emulator

KERNEL = '#include "gpu.cuh"\n__global__ void k(u32* x) { stg(x, 42u); }\n'
RUN = (
    "import sys, numpy; from pathlib import Path; from kda_learn.machines import emulator;"
    "x = numpy.zeros(1, numpy.uint32);"
    "emulator.build(Path(sys.argv[1]), 'k').launch([x], 1, 32, 0); print(x[0])"
)


@pytest.fixture
def source(tmp_path, monkeypatch) -> Path:
    """A kernel, and a cache of its own that holds it and the runtime."""
    runtime = host.build_runtime()
    monkeypatch.setenv("KDA_LEARN_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "cache" / "emulator"
    folder.mkdir(parents=True)
    for part in (runtime, runtime.with_suffix(".sha256")):
        shutil.copy(part, folder)
    path = tmp_path / "k.cu"
    path.write_text(KERNEL)
    assert answer(path) == "42"
    return path


def answer(source: Path, program: str = RUN) -> str:
    """What a process of its own gets, or what it says."""
    command = [sys.executable, "-c", program, str(source)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return run.stdout.strip() if run.returncode == 0 else f"{run.returncode} {run.stderr}"


def kept(source: Path) -> list[Path]:
    return sorted((source.parent / "cache" / "emulator").iterdir())


def shorten(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 3)


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[secrets.randbelow(len(content))] ^= 1 << secrets.randbelow(8)
    path.write_bytes(content)


def put_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "something").touch()


def link_to_nothing(path: Path) -> None:
    path.unlink()
    path.symlink_to("nothing")


DAMAGES = {
    "short": shorten,
    "empty": lambda path: os.truncate(path, 0),
    "a text": lambda path: path.write_text("not a library\n"),
    "one bit": flip_a_bit,
    "a folder": put_a_folder,
    "unreadable": lambda path: path.chmod(0),
    "a dead link": link_to_nothing,
    "deleted": lambda path: path.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_built_anew(source, damage):
    kernel = next(path for path in kept(source) if path.name.startswith("k-") and path.suffix == ".so")
    damage(kernel)
    assert answer(source) == "42"
    kernel.with_suffix(".sha256").write_text("0" * 64)
    assert answer(source) == "42"
    damage(kernel.with_suffix(".sha256"))
    assert answer(source) == "42"
    assert is_whole(kernel)


def test_all_of_them_at_once(source):
    for path in kept(source):
        shorten(path)
    assert answer(source) == "42"


def test_deleted_while_it_runs(source):
    changes = (
        "import shutil, os; shutil.rmtree(os.environ['KDA_LEARN_CACHE']);"
        f"Path(sys.argv[1]).write_text({KERNEL.replace('42u', '43u')!r});"
    )
    launch = RUN.partition("numpy.uint32);")[2]
    assert answer(source, f"{RUN};{changes}{launch}") == "42\n43"


def test_two_processes_at_once(source):
    for path in kept(source):
        if path.name.startswith("k-"):
            path.unlink()
    with ThreadPoolExecutor() as pool:
        assert list(pool.map(answer, [source] * 3)) == ["42"] * 3


def test_another_kind_of_computer_has_files_of_its_own(source, monkeypatch):
    runtime = host.build_runtime()
    before = host.build_kernel(source, "k", (), runtime)
    monkeypatch.setattr(host.platform, "machine", lambda: "aarch64")
    assert host.build_kernel(source, "k", (), runtime) != before


def test_what_has_changed_on_the_disk_is_seen(tmp_path):
    unfinished, path = tmp_path / "unfinished", tmp_path / "kept.so"
    content = secrets.token_bytes(5000)
    unfinished.write_bytes(content)
    keep(unfinished, path)
    assert is_whole(path) and path.read_bytes() == content
    flip_a_bit(path)
    assert not is_whole(path)
    path.write_bytes(content)
    assert is_whole(path)


def test_a_cache_from_which_nothing_may_run_is_named(tmp_path, monkeypatch):
    path = tmp_path / "k.so"
    path.write_text("not a library\n")
    with pytest.raises(MachineUnavailable, match=r"k.so cannot be loaded .*: delete "):
        emulator._load(path)
    noexec = type("Flags", (), {"f_flag": os.ST_NOEXEC})
    monkeypatch.setattr(os, "statvfs", lambda folder: noexec)
    with pytest.raises(
        MachineUnavailable, match="set KDA_LEARN_CACHE to a folder from which programs may run"
    ):
        emulator._load(path)


def test_a_cache_that_is_a_file_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "cache").touch()
    monkeypatch.setenv("KDA_LEARN_CACHE", str(tmp_path / "cache"))
    with pytest.raises(MachineUnavailable, match=r"cannot be kept in .*cache/emulator .*set KDA_LEARN_CACHE"):
        host.build_runtime()
