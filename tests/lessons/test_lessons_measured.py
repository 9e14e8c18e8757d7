"""The words that show measurements, live (pretended) and recorded: measure, profile, card."""

import lesson_samples
import pytest
from lesson_pages import fixed_colours, words

from kda_learn import card, measure, profile
from kda_learn.ground.errors import BadInput, MachineUnavailable
from kda_learn.hardware.occupancy import blocks_per_sm, room_for_blocks
from kda_learn.kernel_a.variants import compile_stage
from kda_learn.lessons import measuring, profiling
from kda_learn.machines.device import Gpu
from kda_learn.performance import blocks
from kda_learn.performance.bench import Variant
from kda_learn.performance.blocks import variants_for
from kda_learn.records import store as records
from kda_learn.sources.stages import stage

B32, B1 = "B32/T8192", "B1/T131072"
H200 = Gpu(0, "NVIDIA H200", 132, (9, 0), "580.65", "13.0", 150 * 10**9, 232_448, "0000:00:00.0")


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch, tmp_path):
    """No GPU, and no records but those of a test; returns their folder."""
    monkeypatch.setenv("KDA_LEARN_MACHINE", "emulator")
    monkeypatch.setattr(records, "DATA", tmp_path)
    monkeypatch.setattr(profiling, "recorded", lambda stage: None)
    monkeypatch.setattr(measuring, "_measured_now", {})
    monkeypatch.setattr(profiling, "_measured_now", {})
    return tmp_path


@pytest.fixture
def recorded(no_gpu):
    lesson_samples.write_records(no_gpu)


@pytest.fixture
def compiler():
    """Skips where there is no NVRTC."""
    try:
        compile_stage(stage("s02"))
    except MachineUnavailable as missing:
        pytest.skip(str(missing))


def shown(result) -> str:
    html = result._repr_html_()
    assert fixed_colours(html) == []
    assert repr(result)
    return words(html)


# ---- measure ----


def test_recorded_times(recorded):
    result = measure("s02")
    assert (result.stage, result.against, result.recorded, result.missing) == ("s02", "s01", True, False)
    row = result.row(B32)
    assert row.ms == pytest.approx(lesson_samples.MS["s02"], rel=0.01)
    assert row.base_ms == pytest.approx(lesson_samples.MS["s01"], rel=0.01)
    assert row.delta_pct == pytest.approx(-12, abs=0.5)
    assert row.delta_interval_pct[0] < row.delta_pct < row.delta_interval_pct[1]
    assert row.article_delta_pct == pytest.approx(-33.7, abs=0.1)
    assert row.verdict == "same sign, other size"
    text = shown(result)
    assert text.startswith("Recorded. Recorded on 2026-11-30 on an NVIDIA H200 with 132 SMs")
    assert "VSplit blocks s01, ms s02, ms" in text and "B32/T8192 1 4, 4" in text
    assert "Verdicts. same sign, other size: the same direction, and more than a factor of 2 apart" in text
    assert "B32/T8192: 32 sequences of 8192 tokens." in text
    assert row.reason and row.reason in shown(result.reasons())


def test_a_config_with_fewer_blocks_than_sms_is_pointed_out(recorded):
    assert (measure("s02", configs=B1).row().blocks, measure("s00").row().base_blocks) == (4, None)
    assert f"{B1} has only 32 blocks for 132 SMs, so no two share an SM." in shown(measure("s02"))
    assert "has only" not in shown(measure("s02", configs=B32))


def test_against_another_stage_than_the_base(recorded):
    row = measure("s12", "s00", B32).row()
    ratio = lesson_samples.MS["s12"] / lesson_samples.MS["s00"]
    assert row.delta_pct == pytest.approx((ratio - 1) * 100, abs=0.5)
    assert (row.delta_interval_pct, row.verdict) == (None, None)
    assert row.article_delta_pct == pytest.approx(-71.8, abs=0.1)


def test_the_first_stage_has_no_base(recorded):
    result = measure("s00")
    assert result.against is None and result.row().delta_pct is None
    assert "change" not in shown(result).split("ms:")[0]


def test_without_gpu_and_record_the_times_are_missing():
    result = measure("s02", configs=[B32])
    assert result.missing and not result.recorded and result.row().ms is None
    text = shown(result)
    assert text.startswith("Not recorded.") and "not recorded not recorded -33.7 %" in text
    with pytest.raises(MachineUnavailable):
        measure("s02", live=True)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: measure("s99"), "s99"),
        (lambda: measure("s02", configs="B32"), "The config is 'B32'"),
        (lambda: measure("s02", configs=[B32]).row(B1), "were measured"),
        (lambda: measure("s02", blocks=[0]), "a number of blocks is 0"),
        (lambda: measure("s02", blocks=[5]), "give numbers from 1 to 4"),
    ],
)
def test_bad_requests(compiler, ask, message):
    with pytest.raises(BadInput, match=message):
        ask()


def test_a_live_measurement(monkeypatch):
    asked = []

    def ladder(**options):
        asked.append(options)
        return lesson_samples.ladder(options["stages"], options["configs"], {"s01": 80.0, "s02": 63.0})

    monkeypatch.setattr(measuring, "ladder", ladder)
    result = measure("s02", configs=B32, live=True, sms=80)
    assert asked == [{"stages": ["s01", "s02"], "configs": [B32], "sms": 80, "heads": 32, "live": True}]
    assert shown(result).startswith("GPU. Measured now")
    assert result.row().delta_pct == pytest.approx(-21.25, abs=0.3)
    assert measuring.latest("s02", "s01") is result  # a card shows what this session measured


# ---- fewer blocks on an SM ----


