"""Reasons: the numbers that a profile gives, the sentence for each step, and what is left unsaid."""

import json
import re
from dataclasses import replace

import pytest

from kda_learn.checking import budget as wavefront_budget
from kda_learn.performance import evidence as counter_evidence
from kda_learn.performance import reasons as verdict_reasons
from kda_learn.performance.evidence import Evidence, barriers, of_profiles, recorded, recorded_profiles
from kda_learn.performance.explained import explained, ladder
from kda_learn.performance.reasons import OtherDelta, Setting, core, size
from kda_learn.performance.verdicts import OPPOSITE, OTHER_SIZE, REPRODUCED, WITHIN_NOISE
from kda_learn.records import store as records
from kda_learn.sources.stages import STAGES

B32, B1 = "B32/T8192", "B1/T131072"
WHOLE = Setting(B32, 1024, 1, 132, -20.0)
LONG = Setting(B1, 32, 4, 132, -10.0, fitting=4, fitting_before=3)


def numbers(stage="s02", **changes):
    values = {
        "stage": stage,
        "v_split": 1,
        "sms": 132,
        "blocks_per_sm": 4,
        "barriers": 4,
        "instructions": 10_000.0,
        "wavefronts": 5_000.0,
        "load_excess": 1_000.0,
        "store_excess": 500.0,
        "cycles": 10_000.0,
        "l1_pct": 90.0,
        "l2_pct": 30.0,
        "dram_pct": 20.0,
        "tensor_pct": 3.0,
        "shared_cycles": 6_000.0,
        "stalls": {"selected": 1.0, "mio_throttle": 6.0, "long_scoreboard": 3.0},
    }
    return Evidence(**values | changes)


def of(*found):
    return {(one.stage, one.v_split): one for one in found}


# ---- the numbers ----


def test_cycles_of_an_sm():
    one = numbers()
    assert (one.excess, one.l1_cycles, one.other_l1_cycles) == (1_500, 9_000, 3_000)
    assert one.shared_pct == pytest.approx(66.7, abs=0.1)
    assert one.longest_wait == "mio_throttle"
    assert one.busiest() == [("L1", 90.0)]
    assert replace(one, l2_pct=85.0).busiest() == [("L1", 90.0), ("L2", 85.0)]


def test_counters_that_ncu_did_not_give():
    one = numbers(l1_pct=None, shared_cycles=None, load_excess=None, stalls={})
    assert (one.excess, one.l1_cycles, one.other_l1_cycles, one.shared_pct, one.longest_wait) == (None,) * 5


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.id)
def test_the_barriers_of_a_tile(stage):
    """s00 has nine, each of which is needed; from s02 on there are four, and one more where copies land."""
    wanted = {"s00": 9, "s01": 7} | dict.fromkeys(["s02", "s03a", "s03b", "s04", "s05", "s06"], 4)
    assert barriers(stage.id) == wanted.get(stage.id, 5)


def test_the_barriers_of_a_file_of_your_own():
    assert barriers("mine") is None


def test_recorded_counts_are_those_of_the_traces():
    """Loads and stores that the hardware counted at VSplit 1 are the budget that the traces wrote."""
    for stage, classes in wavefront_budget.load()["per_tile"].items():
        traced = sum(count for name, count in classes.items() if ": copy " not in name)
        assert recorded()[stage, 1].wavefronts == pytest.approx(traced, rel=0.001), stage


def test_busy_cycles_add_up():
    """Every stage before s08 reads q, k and gc from global memory in R1: what L1 does beside shared memory is
    the same in all of them, and little from s08 on.
    """
    before = [recorded()[name, 1].other_l1_cycles for name in ("s03a", "s03b", "s04", "s05", "s06", "s07")]
    after = [recorded()[name, 1].other_l1_cycles for name in ("s08", "s09", "s10", "s11", "s12x", "s12")]
    assert max(before) < 1.15 * min(before)
    assert max(after) < 1.15 * min(after)
    assert min(before) > 3.5 * max(after)


