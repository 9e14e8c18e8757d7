"""Profiling a stage: measured beside simulated, records, the verb."""

import json

import pytest
from ncu_pages_of import LAUNCH, calls, lay_out, pretend_ncu
from pretended_gpu import H200

from kda_learn.cli.main import main
from kda_learn.cli.profile_text import as_text
from kda_learn.ground.errors import BadInput, KdaError, MachineUnavailable
from kda_learn.ground.say import heard_by
from kda_learn.kernel_a.tile import trace
from kda_learn.kernel_a.variants import compile_stage
from kda_learn.performance import profile as profiles
from kda_learn.performance import profile_measure
from kda_learn.performance.profile import PROFILED_V_SPLITS, Profile, Target, targets
from kda_learn.performance.profile_measure import in_batches, measure, profile
from kda_learn.profiling import ncu
from kda_learn.records.store import digests
from kda_learn.sources.stages import STAGES, stage
from kda_learn.tracing.rows import per_tile

S12, S02 = Target("s12"), Target("s02", 4, "B1/T8192")


@pytest.fixture(scope="module")
def sass():
    """Skips where there is no NVRTC or nvdisasm."""
    try:
        return compile_stage(stage("s12")).sass()
    except MachineUnavailable as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def traced():
    """Skips where there is no C++ compiler."""
    try:
        return trace("s12")
    except MachineUnavailable as missing:
        pytest.skip(str(missing))


@pytest.fixture
def fake_ncu(monkeypatch, tmp_path):
    """A computer with an H200 whose ncu prints what lies in the folder that is returned."""
    monkeypatch.setattr(profile_measure, "hopper", lambda index=0: H200)
    return pretend_ncu(monkeypatch, tmp_path)


# ---- what is asked for ----


def test_work_of_a_target():
    assert Target("s12").work == (128 * 32 * 32, 32 * 32)
    assert Target("s12", 4, "B1/T8192", 8).work == (512 * 8, 8)
    assert Target("s12").work.times("finish") == 32 * 32


@pytest.mark.parametrize(
    "arguments, match",
    [
        ({"config": "B32"}, "config is 'B32'"),
        ({"v_split": 3}, "give 1, 2, 4 or 8"),
        ({"heads": 0}, "heads is 0"),
    ],
)
def test_targets_that_do_not_fit(arguments, match):
    with pytest.raises(BadInput, match=match):
        Target("s12", **arguments)


@pytest.mark.parametrize("given", ["s12", str(stage("s12").path)])
def test_a_target_is_named_after_its_stage(given):
    target = Target(given, 4)
    assert (target.name, target.label) == ("s12", "s12 at VSplit 4")
    assert target.watched.options["path"] == str(stage("s12").path)


def test_a_target_may_be_a_file_of_your_own(tmp_path):
    path = tmp_path / "mine.cu"
    path.write_text("")
    assert Target(str(path)).label == "mine.cu at VSplit 1"


def test_what_is_recorded():
    wanted = targets()
    assert len(wanted) == len(STAGES) * len(PROFILED_V_SPLITS)
    assert len({(target.name, target.v_split) for target in wanted}) == len(wanted)
    assert {target.config for target in wanted if target.v_split == 4} == {"B1/T8192"}
    assert [target.name for target in targets(["s03a", "s12"])] == [
        "s03a",
        "s12",
        "s03a",
        "s12",
    ]
    assert [target.v_split for target in targets(["s12"], [4])] == [4]


def test_batches_hold_every_target_once():
    batches = in_batches(targets())
    assert [target for batch in batches for target in batch] == targets()
    assert max(map(len, batches)) == 4


# ---- what is measured ----


def test_a_profile_has_measured_beside_simulated(fake_ncu, sass, traced):
    lay_out(fake_ncu, [S12, S02])
    said = []
    with heard_by(said.append):
        s12, s02 = measure([S12, S02])
    assert said == [
        "compiling s12 at VSplit 1, s02 at VSplit 4",
        "ncu on s12 at VSplit 1, s02 at VSplit 4",
        "reading ncu's report",
    ]
    assert (s12.stage, s02.stage, s02.v_split, s12.blocks_per_sm) == ("s12", "s02", 4, 3)
    assert s12.counters["time_us"] == pytest.approx(512.345)
    assert list(s12.stalls) == ["mio_throttle", "short_scoreboard"]
    assert s12.provenance.gpu == "NVIDIA H200"
    assert s12.provenance.digest == digests(["s12"])
    assert not s12.recorded
    by_name = {row.name: row for row in s12.comparisons}
    assert list(by_name) == ["LDS", "LDSM", "STS", "STSM", "LDGSTS", "loads", "stores", "copies"]
    assert all(row.difference_pct == pytest.approx(0, abs=1e-9) for row in s12.comparisons)
    expected = per_tile(traced, 1)
    loads = sum(row.wavefronts for row in expected if row.kind == "load")
    assert by_name["LDS"].measured + by_name["LDSM"].measured == loads == by_name["loads"].measured
    assert {row.name for row in s02.comparisons} == {"LDS", "STS", "LDGSTS", "loads", "stores", "copies"}


