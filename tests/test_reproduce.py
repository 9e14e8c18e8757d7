"""Reproduce: what runs on which computer, how a run goes on, the pack, and the page in a browser."""

import json
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from browser.harness import browser

from kda_learn import ceilings, counter_evidence, records, reproduce_parts
from kda_learn import reproduce as reproduce_module
from kda_learn.check import CheckRow
from kda_learn.check_set import emulator_cases
from kda_learn.cli import main
from kda_learn.device import Gpu, hopper
from kda_learn.errors import BadInput, KdaError, MachineUnavailable
from kda_learn.ladder import ladder as shown_ladder
from kda_learn.report import page
from kda_learn.reproduce import reproduce
from kda_learn.reproduce_parts import Store

H20 = Gpu(0, "NVIDIA H20-3e", 78, (9, 0), "570.1", "12.8", 141 * 10**9, 232448, "0000:00:00.0")
B32, B1 = "B32/T8192", "B1/T131072"
NO_NCU = "Counters cannot be read, ncu is missing: install Nsight Compute."


@cache
def three_cases():
    """Instead of the long ones."""
    return emulator_cases()[:3]


class Pretended:
    """A GPU whose every part takes no time: what ran, how often, and what is to fail."""

    def __init__(self):
        self.ran = Counter()
        self.failing = {}  # part -> error
        self.bad_stage = None
        self.stop_after = None  # parts, then Ctrl-C

    def stand_in(self, patch):
        """Takes the places of all that needs a GPU or takes long."""
        patch.setattr(reproduce_parts, "check", self.check)
        patch.setattr(reproduce_parts, "gpu_cases", three_cases)
        patch.setattr(reproduce_parts, "compile_at_once", list)
        patch.setattr(ceilings, "measure", self.ceilings)
        patch.setattr(reproduce_parts, "measured_ladders", self.ladders)
        patch.setattr(reproduce_parts, "measure_profiles", self.profiles)
        patch.setattr(reproduce_parts, "simulate", lambda target: None)

    def run(self, part):
        self.ran[part.split("-")[0]] += 1
        if self.stop_after is not None and sum(self.ran.values()) > self.stop_after:
            raise KeyboardInterrupt
        if part.split("-")[0] in self.failing:
            raise self.failing[part.split("-")[0]]

    def check(self, stage, problem, *, machine, v_split, snapshot_dtype):
        self.run("check")
        faults = ["snapshot 3 is off by 0.2 <too far>"] if stage == self.bad_stage else []
        return CheckRow(
            stage, problem.name, machine, v_split, snapshot_dtype, 1e-3, 1e-3, 2e-3, faults, not faults
        )

    def ceilings(self, sms):
        self.run("ceilings")
        where = records.Provenance("NVIDIA H20-3e", 78, "570.1", "12.8", "12.9", "2026-12-01", {})
        twins = {"float32": {"ns_per_tile": 26.0}, "bfloat16": {"ns_per_tile": 15.5}}
        part = {"sms": 78, "twins": twins, "mma": {"tflops": 130.0}, "clocks": []}
        return records.Record("ceilings", where, {"notes": [], "sources": {}, "parts": [part]})

    def ladders(self, stages, configs, sms, heads):
        self.run("ladder")
        found = shown_ladder(stages=stages, configs=configs, sms=80, live=False)
        where = records.Provenance("NVIDIA H20-3e", 78, "570.1", "12.8", "12.9", "2026-12-01", {})
        banner = "Measured now on an NVIDIA H20-3e with 78 SMs."
        more = {"machine": "NVIDIA H20-3e", "sms": 78, "recorded": False, "banner": banner}
        return [{"provenance": where, "ladder": found | more}]

    def profiles(self, batch, *, report):
        self.run("profile")
        return [self.profile(target) for target in batch]

    def profile(self, target):
        """A recorded profile; that of VSplit 1 if there is none of the target's."""
        known = {(one.stage, one.v_split): one for one in counter_evidence.recorded_profiles()}
        one = known.get((target.name, target.v_split)) or known.get((target.name, 1))
        if one is None:
            return KdaError("this one fails")
        where = replace(one.provenance, gpu="NVIDIA H20-3e", sms=78)
        return replace(one, v_split=target.v_split, provenance=where, recorded=False)


@pytest.fixture
def machine(monkeypatch):
    pretended = Pretended()
    monkeypatch.setattr(reproduce_module, "hopper", lambda: H20)
    pretended.stand_in(monkeypatch)
    return pretended


@pytest.fixture
def no_gpu(monkeypatch):
    def missing():
        raise MachineUnavailable("No GPU can be used, the NVIDIA driver does not answer.")

    monkeypatch.setattr(reproduce_module, "hopper", missing)
    monkeypatch.setattr(reproduce_module, "describe", missing)


TWO = {"stages": ["s11", "s12"], "configs": [B32]}

# ---- a Hopper GPU ----


def test_everything(machine, tmp_path):
    said = []
    found = reproduce(tmp_path, report=said.append)
    assert machine.ran == {"check": 15 * 3, "ceilings": 1, "ladder": 3, "profile": 8}
    assert (found.machine, found.sms, found.recorded) == ("NVIDIA H20-3e", 78, False)
    assert found.sentence == "Measured on an NVIDIA H20-3e with 78 SMs."
    assert found.left_out == []
    assert len(found.rows) == 45
    assert sum(found.verdicts.values()) == 39  # s00 and s12x have none
    assert all("wavefront" in row["reason"] for row in found.rows)
    assert len(found.roofline) == 45
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
    assert "NVIDIA H20-3e" in found.ladders[0]["reasons_from"]
    assert found.profiles == found.own_profiles


