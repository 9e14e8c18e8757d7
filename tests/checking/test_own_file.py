"""A file of one's own is judged as one's own, whatever its name and place, and by a budget if asked to."""

import re
from pathlib import Path

import pytest

import kda_learn
from kda_learn.checking import budget
from kda_learn.checking.check import check
from kda_learn.checking.standard_set import check_stages
from kda_learn.ground.errors import BadInput, MachineUnavailable
from kda_learn.ground.files import KERNELS
from kda_learn.kernel_a.problem import random_problem
from kda_learn.lessons import compiling, profiling
from kda_learn.machines.launching import choose_machine
from kda_learn.performance import profile_measure
from kda_learn.performance.profile import Target
from kda_learn.sources.stages import Stage, as_stage, stage

EMULATOR = {"machine": "emulator"}
SPOILT = ("using KrLayout = Interleaved<C>;", "using KrLayout = Rows<bf16, D>;")
NAMES = ["s12.cu", "s12_odd_half_stride.cu", "s12_mine.cu", "kernel_a.cu"]


def written(folder: Path, name: str, *changes: tuple[str, str], of: str = "s12") -> Path:
    """A stage's text, changed, under a name that may be a stage's."""
    text = stage(of).source.text
    for before, after in changes:
        assert text.count(before) == 1
        text = text.replace(before, after)
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", NAMES)
def test_it_is_never_taken_for_a_stage(tmp_path, name):
    found = as_stage(written(tmp_path, name))
    assert found.is_own and found.path == tmp_path / name and found.base is None
    assert found.id == name
    with pytest.raises(BadInput):
        budget.faults(found, like=found.id)
    assert profiling.recorded(found.id) is None


def test_a_file_with_the_very_name_of_a_stage_is_refused(tmp_path):
    with pytest.raises(BadInput, match="the path of a"):
        as_stage(written(tmp_path, "s05"))


def test_a_copy_in_a_folder_named_alike_is_not_one_either(tmp_path):
    folder = tmp_path / "kernels" / "kernel_a"
    folder.mkdir(parents=True)
    assert as_stage(written(folder, stage("s12").path.name)).is_own
    assert as_stage(KERNELS / "lab" / "banks.cu").is_own
    assert as_stage(stage("s12").path) is stage("s12")


def test_a_stage_made_by_hand_cannot_pass_for_one_of_the_ladder(tmp_path):
    path = written(tmp_path, "any.cu", SPOILT)
    row = check(Stage("s12", file=path), random_problem(lengths=[20]), **EMULATOR)
    assert (row.stage, row.faults) == ("any.cu", [])


@pytest.mark.parametrize("name", ["s12.cu", "other.cu"])
def test_its_wavefronts_are_judged_on_request_alone(tmp_path, name):
    path = written(tmp_path, name, SPOILT)
    assert check(path, random_problem(lengths=[20]), **EMULATOR).ok
    faults = check(path, random_problem(lengths=[20]), like="s12", **EMULATOR).faults
    assert "r1: store KR takes 256 wavefronts a tile, the budget of s12 is 32" in faults


def test_it_may_take_less_than_a_budget_and_a_stage_must_take_its_own(tmp_path, monkeypatch):
    path = written(tmp_path, "mine.cu", of="s05")
    assert budget.faults(as_stage(path), like="s05") == []
    generous = {
        "per_tile": {"s05": {name: count + 1 for name, count in budget.load()["per_tile"]["s05"].items()}}
    }
    monkeypatch.setattr(budget, "load", lambda: generous)
    assert budget.faults(as_stage(path), like="s05") == []
    assert len(budget.faults(stage("s05"), like="s05")) == len(generous["per_tile"]["s05"])


def test_a_budget_holds_on_a_gpu_too(tmp_path, monkeypatch):
    """The trace is always the CPU machine's."""
    from kda_learn.checking import check as checking

    path = written(tmp_path, "mine.cu", SPOILT)

    def on_the_cpu(*arguments, machine, **options):
        return run(*arguments, machine="emulator", **options)

    run = checking.run
    monkeypatch.setattr(checking, "run", on_the_cpu)
    monkeypatch.setattr(checking, "choose_machine", lambda machine: machine)
    problem = random_problem(lengths=[20])
    assert check(path, problem, machine="gpu").ok
    assert not check(path, problem, machine="gpu", like="s12").ok


def test_like_names_a_stage(tmp_path):
    path = written(tmp_path, "mine.cu")
    with pytest.raises(BadInput, match="choose one of s00"):
        check_stages([path], machine="emulator", like="s99")
    with pytest.raises(BadInput, match="choose one of s00"):
        check(path, like=str(path), **EMULATOR)


def test_the_word_check_says_by_whose_budget(tmp_path):
    path = written(tmp_path, "s12.cu")
    text = str(kda_learn.check(path, random_problem(lengths=[20]), **EMULATOR))
    assert "like='s05'" in text and "wavefronts by" not in text
    text = str(kda_learn.check(path, random_problem(lengths=[20]), like="s12", **EMULATOR))
    assert "wavefronts by the budget of s12" in re.sub(r"\s+", " ", text)


def test_no_record_of_the_stage_is_shown_for_it(tmp_path, monkeypatch):
    """Neither what its compiler said nor its profile."""

    def missing(*arguments, **options):
        raise MachineUnavailable("There is none here.")

    monkeypatch.setattr(compiling, "compile_stage", missing)
    monkeypatch.setattr(profile_measure, "measure", missing)
    path = written(tmp_path, "s12.cu")
    assert compiling.compile("s12").registers > 0
    assert profile_measure.profile("s12").recorded
    for given in (path, str(path), as_stage(path)):
        with pytest.raises(MachineUnavailable):
            compiling.compile(given)
        with pytest.raises(MachineUnavailable):
            profile_measure.profile(given)
    if choose_machine("auto") != "gpu":
        assert kda_learn.profile(path).missing


def test_a_profile_is_of_the_file_itself(tmp_path, monkeypatch):
    asked: list[Target] = []
    monkeypatch.setattr(profile_measure, "measure", lambda targets: asked.extend(targets) or [None])
    path = written(tmp_path, "s12.cu")
    profile_measure.profile(as_stage(path))
    profile_measure.profile(stage("s12"))
    assert [target.kernel.path for target in asked] == [path, stage("s12").path]
    assert [target.name for target in asked] == ["s12.cu", "s12"]
