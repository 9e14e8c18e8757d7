"""VSplit: the rule that times make, the sweep on pretended times, records, the verb."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kda_learn.cli.split_v_text import as_text
from kda_learn.ground.errors import BadInput, MachineUnavailable
from kda_learn.kernel_a.batch import Config
from kda_learn.kernel_a.variants import V_SPLITS, article_v_split
from kda_learn.machines.device import Gpu
from kda_learn.performance import split_v
from kda_learn.performance.split_rule import Point, SplitRule, fit, losses, mean_loss_pct
from kda_learn.records import store as records

H200 = Gpu(0, "NVIDIA H200", 132, (9, 0), "580.159.04", "13.0", 150 * 10**9, 232448, "0000:00:00.0")

# ---- the rule ----


@pytest.mark.parametrize(
    ("pairs", "sms", "wanted"),
    [(8, 132, 8), (16, 132, 8), (17, 132, 4), (33, 132, 4), (34, 132, 2), (66, 132, 2), (67, 132, 1)],
)
def test_a_rule(pairs, sms, wanted):
    assert SplitRule(8, 1.0).v_split(pairs, sms) == wanted


def test_a_rule_has_limits():
    rule = SplitRule(4, 1.0)
    assert rule.limits(78) == {2: 39, 4: 19}
    assert str(rule) == "the largest of 1, 2, 4 with N*H*VSplit <= 1 x SMs, else 1"
    assert SplitRule(1, 1.0).limits(78) == {}


@given(st.integers(1, 2000), st.integers(8, 200), st.sampled_from(V_SPLITS), st.floats(0.1, 4))
def test_the_limits_are_where_the_rule_changes(pairs, sms, largest, factor):
    rule = SplitRule(largest, factor)
    for split, most in rule.limits(sms).items():
        assert (rule.v_split(pairs, sms) >= split) == (pairs <= most)


@pytest.mark.parametrize(
    "rule",
    [
        *(SplitRule(4, factor) for factor in (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)),
        SplitRule(8, 0.5),
        SplitRule(2, 2.0),
        SplitRule(1, 1.0),
    ],
)
def test_the_rule_is_found_again(rule):
    """Times in which the rule's own choice is always the fastest."""
    points = []
    for sms in (132, 80):
        for pairs in range(4, 600, 3):
            chosen = rule.v_split(pairs, sms)
            times = {split: 10.0 + 3 * abs(split - chosen) for split in V_SPLITS}
            points.append(Point(pairs, sms, times))
    assert fit(points) == rule
    assert max(losses(points, rule)) == 0


def always_best(split: int, *, others_us: float) -> list[Point]:
    """Points at which one VSplit takes 100 us and all others as long as one another."""
    times = {other: 100.0 if other == split else others_us for other in V_SPLITS}
    return [Point(pairs, 100, times) for pairs in (10, 60, 150)]


def test_of_rules_that_lose_the_same_the_one_nearest_to_one_block_an_sm_is_taken():
    """All times are the same, so every rule is as good: one block, and the smallest VSplit."""
    assert fit(always_best(1, others_us=100.0)) == SplitRule(1, 1.0)
    # VSplit 2 is best at 10 pairs of 100 SMs: from a fifth of a block on, every rule up to 2 finds it.
    assert fit(always_best(2, others_us=101.0)[:1]) == SplitRule(2, 1.0)


def test_a_block_more_or_less_is_as_near():
    """VSplit 2 is best at 60 pairs and 1 at 70, on 100 SMs: between 1.2 and 1.4 blocks lies only 1.25."""
    points = [
        Point(60, 100, {1: 2.0, 2: 1.0, 4: 2.0, 8: 2.0}),
        Point(70, 100, {1: 1.0, 2: 2.0, 4: 2.0, 8: 2.0}),
    ]
    assert fit(points) == SplitRule(2, 1.25)


@pytest.mark.parametrize(
    ("others_us", "wanted"), [(100.0004, SplitRule(1, 1.0)), (100.0006, SplitRule(2, 3.0))]
)
def test_losses_of_less_than_half_a_thousandth_of_a_percent_are_none(others_us, wanted):
    """VSplit 2 is best with 150 pairs on 100 SMs: only 3 blocks an SM and more allow it."""
    assert fit(always_best(2, others_us=others_us)[2:]) == wanted


