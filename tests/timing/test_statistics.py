"""The median of some rounds and its interval, and the change between two stages that took turns."""

import numpy as np
import pytest
from hypothesis import given
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
