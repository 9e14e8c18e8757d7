"""The ladder: the article's figures, statistics, verdicts, rows, records."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kda_learn import ladder as ladder_module
from kda_learn import records
from kda_learn.article import article_delta, article_us, figures
from kda_learn.errors import BadInput, MachineUnavailable
from kda_learn.ladder import control, ladder, nearest_base, record_ladders, rows
from kda_learn.stages import LADDER, STAGES
from kda_learn.timing_statistics import Estimate, delta_estimate, median_estimate
from kda_learn.verdicts import OPPOSITE, OTHER_SIZE, REPRODUCED, WITHIN_NOISE, verdict

B32 = "B32/T8192"

# ---- the article ----


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


# ---- statistics ----


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


# ---- verdicts ----


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


# ---- rows ----


def a_run(**changes):
    random = np.random.default_rng(0)

    def times(us):
        return list(us * (1 + 0.001 * random.standard_normal(15)))

    return {
        "config": B32,
        "v_split": 1,
        "rounds": 15,
        "times_us": {"s00": times(80000), "s01": times(75000), "s02": times(60000), "s11": times(16000)},
        "control": "s11",
        "control_us": times(16000),
        "blocks_per_sm": {"s00": 1, "s01": 1, "s02": 4, "s11": 3},
        "rejected": {"s12": "not timed, its check fails: snapshot 0 is off"},
        "clocks": [],
    } | changes


def test_rows_compare_each_stage_with_its_base():
    found = {row["stage"]: row for row in rows([a_run()], ["s00", "s01", "s02", "s11", "s12"])}
    assert found["s00"]["base"] is None
    assert (found["s00"]["verdict"], found["s00"]["reason"]) == (None, "no base to compare with")
    assert found["s01"]["base"] == "s00"
    assert found["s01"]["delta_pct"] == pytest.approx(-6.25, abs=0.2)
    assert found["s01"]["article_delta_pct"] == -6.7
    assert found["s01"]["verdict"] == REPRODUCED
    low, high = found["s01"]["ci_us"]
    assert low <= found["s01"]["median_us"] <= high
    assert found["s11"]["base"] == "s02"  # s09 and all between were not timed
    assert found["s11"]["article_delta_pct"] == pytest.approx(-54.0, abs=0.05)
    assert found["s12"]["median_us"] is None
    assert found["s12"]["reason"].startswith("not timed")
    assert found["s12"]["verdict"] is None


def test_a_stage_alone_has_no_base():
    assert nearest_base("s12", ["s12"]) is None
    assert nearest_base("s12", ["s08", "s12", "s10"]) == "s08"  # s10 is a dead end, not on the path


def test_a_control_is_near_zero():
    found = control(a_run())
    assert abs(found["delta_pct"]) < 0.2
    assert found["stage"] == "s11"
    assert control(a_run(control=None))["delta_pct"] is None


# ---- the whole ----


def measured(sms=(None,)):
    where = {
        "gpu": "NVIDIA H200",
        "sms": 132,
        "driver": "580.1",
        "cuda": "13.0",
        "nvrtc": "13.0",
        "date": "2026-11-30T10:00:00+00:00",
        "digest": records.digests(["s00", "s01", "s02", "s11", "s12"]),
    }
    parts = [{"sms": number or 132, "runs": [a_run(), a_run(config="B8/T32768")]} for number in sms]
    return {"provenance": where, "heads": 32, "notes": ["A note."], "parts": parts}


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(ladder_module, "has_hopper", lambda: False)


@pytest.fixture
def pretended_gpu(monkeypatch):
    requests = []

    def measure(stages, configs, sms, heads):
        requests.append((stages, configs, sms, heads))
        return measured(sms)

    monkeypatch.setattr(ladder_module, "has_hopper", lambda: True)
    monkeypatch.setattr(ladder_module, "measure", measure)
    return requests


def test_a_live_ladder(pretended_gpu):
    found = ladder(stages=["s00", "s01", "s00"], sms=80)
    assert pretended_gpu == [(["s00", "s01"], ladder_module.CONFIGS, [80], 32)]
    assert (found["machine"], found["sms"], found["recorded"]) == ("NVIDIA H200", 80, False)
    assert [(row["stage"], row["config"]) for row in found["rows"]] == [
        ("s00", B32),
        ("s01", B32),
        ("s00", "B8/T32768"),
        ("s01", "B8/T32768"),
    ]
    assert found["banner"] == "Measured now on an NVIDIA H200 with 80 SMs. Heads: 32. A note."


def test_all_stages_are_the_default(pretended_gpu):
    ladder()
    assert pretended_gpu[0][0] == [known.id for known in STAGES]


def test_recorded_and_shown_elsewhere(pretended_gpu, tmp_path, monkeypatch):
    paths = record_ladders(tmp_path, stages=["s00", "s01", "s02"], sms=(None, 80))
    assert [path.name for path in paths] == [
        "ladder-nvidia-h200-132sms.json",
        "ladder-nvidia-h200-80sms.json",
    ]
    monkeypatch.setattr(ladder_module, "has_hopper", lambda: False)
    monkeypatch.setattr(records, "DATA", tmp_path)
    found = ladder(configs=[B32], sms=78)
    assert (found["sms"], found["recorded"], found["date"][:4]) == (80, True, "2026")
    assert {row["config"] for row in found["rows"]} == {B32}
    assert [row["stage"] for row in found["rows"]] == ["s00", "s01", "s02"]
    assert not any(row["outdated"] for row in found["rows"])
    assert found["banner"].startswith("Recorded on 2026-11-30 on an NVIDIA H200 with 80 SMs")
    assert found["banner"].endswith("not measured now. Heads: 32. A note.")


def test_a_record_of_another_source_says_so(pretended_gpu, tmp_path, monkeypatch):
    (path,) = record_ladders(tmp_path, stages=["s00", "s01", "s02"], sms=(None,))
    path.write_text(path.read_text().replace(records.digests(["s01"])["s01"], "0" * 64))
    monkeypatch.setattr(records, "DATA", tmp_path)
    found = ladder(live=False)
    assert "Recorded from another version of the source: s01." in found["banner"]
    outdated = {row["stage"] for row in found["rows"] if row["outdated"]}
    assert outdated == {"s01", "s02"}  # s02's change was measured against s01


def test_without_gpu_and_record(no_gpu, tmp_path, monkeypatch):
    monkeypatch.setattr(records, "DATA", tmp_path)
    with pytest.raises(MachineUnavailable, match="neither a Hopper GPU to time on nor a record"):
        ladder()


@pytest.mark.parametrize("live", [True, False, None])
def test_bad_requests(no_gpu, live):
    with pytest.raises(BadInput, match="s99"):
        ladder(stages=["s99"], live=live)
    with pytest.raises(BadInput, match=r"The config is 'B1'"):
        ladder(configs=["B1"], live=live)