@pytest.mark.parametrize("smem", [0, 50_752, 67_520, 116_288])
def test_the_room_for_blocks_is_the_most_that_leaves_them_room(smem):
    for number in range(1, 9):
        room = room_for_blocks(number, smem)
        if room < 0:
            assert blocks_per_sm(32, smem, 256).blocks < number
        else:
            assert blocks_per_sm(32, smem + room, 256).limits["shared memory"] >= number
            assert smem + room == 227 * 1024 or (
                blocks_per_sm(32, smem + room + 128, 256).limits["shared memory"] < number
            )


def test_variants_with_fewer_blocks(compiler):
    variants = variants_for(stage("s02"), None, B32, 132, 32)
    assert [one.extra_smem for one in variants] == [0, 26_048, 64_960, 181_696]
    assert [one.name for one in variants][:2] == ["s02", "s02+26048"]
    assert [Variant.parse(one.name) for one in variants] == variants


def test_recorded_blocks(recorded):
    result = measure("s02", blocks=[1, 4])
    assert [row.blocks for row in result.rows] == [4, 1] and result.recorded
    assert result.row(1).delta_pct == pytest.approx(10, abs=0.5)
    assert result.row(4).delta_pct is None
    text = shown(result)
    assert "Recorded on 2026-11-30" in text and "exactly this many blocks fit an SM" in text
    with pytest.raises(BadInput, match="give one of them"):
        result.row(3)


def test_blocks_that_were_not_recorded(compiler):
    result = measure("s02", blocks=[1, 2])
    assert result.missing and [row.blocks for row in result.rows] == [2, 1]
    assert [row.extra_smem for row in result.rows] == [64_960, 181_696]
    assert shown(result).startswith("Not recorded.")
    with pytest.raises(BadInput, match="nothing to draw"):
        result.chart()


def test_blocks_measured_now(compiler, monkeypatch):
    def pretend(names, configs, sms, heads):
        runs = [lesson_samples.blocks_run([Variant.parse(name) for name in names])]
        parts = [{"sms": number or 132, "runs": runs, "notes": [f"Part of {number}."]} for number in sms]
        return {"provenance": vars(lesson_samples.WHERE), "heads": heads, "notes": [], "parts": parts}

    monkeypatch.setattr(blocks, "measure", pretend)
    monkeypatch.setattr(blocks, "hopper", lambda: H200)
    live = measure("s02", blocks=[1, 2], live=True)
    assert [row.blocks for row in live.rows] == [2, 1]
    assert not live.recorded and "Part of None" in live.banner.words
    assert shown(live).startswith("GPU. Measured now on an NVIDIA H200 with 132 SMs.")
    assert "with 80 SMs" in measure("s02", blocks=[1, 2], live=True, sms=80).banner.words


# ---- profile ----


def test_a_recorded_profile(monkeypatch):
    monkeypatch.setattr(
        profiling, "profile_once", lambda stage, **_: lesson_samples.profile(stage, reason="No GPU.")
    )
    result = profile("s02", "s01")
    assert result.binding_stall == "mio_throttle"
    assert result.stalls["mio_throttle"] == pytest.approx(100 * 10 / 18)
    assert result.wavefronts("loads") == 11380 and result.wavefronts("loads", simulated=True) == 11280
    text = shown(result)
    assert text.startswith("Recorded. Counters of s01 and s02. Recorded on 2026-11-30")
    assert "No GPU." not in text  # a reader without a GPU knows that
    assert "mio throttle 55.6 % 55.6 % for room in the queue" in text
    assert "all loads, by the whole kernel's counter 11,380 11,280" in text
    assert "LDS: load from shared memory 11,280" in text and "LDGSTS" not in text
    assert "some percent above where several blocks share an SM" in text
    assert "The launch: 32 sequences of 256 tokens, 32 heads, VSplit 1." in text
    assert result.profile.banner().startswith("Recorded on 2026-11-30")
    lines = result.by_line(top=1)
    assert [row.line for row in lines.rows] == [221] and "short scoreboard" in shown(lines)
    with pytest.raises(BadInput, match="give one of loads, stores"):
        result.wavefronts("nothing")


def test_a_profile_that_is_neither_measured_nor_recorded(monkeypatch):
    def missing(stage, **_):
        raise MachineUnavailable("No GPU.")

    monkeypatch.setattr(profiling, "profile_once", missing)
    result = profile("s02")
    assert result.missing and result.binding_stall is None and result.wavefronts("loads") is None
    assert shown(result) == "Not recorded. Counters of s02. There is no Hopper GPU here to count on."
    assert "not recorded" in shown(result.by_line())


def test_a_profile_measured_now(monkeypatch):
    monkeypatch.setattr(
        profiling, "profile_once", lambda stage, **_: lesson_samples.profile(stage, recorded=False)
    )
    assert shown(profile("s02")).startswith("GPU. Counters of s02. Counted now on the GPU.")
    assert profiling.latest("s02").profile.recorded is False


# ---- card ----


def test_a_card_of_records(recorded, compiler, monkeypatch):
    monkeypatch.setattr(profiling, "recorded", lambda stage: lesson_samples.profile(stage))
    result = card("s02")
    assert (result.base, result.this.build.registers <= 64) == ("s01", True)
    assert result.difference.code_lines > 0
    text = shown(result)
    for words_of_card in ("lines of code changed", "(ldmatrix) 0 0", "binding stall mio throttle 56 %"):
        assert words_of_card in text
    assert "s01, ms s02, ms" in text and "Counters of s01 and s02." in text
    assert "in percent of their time (mio throttle: for room in the queue" in text


def test_a_card_without_records_invents_nothing(compiler):
    text = shown(card("s00"))
    assert "binding stall not recorded" in text and "not recorded" in text.split("s00, ms")[1]
