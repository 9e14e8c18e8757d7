"""A set-up that was stopped, wherever it was: the next one begins anew, says so, and is finished."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kda_learn.setup import install, learn

PROGRAM = """
import sys, time
from pathlib import Path
from kda_learn.setup import install

stuck_in, venv = sys.argv[1], Path(sys.argv[2])

def work(name):
    half = venv / "lib" / "half.dist-info"
    if name == stuck_in:
        half.mkdir(parents=True, exist_ok=True)
        print("stuck", flush=True)
        time.sleep(60)
    assert name == "removal" or not half.exists(), "a half of a package was left"

def make_environment(venv, identity):
    venv.mkdir(exist_ok=True)
    install.write(venv / install.MARK, identity)
    work("venv")

def run_pip(venv, *arguments, silent=False):
    work("pip")
    return True

def emptied(path):
    work("removal")
    rmtree(path)

rmtree, install.shutil.rmtree = install.shutil.rmtree, emptied
install.make_environment, install.run_pip = make_environment, run_pip
sys.exit(install.main(["--venv", str(venv), "--set", "cpu", "--torch", "none"]))
"""


def start(stuck_in: str, venv: Path) -> subprocess.Popen:
    command = [sys.executable, "-c", PROGRAM, stuck_in, str(venv)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def stop(process: subprocess.Popen, how: signal.Signals) -> str:
    """Stop a set-up once it is stuck; what it says to that."""
    while "stuck" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(how)
    return process.communicate(timeout=30)[1]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("where", ["venv", "pip"])
def test_the_next_one_begins_anew_and_says_so(tmp_path, where, how):
    venv = tmp_path / "venv"
    process = start(where, venv)
    said = stop(process, how)
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert said.strip() == "Stopped half-way: run the same command again, it begins anew."
    process = start("removal", venv)  # a second interruption, while the half is taken away
    stop(process, how)
    process = start("nothing", venv)
    printed, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (0, "")
    assert f"{venv}: an earlier set-up stopped half-way; starting afresh." in printed
    assert printed.endswith(f"{venv}: finished.\n")
    process = start("nothing", venv)
    assert "finished before" in process.communicate(timeout=30)[0]


@pytest.mark.parametrize("content", ["", "{", '{"identity": '])
@pytest.mark.parametrize("name", [install.MARK, install.STAMP])
def test_a_half_written_note_counts_as_none(tmp_path, name, content):
    venv = tmp_path / "venv"
    start("nothing", venv).communicate(timeout=30)
    if name == install.MARK:
        (venv / install.STAMP).unlink()
    (venv / name).write_text(content)
    process = start("nothing", venv)
    assert "stopped half-way; starting afresh" in process.communicate(timeout=30)[0]
    assert process.returncode == 0


def test_a_place_that_cannot_be_used_is_one_sentence(tmp_path):
    (tmp_path / "venv").touch()
    process = start("nothing", tmp_path / "venv")
    said = process.communicate(timeout=30)[1]
    assert process.returncode == 2 and "Traceback" not in said and said.strip().count("\n") == 0


def test_what_does_not_fit_is_exit_code_2(capsys):
    assert install.main(["--set", "cuda11", "--venv", os.devnull + "/venv"]) == 2
    assert "SET=cuda11 was given" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "{", "[]", '{"1/a.ipynb": '])
def test_a_damaged_record_of_the_working_copy_counts_as_none(tmp_path, content):
    originals, work = tmp_path / "notebooks", tmp_path / "work"
    (originals / "1").mkdir(parents=True)
    (originals / "1" / "a.ipynb").write_text("ours")
    learn.update_working_copy(originals, work)
    (work / learn.ORIGINALS).write_text(content)
    assert learn.update_working_copy(originals, work).sentences(work) == []
    (originals / "1" / "a.ipynb").write_text("newer")
    assert learn.update_working_copy(originals, work).updated == ["1/a.ipynb"]


def test_a_notebook_is_copied_whole_or_not_at_all(tmp_path, monkeypatch):
    originals, work = tmp_path / "notebooks", tmp_path / "work"
    originals.mkdir()
    (originals / "a.ipynb").write_text("ours")

    def stopped(source, target) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(os, "replace", stopped)
        learn.update_working_copy(originals, work)
    assert list(work.iterdir()) == []
    assert learn.update_working_copy(originals, work).added == ["a.ipynb"]
    assert (work / "a.ipynb").stat().st_mode & 0o444 == (originals / "a.ipynb").stat().st_mode & 0o444
