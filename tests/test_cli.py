"""The command line: what each verb prints, its exit code, and what it says to a request that does not fit."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kda_learn import verbs
from kda_learn.cli import main
from kda_learn.errors import KdaError
from kda_learn.stages import STAGES, stage
from kda_learn.text_table import WIDTH, table

ROW_KEYS = {
    "stages": {
        "id",
        "slug",
        "title",
        "base",
        "registers",
        "spill_bytes",
        "dynamic_smem_bytes",
        "blocks_per_sm",
        "occupancy_pct",
    },
    "check": {"stage", "problem", "rel_rms", "simulated_rel_rms", "max_err", "faults", "ok"},
    "trace": {
        "line",
        "op",
        "kind",
        "bytes",
        "instructions",
        "wavefronts",
        "least",
        "excess",
        "max_way",
        "section",
        "region",
    },
}


def answer_of(capsys, *arguments: str, exit_code: int = 0) -> dict:
    """The object that a verb prints with --json."""
    assert main([*arguments, "--json"]) == exit_code
    printed = capsys.readouterr()
    assert printed.err == ""
    return json.loads(printed.out)


def text_of(capsys, *arguments: str, exit_code: int = 0) -> str:
    """What a verb prints for people."""
    assert main(list(arguments)) == exit_code
    return capsys.readouterr().out


def spoilt(folder: Path) -> Path:
    """A kernel that computes the wrong thing."""
    path = folder / "mine.cu"
    path.write_text(stage("s12").source.text.replace("dv.r[0] *= minus_beta;", ""))
    return path


# ---- what the verbs print ----


def test_stages(capsys):
    pytest.importorskip("cupy")
    rows = answer_of(capsys, "stages")["rows"]
    assert [row["id"] for row in rows] == [rung.id for rung in STAGES]
    assert all(ROW_KEYS["stages"] <= row.keys() for row in rows)
    assert all(row["spill_bytes"] == 0 for row in rows)
    by_id = {row["id"]: row for row in rows}
    assert by_id["s00"]["dynamic_smem_bytes"] == 124_480
    assert (by_id["s00"]["blocks_per_sm"], by_id["s00"]["occupancy_pct"]) == (1, 12.5)
    assert (by_id["s02"]["registers"], by_id["s02"]["blocks_per_sm"]) == (64, 4)
    assert by_id["s12"]["registers"] <= 80
    assert by_id["s12"]["base"] == "s11"


def test_check(capsys):
    answer = answer_of(capsys, "check", "s12", "--machine", "emulator")
    assert answer["ok"] is True
    assert answer["machine"] == "emulator"
    assert all(ROW_KEYS["check"] <= row.keys() for row in answer["rows"])
    assert all(row["ok"] and row["faults"] == [] for row in answer["rows"])


def test_check_for_people(capsys):
    text = text_of(capsys, "check", "s12", "s12", "--machine", "emulator")
    assert "5 of 5 checks passed on the emulator." in text


def test_a_failed_check_exits_with_1(capsys, tmp_path: Path):
    path = str(spoilt(tmp_path))
    text = text_of(capsys, "check", path, "--machine", "emulator", exit_code=1)
    assert "0 of 5 checks passed" in text
    assert "\nmine, 48 tokens: " in text
    assert "times the simulation's" in text
    assert answer_of(capsys, "check", path, "--machine", "emulator", exit_code=1)["ok"] is False


def test_trace(capsys):
    answer = answer_of(capsys, "trace", "s00")
    assert (answer["stage"], answer["tiles"], answer["v_split"]) == ("s00", 1, 1)
    assert all(ROW_KEYS["trace"] <= row.keys() for row in answer["rows"])
    assert all(row["excess"] == row["wavefronts"] - row["least"] >= 0 for row in answer["rows"])
    lines = {number for number, line in enumerate(stage("s00").source.code_lines, 1) if "sts<" in line}
    assert lines <= {row["line"] for row in answer["rows"]}


@pytest.mark.parametrize(("name", "stores"), [("s02", 3072), ("s12", 96)])
def test_the_traced_stores_of_r1(capsys, name: str, stores: int):
    rows = answer_of(capsys, "trace", name)["rows"]
    operands = [row for row in rows if row["kind"] == "store" and row["region"] in ("QD", "KD", "KR")]
    assert sum(row["wavefronts"] for row in operands) == stores


def test_trace_at_another_split(capsys):
    whole, part = (answer_of(capsys, "trace", "s12", "--v-split", split) for split in ("1", "8"))
    r1 = [
        sum(row["instructions"] for row in answer["rows"] if row["region"] == "QD" and row["kind"] == "store")
        for answer in (whole, part)
    ]
    assert r1[1] == 8 * r1[0]  # every block rebuilds all of qd


def test_diff(capsys):
    answer = answer_of(capsys, "diff", "s12")
    assert (answer["stage"], answer["base"]) == ("s12", "s11")
    assert answer["code_lines"] == sum(hunk["code_lines"] for hunk in answer["hunks"])
    assert "+constexpr u32 QK_STRIDE = 130;" in answer["text"]
    assert "+constexpr u32 QK_STRIDE = 130;" in text_of(capsys, "diff", "s12")


def test_doctor(capsys):
    assert "summary" in answer_of(capsys, "doctor")
    assert "C++ compiler" in text_of(capsys, "doctor")


def test_ladder(capsys, monkeypatch):
    asked = {}
    row = {
        "stage": "s12",
        "base": "s11",
        "config": "B8/T32768",
        "v_split": 1,
        "median_us": 15200.0,
        "ci_us": [15100.0, 15300.0],
        "delta_pct": -3.0,
        "delta_ci_pct": [-3.2, -2.8],
        "article_delta_pct": -1.0,
        "verdict": "same sign, other size",
        "reason": "Fewer wavefronts.",
    }
    untimed = row | {"stage": "s11", "median_us": None, "delta_ci_pct": None, "delta_pct": float("nan")}
    untimed |= {"verdict": None, "reason": "not timed, its check fails"}

    def pretended(**arguments) -> dict:
        asked.update(arguments)
        return {
            "machine": "NVIDIA H200",
            "sms": 132,
            "banner": "Recorded.",
            "reasons_from": "From counters.",
            "roofline": "s12 takes long.",
            "v_split_rule": {"article": "4 if N*H < SMs, else 1", "measured": "another"},
            "controls": [{"config": "B8/T32768", "delta_pct": 0.1, "delta_ci_pct": [-0.2, 0.3]}],
            "rows": [row, untimed],
        }

    monkeypatch.setattr("kda_learn.ladder.ladder", pretended)
    narrow = ["--config", "B8/T32768", "--sms", "78", "--heads", "16"]
    text = text_of(capsys, "ladder", "--stages", "s12", *narrow)
    assert text.startswith("Recorded.")
    assert "15.2" in text and "-3.2 .. -2.8" in text and "same sign, other size" in text
    assert "VSplit by the article's rule: 4 if N*H < SMs, else 1." in text
    assert "s12 takes long." in text
    assert "Our times make another rule (`kda-learn split-v`): another." in text
    assert "seems to differ by +0.10 % (-0.20 to +0.30) at B8/T32768" in text
    assert "s12, B8/T32768: Fewer wavefronts." in text
    assert asked == {"stages": ["s12"], "configs": ["B8/T32768"], "sms": 78, "heads": 16, "record": None}
    rows = answer_of(capsys, "ladder")["rows"]
    assert rows[1]["delta_pct"] is None  # JSON has no NaN
    assert asked["stages"] is None and len(asked["configs"]) == 3
    markdown = text_of(capsys, "ladder", "--markdown")
    assert "### B8/T32768, VSplit 1" in markdown
    assert (
        "| s12 | s11 | 15.20 | -3.0 % | -3.2 .. -2.8 | -1.0 % | same sign, other size | Fewer wavefronts. |"
        in markdown
    )
    assert "| s11 | s11 |  |  |  | -1.0 % |  | not timed, its check fails |" in markdown


def test_the_recorded_ladder_as_a_table_and_a_chart(capsys, tmp_path, monkeypatch):
    """All of it as recorded: no line is too wide, every stage has its reason, and the chart is drawn."""
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("KDA_LEARN_MACHINE", "emulator")
    chart = tmp_path / "ladder.svg"
    text = text_of(capsys, "ladder", "--chart", str(chart))
    assert max(map(len, text.splitlines())) <= WIDTH
    assert all(f"\n{rung.id}, B" in text for rung in STAGES)
    assert chart.read_text().startswith("<svg")
    text_of(capsys, "ladder", "--chart", str(tmp_path / "ladder.png"))
    assert (tmp_path / "ladder.png").read_bytes().startswith(b"\x89PNG")


def test_a_chart_needs_matplotlib(capsys, tmp_path, monkeypatch):
    """The request is refused before anything is measured."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "kda_learn.lessons.performance_charts", raising=False)
    monkeypatch.setattr("kda_learn.ladder.ladder", lambda **arguments: pytest.fail("measured"))
    assert main(["ladder", "--chart", str(tmp_path / "ladder.svg")]) == 2
    assert "the package matplotlib is missing" in capsys.readouterr().err


