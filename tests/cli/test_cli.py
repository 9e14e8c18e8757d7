"""The command line: its help, its exit codes, and what it says to a request that does not fit."""

import re
import subprocess
import sys

import pytest

from kda_learn.cli import verbs
from kda_learn.cli.main import main
from kda_learn.ground.errors import KdaError
from kda_learn.ground.text_table import WIDTH


@pytest.mark.parametrize(
    "arguments",
    [
        ["doctor"],
        ["stages"],
        ["trace", "s00"],
        ["trace", "s02"],
        ["check", "s12", "--machine", "emulator"],
        ["--help"],
        ["ladder", "--help"],
        ["split-v", "--help"],
        ["reproduce", "--help"],
    ],
)
def test_text_fits_100_columns(capsys, arguments: list[str]):
    if arguments == ["stages"]:
        pytest.importorskip("cupy")
    try:
        main(arguments)
    except SystemExit as end:  # argparse ends this way after it has printed help
        assert end.code == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= WIDTH


def test_no_verb_prints_the_help(capsys):
    assert main([]) == 0
    text = capsys.readouterr().out
    for verb in ("doctor", "stages", "check", "trace", "diff", "ladder", "split-v", "reproduce", "profile"):
        assert re.search(rf"^    {verb}( |$)", text, re.MULTILINE)


# ---- what does not fit ----


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lader"], "invalid choice: 'lader'"),
        (["doctor", "s12"], "unrecognized arguments: s12"),
        (["stages", "s12"], "unrecognized arguments: s12"),
        (["check"], "neither --all nor stages were given"),
        (["check", "--all", "s12"], "--all and stages were given"),
        (["check", "s99"], "stage 's99' was given"),
        (["check", "nowhere.cu"], "There is no CUDA source file nowhere.cu"),
        (["check", "s12", "--machine", "tpu"], "machine is 'tpu': give one of auto, gpu, emulator."),
        (["trace"], "required: STAGE"),
        (["trace", "s99"], "stage 's99' was given"),
        (["trace", "s12", "--v-split", "3"], "v_split is 3"),
        (["trace", "s12", "--v-split", "two"], "invalid int value: 'two'"),
        (["diff", "s99"], "stage 's99' was given"),
        (["diff", "s00"], "which has no base"),
        (["ladder", "s12"], "unrecognized arguments: s12"),
        (["ladder", "--stages", "s99"], "stage 's99' was given"),
        (["ladder", "--chart", "ladder.pdf"], "let it end in .svg or .png"),
        (["split-v", "--chart", "times"], "let it end in .svg or .png"),
        (["ladder", "--config", "B8"], "The config is 'B8'"),
        (["ladder", "--heads", "0"], "'0' is no whole number of at least 1"),
        (["ladder", "--sms", "many"], "'many' is no whole number of at least 1"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_bad_input_is_one_sentence_and_exit_code_2(capsys, arguments: list[str], said: str, as_json: bool):
    assert main(arguments + ["--json"] * as_json) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert printed.err.startswith("kda-learn: ")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("verb", ["doctor", "stages", "check", "trace", "diff", "ladder"])
def test_no_error_for_people_becomes_a_traceback(capsys, monkeypatch, verb: str):
    def fails(request) -> None:
        raise KdaError("The disk is full: free 1 GB.")

    monkeypatch.setattr(verbs, verb, fails)
    assert main([verb] + ["s12"] * (verb in ("check", "trace", "diff"))) == 2
    assert capsys.readouterr().err == "kda-learn: The disk is full: free 1 GB.\n"


def test_no_compiler_is_one_sentence(capsys, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert main(["trace", "s12"]) == 2
    assert "no-such-compiler" in capsys.readouterr().err


def test_interrupting_is_quiet(capsys, monkeypatch):
    def interrupted(request) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(verbs, "doctor", interrupted)
    assert main(["doctor"]) == 130
    assert capsys.readouterr().err == "kda-learn: interrupted\n"


# ---- what it needs ----


def test_check_and_trace_need_numpy_and_nothing_else():
    """A trace takes CuPy's compiler, to compare widths, where there is one; without it says so."""
    program = (
        "import sys; from kda_learn.cli.main import main;"
        "names = ('cupy', 'torch', 'rich', 'typer', 'IPython', 'ipywidgets', 'anywidget', 'matplotlib');"
        "codes = [main(['check', 's12', '--machine', 'emulator'])];"
        "loaded = [name for name in names if name in sys.modules];"
        "sys.modules['cupy'] = None;"
        "codes += [main(['trace', 's12'])];"
        "print(loaded, codes)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[] [0, 0]"
    assert "Not compared with the widths of accesses" in done.stdout


def test_importing_the_package_is_cheap():
    program = "import sys, kda_learn; print('numpy' in sys.modules, sorted(kda_learn.__all__))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("False ")
    for word in ("check", "compile", "diff", "dstate_scan", "run", "trace"):
        assert word in done.stdout


def test_words_stay_words_when_their_modules_are_imported():
    import kda_learn
    from kda_learn.checking.check import small_problem
    from kda_learn.tracing.rows import per_tile

    assert callable(kda_learn.check) and callable(kda_learn.trace) and callable(kda_learn.compile)
    assert callable(small_problem) and callable(per_tile)
    with pytest.raises(AttributeError, match="no attribute 'chekc'"):
        _ = kda_learn.chekc


def test_python_m_is_the_same_program():
    command = [sys.executable, "-m", "kda_learn", "diff", "s99"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("kda-learn: stage 's99' was given")
    assert done.stdout == ""


def test_a_reader_that_stops_early_is_no_error():
    command = f"{sys.executable} -m kda_learn trace s00 --json | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout == "{\n"
    assert done.stderr == ""
