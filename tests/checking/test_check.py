"""run and check: what they return, what they catch, what they say to a wrong argument."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kda_learn.checking import budget, standard_set
from kda_learn.checking import check as checking
from kda_learn.checking.check import CheckRow, check, expected, small_problem
from kda_learn.checking.standard_set import check_stages, emulator_cases, gpu_cases
from kda_learn.ground.errors import BadInput, MachineUnavailable
from kda_learn.ground.say import heard_by
from kda_learn.kernel_a.problem import random_problem
from kda_learn.kernel_a.run import Result, run
from kda_learn.kernel_a.tile import trace
from kda_learn.machines import device, gpu
from kda_learn.machines.device import choose_machine
from kda_learn.machines.runnable import Runnable
from kda_learn.sources.stages import STAGES, as_stage, stage

EMULATOR = {"machine": "emulator"}
BF16_NAN = 0x7FC0

every_stage = pytest.mark.parametrize("rung", STAGES, ids=lambda rung: rung.id)


def edited(folder: Path, before: str, after: str, name: str = "s12") -> Path:
    """A stage's file with one piece of text replaced, as a learner would save it."""
    text = stage(name).source.text
    assert before in text
    path = folder / "mine.cu"
    path.write_text(text.replace(before, after))
    return path


# ---- what a run returns ----


def test_a_run_returns_snapshots_and_ds0():
    problem = random_problem(lengths=[17, 0, 31], varlen=True, heads=2)
    result = run("s12", problem, **EMULATOR)
    assert isinstance(result, Result)
    assert result.machine == "emulator"
    assert result.snapshots.shape == (2 * 4, 128, 128)
    assert result.ds0.shape == (3, 2, 128, 128)
    assert result.snapshots.dtype == result.ds0.dtype == np.float32
    assert result.faults == []
    assert result.seconds > 0
    assert len(result.launch.accesses) == 0


def test_a_stage_may_be_named_in_four_ways():
    problem = small_problem()
    results = [run(name, problem, **EMULATOR) for name in ("s12", "s12_odd_half_stride")]
    results += [run(given, problem, **EMULATOR) for given in (stage("s12"), stage("s12").path)]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].ds0, other.ds0)


def test_bf16_snapshots_hold_what_fp32_ones_hold():
    """dS lives in bf16 shared memory, so that half the bytes lose nothing."""
    wide = run("s12", small_problem(), **EMULATOR)
    narrow = run("s12", small_problem(), snapshot_dtype="bfloat16", **EMULATOR)
    np.testing.assert_array_equal(wide.snapshots, narrow.snapshots)


def test_splitting_the_columns_changes_no_bit():
    problem = random_problem(lengths=[40, 40], heads=2)
    results = [run("s12", problem, v_split=v_split, **EMULATOR) for v_split in (1, 2, 4, 8)]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].snapshots, other.snapshots)
        np.testing.assert_array_equal(results[0].ds0, other.ds0)


@every_stage
def test_every_stage_computes_the_same_bits(rung):
    """No stage changes the order of a sum, up to the article's last one."""
    first, this = (run(name, small_problem(), **EMULATOR) for name in ("s12", rung))
    np.testing.assert_array_equal(first.snapshots, this.snapshots)
    np.testing.assert_array_equal(first.ds0, this.ds0)


@pytest.mark.parametrize("name", ["s02", "s12"])
def test_a_sequence_does_not_see_its_neighbours(name: str):
    """Behind a short tile lie the next sequence's tokens; here they are NaN."""
    problem = random_problem(lengths=[17, 31, 5], varlen=True, heads=2)
    alone = run(name, problem, **EMULATOR)
    poisoned = {array: getattr(problem, array).copy() for array in ("q", "k", "do", "beta")}
    for array in ("q", "k", "do"):
        poisoned[array][17:48] = BF16_NAN
    poisoned["beta"][:, 17:48] = np.nan
    beside_nan = run(name, replace(problem, **poisoned), **EMULATOR)
    for sequence in (0, 2):
        np.testing.assert_array_equal(alone.ds0[sequence], beside_nan.ds0[sequence])
        assert not np.isnan(beside_nan.ds0[sequence]).any()


def test_an_empty_sequence_returns_its_rounded_dht():
    problem = random_problem(lengths=[0, 16], varlen=True)
    result = run("s12", problem, **EMULATOR)
    truth, _ = expected(problem, "float32")
    np.testing.assert_allclose(result.ds0[0], truth[1][0], rtol=2**-8)


def test_no_final_gradient_means_zeros():
    problem = random_problem(lengths=[32], final_gradient=False)
    result = run("s12", problem, **EMULATOR)
    assert not result.snapshots[-1].any()