def test_split_v(capsys, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    asked = {}
    point = {"stage": "s12", "sms": 132, "pairs": 8, "best": 8, "article": 4, "article_loss_pct": 12.3}
    point |= {"rule": 8, "rule_loss_pct": 0.0}
    rows = [
        {"stage": "s12", "sms": 132, "pairs": 8, "v_split": split, "ns_per_tile": 400.0 / split}
        for split in (1, 2, 4, 8)
    ]
    rule = {"words": "the largest", "limits": {"78": {"2": 39, "4": 19}}}
    rule |= {f"{of}{what}_loss_pct": 1.5 for of in ("", "article_") for what in ("mean", "worst")}

    def pretended(**arguments) -> dict:
        asked.update(arguments)
        return {"banner": "Recorded.", "rows": rows, "points": [point], "rule": rule}

    monkeypatch.setattr("kda_learn.split_v.split_v", pretended)
    chart = tmp_path / "split.svg"
    text = text_of(capsys, "split-v", "--sms", "78", "--sms", "132", "--chart", str(chart))
    assert "+12 %" in text
    assert "On 78 SMs: VSplit 4 up to N*H = 19, 2 up to N*H = 39, 1 beyond." in text
    assert asked == {"sms": [78, 132], "record": None}
    assert "N*H, (sequence, head) pairs" in chart.read_text()
    assert answer_of(capsys, "split-v")["rule"] == rule


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
    text = text_of(capsys)
    for verb in ("doctor", "stages", "check", "trace", "diff", "ladder", "split-v", "reproduce"):
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


def test_check_and_trace_load_numpy_and_nothing_else():
    program = (
        "import sys; from kda_learn.cli import main;"
        "codes = [main(['check', 's12', '--machine', 'emulator']), main(['trace', 's12'])];"
        "print([name for name in ('cupy', 'torch', 'rich', 'typer', 'IPython', 'ipywidgets', 'anywidget',"
        " 'matplotlib') if name in sys.modules], codes)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[] [0, 0]"


def test_importing_the_package_is_cheap():
    program = "import sys, kda_learn; print('numpy' in sys.modules, sorted(kda_learn.__all__))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("False ")
    for word in ("check", "compile", "diff", "dstate_scan", "run", "trace"):
        assert word in done.stdout


def test_words_stay_words_when_their_modules_are_imported():
    import kda_learn
    from kda_learn.check import small_problem
    from kda_learn.trace import per_tile

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


# ---- tables ----


def test_numbers_are_set_to_the_right_and_text_to_the_left():
    assert table(["name", "n"], [("a", 5), ("bcdef", 12)]).splitlines() == [
        "name    n",
        "-----  --",
        "a       5",
        "bcdef  12",
    ]


def test_a_wide_column_is_broken():
    text = table(["id", "what"], [("a", "word " * 60), ("b", None)], wrap="what")
    assert max(map(len, text.splitlines())) <= WIDTH
    assert text.splitlines()[-1] == "b"


def test_a_table_without_rows_is_its_header():
    assert table(["a", "b"], []) == "a  b\n-  -"


def test_a_check_on_the_emulator_is_not_recorded(tmp_path, capsys):
    from kda_learn.cli import main

    path = tmp_path / "check.json"
    assert main(["check", "s12", "--machine", "emulator", "--record", str(path)]) == 2
    assert "--machine gpu" in capsys.readouterr().err
    assert not path.exists()
