"""Statistics of timings: the median, and how far chance moves it (a bootstrap interval)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 4000


@dataclass(frozen=True)
class Estimate:
    """A median and the interval that holds 95 % of the medians of resampled data."""

    median: float
    low: float
    high: float

    @property
    def holds_zero(self) -> bool:
        """Whether the interval holds zero: then the data name no winner."""
        return self.low <= 0 <= self.high


def median_estimate(samples: Sequence[float]) -> Estimate:
    """The median of `samples` (at least one) and its interval by the bootstrap: resample with replacement,
    and again.

    The random numbers start from a fixed seed, so the same samples give the same interval.
    """
    values = np.asarray(samples, dtype=np.float64)
    random = np.random.default_rng(0)
    medians = np.median(random.choice(values, size=(RESAMPLES, len(values))), axis=1)
    low, high = np.quantile(medians, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Estimate(float(np.median(values)), float(low), float(high))


def delta_estimate(samples: Sequence[float], base_samples: Sequence[float]) -> Estimate:
    """The change from base to variant in percent, and its interval.

    Sample i of both was taken in the same round, so a drift of the clock that both saw cancels in their
    ratio.
    """
    ratios = np.asarray(samples, dtype=np.float64) / np.asarray(base_samples, dtype=np.float64)
    return median_estimate((ratios - 1) * 100)
