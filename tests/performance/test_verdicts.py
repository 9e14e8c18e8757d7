"""Verdicts: whether a change measured here is the article's."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kda_learn.performance.verdicts import OPPOSITE, OTHER_SIZE, REPRODUCED, WITHIN_NOISE, verdict
from kda_learn.timing.statistics import Estimate


def sure(percent):
    return Estimate(percent, percent - 0.1, percent + 0.1)


@pytest.mark.parametrize(
    ("delta", "article", "wanted"),
    [
        (sure(-10), -10, REPRODUCED),
        (sure(-5), -10, REPRODUCED),
        (sure(-20), -10, REPRODUCED),
        (sure(-4.9), -10, OTHER_SIZE),
        (sure(-20.1), -10, OTHER_SIZE),
        (sure(+6), +3.1, REPRODUCED),
        (sure(+10), -10, OPPOSITE),
        (sure(-0.5), 3.1, OPPOSITE),
        (sure(-12), -0.1, OTHER_SIZE),
        (sure(-1.4), -1.0, WITHIN_NOISE),
        (sure(+1.4), -1.0, WITHIN_NOISE),
        (sure(-1.5), -1.0, REPRODUCED),
        (sure(-1.4), -1.5, REPRODUCED),
        (Estimate(-8, -17, 1), -10, WITHIN_NOISE),
        (Estimate(-8, -17, 0), -10, WITHIN_NOISE),
        (Estimate(8, 0, 17), -10, WITHIN_NOISE),
        (sure(-10), None, None),
    ],
)
def test_verdicts(delta, article, wanted):
    found, reason = verdict(delta, article)
    assert found == wanted
    assert reason


@given(st.floats(-90, 90), st.floats(0, 20), st.floats(-90, 90))
def test_there_is_always_one_verdict(percent, width, article):
    found, reason = verdict(Estimate(percent, percent - width, percent + width), article)
    assert found in (REPRODUCED, OTHER_SIZE, WITHIN_NOISE, OPPOSITE)
    assert found != REPRODUCED or percent * article > 0
    assert found != OPPOSITE or percent * article < 0
    assert reason


# ---- at their borders ----


def exactly(percent: float) -> Estimate:
    """A change measured so well that no interval matters."""
    return Estimate(percent, percent, percent)


JUST_BELOW_1_5 = math.nextafter(1.5, 0)
JUST_BELOW_3 = math.nextafter(3.0, 0)
JUST_ABOVE_12 = math.nextafter(12.0, 13)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("here", "article", "wanted"),
    [
        (JUST_BELOW_1_5, JUST_BELOW_1_5, WITHIN_NOISE),
        (1.5, 1.5, REPRODUCED),
        (1.5, JUST_BELOW_1_5, REPRODUCED),
        (JUST_BELOW_1_5, 1.5, REPRODUCED),
        (JUST_BELOW_1_5, -JUST_BELOW_1_5, WITHIN_NOISE),
        (1.5, -JUST_BELOW_1_5, OPPOSITE),
        (JUST_BELOW_1_5, -1.5, OPPOSITE),
        (3.0, 6.0, REPRODUCED),
        (JUST_BELOW_3, 6.0, OTHER_SIZE),
        (12.0, 6.0, REPRODUCED),
        (JUST_ABOVE_12, 6.0, OTHER_SIZE),
        (5.0, 0.0, OTHER_SIZE),  # no sign to be opposite to
    ],
)
def test_verdicts_at_their_borders(here, article, wanted, sign):
    assert verdict(exactly(sign * here), sign * article)[0] == wanted


def test_zero_inside_the_interval_comes_first():
    assert verdict(Estimate(8, 0, 17), 8)[0] == WITHIN_NOISE
    assert verdict(Estimate(8, 1e-9, 17), 8)[0] == REPRODUCED
    assert verdict(Estimate(8, 0, 17), None) == (None, "the article gives no figure")


@pytest.mark.parametrize(
    ("delta", "article", "reason"),
    [
        (Estimate(8, -1, 17), 10, "the interval -1.0 to +17.0 % holds zero"),
        (exactly(1.04), -1.2, "+1.0 % here and -1.2 % in the article are both below 1.5 %"),
        (exactly(-8), 10, "-8.0 % here, +10.0 % in the article"),
        (exactly(8), 10, "+8.0 % here, +10.0 % in the article"),
        (exactly(2), 10, "+2.0 % here, +10.0 % in the article: more than 2 times apart"),
    ],
)
def test_the_reason_of_a_verdict(delta, article, reason):
    assert verdict(delta, article)[1] == reason
