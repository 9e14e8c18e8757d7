"""Roofline: floors for every stage, the sentence about what binds, the recorded rows."""

from dataclasses import replace

import pytest

from kda_learn.ground.errors import BadInput
from kda_learn.kernel_a.batch import CONFIGS
from kda_learn.performance import ceilings, roofline
from kda_learn.performance.ceilings import Ceilings
from kda_learn.performance.evidence import recorded as recorded_evidence
from kda_learn.performance.explained import ladder
from kda_learn.performance.roofline import RooflineRow, binding, ns_per_tile, place, sentence, shared_ns
from kda_learn.records import store as records
from kda_learn.sources.stages import STAGES

B32 = "B32/T8192"
LIMITS = Ceilings("NVIDIA H200", 132, {"float32": 24.0, "bfloat16": 15.0}, 650.0)


def test_nanoseconds_of_a_tile():
    """32 sequences of 512 tiles in 32 heads."""
    assert ns_per_tile(15_340, B32, 32) == pytest.approx(29.26, abs=0.01)


def test_the_floor_by_products():
    assert LIMITS.mma_ns == pytest.approx(2.62, abs=0.01)


def test_the_floor_by_shared_memory():
    known = replace(recorded_evidence()["s12", 1], shared_cycles=3_960.0)
    assert shared_ns(known, 132, 2.0) == pytest.approx(15.0)
    assert shared_ns(None, 132, 2.0) is None
    assert shared_ns(known, 132, None) is None
    assert shared_ns(replace(known, shared_cycles=None), 132, 2.0) is None


def test_the_highest_floor():
    row = RooflineRow("s02", B32, 1, 132, 120.0, 24.0, 2.6, 70.0)
    assert (row.floor, row.floor_ns, row.times_traffic) == ("shared memory", 70.0, 5.0)
    row = replace(row, shared_ns=None)
    assert (row.floor, row.floor_ns) == ("traffic", 24.0)
    assert replace(row, products_ns=40.0).floor == "products"


@pytest.fixture(scope="module")
def rows():
    return place(ladder(sms=132, live=False), LIMITS, recorded_evidence())


def test_every_stage_of_the_recorded_ladder_is_above_its_floors(rows):
    assert len(rows) == len(STAGES) * len(CONFIGS)
    for row in rows:
        assert row.time_ns > 0.98 * row.floor_ns, (row.stage, row.config)
        assert (row.traffic_ns, row.products_ns) == (24.0, LIMITS.mma_ns)


def test_what_binds_changes_along_the_ladder(rows):
    at_b32 = {row.stage: row for row in rows if row.config == B32}
    assert at_b32["s02"].floor == "shared memory"
    assert at_b32["s12"].floor == "traffic"
    assert at_b32["s12"].times_traffic < 1.5 < at_b32["s06"].times_traffic


def test_a_row_that_was_not_timed_is_left_out():
    shown = ladder(sms=132, live=False)
    rows = [replace(row, median_us=None) if row.stage == "s12" else row for row in shown.rows]
    found = place(replace(shown, rows=rows, clocks={}), LIMITS, {})
    assert "s12" not in {row.stage for row in found}
    assert {row.shared_ns for row in found} == {None}


def test_the_sentence():
    row = RooflineRow("s12", B32, 1, 132, 29.26, 24.1, 2.63, 14.1)
    known = replace(
        recorded_evidence()["s12", 1],
        l1_pct=78.4,
        l2_pct=82.2,
        dram_pct=61.8,
        tensor_pct=8.7,
        stalls={"selected": 1.0, "mio_throttle": 6.0, "long_scoreboard": 3.0},
    )
    assert sentence(row, known) == (
        "s12 at B32/T8192 takes 29.3 ns for a tile and head, 1.21 times what its bytes take (24.1 ns); its "
        "products would take 2.6 ns, its wavefronts of shared memory 14.1 ns. Busiest are L2 (82 % of the "
        "time) and L1 (78 % of the time), device memory 62 %; warps wait most for mio_throttle, 60 % of "
        "their time."
    )
    assert sentence(replace(row, shared_ns=None), None).endswith("its products would take 2.6 ns.")


def test_what_binds_where_memory_is_the_busiest():
    known = replace(
        recorded_evidence()["s12", 1], l1_pct=40.0, l2_pct=50.0, dram_pct=90.0, tensor_pct=None, stalls={}
    )
    assert binding(known, 132) == " Busiest is DRAM (90 % of the time)."
    assert binding(known, 80) == " Counted on 132 SMs, busiest is DRAM (90 % of the time)."
    assert binding(replace(known, l1_pct=None, l2_pct=None, dram_pct=None), 132) == ""


def test_recorded_rows(tmp_path, monkeypatch):
    kept = records.DATA
    monkeypatch.setattr(records, "DATA", tmp_path)
    ceilings.recorded.cache_clear()
    assert roofline.recorded() == []
    for path in kept.glob("ladder-*.json"):
        (tmp_path / path.name).write_text(path.read_text())
    parts = [
        {"sms": sms, "twins": {"float32": {"ns_per_tile": ns}}, "mma": {"tflops": 5.0 * sms}}
        for sms, ns in ((132, 24.0), (80, 27.6))
    ]
    where = records.load(next(tmp_path.glob("ladder-*132sms.json"))).provenance
    records.save(records.Record("ceilings", where, {"parts": parts}), tmp_path / "ceilings.json")
    ceilings.recorded.cache_clear()
    (whole,) = roofline.recorded(stages=["s12"], configs=[B32])
    (part,) = roofline.recorded(78, stages=["s12"], configs=[B32])
    assert (whole.traffic_ns, part.traffic_ns) == (24.0, 27.6)
    assert part.time_ns > whole.time_ns
    ceilings.recorded.cache_clear()


def test_the_chart(rows):
    pytest.importorskip("matplotlib")
    from kda_learn.display.performance_charts import roofline_chart

    chart = roofline_chart(rows)
    assert chart.alt.startswith(f"Time for a tile and head at {B32}, and the highest floor. s00 ")
    assert chart.svg().count("floor by") == len(roofline.FLOORS)
    assert roofline_chart().alt  # of the recorded rows
    with pytest.raises(BadInput, match="these were measured: B32/T8192, B8/T32768, B1/T131072"):
        roofline_chart(rows, "B4/T64")
