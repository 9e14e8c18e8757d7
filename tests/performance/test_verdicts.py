"""Verdicts: whether a change measured here is the article's."""

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
