"""The stages under compute-sanitizer: a row for each tool, and the answer where it cannot run."""

import pytest

from kda_learn.checking import sanitize as sanitizing
from kda_learn.checking.sanitize import sanitize
from kda_learn.checking.standard_set import emulator_cases
from kda_learn.ground.errors import MachineUnavailable
from kda_learn.machines.sanitizer import TOOLS, Verdict


def test_a_row_for_each_tool(monkeypatch):
    asked = []

    def watch(tool, work, request, *, seconds):
        asked.append((work, request, seconds))
        return Verdict(3 if tool == "racecheck" else 0, 10, "hazards" if tool == "racecheck" else "")

    monkeypatch.setattr(sanitizing, "hopper", lambda: None)
    monkeypatch.setattr(sanitizing, "watch", watch)
    rows = sanitize(("s02", "s12"), seconds=9)
    assert asked == [("kda_learn.checking.sanitize:launch_all", ["s02", "s12"], 9)] * len(TOOLS)
    assert [(row["tool"], row["findings"], row["report"]) for row in rows] == [
        ("memcheck", 0, ""),
        ("racecheck", 3, "hazards"),
        ("synccheck", 0, ""),
    ]
    assert all((row["stages"], row["launches"]) == (["s02", "s12"], 10) for row in rows)


def test_every_stage_runs_on_every_small_case(monkeypatch):
    launched = []
    monkeypatch.setattr(sanitizing, "run", lambda name, problem, **options: launched.append((name, options)))
    cases = emulator_cases()
    assert sanitizing.launch_all(["s02", "s12"]) == len(launched) == 2 * len(cases)
    assert [name for name, _ in launched] == ["s02"] * len(cases) + ["s12"] * len(cases)
    assert all(options["machine"] == "gpu" for _, options in launched)
    assert {options["v_split"] for _, options in launched} == {case.v_split for case in cases}


def test_without_a_gpu_one_sentence_says_so(monkeypatch):
    monkeypatch.setenv("KDA_LEARN_MACHINE", "emulator")
    with pytest.raises(MachineUnavailable, match="KDA_LEARN_MACHINE"):
        sanitize(["s12"])