def test_of_two_profiles_the_newer_counts():
    older = recorded_profiles()[0]
    where = replace(older.provenance, date="2099-01-01T00:00:00+00:00")
    newer = replace(older, provenance=where, stalls={"wait": 1.0})
    for order in ([older, newer], [newer, older]):
        assert of_profiles(order)[older.stage, older.v_split].stalls == {"wait": 1.0}
    assert "2099-01-01" in counter_evidence.banner([older, newer])
    assert counter_evidence.banner([]).startswith("No counters were recorded")


# ---- sentences ----


def test_two_stages():
    before = numbers("s05", l1_pct=94.0)
    found = core("s06", "s05", WHOLE, of(before, numbers("s06", store_excess=0.0, wavefronts=4_500.0)))
    assert found == (
        "Excess wavefronts a tile 1,500 of 5,000 → 1,000 of 4,500; L1 was busy 94 % of the time, 64 % of "
        "that with shared memory"
    )


def test_global_memory_is_named_where_it_takes_most_of_l1():
    before = numbers("s05", shared_cycles=2_000.0)
    found = core("s06", "s05", WHOLE, of(before, numbers("s06")))
    assert "22 % of that with shared memory and the rest with global memory" in found


def test_l2_is_named_where_it_is_as_busy():
    found = core("s12", "s11", WHOLE, of(numbers("s11", l2_pct=88.0), numbers("s12")))
    assert found.endswith("with shared memory, and L2 88 %")


def test_waits_are_named_where_l1_is_not_busy():
    found = core("s12", "s11", WHOLE, of(numbers("s11", l1_pct=60.0), numbers("s12")))
    assert found.endswith("warps wait most for mio_throttle, 60 % of their time")


def test_missing_counters_leave_their_remarks_out():
    before = numbers("s05", l1_pct=None, load_excess=None, barriers=None)
    assert core("s06", "s05", WHOLE, of(before, numbers("s06"))) == "Wavefronts a tile 5,000 → 5,000"


def test_no_profile_no_sentence():
    assert core("s06", "s05", WHOLE, {}) == ""
    assert core("s06", "s05", WHOLE, of(numbers("s06"))) == ""


def test_counters_of_another_split_are_said_to_be_so():
    evidence = of(numbers("s05"), numbers("s06"))
    assert core("s06", "s05", LONG, evidence).endswith("(counted at VSplit 1)")
    evidence |= of(numbers("s05", v_split=4), numbers("s06", v_split=4))
    assert "counted at" not in core("s06", "s05", LONG, evidence)


def test_a_stage_alone():
    found = core("s00", None, WHOLE, of(numbers("s00")))
    assert found.startswith(
        "1,500 of 5,000 wavefronts a tile are bank conflicts; L1 is busy 90 % of the time"
    )


def test_blocks_do_not_matter_where_every_block_has_an_sm():
    evidence = of(numbers("s05"), numbers("s06"))
    assert "fit an SM 3 → 4, which does not matter: 128 blocks on 132 SMs" in core(
        "s06", "s05", LONG, evidence
    )
    crowded = replace(LONG, sms=80)
    assert "fit an SM 3 → 4" in core("s06", "s05", crowded, evidence)
    assert "does not matter" not in core("s06", "s05", crowded, evidence)


# ---- s02: is it occupancy? ----


@pytest.fixture
def blocks_record(tmp_path, monkeypatch):
    """Pretends that s02 held to one block takes so many percent longer."""
    monkeypatch.setattr(records, "DATA", tmp_path)

    def write(percent, **changes):
        rows = [{"blocks": 4, "delta_pct": None}, {"blocks": 1, "delta_pct": percent}]
        content = {"stage": "s02", "config": B32, "v_split": 1, "rows": rows} | changes
        where = records.Provenance("NVIDIA H200", 132, "580", "13.0", "13.0", "2026-11-30", {})
        records.save(records.Record("blocks", where, content), tmp_path / "blocks.json")

    return write


