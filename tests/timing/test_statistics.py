"""The median of some rounds and its interval, and the change between two stages that took turns."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kda_learn.timing.statistics import Estimate, delta_estimate, median_estimate


def test_the_median_and_its_interval():
    random = np.random.default_rng(1)
    estimate = median_estimate(random.normal(100, 2, 25))
    assert estimate.low < estimate.median < estimate.high
    assert estimate.low < 100 < estimate.high
    assert estimate.high - estimate.low < 4


def test_equal_samples_leave_no_interval():
    assert median_estimate([3.0] * 7) == Estimate(3.0, 3.0, 3.0)


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=30))
def test_the_interval_holds_the_median_and_lies_within_the_samples(samples):
    estimate = median_estimate(samples)
    assert min(samples) <= estimate.low <= estimate.median <= estimate.high <= max(samples)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    random = np.random.default_rng(2)
    covered = [
        (estimate := median_estimate(random.normal(10, 1, 15))).low <= 10 <= estimate.high for _ in range(200)
    ]
    assert np.mean(covered) > 0.88


def test_a_drift_that_both_saw_cancels():
    drift = np.linspace(1, 1.3, 9)
    delta = delta_estimate(90 * drift, 100 * drift)
    assert (delta.median, delta.low, delta.high) == pytest.approx((-10, -10, -10))


def chance_of_a_median_up_to(position: int, count: int) -> float:
    """That the median of `count` (odd) draws from 0 .. count - 1 is at most `position`.

    It is if more than half of the draws are; each is with the chance (position + 1) / count.
    """
    draws = range(count // 2 + 1, count + 1)
    up_to = position + 1
    ways = sum(math.comb(count, k) * up_to**k * (count - up_to) ** (count - k) for k in draws)
    return ways / count**count


def test_the_interval_holds_95_percent_of_all_resampled_medians():
    """For whole numbers it is known exactly: 2.5 % of all medians lie below it and 2.5 % above."""
    count = 1001
    estimate = median_estimate(range(count))
    assert (estimate.median, estimate.low, estimate.high) == (500, 469, 531)
    for border, share in ((469, 0.025), (531, 0.975)):
        assert chance_of_a_median_up_to(border - 1, count) < share < chance_of_a_median_up_to(border, count)


def test_chance_starts_anew_each_time():
    samples = np.random.default_rng().normal(100, 2, 500)
    assert median_estimate(samples) == median_estimate(samples)


def test_float32_samples_count_in_float64():
    """Midway between them lies no float32."""
    assert median_estimate(np.array([2**24, 2**24 + 2], np.float32)).median == 2**24 + 1


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=20))
def test_the_same_samples_give_the_same_estimate(samples):
    assert median_estimate(samples) == median_estimate(tuple(samples)) == median_estimate(np.array(samples))


def test_the_median_of_an_even_number_of_samples_lies_between_two():
    assert median_estimate([1, 10, 3, 2]).median == 2.5


def test_samples_are_drawn_with_replacement():
    """Without it every resample would be the samples themselves, and the interval a point."""
    estimate = median_estimate([1, 2, 3, 4, 5])
    assert (estimate.low, estimate.high) == (1, 5)


def test_a_change_is_the_median_of_the_ratios_of_each_round():
    delta = delta_estimate([150, 50, 300], [100, 100, 100])
    assert delta == Estimate(50, -50, 200)
    assert delta_estimate([110, 220], [100, 200]).median == pytest.approx(10)


@pytest.mark.parametrize(
    ("low", "high", "holds"),
    [(-1, 1, True), (0, 1, True), (-1, 0, True), (0, 0, True), (1e-9, 1, False), (-1, -1e-9, False)],
)
def test_an_interval_holds_zero_with_its_ends(low, high, holds):
    assert Estimate((low + high) / 2, low, high).holds_zero is holds
