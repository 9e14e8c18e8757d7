"""The gate lets correct kernels pass and stops the wrong ones, each planted here in NumPy."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from kda_learn.ground.errors import BadInput
from kda_learn.hardware.bf16 import from_bf16, round_to
from kda_learn.kernel_a.accuracy import GateResult, Results, errors, gate
from kda_learn.kernel_a.problem import STRONG_GATE, Problem, random_problem
from kda_learn.kernel_a.reference import problem_operands, scan, simulate
from kda_learn.kernel_a.reverse_scan import Rounding, reverse_scan


def planted(problem: Problem, **changes: np.ndarray) -> Results:
    """What a kernel would write that has these arrays of TileOperands wrong, and rounds as kernels do."""
    operands = replace(problem_operands(problem), **changes)
    result = reverse_scan(operands, problem.tiling, problem.dht, Rounding())
    return result.snapshots, result.ds0


truth_of = lru_cache(maxsize=4)(scan)
simulation_of = lru_cache(maxsize=4)(simulate)


def judge(problem: Problem, actual: Results) -> GateResult:
    return gate(actual, truth_of(problem), simulation_of(problem))


def correct_kernel(problem: Problem) -> Results:
    """A kernel whose exp2 and rsqrt are right to float32 only: some roundings to bf16 go the other way."""
    random = np.random.default_rng(1)
    exact = problem_operands(problem)

    def approximate(values: np.ndarray) -> np.ndarray:
        return values * (1 + 3e-7 * random.standard_normal(values.shape))

    names = ("qd", "kd", "kr", "decay", "beta")
    return planted(problem, **{name: approximate(getattr(exact, name)) for name in names})


PROBLEMS = {
    "weak gates": dict(lengths=[512], heads=2),
    "weak gates, no dht": dict(lengths=[512], final_gradient=False),
    "strong gates": dict(lengths=[512], gate=STRONG_GATE),
    "strong gates, no dht": dict(lengths=[512], gate=STRONG_GATE, final_gradient=False),
    "short sequences": dict(lengths=[0, 1, 2, 15, 16, 17, 33], varlen=True, heads=2),
    "short sequences, no dht": dict(lengths=[0, 1, 2, 15, 16, 17, 33], varlen=True, final_gradient=False),
    "small beta": dict(lengths=[256], beta_scale=0.02, final_gradient=False),
    "no tokens": dict(lengths=[0, 0]),
}


@pytest.mark.parametrize("arguments", PROBLEMS.values(), ids=PROBLEMS.keys())
def test_correct_kernels_pass(arguments):
    problem = random_problem(**arguments)
    verdict = judge(problem, correct_kernel(problem))
    assert verdict.ok
    assert verdict.worst_ratio < 1.05
    assert verdict.rel_rms == pytest.approx(verdict.simulated_rel_rms, rel=0.05)


# ---- what must not pass ----


@pytest.fixture(scope="module", params=[True, False], ids=["dht", "no dht"])
def weak(request) -> Problem:
    return random_problem(lengths=[128, 128], heads=2, final_gradient=request.param)


def zeros_for(problem: Problem, name: str) -> dict[str, np.ndarray]:
    return {name: np.zeros_like(getattr(problem_operands(problem), name))}


NO_G2 = "kr"
NO_RECURRENCE = "decay"


@pytest.mark.parametrize("name", [NO_G2, NO_RECURRENCE], ids=["no G2", "no recurrence"])
def test_a_kernel_without_g2_or_recurrence_fails_at_weak_gates(weak, name):
    assert not judge(weak, planted(weak, **zeros_for(weak, name))).ok


@pytest.mark.parametrize("name", [NO_G2, NO_RECURRENCE], ids=["no G2", "no recurrence"])
def test_and_passes_at_strong_gates_which_is_why_both_are_checked(name):
    strong = random_problem(lengths=[128, 128], heads=2, gate=STRONG_GATE)
    assert judge(strong, planted(strong, **zeros_for(strong, name))).ok


def test_wrong_formulas_show_through_the_rounding():
    problem = random_problem(lengths=[128], gate=-0.1)
    operands = problem_operands(problem)
    wrong = {
        "kd and kr swapped": dict(kd=operands.kr, kr=operands.kd),
        "INV not transposed": dict(inv=operands.inv.swapaxes(-1, -2)),
        "Mqk without its diagonal": dict(mqk=np.tril(operands.mqk, -1)),
        "no beta in G5": dict(beta=np.ones_like(operands.beta)),
    }
    for name, changes in wrong.items():
        assert not judge(problem, planted(problem, **changes)).ok, name


POISON = {"NaN": np.nan, "infinity": np.inf, "a large number": 1e30, "zero": 0.0}


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON.keys())
@pytest.mark.parametrize("target", ["one row of a snapshot", "a whole snapshot", "one ds0"])
def test_unwritten_values_fail(weak, target, poison):
    snapshots, ds0 = simulate(weak)
    if target == "one row of a snapshot":
        snapshots[3, 17] = poison
    elif target == "a whole snapshot":
        snapshots[3] = poison
    else:
        ds0[1, 1] = poison
    verdict = judge(weak, (snapshots, ds0))
    assert not verdict.ok
    expected_place = "ds0 matrix 3" if target == "one ds0" else "snapshot 3"
    assert verdict.message.startswith(expected_place)


def test_a_single_wrong_element_fails(weak):
    snapshots, ds0 = simulate(weak)
    snapshots[3, 5, 77] += 2 * np.abs(snapshots[3]).max()
    assert not judge(weak, (snapshots, ds0)).ok


def test_cutting_off_instead_of_rounding_fails(weak):
    """bf16 by dropping the lower half of a float32 is twice as wrong as rounding to nearest."""
    truth = scan(weak)
    rounded = tuple(round_to(part, "bfloat16") for part in truth)
    cut = tuple(from_bf16(part.astype(np.float32).view(np.uint32) >> 16) for part in truth)
    assert gate(rounded, truth, rounded).ok
    assert not gate(cut, truth, rounded).ok


def test_where_the_truth_is_zero_only_zeros_pass():
    problem = random_problem(lengths=[40], final_gradient=False)
    snapshots, ds0 = simulate(problem)
    last_tile = 2
    assert not scan(problem)[0][last_tile].any()
    assert judge(problem, (snapshots, ds0)).ok
    snapshots[last_tile, 0, 0] = 1e-30
    verdict = judge(problem, (snapshots, ds0))
    assert not verdict.ok
    assert verdict.worst_ratio == np.inf


# ---- bugs that public kernels have had ----


def test_a_gate_read_without_the_head_offset_fails():
    problem = random_problem(lengths=[128], heads=2)
    gc = problem.gc.copy()
    gc[problem.total_tiles :] = gc[: problem.total_tiles]
    verdict = judge(problem, simulate(replace(problem, gc=gc)))
    assert not verdict.ok
    worst_snapshot = int(verdict.message.split()[1])
    assert worst_snapshot >= problem.total_tiles  # head 0 is right


def test_a_gate_read_without_the_sequence_offset_fails():
    problem = random_problem(lengths=[64, 64])
    gc = problem.gc.copy()
    gc[4:] = gc[:4]
    assert not judge(problem, simulate(replace(problem, gc=gc))).ok


def test_phantom_tiles_over_another_sequence_fail():
    """A launch for length // 16 + 1 tiles per sequence has one too many where 16 divides the length.

    It holds no token, so it changes no gradient; but its snapshot lands on the next sequence's first tile.
    """
    problem = random_problem(lengths=[32, 40], varlen=True)
    snapshots, ds0 = simulate(problem)
    phantom_tile = 32 // 16
    snapshots[phantom_tile] = problem.dht[0, 0]
    verdict = judge(problem, (snapshots, ds0))
    assert not verdict.ok
    assert verdict.message.startswith(f"snapshot {phantom_tile} ")


# ---- the figures ----


def test_errors_of_known_matrices():
    truth = np.array([[[3.0, 4.0]], [[0.0, 0.0]], [[0.0, 0.0]], [[1.0, 1.0]]])
    actual = np.array([[[3.0, 4.5]], [[0.0, 0.0]], [[0.0, 1e-20]], [[1.0, np.nan]]], np.float32)
    result = errors(actual, truth)
    np.testing.assert_allclose(result.relative_rms, [0.1, 0.0, np.inf, np.inf])
    np.testing.assert_allclose(result.relative_max, [0.125, 0.0, np.inf, np.inf])
    assert result.worst == result.max_error == np.inf
    assert errors(actual[:1], truth[:1]).worst == pytest.approx(0.1)


def test_errors_of_nothing_and_of_other_shapes():
    nothing = np.empty((0, 4, 4))
    assert errors(nothing, nothing).worst == errors(nothing, nothing).max_error == 0.0
    with pytest.raises(BadInput, match=r"shape \(2, 4, 4\): give \(3, 4, 4\)"):
        errors(np.zeros((2, 4, 4)), np.zeros((3, 4, 4)))


def test_a_nearly_exact_matrix_is_measured_by_the_others():
    """One flipped rounding more than the simulation is a large part of a tiny error, and no mistake."""
    truth = (np.ones((10, 8, 8)), np.ones((1, 1, 8, 8)))
    simulated = (np.full((10, 8, 8), 1.003), np.full((1, 1, 8, 8), 1.003))
    simulated[0][4] = 1.00001
    actual = (simulated[0].copy(), simulated[1].copy())
    actual[0][4] = 1.00003
    assert gate(actual, truth, simulated).ok
    actual[0][4] = 1.001
    assert not gate(actual, truth, simulated).ok


def one_number_each(numbers: list[float]) -> Results:
    """Snapshots of a single number each, and a ds0 that is right: an error is then what one sees."""
    return np.array(numbers).reshape(-1, 1, 1), np.full((1, 1, 1, 1), 10.0)


def test_exactly_1_3_times_as_wrong_passes_and_no_more():
    """The truth is 10, the simulation off by 10, so 23 is 1.3 times as wrong."""
    truth, simulated = one_number_each([10.0]), one_number_each([20.0])
    assert gate(one_number_each([23.0]), truth, simulated) == GateResult(
        ok=True,
        rel_rms=1.3,
        simulated_rel_rms=1.0,
        max_err=1.3,
        worst_ratio=1.3,
        message="snapshot 0 has the error 1.30e+00 (relative RMS), "
        "1.30 times that by rounding, 1.00e+00; up to 1.3 times passes.",
    )
    assert not gate(one_number_each([np.nextafter(23.0, 24)]), truth, simulated).ok


def test_the_floor_is_a_tenth_of_the_median_of_what_is_not_exact():
    """Errors of 1.0, 1.0 and 0.01, and two of nothing: the floor is 0.1, so 0.13 is the most that passes."""
    truth, simulated = one_number_each([10.0] * 4), one_number_each([20.0, 20.0, 10.1, 10.0])
    assert gate(one_number_each([20.0, 20.0, 11.3, 10.0]), truth, simulated).worst_ratio == pytest.approx(1.3)
    assert gate(one_number_each([20.0, 20.0, 11.29, 10.0]), truth, simulated).ok
    assert not gate(one_number_each([20.0, 20.0, 11.31, 10.0]), truth, simulated).ok
    assert gate(one_number_each([20.0, 20.0, 10.0, 11.29]), truth, simulated).ok
    assert not gate(one_number_each([20.0, 20.0, 10.0, 11.31]), truth, simulated).ok


def test_an_exact_simulation_lets_only_exact_results_pass():
    truth = one_number_each([10.0, 5.0])
    right = gate(truth, truth, truth)
    assert right == GateResult(True, 0.0, 0.0, 0.0, 0.0, right.message)
    assert gate(one_number_each([10.0, 5.0001]), truth, truth).worst_ratio == np.inf


def test_the_worst_matrix_is_named_by_its_ratio_and_not_by_its_error():
    truth, simulated = one_number_each([10.0] * 3), one_number_each([20.0, 14.0, 14.0])
    verdict = gate(one_number_each([22.0, 14.0, 15.0]), truth, simulated)
    assert verdict.message.startswith("snapshot 2 has the error 5.00e-01 (relative RMS), 1.25 times")
    assert (verdict.ok, verdict.rel_rms, verdict.max_err) == (True, 1.2, 1.2)


def test_the_first_ds0_comes_after_the_last_snapshot():
    truth = one_number_each([10.0, 10.0])
    snapshots, ds0 = one_number_each([10.0, 10.0])
    assert gate((snapshots, ds0 + 1), truth, truth).message.startswith("ds0 matrix 0 has")
    wrong_snapshots, _ = one_number_each([10.0, 11.0])
    assert gate((wrong_snapshots, ds0), truth, truth).message.startswith("snapshot 1 has")


def test_a_truth_of_length_1_is_no_special_case():
    result = errors(np.array([[[1.5]]]), np.array([[[1.0]]]))
    assert (result.worst, result.max_error) == (0.5, 0.5)


def test_float32_results_are_compared_in_float64():
    """In float32 the two would be the same number."""
    truth = np.full((1, 1, 1), 1 + 1e-9)
    assert errors(np.ones((1, 1, 1), np.float32), truth).worst == pytest.approx(1e-9, rel=1e-6)