def test_rows_of_a_profile(fake_ncu, sass, traced):
    lay_out(fake_ncu, [S12])
    (one,) = measure([S12])
    source = S12.kernel.source
    (reads,) = [row for row in one.shared if "Smem::GC" in source.statement(row.line) and row.op == "LDS"]
    assert (reads.section, reads.regions) == ("r1", ("GC",))
    assert (reads.wavefronts, reads.simulated, reads.least, reads.excess) == (256, 256, 64, 192)
    (finish,) = [row for row in one.shared if row.section == "finish"]
    assert finish.wavefronts == finish.simulated  # per sequence and head, not per tile
    assert sum(row.share_pct for row in one.lines) == pytest.approx(100)
    helper = next(row for row in one.lines if row.section == "load_a_transposed")
    kernel_lines = [source.sections[line] for line in helper.called_from]
    assert set(kernel_lines) == {"g1 g2", "g3", "g4 g5"}
    assert sum(helper.stalls.values()) == helper.samples


def test_a_difference_shows(fake_ncu, sass, traced):
    lay_out(fake_ncu, [S12], load_factor=1.1, extra_wavefronts=S12.work.tiles * 8)
    (one,) = measure([S12])
    by_name = {row.name: row for row in one.comparisons}
    assert by_name["LDS"].difference_pct == pytest.approx(100 * 8 / by_name["LDS"].simulated)
    assert by_name["LDSM"].difference_pct == 0
    assert by_name["loads"].difference_pct > 5
    (changed,) = [row for row in one.shared if row.op == "LDS" and row.wavefronts != row.simulated]
    assert changed.wavefronts - changed.simulated == 8


def test_without_a_compiler_for_the_emulator(fake_ncu, sass, monkeypatch):
    lay_out(fake_ncu, [S12])
    monkeypatch.setattr(profile_measure, "simulate", lambda target: None)
    (one,) = measure([S12])
    assert all(row.simulated is None and row.excess is None for row in one.shared)
    assert all(row.difference_pct is None for row in one.comparisons)
    assert "LDSM" in as_text(one)


def test_a_target_that_fails_leaves_the_others(fake_ncu, sass, traced):
    lay_out(fake_ncu, [S12, S02], [{"error": "s12 left elements unwritten"}, LAUNCH])
    failed, measured = measure([S12, S02])
    assert str(failed) == "s12 left elements unwritten"
    assert measured.stage == "s02"


def test_an_ncu_that_fails_is_an_error_in_the_targets_place(fake_ncu, sass, traced):
    (fake_ncu / "error.txt").write_text("==ERROR== Failed to find metric sm__something\n")
    (failed,) = measure([S12])
    assert isinstance(failed, KdaError)
    assert "Failed to find metric sm__something" in str(failed)
    with pytest.raises(KdaError, match="Failed to find metric"):
        profile("s12")


def test_a_batch_that_fails_is_tried_one_by_one(fake_ncu, sass, traced):
    lay_out(fake_ncu, [S12, S02])
    (fake_ncu / "most.txt").write_text("1")
    kept = []
    s12, s02 = measure([S12, S02], keep=lambda batch, pages, launches: kept.append((batch, launches)))
    assert (s12.stage, s02.stage) == ("s12", "s02")
    assert len(calls(fake_ncu)) == 3 + 1 + 1  # of both, with fewer counters each time; then of each
    assert kept == [([S12], [LAUNCH]), ([S02], [LAUNCH])]


def test_a_refusal_is_not_tried_one_by_one(fake_ncu, sass, traced):
    (fake_ncu / "error.txt").write_text("==ERROR== ERR_NVGPUCTRPERM - no permission\n")
    with pytest.raises(MachineUnavailable, match="run as root"):
        measure([S12, S02])
    assert len(calls(fake_ncu)) == 1


def test_a_kernel_that_has_changed_is_an_error_in_its_place(fake_ncu, sass, traced, monkeypatch):
    lay_out(fake_ncu, [S12, S02])
    present = compile_stage(stage("s02"), 4)
    monkeypatch.setattr(profile_measure, "compile_stage", lambda rung, v_split: present)
    failed, measured = measure([S12, S02])
    assert "profile it again with the present source" in str(failed)
    assert measured.stage == "s02"


