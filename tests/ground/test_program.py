"""How the command line ends: its exit code, what goes to which stream, and plain characters where it must."""

import os
import subprocess
import sys

import pytest

from kda_learn.cli import verbs
from kda_learn.cli.main import main
from kda_learn.ground.errors import KdaError
from kda_learn.ground.program import run_program
from kda_learn.sources.stages import STAGES

OWN = STAGES[0].path.parents[1] / "lab" / "transpose.cu"
VERBS = [
    "doctor",
    "stages",
    "check s12",
    "trace s00",
    f"run {OWN}",
    "diff s12",
    "ladder",
    "ladder --markdown",
]
VERBS += ["split-v", "profile s12", "reproduce", "--help", "check --help"]
UNBUFFERED = {"PYTHONUNBUFFERED": "1"}


def shell(line: str, folder=None, **environment: str) -> subprocess.CompletedProcess:
    """A line of bash in which K is the program, without a GPU, from a folder of its own."""
    program = f"K() {{ '{sys.executable}' -m kda_learn \"$@\"; }}; {line}"
    plain = {"KDA_LEARN_MACHINE": "emulator", "PYTHONUNBUFFERED": ""}
    return subprocess.run(
        ["bash", "-c", program],
        capture_output=True,
        cwd=folder,
        env=os.environ | plain | environment,
        check=False,
    )


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_prints_plain_characters_where_it_must(tmp_path, verb, encoding):
    if verb == "stages":
        pytest.importorskip("cupy")
    run = shell(f"K {verb} && K {verb} --json", tmp_path, PYTHONIOENCODING=encoding)
    assert run.stderr == b"" or verb.endswith("--help")
    assert "Traceback" not in run.stderr.decode(encoding)
    run.stdout.decode(encoding)
    if verb == "ladder":
        assert b" -> " in run.stdout and b"?" not in run.stdout


def test_a_surrogate_goes_out_as_the_byte_that_it_was(tmp_path):
    run = shell("K check no-\udcb5.cu")
    assert run.returncode == 2 and run.stderr.startswith(
        b"kda-learn: There is no CUDA source file no-\xb5.cu"
    )


@pytest.mark.parametrize("environment", [{}, UNBUFFERED], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(
    "verb", ["check s12", "diff s12", "diff s12 --json", "ladder", "--help", "doctor --help"]
)
def test_a_full_disk_is_one_sentence_and_exit_code_2(verb, environment):
    run = shell(f"K {verb} > /dev/full", **environment)
    assert run.returncode == 2
    assert run.stderr.startswith(b"kda-learn: standard output cannot be used (No space left on device): ")
    assert run.stderr.count(b"\n") == 1


def test_a_full_disk_under_the_sentence_too():
    assert shell("K check s12 > /dev/full 2> /dev/full").returncode == 2
    assert shell("K check s99 2> /dev/full").returncode == 2
    run = shell("K check s12 2> /dev/full")
    assert run.returncode == 0 and run.stdout.endswith(b"checks passed on the CPU machine.\n")


@pytest.mark.parametrize("environment", [{}, UNBUFFERED], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("verb", ["ladder", "trace s00 --json", "profile s12"])
def test_a_reader_that_leaves_ends_it_in_silence(verb, environment):
    run = shell(f"K {verb} | true; echo ${{PIPESTATUS[0]}}", **environment)
    assert (run.stdout, run.stderr) == (b"141\n", b"")


def test_streams_that_are_closed():
    run = shell("K diff s12 >&-")
    assert run.returncode == 2 and b"standard output is closed" in run.stderr and run.stderr.count(b"\n") == 1
    assert shell("K check s12 2>&-").stdout.endswith(b"checks passed on the CPU machine.\n")
    assert shell("K check s99 2>&-").returncode == 2
    assert shell("K check s99 2>&-").stdout == b""
    assert shell("K check s12 <&-").returncode == 0
    assert shell("K check s99 >&- 2>&- <&-").returncode == 2


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (KdaError("It is raining: take an umbrella."), 2, "kda-learn: It is raining: take an umbrella.\n"),
        (KeyboardInterrupt(), 130, "kda-learn: interrupted\n"),
        (MemoryError(), 2, "kda-learn: There is too little memory"),
        (OSError(28, "No space left on device", "a.json"), 2, "kda-learn: a.json cannot be used (No space"),
        (ZeroDivisionError(), 2, "This is a mistake in kda-learn itself"),
    ],
)
def test_only_a_fault_that_a_check_found_is_exit_code_1(monkeypatch, capsys, raised, code, said):
    def fails(request) -> None:
        raise raised

    monkeypatch.setattr(verbs, "doctor", fails)
    assert main(["doctor"]) == code
    assert said in capsys.readouterr().err
    assert run_program(lambda: 1) == 1


@pytest.mark.parametrize(
    "line",
    [
        "K check s12 --record /nowhere/at/all.json",
        "K ladder --record /nowhere/at/all.json",
        "K ladder --chart /nowhere/at/all.svg",
        "K profile s12 --record /nowhere/at/all.json",
        "K split-v --record /dev/null/x.json",
        "K reproduce --out /dev/null/x",
        "K check s12 --machine gpu",
        "K run /nowhere/at/all.cu",
        "K trace s12 --v-split 3",
        "python -m kda_learn.maintain check",
        "python -m kda_learn.maintain budgets",
        "python -m kda_learn.maintain budget --folder /dev/null/x",
    ],
)
def test_what_cannot_be_done_is_exit_code_2(tmp_path, line):
    run = shell(line.replace("python", f"'{sys.executable}'"), tmp_path)
    assert run.returncode == 2
    assert run.stderr.count(b"\n") == 1 and run.stderr.startswith(b"kda-learn: ")
