"""Reproduce: what runs on which computer, how a run goes on, and the pack."""

import json
from dataclasses import replace

import pytest
from pretended_reproduction import B32, H20, NO_NCU, TWO

from kda_learn.cli.main import main
from kda_learn.ground.errors import BadInput, KdaError, MachineUnavailable
from kda_learn.ground.say import heard_by
from kda_learn.machines.device import hopper
from kda_learn.performance import evidence as counter_evidence
from kda_learn.performance.profile_measure import in_batches
from kda_learn.records import store as records
from kda_learn.reports import reproduce as reproduce_module
from kda_learn.reports.parts import Store
from kda_learn.reports.reproduce import reproduce
from kda_learn.sources.stages import STAGES

# ---- a Hopper GPU ----


def test_everything(machine, tmp_path):
    said = []
    with heard_by(said.append):
        found = reproduce(tmp_path)
    runs_of_ncu = len(in_batches([*STAGES, *STAGES]))  # at VSplit 1 and 4
    assert runs_of_ncu == 8
    assert machine.ran == {"check": 3 * len(STAGES), "ceilings": 1, "ladder": 3, "profile": runs_of_ncu}
    assert (found.machine, found.sms, found.recorded) == ("NVIDIA H20-3e", 78, False)
    assert found.sentence == "Measured on an NVIDIA H20-3e with 78 SMs."
    assert found.left_out == []
    assert len(found.rows) == 3 * len(STAGES)
    assert sum(found.verdicts.values()) == 3 * (len(STAGES) - 2)  # s00 and s12x have none
    assert all("wavefront" in row.reason for row in found.rows)
    assert len(found.roofline) == len(found.rows)
    assert {row.traffic_ns for row in found.roofline} == {26.0}
    assert next(text for text in said if text.startswith("check")) == "check-01-of-03"
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "pack.json", "parts"}


def test_the_pack(machine, tmp_path):
    reproduce(tmp_path, **TWO)
    pack = json.loads((tmp_path / "pack.json").read_text())
    assert (pack["kind"], pack["machine"], pack["sms"]) == ("reproduction", "NVIDIA H20-3e", 78)
    assert pack["check"]["ok"] is True
    assert [row["stage"] for one in pack["ladders"] for row in one["rows"]] == ["s11", "s12"]
    assert {one["stage"] for one in pack["profiles"]} == {"s11", "s12"}
    assert pack["ceilings"]["content"]["parts"][0]["mma"] == {"tflops": 130.0}
    assert sum(pack["verdicts"].values()) == 2
    assert pack["ladders"][0]["provenance"]["driver"] == "570.1"
    assert pack["left_out"] == []
    assert "summary" in pack["doctor"]


def test_reasons_come_from_this_gpus_own_profiles(machine, tmp_path):
    found = reproduce(tmp_path, **TWO)
    assert "NVIDIA H20-3e" in found.ladders[0].reasons_from
    assert found.profiles == found.own_profiles


def test_a_second_run_measures_nothing(machine, tmp_path):
    first = reproduce(tmp_path, **TWO)
    ran, said = machine.ran.copy(), []
    with heard_by(said.append):
        second = reproduce(tmp_path, **TWO)
    assert machine.ran == ran
    assert said and all("kept from" in text for text in said)
    assert (second.rows, second.roofline) == (first.rows, first.roofline)


@pytest.mark.parametrize("after", [2, 7, 8])
def test_a_run_that_was_stopped_goes_on(machine, tmp_path, after):
    """6 checks in 3 parts, then ceilings, ladder, profile. What was finished is not measured again."""
    machine.stop_after = after
    with pytest.raises(KeyboardInterrupt):
        reproduce(tmp_path, **TWO)
    done = {path.name for path in (tmp_path / "parts").iterdir()}
    machine.stop_after = None
    machine.ran.clear()
    said = []
    with heard_by(said.append):
        reproduce(tmp_path, **TWO)
    assert {f"{text.split(':')[0]}.json" for text in said if "kept from" in text} == done
    assert sum(machine.ran.values()) == 9 - sum(2 if "check" in name else 1 for name in done)


