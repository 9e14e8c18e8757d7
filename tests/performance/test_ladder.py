"""The ladder: rows from times, live (pretended) and recorded."""

import numpy as np
import pytest

from kda_learn.ground.errors import BadInput, MachineUnavailable
from kda_learn.kernel_a.batch import CONFIGS
from kda_learn.performance import explained
from kda_learn.performance import ladder as of_times
from kda_learn.performance.explained import ladder
from kda_learn.performance.ladder import control, ids_of, measured_ladders, nearest_base, record_of, rows
from kda_learn.performance.ladder_rows import Ladder
from kda_learn.performance.verdicts import REPRODUCED
from kda_learn.records import store as records
from kda_learn.sources.stages import STAGES

B32 = "B32/T8192"

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
    found = {row.stage: row for row in rows([a_run()], ["s00", "s01", "s02", "s11", "s12"])}
    assert found["s00"].base is None
    assert (found["s00"].verdict, found["s00"].reason) == (None, "no base to compare with")
    assert found["s01"].base == "s00"
    assert found["s01"].delta_pct == pytest.approx(-6.25, abs=0.2)
    assert found["s01"].article_delta_pct == -6.7
    assert found["s01"].verdict == REPRODUCED
    low, high = found["s01"].ci_us
    assert low <= found["s01"].median_us <= high
    assert found["s11"].base == "s02"  # s09 and all between were not timed
    assert found["s11"].article_delta_pct == pytest.approx(-54.0, abs=0.05)
    assert found["s12"].median_us is None
    assert found["s12"].reason.startswith("not timed")
    assert found["s12"].verdict is None


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
    runs = [a_run(), a_run(config="B8/T32768")]
    parts = [{"sms": number or 132, "runs": runs, "notes": ["A note."]} for number in sms]
    return {"provenance": where, "heads": 32, "notes": ["A note.", "Of another part."], "parts": parts}


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(explained, "has_hopper", lambda: False)


@pytest.fixture
def pretended_gpu(monkeypatch):
    """What is asked of the measurement, which gives invented times."""
    requests = []

    def measure(stages, configs, sms, heads):
        requests.append((stages, configs, sms, heads))
        return measured(sms)

    monkeypatch.setattr(explained, "has_hopper", lambda: True)
    monkeypatch.setattr(of_times, "measure", measure)
    return requests


def keep(folder, sms=(None,)):
    """Measures three stages on these numbers of SMs, and records them as `ladder --record` does."""
    for one in measured_ladders(["s00", "s01", "s02"], CONFIGS, sms, 32):
        records.save(record_of(explained.explained(one)), folder / f"ladder-{one.sms}.json")


def test_a_live_ladder(pretended_gpu):
    found = ladder(stages=["s00", "s01", "s00"], sms=80)
    assert pretended_gpu == [(["s00", "s01"], CONFIGS, [80], 32)]
    assert (found.machine, found.sms, found.recorded) == ("NVIDIA H200", 80, False)
    assert [(row.stage, row.config) for row in found.rows] == [
        ("s00", B32),
        ("s01", B32),
        ("s00", "B8/T32768"),
        ("s01", "B8/T32768"),
    ]
    assert found.banner == "Measured now on an NVIDIA H200 with 80 SMs. Heads: 32. A note."
    assert found.configs == [B32, "B8/T32768"]


def test_all_stages_are_the_default(pretended_gpu):
    ladder()
    assert pretended_gpu[0][0] == [known.id for known in STAGES]
    assert ids_of(None) == [known.id for known in STAGES]


def test_a_ladder_comes_back_from_its_dictionary(pretended_gpu):
    found = ladder(stages=["s00", "s01", "s12"])
    values = found.as_dict()
    assert Ladder.from_dict(values | {"of_a_later_version": 1}) == found
    assert values["rows"][0]["stage"] == "s00" and values["provenance"]["gpu"] == "NVIDIA H200"
    with pytest.raises(KeyError):
        Ladder.from_dict({name: value for name, value in values.items() if name != "rows"})


def test_recorded_and_shown_elsewhere(pretended_gpu, tmp_path, monkeypatch):
    keep(tmp_path, (None, 80))
    monkeypatch.setattr(explained, "has_hopper", lambda: False)
    monkeypatch.setattr(records, "DATA", tmp_path)
    found = ladder(configs=[B32], sms=78)
    assert (found.sms, found.recorded, found.date[:4]) == (80, True, "2026")
    assert {row.config for row in found.rows} == {B32}
    assert [row.stage for row in found.rows] == ["s00", "s01", "s02"]
    assert not any(row.outdated for row in found.rows)
    assert found.banner.startswith("Recorded on 2026-11-30 on an NVIDIA H200 with 80 SMs")
    assert found.banner.endswith("not measured now. Heads: 32. A note.")


def test_a_file_to_record_in_means_that_is_measured(pretended_gpu, tmp_path, monkeypatch):
    monkeypatch.setattr(explained, "has_hopper", lambda: False)
    found = ladder(stages=["s00", "s01"], record=tmp_path / "mine.json")
    kept = records.load(tmp_path / "mine.json")
    assert (kept.kind, kept.provenance.sms) == ("ladder", found.sms)
    assert Ladder.from_dict(kept.content).rows == found.rows
    assert "provenance" not in kept.content


def test_a_record_of_another_source_says_so(pretended_gpu, tmp_path, monkeypatch):
    keep(tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_text(path.read_text().replace(records.digests(["s01"])["s01"], "0" * 64))
    monkeypatch.setattr(records, "DATA", tmp_path)
    found = ladder(live=False)
    assert "Recorded from another version of the source: s01." in found.banner
    outdated = {row.stage for row in found.rows if row.outdated}
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
