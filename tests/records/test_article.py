"""The article's figures: times, changes as it states them, and changes between stages it does not compare."""

import pytest

from kda_learn.records.article import article_delta, article_us, figures
from kda_learn.sources.stages import LADDER

B32 = "B32/T8192"


@pytest.mark.parametrize(
    ("stage", "base", "percent"),
    [
        ("s01", "s00", [-6.7, -6.9, -11.9]),  # stated against the previous one
        ("s02", "s00", [-38, -37.5, -37]),  # stated against the baseline
        ("s02", "s01", [-33.7, -32.8, -28.4]),  # from 66301 / (107252 * 0.933) and so on
        ("s03a", "s02", [-1.5, -1.2, -2.6]),
        ("s07", "s06", [3.1, 3.2, 14.5]),
        ("s08", "s06", [-1.0, -3.8, -10.5]),  # stated against s06: s07 was taken back
        ("s09", "s08", [-2.2, -1.9, -0.5]),
        ("s10", "s09", [10.8, 12.2, 12.5]),
        ("s11", "s09", [-10.3, -10.6, -7.7]),
        ("s12", "s11", [-1.0, -1.0, -4.2]),  # the previous one is s11: s12x was never built there
        ("s12", "s00", [-71.8, -69.4, -55.4]),  # from the times; the article states the same
        ("s11", "s02", [-54.0, -50.5, -26.2]),  # a pair the article does not compare
    ],
)
def test_the_articles_deltas(stage, base, percent):
    found = [article_delta(stage, base, config) for config in figures()["configs"]]
    assert found == pytest.approx(percent, abs=0.05)


@pytest.mark.parametrize(
    ("stage", "base", "config"),
    [
        ("s00", None, B32),
        ("s12x", "s11", B32),
        ("s12", "s12x", B32),
        ("s12", "s11", "B4/T64"),
        ("s99", "s00", B32),
    ],
)
def test_no_figure(stage, base, config):
    assert article_delta(stage, base, config) is None


def test_the_articles_times():
    assert article_us("s00", B32) == 107252
    assert article_us("s09", B32) == pytest.approx((34163 + 34393) / 2)
    assert article_us("s01", B32) == pytest.approx(107252 * 0.933)
    assert article_us("s12x", B32) is None


def test_every_stage_but_the_first_and_the_rejected_one_has_a_delta():
    for config in figures()["configs"]:
        without = [rung.id for rung in LADDER if article_delta(rung.id, rung.base, config) is None]
        assert without == ["s00", "s12x"]


def test_stated_deltas_agree_with_the_articles_own_times():
    """Within rounding and the spread of its ranges: a stated delta is never another comparison than we take
    it for.
    """
    for rung in LADDER:
        for config in figures()["configs"]:
            delta = article_delta(rung.id, rung.base, config)
            stage_us, base_us = article_us(rung.id, config), article_us(rung.base or "", config)
            if delta is not None and base_us is not None:
                assert delta == pytest.approx((stage_us / base_us - 1) * 100, abs=0.7), (rung.id, config)