def test_fresh_starts_over(machine, tmp_path):
    reproduce(tmp_path, **TWO)
    ran = machine.ran.copy()
    reproduce(tmp_path, **TWO, fresh=True)
    assert machine.ran == {part: 2 * count for part, count in ran.items()}


@pytest.mark.parametrize("changed", [{"heads": 16}, {"sms": 40}, {"stages": ["s12"]}])
def test_another_request_is_measured_anew(machine, tmp_path, changed):
    reproduce(tmp_path, **TWO)
    machine.ran.clear()
    reproduce(tmp_path, **(TWO | changed))
    assert machine.ran["ladder"] == 1


def test_a_changed_source_or_driver_is_measured_anew(machine, tmp_path, monkeypatch):
    reproduce(tmp_path, **TWO)
    machine.ran.clear()
    monkeypatch.setattr(records, "digests", lambda stages: dict.fromkeys(stages, "changed"))
    reproduce(tmp_path, **TWO)
    assert machine.ran == {"check": 6, "ladder": 1, "profile": 1}
    machine.ran.clear()
    monkeypatch.setattr(reproduce_module, "hopper", lambda: replace(H20, driver="580.1"))
    reproduce(tmp_path, **TWO)
    assert machine.ran == {"check": 6, "ceilings": 1, "ladder": 1, "profile": 1}


@pytest.mark.parametrize("text", ["", "{", '{"key": 1}', "[]"])
def test_a_damaged_part_is_measured_anew(machine, tmp_path, text):
    reproduce(tmp_path, **TWO)
    machine.ran.clear()
    (tmp_path / "parts" / "ceilings.json").write_text(text)
    reproduce(tmp_path, **TWO)
    assert machine.ran == {"ceilings": 1}


@pytest.mark.parametrize(
    ("part", "error"),
    [
        ("profile", MachineUnavailable(NO_NCU)),
        ("ladder", MachineUnavailable("Timing makes its data with PyTorch, which is missing.")),
        ("ceilings", KdaError("The traffic twin wrote something else.")),
        ("check", KdaError("A kernel failed.")),
    ],
)
def test_a_part_that_cannot_be_is_left_out(machine, tmp_path, part, error):
    machine.failing[part] = error
    found = reproduce(tmp_path, **TWO)
    assert [(one.part, one.reason) for one in found.left_out] == [(part, str(error))]
    assert found.sentence.endswith(f"Left out, at least in part: {part}.")
    assert str(error) in found.as_text(tmp_path).replace("\n  ", " ")
    assert str(error).split(":")[0] in (tmp_path / "report.html").read_text()
    assert found.recorded == (part == "ladder")
    if part == "profile":
        assert "NVIDIA H200" in found.ladders[0].reasons_from
    machine.failing.clear()
    machine.ran.clear()
    again = reproduce(tmp_path, **TWO)
    assert again.left_out == []
    assert set(machine.ran) == {part}


def test_a_profile_that_fails_leaves_the_others(machine, tmp_path, monkeypatch):
    """Then the recorded ones explain, since a stage of our own is missing; ours are in the pack."""
    known = [one for one in counter_evidence.recorded_profiles() if one.stage != "s11"]
    monkeypatch.setattr(counter_evidence, "recorded_profiles", lambda: known)
    found = reproduce(tmp_path, **TWO)
    assert [one.reason for one in found.left_out] == ["s11 at VSplit 1: this one fails"]
    assert {one["stage"] for one in found.as_dict()["profiles"]} == {"s12"}
    assert found.profiles == known


def test_profiles_stop_when_the_time_is_up(machine, tmp_path):
    found = reproduce(tmp_path, **TWO, minutes=0)
    assert machine.ran["profile"] == 0
    assert "the time was up; run the same command again to go on" in found.left_out[0].reason
    assert reproduce(tmp_path, **TWO).left_out == []
    assert reproduce(tmp_path, **TWO, minutes=0).left_out == []  # what is kept takes no time