def test_a_trace_is_kept_when_asked_for():
    result = run("s12", small_problem(), trace=True)
    assert result.machine == "emulator"
    assert len(result.launch.accesses) > 0


def test_extra_shared_memory_is_left_alone():
    result = run("s12", small_problem(), extra_smem=1000, **EMULATOR)
    np.testing.assert_array_equal(result.ds0, run("s12", small_problem(), **EMULATOR).ds0)


def test_auto_takes_the_gpu_if_there_is_one(monkeypatch):
    def no_gpu() -> None:
        raise MachineUnavailable("none")

    for hopper, chosen in ((lambda: None, "gpu"), (no_gpu, "emulator")):
        monkeypatch.setattr(device, "hopper", hopper)
        assert choose_machine("auto") == chosen


# ---- what a check catches ----


def test_a_check_says_what_it_found():
    row = check("s12", **EMULATOR)
    assert isinstance(row, CheckRow)
    assert (row.stage, row.problem, row.machine) == ("s12", "48 tokens", "emulator")
    assert row.ok and row.faults == []
    assert 0 < row.rel_rms <= 1.3 * row.simulated_rel_rms
    assert 0 < row.max_err < 0.02


def test_wrong_numbers_are_caught(tmp_path: Path):
    path = edited(tmp_path, "dv.r[0] *= minus_beta;", "dv.r[0] *= -minus_beta;")
    row = check(path, **EMULATOR)
    assert not row.ok
    assert row.stage == "mine.cu"
    assert any("times that by rounding" in fault for fault in row.faults)


def test_the_recurrence_must_be_there(tmp_path: Path):
    """Under a strong gate a kernel that forgets the state is nearly right; the small problem's is weak."""
    path = edited(tmp_path, "factor * bf16_lo(ds.r[r])", "0.f * bf16_lo(ds.r[r])")
    assert check(path, **EMULATOR).rel_rms > 0.1


def test_elements_left_out_are_counted(tmp_path: Path):
    path = edited(tmp_path, "    stg(ds0 + state", "    if (i >= 3) stg(ds0 + state")
    row = check(path, **EMULATOR)
    assert f"3 of {128 * 128} elements of ds0 were never written" in row.faults


def test_a_race_is_caught(tmp_path: Path):
    path = edited(tmp_path, "// ---- publish ----\n    __syncthreads();", "// ---- publish ----")
    row = check(path, **EMULATOR)
    assert any(fault.startswith("race") and "mine.cu" in fault for fault in row.faults)


def test_a_layout_gone_plain_is_caught_by_the_budget_alone(tmp_path: Path):
    path = edited(tmp_path, "using KrLayout = Interleaved<C>;", "using KrLayout = Rows<bf16, D>;")
    assert check(path, **EMULATOR).ok
    faults = check(path, like="s12", **EMULATOR).faults
    assert "r1: store KR takes 256 wavefronts a tile, the budget of s12 is 32" in faults


def test_results_that_hang_on_the_order_are_caught(monkeypatch):
    def unsteady(stage, problem, *, seed: int, **options) -> Result:
        result = run(stage, problem, seed=seed, **options)
        result.ds0[0, 0, 0, 0] += seed * 1e-6
        return result

    monkeypatch.setattr(checking, "run", unsteady)
    row = check("s12", **EMULATOR)
    assert row.faults == ["seeds [0, 1] give different results: they hang on the order of the warps"]


def test_a_gpu_run_is_judged_the_same_way(monkeypatch):
    right = run("s12", small_problem(), **EMULATOR)

    def pretended(runnable: Runnable) -> float:
        runnable.written["snapshots"][...] = right.snapshots
        runnable.written["ds0"].reshape(-1)[2:] = right.ds0.reshape(-1)[2:]
        return 1.0

    monkeypatch.setattr(gpu, "launch_from_host", pretended)
    row = check("s12", machine="gpu")
    assert row.machine == "gpu"
    assert row.faults[0] == f"2 of {128 * 128} elements of ds0 were never written"
    assert row.rel_rms == np.inf


@pytest.mark.gpu
@every_stage
def test_on_a_gpu(rung):
    assert check(rung, machine="gpu").ok


# ---- the wavefront budget ----


@pytest.mark.parametrize("predicted", budget.load()["predicted"], ids=lambda entry: entry["what"])
def test_what_was_predicted_is_what_is_traced(predicted: dict):
    for name, wavefronts in predicted["wavefronts"].items():
        spent = budget.spent(trace(stage(name)))
        assert sum(spent[kind] for kind in predicted["classes"]) == wavefronts, name