S02 = of(numbers("s01", barriers=7), numbers("s02"))
ROOM = replace(WHOLE, fitting=4, fitting_before=1)


def test_occupancy_that_is_not_the_reason(blocks_record):
    blocks_record(4.0)
    found = core("s02", "s01", ROOM, S02)
    assert "barriers 7 → 4" in found
    assert "blocks that fit an SM 1 → 4" in found
    assert found.endswith("held to 1 instead of 4 it takes 4.0 % longer: occupancy is not the reason")
    assert "(at B32/T8192): occupancy is not" in core("s02", "s01", replace(ROOM, config="B8/T32768"), S02)


def test_occupancy_that_is(blocks_record):
    blocks_record(15.0)  # of a gain of 20 %
    assert core("s02", "s01", ROOM, S02).endswith("held to 1 instead of 4 it takes 15.0 % longer")


@pytest.mark.parametrize("changes", [{"stage": "s05"}, {"v_split": 4}])
def test_another_record_says_nothing(blocks_record, changes):
    blocks_record(4.0, **changes)
    assert "held to" not in core("s02", "s01", ROOM, S02)


def test_without_a_record(blocks_record):
    assert "held to" not in core("s02", "s01", ROOM, S02)


# ---- s08, s10, s12x ----


def test_s08_moves_reads_from_global_to_shared_memory():
    before = numbers("s06", stalls={"long_scoreboard": 9.97})
    after = numbers("s08", stalls={"long_scoreboard": 2.31}, shared_cycles=8_500.0, load_excess=4_000.0)
    found = core("s08", "s06", WHOLE, of(before, after))
    assert "(long_scoreboard) 10.0 → 2.3 cycles an instruction" in found
    assert "for global memory 3,000 → 500" in found
    assert "but excess wavefronts a tile 1,500 of 5,000 → 4,500 of 5,000" in found


def test_s08_at_the_edge_of_the_gpu():
    edge = Setting("B8/T32768", 256, 1, 80, -2.0, fitting=3, fitting_before=4)
    found = core("s08", "s06", edge, of(numbers("s06"), numbers("s08")))
    assert found.endswith("the 256 blocks no longer run all at once, 240 do")
    assert "at once" not in core("s08", "s06", replace(edge, sms=132), of(numbers("s06"), numbers("s08")))


def test_s10_whose_xor_is_hoisted():
    found = core("s10", "s09", WHOLE, of(numbers("s09"), numbers("s10", instructions=10_008.0)))
    assert "No wavefront changes (5,000 a tile)" in found
    assert "10,008 instructions against 10,000: the compiler works the XOR out before the loop" in found


@pytest.mark.parametrize("changes", [{"instructions": 11_000.0}, {"wavefronts": 4_000.0}])
def test_s10_otherwise(changes):
    found = core("s10", "s09", WHOLE, of(numbers("s09"), numbers("s10", **changes)))
    assert found.startswith("Excess wavefronts a tile")


def test_s12x():
    found = core("s12x", "s11", WHOLE, of(numbers("s11"), numbers("s12x")))
    assert found == "Excess wavefronts a tile stay at 1,500: as few as 16-byte copies allow"
    found = core("s12x", "s11", WHOLE, of(numbers("s11"), numbers("s12x", load_excess=0.0)))
    assert found.startswith("Excess wavefronts a tile 1,500 of 5,000 → 500")


# ---- sizes ----


def test_the_articles_own_counters():
    evidence = of(numbers("s09", load_excess=5_824.0), numbers("s11", load_excess=960.0))
    assert size("s11", "s09", -40.0, evidence, []) == "Load conflicts fell by 84 %, in the article by 39 %"
    assert size("s11", "s09", -40.0, {}, []) == ""
    assert size("s12", "s11", -3.0, evidence, []) == ""