def test_a_second_run_measures_nothing(machine, tmp_path):
    first = reproduce(tmp_path, **TWO)
    ran, said = machine.ran.copy(), []
    second = reproduce(tmp_path, **TWO, report=said.append)
    assert machine.ran == ran
    assert all("kept from" in text for text in said)
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
    reproduce(tmp_path, **TWO, report=said.append)
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
        assert "NVIDIA H200" in found.ladders[0]["reasons_from"]
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
    store = Store(tmp_path, "a GPU", lambda text: None)
    for _ in range(2):
        assert store.part("one", [], (1, 2), lambda: {"pair": (1, 2)}) == {"pair": [1, 2]}


# ---- other computers ----


def test_without_a_gpu(no_gpu, machine, tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce_module, "hopper", reproduce_module.describe)
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


def test_without_a_gpu_and_records(no_gpu, machine, tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce_module, "hopper", reproduce_module.describe)
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
    monkeypatch.setattr("kda_learn.device.describe", lambda index=0: other)
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


# ---- the page ----


def measured_page(machine, tmp_path, **changes):
    found = reproduce(tmp_path, **changes)
    return found, (tmp_path / "report.html").read_text()


def test_the_page_stands_alone(machine, tmp_path):
    found, text = measured_page(machine, tmp_path)
    assert "<script" not in text and " src=" not in text and "@import" not in text and "url(" not in text
    assert text.count("<svg") == 3 + 2
    for row in found.rows:
        assert f"<dt>{row['stage']}</dt>" in text
    assert "H200, 132 SMs" in text and "H200, 80 SMs" in text
    assert "same sign, other size" in text
    assert "1.2" in text and "its products would take" in text
    assert "yuyanqi.com" in text
    assert "Driver 570.1, CUDA 12.8, NVRTC 12.9." in text


def test_only_the_same_comparison_stands_beside(machine, tmp_path, monkeypatch):
    """s11 against s02, which is not what the record compares it with."""
    ladders = machine.ladders

    def against_s02(stages, configs, sms, heads):
        (found,) = ladders(stages, configs, sms, heads)
        for row in found["ladder"]["rows"]:
            row["base"] = "s02" if row["stage"] == "s11" else row["base"]
        return [found]

    monkeypatch.setattr(reproduce_parts, "measured_ladders", against_s02)
    _, text = measured_page(machine, tmp_path, **TWO)
    cells = {
        stage: text.split(f"<td>{stage}</td>")[1].split("</tr>")[0].count("%") for stage in TWO["stages"]
    }
    assert cells == {"s11": 2, "s12": 4}  # its own change and the article's; and those of two records


def test_the_page_says_whose_counters(machine, tmp_path):
    machine.failing["profile"] = MachineUnavailable(NO_NCU)
    _, text = measured_page(machine, tmp_path, **TWO)
    assert "They are recorded ones, not this GPU's." in text


def test_a_page_without_any_figures(tmp_path, machine):
    """A stage that was not timed, no ceilings, no counters: nothing fails, nothing is drawn from nothing."""
    found = reproduce(tmp_path, stages=["s12"], configs=[B32])
    for row in found.ladders[0]["rows"]:
        row |= {"median_us": None, "delta_pct": None, "delta_ci_pct": None, "verdict": None}
        row["reason"] = "not timed, its check fails"
    found.roofline, found.limits, found.profiles = [], None, []
    text = page(found)
    assert "not timed, its check fails" in text
    assert "<svg" not in text


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A measured page and a recorded one."""
    folder = tmp_path_factory.mktemp("reports")
    with pytest.MonkeyPatch.context() as patch:
        pretended = Pretended()
        pretended.stand_in(patch)
        patch.setattr(reproduce_module, "hopper", lambda: H20)
        pretended.bad_stage = "s07"
        reproduce(folder / "measured")

        def missing():
            raise MachineUnavailable("No GPU can be used, the NVIDIA driver does not answer.")

        patch.setattr(reproduce_module, "hopper", missing)
        patch.setattr(reproduce_module, "describe", missing)
        reproduce(folder / "recorded")
    return folder


@pytest.fixture(scope="module")
def chromium():
    with browser() as one:
        yield one


@pytest.mark.parametrize("kind", ["measured", "recorded"])
@pytest.mark.parametrize(("width", "dark"), [(1100, False), (1100, True), (360, False), (360, True)])
def test_the_page_in_a_browser(chromium, pages, kind, width, dark):
    one = chromium
    one.look(width=width, dark=dark)
    url = (pages / kind / "report.html").as_uri()
    one.open(url)
    assert one.console_errors() == []
    assert one.outside_requests(url) == []
    assert one.page_width() <= width
    colors = one.driver.execute_script(
        "const style = getComputedStyle(document.body); return [style.color, style.backgroundColor]"
    )
    assert contrast(*colors) > 7
    too_small = one.driver.execute_script(
        "return [...document.querySelectorAll('svg text')]"
        ".filter(text => text.getBoundingClientRect().height < 8).length"
    )
    assert too_small == 0


def contrast(*colors: str) -> float:
    """WCAG's contrast ratio of two colours such as "rgb(31, 35, 40)"."""

    def luminance(color: str) -> float:
        channels = [int(part) / 255 for part in color.strip("rgb()").split(",")[:3]]
        linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in channels]
        return sum(weight * x for weight, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted(luminance(color) for color in colors)
    return (high + 0.05) / (low + 0.05)