@every_stage
def test_every_stage_keeps_its_budget(rung):
    assert budget.faults(rung, like=rung.id) == []


def test_the_budget_covers_the_ladder():
    assert list(budget.load()["per_tile"]) == [rung.id for rung in STAGES]


# ---- the standard set ----


@pytest.mark.parametrize("cases", [emulator_cases, gpu_cases])
def test_every_template_parameter_takes_every_value(cases):
    made = cases()
    assert {case.v_split for case in made} == {1, 2, 4, 8}
    assert {case.snapshot_dtype for case in made} == {"float32", "bfloat16"}
    assert {case.problem.cu_seqlens is None for case in made} == {True, False}
    assert {case.problem.dht is None for case in made} == {True, False}
    assert len({case.problem.name for case in made}) == len(made)


def test_the_gpus_set_is_long():
    problems = [case.problem for case in gpu_cases()]
    assert [1300, 547, 2048, 963, 271, 3063] in [problem.lengths for problem in problems]
    assert 4096 in [problem.length for problem in problems]


def test_stages_are_checked_in_order(monkeypatch):
    monkeypatch.setattr(standard_set, "emulator_cases", lambda: emulator_cases()[:2])
    reported = []
    with heard_by(reported.append):
        rows = check_stages(["s12", "s02"], **EMULATOR)
    assert [row.stage for row in rows] == ["s12", "s12", "s02", "s02"]
    assert all(row.ok for row in rows)
    assert len(reported) == 4


def test_stage_names():
    assert as_stage(stage("s02").path) == as_stage("s02_no_t1") == as_stage("s02") == stage("s02")


# ---- what does not fit ----


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"stage": "s99"}, "stage 's99' was given"),
        ({"stage": 12}, "stage is 12: give a Stage, an id such as 's12', or the path of a .cu file."),
        ({"stage": Path("nowhere.cu")}, "There is no CUDA source file"),
        ({"problem": None}, "problem is NoneType: give a Problem"),
        ({"problem": "48 tokens"}, "problem is str: give a Problem"),
        ({"machine": "tpu"}, "machine is 'tpu': give one of auto, gpu, emulator."),
        ({"v_split": 3}, "v_split is 3"),
        ({"v_split": "1"}, "v_split is '1'"),
        ({"snapshot_dtype": "float16"}, "snapshot_dtype is 'float16'"),
        ({"seed": -1}, "seed is -1: give a whole number from 0 on."),
        ({"seed": 0.5}, "seed is 0.5: give a whole number from 0 on."),
        ({"extra_smem": -4}, "extra_smem is -4: give a whole number from 0 on."),
        ({"extra_smem": 10**6}, "extra_smem is 1000000 beside the 67520 bytes"),
        ({"machine": "gpu", "trace": True}, "machine is 'gpu' and trace is on"),
    ],
)
def test_run_says_what_does_not_fit(arguments: dict, said: str):
    wanted = {"stage": "s12", "problem": small_problem()} | EMULATOR | arguments
    with pytest.raises(BadInput) as error:
        run(wanted.pop("stage"), wanted.pop("problem"), **wanted)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "missing"),
    [("", "THREADS at file level"), ("constexpr int THREADS = 128;\n", "SharedMemory<VSPLIT>::BYTES")],
)
def test_run_wants_a_file_made_like_a_stages(tmp_path: Path, text: str, missing: str):
    path = tmp_path / "other.cu"
    path.write_text(f'#include "gpu.cuh"\n{text}')
    with pytest.raises(BadInput, match=f"other.cu has no {missing}"):
        run(path, small_problem(), **EMULATOR)


def test_code_that_does_not_compile_is_one_sentence(tmp_path: Path):
    path = edited(tmp_path, "float q_squares = 0,", "float q_squares = ,")
    with pytest.raises(BadInput, match="the C"):
        run(path, small_problem(), **EMULATOR)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"seeds": ()}, "seeds is (): give a list of whole numbers"),
        ({"problem": 3}, "problem is int: give a Problem"),
        ({"machine": "cpu"}, "machine is 'cpu'"),
        ({"stage": "s99"}, "stage 's99' was given"),
        ({"like": "s99"}, "stage 's99' was given"),
    ],
)
def test_check_says_what_does_not_fit(arguments: dict, said: str):
    wanted = {"stage": "s12", "problem": small_problem()} | EMULATOR | arguments
    with pytest.raises(BadInput) as error:
        check(wanted.pop("stage"), wanted.pop("problem"), **wanted)
    assert said in str(error.value)
