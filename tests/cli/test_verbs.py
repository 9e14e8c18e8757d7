"""The verbs of the command line: what each prints, for people and for programs."""

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kda_learn.cli.main import main
from kda_learn.ground.text_table import WIDTH
from kda_learn.performance.ladder_rows import Ladder, LadderRow
from kda_learn.sources.stages import STAGES, stage

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
    assert "5 of 5 checks passed on the CPU machine." in text


def test_a_failed_check_exits_with_1(capsys, tmp_path: Path):
    path = str(spoilt(tmp_path))
    text = text_of(capsys, "check", path, "--machine", "emulator", exit_code=1)
    assert "0 of 5 checks passed" in text
    assert "\nmine.cu, 48 tokens: " in text
    assert "times that by rounding" in text
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
    row = LadderRow(
        stage="s12",
        base="s11",
        config="B8/T32768",
        v_split=1,
        rounds=15,
        blocks_per_sm=3,
        median_us=15200.0,
        ci_us=[15100.0, 15300.0],
        delta_pct=-3.0,
        delta_ci_pct=[-3.2, -2.8],
        article_us=None,
        article_delta_pct=-1.0,
        verdict="same sign, other size",
        reason="Fewer wavefronts.",
    )
    untimed = replace(
        row,
        stage="s11",
        median_us=None,
        delta_ci_pct=None,
        delta_pct=float("nan"),
        verdict=None,
        reason="not timed, its check fails",
    )

    def pretended(**arguments) -> Ladder:
        asked.update(arguments)
        return Ladder(
            machine="NVIDIA H200",
            sms=132,
            recorded=True,
            date="2026-11-30",
            banner="Recorded.",
            heads=32,
            notes=[],
            rows=[row, untimed],
            controls=[{"config": "B8/T32768", "delta_pct": 0.1, "delta_ci_pct": [-0.2, 0.3]}],
            clocks={},
            reasons_from="From counters.",
            v_split_rule={"article": "4 if N*H < SMs, else 1", "measured": "another"},
            roofline="s12 takes long.",
        )

    monkeypatch.setattr("kda_learn.performance.explained.ladder", pretended)
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
    monkeypatch.delitem(sys.modules, "kda_learn.display.figure", raising=False)
    monkeypatch.setattr("kda_learn.performance.explained.ladder", lambda **arguments: pytest.fail("measured"))
    assert main(["ladder", "--chart", str(tmp_path / "ladder.svg")]) == 2
    assert "the package matplotlib is missing" in capsys.readouterr().err


def test_split_v(capsys, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    importlib.import_module("kda_learn.display.performance_charts")  # or it would keep what is pretended here
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

    monkeypatch.setattr("kda_learn.performance.split_v.split_v", pretended)
    chart = tmp_path / "split.svg"
    text = text_of(capsys, "split-v", "--sms", "78", "--sms", "132", "--chart", str(chart))
    assert "+12 %" in text
    assert "On 78 SMs: VSplit 4 up to N*H = 19, 2 up to N*H = 39, 1 beyond." in text
    assert asked == {"sms": [78, 132], "record": None}
    assert "N*H, (sequence, head) pairs" in chart.read_text()
    assert answer_of(capsys, "split-v")["rule"] == rule


def test_a_check_on_the_emulator_is_not_recorded(tmp_path, capsys):
    path = tmp_path / "check.json"
    assert main(["check", "s12", "--machine", "emulator", "--record", str(path)]) == 2
    assert "--machine gpu" in capsys.readouterr().err
    assert not path.exists()