def test_elsewhere():
    alike, other = OtherDelta("80 SMs", -41.0, True), OtherDelta("80 SMs", -9.0, True)
    gpu = OtherDelta("the recorded NVIDIA H200 (132 SMs)", -41.0, False)
    assert size("s12", "s11", -40.0, {}, [alike]) == "-41.0 % on 80 SMs: the number of SMs is not the reason"
    assert size("s12", "s11", -40.0, {}, [other]) == "-9.0 % on 80 SMs"
    assert size("s12", "s11", -40.0, {}, [gpu]) == "-41.0 % on the recorded NVIDIA H200 (132 SMs)"


# ---- the recorded ladder ----


@pytest.fixture(scope="module", params=[132, 80])
def shown(request):
    return ladder(sms=request.param, live=False)


def test_every_row_has_a_reason(shown):
    json.dumps(shown.as_dict())
    assert shown.reasons_from.startswith("The reasons come from counters read on")
    assert shown.v_split_rule["article"] == "4 if N*H < SMs, else 1"
    for row in shown.rows:
        where = (row.stage, row.config)
        assert row.reason.endswith("."), where
        assert re.search(r"wavefront", row.reason), where
        assert len(row.reason) < 340, where
        if row.verdict in (OTHER_SIZE, OPPOSITE):
            assert "% on " in row.reason, where
        if row.verdict == WITHIN_NOISE:
            assert "holds zero" in row.reason or "both below" in row.reason, where
        if row.verdict == REPRODUCED:
            assert "% on " not in row.reason, where


def test_the_last_stage_is_placed_beside_the_ceilings_of_the_same_gpu(shown):
    assert shown.roofline.startswith(f"s12 at {B32} takes ")
    assert "times what its bytes take" in shown.roofline
    assert "usiest are" in shown.roofline
    assert explained(replace(shown, machine="NVIDIA H20")).roofline is None
    rows = [row for row in shown.rows if row.stage != "s12"]
    assert explained(replace(shown, rows=rows)).roofline is None


def test_reasons_from_other_profiles(shown):
    """A measurement's own profiles, where it has some; a stage without one keeps the comparison's words."""
    mine = [one for one in recorded_profiles() if one.stage in ("s11", "s12") and one.v_split == 1]
    mine = [replace(one, provenance=replace(one.provenance, gpu="NVIDIA H20")) for one in mine]
    found = {(row.stage, row.config): row for row in explained(shown, mine).rows}
    assert found["s12", B32].reason.startswith("Excess wavefronts")
    assert "wavefronts" not in found["s01", B32].reason
    assert "in the article" in found["s01", B32].reason
    assert "NVIDIA H20" in explained(shown, mine).reasons_from


def test_a_row_that_was_not_timed_keeps_its_reason(shown):
    rows = [replace(row, median_us=None, reason="not timed, its check fails") for row in shown.rows]
    assert {row.reason for row in explained(replace(shown, rows=rows)).rows} == {"not timed, its check fails"}


def test_the_rule_of_the_measured_split_stands_beside_the_articles(shown, monkeypatch):
    from kda_learn.performance.split_rule import SplitRule

    monkeypatch.setattr("kda_learn.performance.explained.recorded_rule", lambda: SplitRule(4, 1.0))
    rule = explained(shown).v_split_rule
    assert rule["measured"] == "the largest of 1, 2, 4 with N*H*VSplit <= 1 x SMs, else 1"


def test_the_words_hold_for_every_pair_of_stages():
    """Whichever base is nearest among those timed, no pair fails."""
    for stage in STAGES:
        for base in STAGES:
            for setting in (WHOLE, LONG):
                assert core(stage.id, base.id, setting, recorded())
    assert set(verdict_reasons._SPECIAL) <= {(one.base, one.id) for one in STAGES}