def test_the_mean_loss_is_over_all_points():
    points = [Point(10, 100, {1: 3.0, 2: 2.0}), Point(60, 100, {1: 2.0, 2: 3.0})]
    assert losses(points, SplitRule(1, 1.0)) == [50.0, 0.0]
    assert mean_loss_pct(points, SplitRule(1, 1.0)) == 25.0


@pytest.mark.parametrize(
    ("pairs", "wanted"), [(24, 4), (25, 4), (26, 2), (49, 2), (50, 2), (51, 1), (100, 1), (101, 1)]
)
def test_just_as_many_blocks_as_allowed_are_allowed(pairs, wanted):
    assert SplitRule(4, 1.0).v_split(pairs, 100) == wanted


def test_what_a_split_loses():
    point = Point(32, 80, {1: 31.0, 2: 21.0, 4: 27.0, 8: 46.0})
    assert point.best == 2
    assert point.loss_pct(4) == pytest.approx(28.6, abs=0.1)


# ---- the sweep ----


@pytest.mark.parametrize("sequences", [*split_v.SEQUENCES, *split_v.FEWER_SEQUENCES])
def test_a_point_has_whole_tiles_and_nearly_all_tokens(sequences):
    config = split_v.configuration(sequences)
    assert Config.parse(config.name) == config
    assert 0.98 * split_v.TOKENS < config.tokens <= split_v.TOKENS


def test_the_points_go_from_8_to_1024_pairs():
    pairs = [split_v.HEADS * number for number in split_v.SEQUENCES]
    assert (min(pairs), max(pairs)) == (8, 1024)


def pretended_us(stage, v_split, pairs, sms, tiles):
    """Blocks run in parallel up to one a multiprocessor; sharing a state costs a fifth each time."""
    together = min(pairs * v_split, sms)
    slow = 6 if stage == "s00" else 1
    return slow * 4.0 * tiles * (1 + 0.2 * V_SPLITS.index(v_split)) / (together / v_split) / v_split**0.8


def pretended_measure(asked):
    def measure(stages, configs, sms, heads, *, seconds, clock_samples):
        asked.append({"stages": stages, "configs": configs, "sms": sms, "heads": heads, "seconds": seconds})
        parts = []
        for number in (80 if number else 132 for number in sms):
            runs = []
            for text in configs:
                config = Config.parse(text)
                tiles = config.tokens // 16 * heads
                times = {}
                for name in stages:
                    stage, v_split = name.split("/")
                    pairs = config.sequences * heads
                    us = pretended_us(stage, int(v_split), pairs, number, tiles)
                    times[name] = [us * (1 + 0.001 * round_) for round_ in range(5)]
                runs.append({"config": text, "times_us": times, "blocks_per_sm": dict.fromkeys(times, 2)})
            parts.append({"sms": number, "runs": runs})
        where = {
            "gpu": "NVIDIA H200",
            "sms": 132,
            "driver": "580.1",
            "cuda": "13.0",
            "nvrtc": "13.0",
            "date": "2026-11-30T10:00:00+00:00",
            "digest": records.digests([stages[0].split("/")[0]]),
        }
        return {"provenance": where, "heads": heads, "notes": ["A note."], "parts": parts}

    return measure


@pytest.fixture
def pretended_gpu(monkeypatch):
    asked = []
    monkeypatch.setattr(split_v, "hopper", lambda: H200)
    monkeypatch.setattr(split_v, "has_hopper", lambda: True)
    monkeypatch.setattr(split_v, "compile_at_once", list)
    monkeypatch.setattr(split_v, "measure", pretended_measure(asked))
    return asked


@pytest.fixture
def no_records(tmp_path, monkeypatch):
    folder = tmp_path / "records"
    folder.mkdir()
    monkeypatch.setattr(records, "DATA", folder)
    split_v.recorded_rule.cache_clear()
    yield folder
    split_v.recorded_rule.cache_clear()


