"""Launches captured by ncu: its refusals, its reports, each launch with its part of the pages."""

import json
from pathlib import Path

import pytest
from ncu_pages_of import LAUNCH, calls, lay_out, pretend_ncu

from kda_learn.compilers.host import compiler
from kda_learn.ground.errors import KdaError, MachineUnavailable
from kda_learn.ground.say import heard_by
from kda_learn.kernel_a.variants import compile_stage
from kda_learn.performance.profile import Target
from kda_learn.profiling import ncu, watched
from kda_learn.profiling.capture import Pages, capture, pair
from kda_learn.profiling.ncu_pages import parse_source

S12, S02 = Target("s12"), Target("s02", 4, "B1/T8192")


@pytest.fixture
def fake_ncu(monkeypatch, tmp_path):
    return pretend_ncu(monkeypatch, tmp_path)


@pytest.fixture
def compilers():
    """Skips where ncu's pages cannot be made up."""
    try:
        compile_stage(S12.kernel).sass()
        compiler()
    except MachineUnavailable as missing:
        pytest.skip(str(missing))


# ---- why ncu cannot run ----


@pytest.mark.parametrize(
    "said, advice",
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance "
            "Counters on the target device 0.",
            "NVreg_RestrictProfilingToAdminUsers=0",
        ),
        (
            "==ERROR== An error was reported by the driver:\n==ERROR== Profiling failed because a driver "
            "resource was unavailable. Ensure that no other tool (like DCGM) is concurrently collecting.",
            "dcgmi profile --pause",
        ),
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "virtual machine"),
    ],
)
def test_a_refusal_says_what_to_do(fake_ncu, said, advice):
    (fake_ncu / "error.txt").write_text(f"the program's own words\n{said}\n")
    with pytest.raises(MachineUnavailable, match=advice):
        capture([S12.watched])


def test_words_of_the_program_are_no_refusal():
    assert ncu.refusal("ERR_NVGPUCTRPERM is an error of other people\n==PROF== done") is None


def test_without_ncu(monkeypatch):
    monkeypatch.setattr(ncu, "ncu_program", lambda: None)
    with pytest.raises(MachineUnavailable, match="install Nsight Compute"):
        ncu.program()


def test_counters_for_administrators_only(monkeypatch):
    monkeypatch.setattr(ncu, "ncu_program", lambda: "/opt/ncu")
    monkeypatch.setattr(ncu, "counters_open", lambda: False)
    with pytest.raises(MachineUnavailable, match="run as root"):
        ncu.program()


def test_a_program_that_takes_too_long_is_ended(monkeypatch, tmp_path):
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\necho started\nsleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setattr(ncu, "ncu_program", lambda: str(slow))
    monkeypatch.setattr(ncu, "counters_open", lambda: None)
    with pytest.raises(KdaError, match=r"a stop after 0\.5 s and no report.*started"):
        ncu.collect(["python"], tmp_path / "report", [], seconds=0.5)


# ---- what it captures ----


def test_each_launch_with_its_part_of_the_pages(fake_ncu, compilers):
    lay_out(fake_ncu, [S12, S02])
    kept, said = [], []
    with heard_by(said.append):
        found = capture(
            [S12.watched, S02.watched], keep=lambda pages, launches: kept.append((pages, launches))
        )
    assert said == ["ncu on s12 at VSplit 1, s02 at VSplit 4", "reading ncu's report"]
    assert [one.launch for one in found] == [LAUNCH, LAUNCH]
    assert all(one.metrics["gpu__time_duration.sum"] == 512345.0 for one in found)
    ((pages, launches),) = kept
    assert launches == [LAUNCH, LAUNCH]
    assert [one.counts for one in found] == parse_source(pages.source)
    assert found[0].counts != found[1].counts


def test_how_ncu_is_called(fake_ncu, compilers):
    lay_out(fake_ncu, [S12])
    capture([S12.watched])
    (call,) = calls(fake_ncu)
    assert "--clock-control none" in call
    assert "--profile-from-start off" in call
    assert "-m kda_learn.machines.child kda_learn.profiling.watched:launch_all" in call
    assert "gpu__time_duration.sum" in call
    assert "lts__throughput" not in call  # this ncu does not know it


def test_a_launch_that_fails_leaves_the_others(fake_ncu, compilers):
    lay_out(fake_ncu, [S12, S02], [{"error": "s12 left elements unwritten"}, LAUNCH])
    failed, captured = capture([S12.watched, S02.watched])
    assert str(failed) == "s12 left elements unwritten"
    assert captured.launch == LAUNCH


def test_a_program_that_ends_before_its_last_launch(fake_ncu, compilers):
    lay_out(fake_ncu, [S12])
    captured, failed = capture([S12.watched, S02.watched])
    assert captured.launch == LAUNCH
    assert str(failed) == "The profiled process ended before s02 at VSplit 4: profile it alone."


def test_an_ncu_that_fails_is_asked_for_less(fake_ncu):
    (fake_ncu / "error.txt").write_text("==ERROR== Failed to find metric sm__something\n")
    said = []
    with heard_by(said.append), pytest.raises(KdaError, match="Failed to find metric sm__something"):
        capture([S12.watched])
    assert ["--metrics" in call for call in calls(fake_ncu)] == [True, False, False]
    assert ["WarpStateStats" in call for call in calls(fake_ncu)] == [True, True, False]
    assert sum(text.startswith("again with fewer counters: ncu ended with 1") for text in said) == 2


def test_pages_that_lack_a_launch():
    with pytest.raises(KdaError, match="1 kernels were launched; ncu's pages have 0 and 0"):
        pair(["s12"], [LAUNCH], Pages(Path("none"), "", ""))


# ---- the profiled program ----


def test_the_program_goes_on_after_a_launch_that_fails(monkeypatch):
    def launch(asked, device):
        if asked["name"] == "bad":
            raise KdaError("no memory")
        return LAUNCH | {"device": device}

    monkeypatch.setattr(watched, "launch", launch)
    answers = watched.launch_all({"device": 2, "watched": [{"name": name} for name in ("one", "bad", "two")]})
    assert answers == [LAUNCH | {"device": 2}, {"error": "no memory"}, LAUNCH | {"device": 2}]


def test_a_request_fits_json():
    assert json.loads(json.dumps(S02.watched.options)) == S02.watched.options
    assert S02.watched.options["path"].endswith("s02_no_t1.cu")
