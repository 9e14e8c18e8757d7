"""The rule that follows from measured times: how many blocks should share a state's columns.

Many (sequence, head) pairs fill the GPU by themselves. With few, several blocks can share the columns of each
state (VSplit), but every one of them then rebuilds the same qd, kd and kr, and fewer of its warps have
columns of their own. When that pays off is a matter of measurement.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..kernel_a.variants import V_SPLITS

FACTORS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
"""What `fit` tries as the blocks that a rule allows for each SM."""


@dataclass(frozen=True)
class SplitRule:
    """The largest VSplit, up to `largest`, with which the GPU gets at most `factor` blocks for each SM."""

    largest: int
    factor: float

    def v_split(self, pairs: int, sms: int) -> int:
        """VSplit for so many (sequence, head) pairs on so many SMs; 1 if no other fits."""
        fitting = [
            split for split in V_SPLITS if split <= self.largest and pairs * split <= self.factor * sms
        ]
        return max(fitting, default=1)

    def limits(self, sms: int) -> dict[int, int]:
        """For each VSplit above 1, the most pairs for which the rule takes it or a larger one."""
        return {split: int(self.factor * sms // split) for split in V_SPLITS if 1 < split <= self.largest}

    def __str__(self) -> str:
        choices = ", ".join(str(split) for split in V_SPLITS if split <= self.largest)
        return f"the largest of {choices} with N*H*VSplit <= {self.factor:g} x SMs, else 1"


@dataclass(frozen=True)
class Point:
    """A stage's times at one number of (sequence, head) pairs and of SMs: VSplit -> time, in any unit."""

    pairs: int
    sms: int
    times: Mapping[int, float]

    @property
    def best(self) -> int:
        """The fastest VSplit."""
        return min(self.times, key=lambda split: self.times[split])

    def loss_pct(self, v_split: int) -> float:
        """How much longer a VSplit takes than the fastest, in percent."""
        return (self.times[v_split] / self.times[self.best] - 1) * 100


def fit(points: Sequence[Point]) -> SplitRule:
    """The rule that loses least against the fastest VSplit, on average over the points.

    Of rules that lose the same it is the one nearest to one block for each SM.
    """
    rules = [SplitRule(largest, factor) for largest in V_SPLITS for factor in FACTORS]
    # Losses that differ by less than a thousandth of a percent are the same.
    return min(
        rules,
        key=lambda rule: (round(mean_loss_pct(points, rule), 3), abs(rule.factor - 1), rule.largest),
    )


def losses(points: Iterable[Point], rule: SplitRule) -> list[float]:
    """What the rule loses at each point against the fastest VSplit, in percent."""
    return [point.loss_pct(rule.v_split(point.pairs, point.sms)) for point in points]


def mean_loss_pct(points: Sequence[Point], rule: SplitRule) -> float:
    """The mean of `losses`."""
    found = losses(points, rule)
    return sum(found) / len(found)