def test_a_failed_check_is_seen_everywhere(machine, tmp_path, capsys):
    machine.bad_stage = "s12"
    arguments = ["reproduce", "--out", str(tmp_path), "--stages", "s11", "s12", "--config", B32]
    assert main(arguments) == 1
    printed = capsys.readouterr()
    assert "3 of 6 checks passed." in printed.out
    assert "kda-learn: check-01-of-03" in printed.err
    text = (tmp_path / "report.html").read_text()
    assert "snapshot 3 is off by 0.2 &lt;too far&gt;" in text
    assert json.loads((tmp_path / "pack.json").read_text())["check"]["ok"] is False


def test_the_verb_in_json(machine, tmp_path, capsys):
    arguments = ["reproduce", "--out", str(tmp_path), "--stages", "s12", "--config", B32, "--json"]
    assert main(arguments) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == json.loads((tmp_path / "pack.json").read_text())


def test_requests_that_do_not_fit(machine, tmp_path):
    for request, said in (
        ({"stages": ["s99"]}, "s99"),
        ({"configs": ["B1"]}, "The config is 'B1'"),
        ({"heads": 0}, "heads is 0"),
        ({"sms": 79}, "79 SMs were asked for: give a number from 1 to 78"),
    ):
        with pytest.raises(BadInput, match=said):
            reproduce(tmp_path, **request)
    assert not machine.ran


def test_a_folder_that_cannot_be_written(machine, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(BadInput, match="give another folder"):
        reproduce(blocked, **TWO)


def test_a_part_is_kept_as_json_gives_it_back(tmp_path):
    store = Store(tmp_path, "a GPU")
    for _ in range(2):
        assert store.part("one", [], (1, 2), lambda: {"pair": (1, 2)}) == {"pair": [1, 2]}


# ---- other computers ----


def test_without_a_gpu(no_gpu, machine, tmp_path):
    found = reproduce(tmp_path)
    assert not machine.ran
    assert found.sentence == (
        "No GPU can be used, the NVIDIA driver does not answer. Times and counters shown here are recorded "
        "ones."
    )
    assert found.recorded is True
    assert found.what_is_missing() == ["check, ceilings, ladder, profile."]
    assert found.as_dict()["ladders"] == []
    text = (tmp_path / "report.html").read_text()
    assert "Recorded on " in text
    assert main(["reproduce", "--out", str(tmp_path)]) == 0


def test_without_a_gpu_and_records(no_gpu, tmp_path, monkeypatch):
    empty = tmp_path / "records"
    empty.mkdir()
    monkeypatch.setattr(records, "DATA", empty)
    found = reproduce(tmp_path / "out")
    assert found.ladders == []
    assert "neither a Hopper GPU" in found.what_is_missing()[-1]


@pytest.mark.parametrize(
    ("name", "capability"),
    [("NVIDIA A100", (8, 0)), ("NVIDIA A10", (8, 6)), ("NVIDIA L40S", (8, 9)), ("NVIDIA B200", (10, 0))],
)
def test_another_gpu(no_gpu, machine, tmp_path, monkeypatch, name, capability):
    """The CPU machine checks; the rest is left out, with the reason."""
    other = replace(H20, name=name, compute_capability=capability)
    monkeypatch.setattr(reproduce_module, "describe", lambda: other)
    monkeypatch.setattr("kda_learn.machines.device.describe", lambda index=0: other)
    monkeypatch.delenv("KDA_LEARN_MACHINE", raising=False)
    monkeypatch.setattr(reproduce_module, "hopper", hopper)
    found = reproduce(tmp_path, stages=["s12"])
    assert machine.ran == {"check": 5}
    assert {row["machine"] for row in found.checks} == {"emulator"}
    dotted = ".".join(map(str, capability))
    assert found.sentence.startswith(f"The GPU {name} has compute capability {dotted} and the kernels are")
    checked = "The stages were checked on the CPU machine; times and counters shown here are recorded ones."
    assert found.sentence.endswith(checked)
    assert found.what_is_missing() == ["ceilings, ladder, profile."]
    assert (found.machine, found.recorded) == (name, True)