def test_a_sweep(pretended_gpu, no_records):
    found = split_v.split_v(record=no_records / "split-v.json")
    assert [asked["stages"] for asked in pretended_gpu] == [
        ["s12/1", "s12/2", "s12/4", "s12/8"],
        ["s00/1", "s00/2", "s00/4", "s00/8"],
    ]
    assert pretended_gpu[0]["sms"] == (None, 78)
    assert len(found["rows"]) == 2 * 4 * (len(split_v.SEQUENCES) + len(split_v.FEWER_SEQUENCES))
    assert found["banner"] == "Measured now on an NVIDIA H200. Heads: 8. A note."
    assert found["recorded"] is False
    few = next(point for point in found["points"] if (point["sms"], point["pairs"]) == (132, 8))
    many = next(point for point in found["points"] if (point["sms"], point["pairs"]) == (132, 1024))
    assert few["best"] > 1 == many["best"]
    assert (few["article"], many["article"]) == (4, 1)
    rule = found["rule"]
    assert rule["mean_loss_pct"] <= rule["article_mean_loss_pct"]
    assert set(rule["limits"]) == {"132", "80", "78"}
    json.dumps(found)


def test_the_record_is_shown_where_there_is_no_gpu(pretended_gpu, no_records, monkeypatch):
    live = split_v.split_v(record=no_records / "split-v.json")
    monkeypatch.setattr(split_v, "has_hopper", lambda: False)
    shown = split_v.split_v()
    assert shown["recorded"] is True
    assert shown["banner"].startswith("Recorded on 2026-11-30 on an NVIDIA H200 with 132 SMs")
    assert (shown["rows"], shown["rule"]) == (live["rows"], live["rule"])


def test_the_recorded_rule_stands_beside_the_articles(pretended_gpu, no_records):
    assert split_v.recorded_rule() is None
    split_v.recorded_rule.cache_clear()
    found = split_v.split_v(record=no_records / "split-v.json")
    limits = found["rule"]["limits"]["132"]
    most = max(limits.values())
    rule = split_v.recorded_rule()
    assert rule.v_split(most, 132) > 1 == rule.v_split(most + 1, 132)
    assert article_v_split(1, 32, 132) == 4


def test_a_gpu_as_small_as_an_h20_is_measured_once(pretended_gpu, monkeypatch):
    monkeypatch.setattr(split_v, "hopper", lambda: replace(H200, name="NVIDIA H20", sms=78))
    split_v.split_v()
    assert pretended_gpu[0]["sms"] == (None,)


def test_a_variant_that_was_not_timed_leaves_its_point_out(pretended_gpu):
    rows = split_v.split_v()["rows"]
    rows = [row for row in rows if (row["pairs"], row["v_split"]) != (64, 8)]
    assert 64 not in {point.pairs for point in split_v.points_of(rows)}
    with pytest.raises(BadInput, match="No point has a time of s12"):
        split_v.rule_of([row for row in rows if row["stage"] == "s00"])


def test_without_gpu_and_record(no_records, monkeypatch):
    monkeypatch.setattr(split_v, "has_hopper", lambda: False)
    with pytest.raises(MachineUnavailable, match="nor a record of VSplit"):
        split_v.split_v()


def test_the_text(pretended_gpu):
    text = as_text(split_v.split_v())
    assert "s12, 132 SMs, ns per tile and head:" in text
    assert "s00, 80 SMs, ns per tile and head:" in text
    assert "Article's rule: 4 if N*H < SMs, else 1." in text
    assert "On 78 SMs: VSplit " in text
    assert max(map(len, text.splitlines())) <= 100


def test_the_chart(pretended_gpu):
    pytest.importorskip("matplotlib")
    from kda_learn.display.performance_charts import split_v_chart

    result = split_v.split_v()
    chart = split_v_chart(result=result)
    assert chart.alt.startswith("s12 on 132 SMs, the fastest VSplit by number of pairs. 8 pairs: VSplit ")
    assert result["rule"]["words"] in chart.caption
    assert split_v_chart("s00", sms=80, result=result).alt.startswith("s00 on 80 SMs")
    with pytest.raises(BadInput, match="of it these were measured: 132, 80"):
        split_v_chart(sms=78, result=result)


def test_the_recorded_chart():
    """The record that comes with the package."""
    pytest.importorskip("matplotlib")
    from kda_learn.display.performance_charts import split_v_chart

    assert "1024 pairs: VSplit 1" in split_v_chart().alt