# ---- profile(), records, the command line ----


@pytest.fixture
def record(fake_ncu, sass, traced, tmp_path):
    """A folder with a record of s12 and s02."""
    lay_out(fake_ncu, [S12, S02])
    folder = tmp_path / "profiles"
    profiles.save(measure([S12, S02]), folder / "pack.json")
    return folder


def test_a_record_gives_back_what_was_measured(record, tmp_path):
    found = profiles.recorded("s02", 4, record)
    assert found.recorded
    assert found.provenance.digest == digests(["s02"])
    assert profiles.recorded("s02", 1, record) is None
    again = Profile.from_dict(json.loads(json.dumps(found.as_dict())))
    assert again == found
    assert "Recorded on" in found.banner()
    assert as_text(found).startswith("Recorded on")


def test_profile_measures_where_it_can(fake_ncu, sass, traced):
    lay_out(fake_ncu, [S12])
    assert not profile(stage("s12")).recorded


def test_profile_shows_the_record_where_it_cannot_measure(record, monkeypatch):
    monkeypatch.setattr(profiles, "RECORDS", record)
    monkeypatch.setattr(ncu, "counters_open", lambda: False)
    found = profile("s12")
    assert found.recorded
    assert found.reason.startswith("ncu may not read this GPU's counters")
    assert found.banner().startswith("ncu may not read")
    with pytest.raises(MachineUnavailable):
        profile("s12", v_split=2)


def test_a_record_of_something_else(tmp_path, record):
    values = json.loads((record / "pack.json").read_text()) | {"kind": "ladder"}
    (tmp_path / "other.json").write_text(json.dumps(values))
    with pytest.raises(BadInput, match="of kind 'ladder'"):
        list(profiles.load(tmp_path / "other.json"))
    with pytest.raises(BadInput, match="a recorded one"):
        profiles.save(list(profiles.load(record / "pack.json")), tmp_path / "again.json")
    with pytest.raises(BadInput, match="No profile"):
        profiles.save([], tmp_path / "none.json")


def test_the_verb_without_gpu_and_record(capsys, monkeypatch, tmp_path):
    def missing(index=0):
        raise MachineUnavailable("No GPU can be used.")

    monkeypatch.setattr(profile_measure, "hopper", missing)
    monkeypatch.setattr(profiles, "RECORDS", tmp_path)
    assert main(["profile", "s12"]) == 2
    assert "No GPU can be used" in capsys.readouterr().err


def test_the_verb(fake_ncu, sass, traced, capsys, tmp_path):
    lay_out(fake_ncu, [S12])
    assert main(["profile", "s12", "--json", "--record", str(tmp_path / "mine.json")]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["stage"] == "s12"
    assert {"line", "section", "op", "instructions", "wavefronts", "simulated", "excess", "stalls"} <= set(
        data["shared"][0]
    )
    assert profiles.recorded("s12", folder=tmp_path).config == "B32/T2048"
    assert main(["profile", "s12"]) == 0
    assert "loads" in capsys.readouterr().out


# ---- the profiles that come with the package ----

LARGEST_DIFFERENCE_PCT = 2
EXPLAINED: dict[tuple[str, int, str], str] = {}
"""(stage, VSplit, class) -> why measured and simulated wavefronts differ by more."""

PACKAGED = [one for path in sorted(profiles.RECORDS.glob("*.json")) for one in profiles.load(path)]


@pytest.mark.parametrize("one", PACKAGED, ids=lambda one: f"{one.stage} VSplit {one.v_split}")
def test_recorded_wavefronts_are_the_simulated_ones(one):
    compared = {row.name: row for row in one.comparisons}
    assert {"LDS", "STS"} <= compared.keys()
    for name in compared.keys() & {"LDS", "LDSM", "STS", "STSM"}:
        if (one.stage, one.v_split, name) not in EXPLAINED:
            assert abs(compared[name].difference_pct) <= LARGEST_DIFFERENCE_PCT, compared[name]


@pytest.mark.gpu
def test_on_this_gpu():
    try:
        ncu.program()
    except MachineUnavailable as missing:
        pytest.skip(str(missing))
    measured = profile("s12", config="B2/T64", heads=4)
    if measured.recorded:
        pytest.skip(measured.reason)
    for row in measured.comparisons:
        if row.name in ("LDS", "LDSM", "STS", "STSM"):
            assert abs(row.difference_pct) <= 2
