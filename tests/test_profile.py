"""profile.py and what it is made of: ncu's pages, its refusals, counts mapped to source lines, records."""

import dataclasses
import importlib
import json
import os
import sys
from pathlib import Path

import ncu_pages_of
import numpy as np
import pytest

from kda_learn import counters, ncu, ncu_pages, profile_measure, profile_pack, profile_rows, profile_target
from kda_learn.bench import Config
from kda_learn.cli import main
from kda_learn.compile import compile_stage
from kda_learn.device import Gpu
from kda_learn.errors import BadInput, KdaError, MachineUnavailable
from kda_learn.problem import Problem
from kda_learn.profile import Profile, Target
from kda_learn.profile_measure import Pages, measure, pair
from kda_learn.profile_text import as_text
from kda_learn.ptx_lines import source_frames
from kda_learn.records import digests
from kda_learn.run import run
from kda_learn.sass import SassInstruction
from kda_learn.source import StageSource
from kda_learn.stages import stage
from kda_learn.tile_trace import trace
from kda_learn.trace import per_tile

profiles = importlib.import_module("kda_learn.profile")  # `from kda_learn import profile` is the function
GPU = Gpu(0, "NVIDIA H200", 132, (9, 0), "580.65", "13.0", 150 * 10**9, 232_448, "0000:00:00.0")
LAUNCH = {"blocks_per_sm": 3, "dynamic_smem_bytes": 67520, "nvrtc": "13.0"}
S12, S02 = Target("s12"), Target("s02", 4, "B1/T1024")


@pytest.fixture(scope="module")
def sass():
    """Skips where there is no NVRTC or nvdisasm."""
    try:
        return compile_stage("s12").sass()
    except MachineUnavailable as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def emulator():
    """Skips where there is no C++ compiler."""
    try:
        return trace("s12")
    except MachineUnavailable as missing:
        pytest.skip(str(missing))


@pytest.fixture
def fake_ncu(monkeypatch, tmp_path):
    """A computer with an H200 whose ncu prints what lies in the folder that is returned."""
    folder = tmp_path / "fake"
    folder.mkdir()
    shim = tmp_path / "ncu"
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).parent / "fake_ncu.py"}" "$@"\n')
    shim.chmod(0o755)
    monkeypatch.setenv("FAKE_NCU", str(folder))
    monkeypatch.setattr(ncu, "ncu_program", lambda: str(shim))
    monkeypatch.setattr(ncu, "counters_open", lambda: None)
    for module in (profile_measure, profile_pack):
        monkeypatch.setattr(module, "hopper", lambda index=0: GPU)
    ncu.known_counters.cache_clear()
    yield folder
    ncu.known_counters.cache_clear()


def lay_out(folder: Path, targets: list[Target], answers: list[dict] | None = None, **changes) -> None:
    """What the fake ncu prints and the profiled program answers."""
    answers = answers or [LAUNCH] * len(targets)
    launched = tuple(target for target, answer in zip(targets, answers, strict=True) if "error" not in answer)
    (folder / "raw.csv").write_text(ncu_pages_of.raw_page(launched, **changes))
    (folder / "source.csv").write_text(ncu_pages_of.source_page(launched))
    (folder / "answer.json").write_text(json.dumps(answers))


# ---- ncu's pages ----


def test_the_raw_page_has_a_row_for_each_launch():
    text = (
        '==PROF== Connected to process 7\n==WARNING== something\n"ID","Kernel Name","gpu__time_duration.sum",'
        '"a__b.ratio","c__d"\n"","","ns","",""\n"0","kernel_a","1,234,567","0.5","n/a"\n'
        '"1","kernel_a(int, float)","89","nan","3"\n==PROF== Disconnected\n'
    )
    first, second = ncu_pages.parse_raw(text)
    assert (first["gpu__time_duration.sum"], first["a__b.ratio"]) == (1234567.0, 0.5)
    assert "c__d" not in first
    assert second["c__d"] == 3.0
    assert ncu_pages.parse_raw("==ERROR== nothing\n") == []


def test_the_source_page_has_a_part_for_each_launch():
    headings = '"#","Address","Source","# Samples","Instructions Executed","L1 Wavefronts Shared"'
    headings += ',"L1 Wavefronts Shared Ideal","Instructions Executed","stall_long_sb","stall_lg"'
    headings += ',"stall_lg (Not Issued)"'
    text = (
        f'"Kernel Name","a(int, int)",\n{headings}\n'
        '"0","0x7f1000","      LDS.U16 R1, [R2] ","12","1,024","2,048","1024","7","10","0","5"\n'
        '"1","0x7f1010","@!P0 EXIT","-","","-","-","7","0","0","0"\n\n'
        f'"Function Name","b",\n{headings}\n"0","0x9000","NOP","1","1","0","0","1","0","1","0"\n'
    )
    first, second = ncu_pages.parse_source(text)
    assert first[0] == ncu_pages.InstructionCounts(
        0, "LDS.U16 R1, [R2]", 1024, 2048, 1024, 12, {"long_scoreboard": 10}
    )
    assert (first[1].address, first[1].samples, first[1].executed) == (0x10, 0, 0)
    assert [counts.stalls for counts in second] == [{"lg_throttle": 1}]


def test_the_source_page_with_the_metrics_names():
    text = (
        '"Address","Source","# Samples","inst_executed","memory_l1_wavefronts_shared",'
        '"memory_l1_wavefronts_shared_ideal","smsp__pcsamp_warps_issue_stalled_math_pipe_throttle",'
        '"smsp__pcsamp_warps_issue_stalled_math_pipe_throttle_not_issued"\n'
        '"64","HMMA R0, R1, R2, R3","3","8","0","0","3","2"\n'
    )
    ((only,),) = ncu_pages.parse_source(text)
    assert (only.executed, only.stalls) == (8, {"math_pipe_throttle": 3})


def test_a_source_page_without_wavefronts_is_refused():
    with pytest.raises(KdaError, match="no column 'L1 Wavefronts Shared'"):
        ncu_pages.parse_source('"Address","Source","# Samples","Instructions Executed"\n')


def test_counters_by_the_names_that_this_ncu_has():
    hmma = "sm__pipe_tensor_op_hmma_cycles_active"
    wanted = counters.wanted({hmma, "gpu__time_duration"})
    assert wanted[:2] == ["gpu__time_duration.sum", f"{hmma}.avg.pct_of_peak_sustained_active"]
    assert "memory_l1_wavefronts_shared" in wanted
    everything = counters.wanted([])
    assert len(everything) == len(counters.COUNTERS) + 1  # one comes with a section, two are added
    assert not any(name.startswith("launch__") for name in everything)
    metrics = {wanted[0]: 2500.0, wanted[1]: 12.0}
    assert counters.values(metrics) == {"time_us": 2.5, "tensor_pct": 12.0}


def test_stalls_the_largest_first():
    form = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    metrics = {form.format("wait"): 1.5, form.format("barrier"): 4.0, form.format("drain"): 0.0, "other": 9.0}
    assert list(counters.stalls(metrics).items()) == [("barrier", 4.0), ("wait", 1.5)]


# ---- why ncu cannot run ----


@pytest.mark.parametrize(
    "said, advice",
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance "
            "Counters on the target device 0.",
            "NVreg_RestrictProfilingToAdminUsers=0",
        ),
        (
            "==ERROR== An error was reported by the driver:\n==ERROR== Profiling failed because a driver "
            "resource was unavailable. Ensure that no other tool (like DCGM) is concurrently collecting.",
            "dcgmi profile --pause",
        ),
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "virtual machine"),
    ],
)
def test_a_refusal_says_what_to_do(fake_ncu, said, advice):
    lay_out(fake_ncu, [])
    (fake_ncu / "error.txt").write_text(f"the program's own words\n{said}\n")
    with pytest.raises(MachineUnavailable, match=advice):
        measure([S12])


def test_words_of_the_program_are_no_refusal():
    assert ncu.refusal("ERR_NVGPUCTRPERM is an error of other people\n==PROF== done") is None


def test_without_ncu(monkeypatch):
    monkeypatch.setattr(ncu, "ncu_program", lambda: None)
    with pytest.raises(MachineUnavailable, match="install Nsight Compute"):
        ncu.program()


def test_counters_for_administrators_only(monkeypatch):
    monkeypatch.setattr(ncu, "ncu_program", lambda: "/opt/ncu")
    monkeypatch.setattr(ncu, "counters_open", lambda: False)
    with pytest.raises(MachineUnavailable, match="run as root"):
        ncu.program()


def test_a_program_that_takes_too_long_is_ended(fake_ncu, monkeypatch, tmp_path):
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\necho started\nsleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setattr(ncu, "ncu_program", lambda: str(slow))
    with pytest.raises(KdaError, match=r"a stop after 0\.5 s and no report.*started"):
        ncu.collect(["python"], tmp_path / "report", [], seconds=0.5)


# ---- the machine code's lines ----


@pytest.mark.parametrize("name, v_split", [("s00", 1), ("s02", 4), ("s07", 1), ("s10", 1), ("s12", 4)])
def test_every_shared_memory_instruction_has_the_line_of_the_trace(sass, emulator, name, v_split):
    source = stage(name).source
    compiled = compile_stage(name, v_split).sass()
    traced = {(row.line, profile_rows.traced_class(row.op)) for row in trace(name, v_split=v_split)}
    kinds = [profile_rows.op_class(instruction) for instruction in compiled]
    in_sass = {
        (profile_rows.stage_line(instruction, source), kind)
        for instruction, kind in zip(compiled, kinds, strict=True)
        if kind
    }
    assert in_sass == traced
    products = [instruction for instruction in compiled if instruction.opcode.startswith("HMMA")]
    assert products
    assert all("mma(" in source.statement(profile_rows.stage_line(one, source)) for one in products)


def test_neighbouring_instructions_keep_their_own_lines(sass, emulator):
    """Eight reads of q and eight of k alternate: a table that joins neighbours would give 13 and 3."""
    source = stage("s12").source
    count = {}
    for instruction in sass:
        key = profile_rows.stage_line(instruction, source), profile_rows.op_class(instruction)
        count[key] = count.get(key, 0) + 1
    unrolled = [row for row in emulator if row.section in ("r1", "g1 g2", "g4 g5", "combine", "snapshot")]
    assert len(unrolled) > 10
    for row in unrolled:
        assert count[row.line, profile_rows.traced_class(row.op)] * 8 == row.instructions, row


def test_frames_of_calls_within_calls():
    ptx = (
        "\t.loc\t1 90 5\n\tmov.u32 %r1, 0;\n"
        "\t.loc\t1 40 3, function_name $L__info_string0, inlined_at 1 90 5\n"
        "\t.loc\t2 7 3, function_name $L__info_string1+12, inlined_at 1 40 3\n\tld.shared.u32 %r2, [%r1];\n"
        '\t.file\t1 "/k/s.cu"\n\t.file\t2 "/k/gpu.cuh"\n'
    )
    frames = source_frames(ptx)
    assert frames[2] == (("/k/s.cu", 90),)
    assert frames[5] == (("/k/gpu.cuh", 7), ("/k/s.cu", 40), ("/k/s.cu", 90))


# ---- rows ----


def test_work_of_a_target():
    assert Target("s12").work == (16 * 32 * 32, 32 * 32)
    assert Target("s12", 4, "B1/T1024", 8).work == (64 * 8, 8)
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


def test_another_kernels_profile_is_refused(sass):
    counts = [ncu_pages.InstructionCounts(sass[0].address, "HMMA R0, R1", 1, 0, 0, 0)]
    with pytest.raises(KdaError, match="profile it again"):
        profile_rows.match(counts, sass, "s12")


def test_padding_moves_no_memory():
    assert profile_rows.op_class(SassInstruction(0, "LDS", "@!PT LDS RZ, [RZ]")) is None
    assert profile_rows.op_class(SassInstruction(0, "LDS.U16", "LDS.U16 R1, [R2]")) == "LDS"
    assert profile_rows.op_class(SassInstruction(0, "LDG.E", "LDG.E R1, [R2]")) is None


def test_a_profile_has_measured_beside_simulated(fake_ncu, sass, emulator):
    lay_out(fake_ncu, [S12, S02])
    lines = []
    s12, s02 = measure([S12, S02], report=lines.append)
    assert (s12.stage, s02.stage, s02.v_split, s12.blocks_per_sm) == ("s12", "s02", 4, 3)
    assert s12.counters["time_us"] == pytest.approx(512.345)
    assert list(s12.stalls) == ["mio_throttle", "short_scoreboard"]
    assert s12.provenance.gpu == "NVIDIA H200"
    assert s12.provenance.digest == digests(["s12"])
    assert not s12.recorded
    by_name = {row.name: row for row in s12.comparisons}
    assert list(by_name) == ["LDS", "LDSM", "STS", "STSM", "LDGSTS", "loads", "stores", "copies"]
    assert all(row.difference_pct == pytest.approx(0, abs=1e-9) for row in s12.comparisons)
    expected = per_tile(emulator, 1)
    loads = sum(row.wavefronts for row in expected if row.kind == "load")
    assert by_name["LDS"].measured + by_name["LDSM"].measured == loads == by_name["loads"].measured
    assert {row.name for row in s02.comparisons} == {"LDS", "STS", "LDGSTS", "loads", "stores", "copies"}
    assert lines[-1] == "s02, VSplit 4: rows by source line"
    called = (fake_ncu / "calls.txt").read_text()
    assert "--clock-control none" in called
    assert "--profile-from-start off" in called


def test_rows_of_a_profile(fake_ncu, sass, emulator):
    lay_out(fake_ncu, [S12])
    (one,) = measure([S12])
    source = StageSource.load(S12.path)
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


def test_a_difference_shows(fake_ncu, sass, emulator):
    lay_out(fake_ncu, [S12], load_factor=1.1)
    (fake_ncu / "source.csv").write_text(
        ncu_pages_of.source_page((S12,), extra_wavefronts=S12.work.tiles * 8)
    )
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


def test_a_target_that_fails_leaves_the_others(fake_ncu, sass, emulator):
    lay_out(fake_ncu, [S12, S02], [{"error": "s12 left elements unwritten"}, LAUNCH])
    failed, measured = measure([S12, S02])
    assert str(failed) == "s12 left elements unwritten"
    assert measured.stage == "s02"


def test_an_ncu_that_fails_is_asked_for_less(fake_ncu, sass, emulator):
    lay_out(fake_ncu, [S12])
    (fake_ncu / "error.txt").write_text("==ERROR== Failed to find metric sm__something\n")
    with pytest.raises(KdaError, match="Failed to find metric sm__something"):
        measure([S12])
    calls = [call for call in (fake_ncu / "calls.txt").read_text().splitlines() if "--export" in call]
    assert ["--metrics" in call for call in calls] == [True, False, False]
    assert ["WarpStateStats" in call for call in calls] == [True, True, False]


def test_pages_that_lack_a_launch():
    with pytest.raises(KdaError, match="1 kernels were launched; ncu's pages have 0 and 0"):
        pair([S12], [LAUNCH], Pages(Path("none"), "", ""))


# ---- profile(), records, the command line ----


@pytest.fixture
def record(fake_ncu, sass, emulator, tmp_path):
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


def test_profile_measures_where_it_can(fake_ncu, sass, emulator):
    lay_out(fake_ncu, [S12])
    assert not profiles.profile(stage("s12")).recorded


def test_profile_shows_the_record_where_it_cannot_measure(record, monkeypatch):
    monkeypatch.setattr(profiles, "RECORDS", record)
    monkeypatch.setattr(ncu, "counters_open", lambda: False)
    found = profiles.profile("s12")
    assert found.recorded
    assert found.reason.startswith("ncu may not read this GPU's counters")
    assert found.banner().startswith("ncu may not read")
    with pytest.raises(MachineUnavailable):
        profiles.profile("s12", v_split=2)


def test_a_record_of_something_else(tmp_path, record):
    values = json.loads((record / "pack.json").read_text()) | {"kind": "ladder"}
    (tmp_path / "other.json").write_text(json.dumps(values))
    with pytest.raises(BadInput, match="of kind 'ladder'"):
        list(profiles.load(tmp_path / "other.json"))
    with pytest.raises(BadInput, match="a recorded one"):
        profiles.save(list(profiles.load(record / "pack.json")), tmp_path / "again.json")
    with pytest.raises(BadInput, match="No profile"):
        profiles.save([], tmp_path / "none.json")


def test_the_pack_can_be_rebuilt_from_its_pages(fake_ncu, sass, emulator, tmp_path, monkeypatch):
    lay_out(fake_ncu, [S12, S02])
    monkeypatch.setattr(profile_pack, "targets", lambda stages, v_splits: [S12, S02])
    out = tmp_path / "out"
    assert profile_pack.main(["--out", str(out)]) == 0
    assert sorted(os.listdir(out)) == ["profiles.json", "profiles_raw.zip"]
    measured = list(profiles.load(out / "profiles.json"))
    again = profile_pack.rebuild(out / "profiles_raw.zip")
    assert [dataclasses.replace(one, recorded=True) for one in again] == [
        dataclasses.replace(one, provenance=twin.provenance)
        for one, twin in zip(measured, again, strict=True)
    ]
    monkeypatch.setattr(profile_pack, "digests", lambda stages: {"s12": "another"})
    assert "has changed since" in str(profile_pack.rebuild(out / "profiles_raw.zip")[0])


def test_a_batch_that_fails_is_tried_one_by_one(fake_ncu, sass, emulator, tmp_path, monkeypatch):
    lay_out(fake_ncu, [S12])  # ncu's pages have one launch, whatever is asked: a batch of two does not fit
    monkeypatch.setattr(profile_pack, "targets", lambda stages, v_splits: [S12, S02])
    assert profile_pack.main(["--out", str(tmp_path)]) == 1
    assert [one.stage for one in profiles.load(tmp_path / "profiles.json")] == ["s12"]


def test_what_the_pack_holds():
    wanted = profile_pack.targets()
    assert len({(target.name, target.v_split) for target in wanted}) == len(wanted)
    assert {target.config for target in wanted if target.v_split == 4} == {"B1/T1024"}
    assert [target.name for target in profile_pack.targets(["s03a", "s12"])] == [
        "s03a",
        "s12",
        "s03a",
        "s12",
    ]
    assert [target.v_split for target in profile_pack.targets(["s12"], [4])] == [4]


def test_the_verb_without_gpu_and_record(capsys, monkeypatch, tmp_path):
    def missing(index=0):
        raise MachineUnavailable("No GPU can be used.")

    monkeypatch.setattr(profile_measure, "hopper", missing)
    monkeypatch.setattr(profiles, "RECORDS", tmp_path)
    assert main(["profile", "s12"]) == 2
    assert "No GPU can be used" in capsys.readouterr().err


def test_the_verb(fake_ncu, sass, emulator, capsys, tmp_path):
    lay_out(fake_ncu, [S12])
    assert main(["profile", "s12", "--json", "--record", str(tmp_path / "mine.json")]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["stage"] == "s12"
    assert {"line", "section", "op", "instructions", "wavefronts", "simulated", "excess", "stalls"} <= set(
        data["shared"][0]
    )
    assert profiles.recorded("s12", folder=tmp_path).config == "B32/T256"
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


# ---- the profiled program ----


def test_inputs_of_the_profiled_program(emulator):
    """Each sequence and head finds its own copy of the one sequence, so all compute the same."""
    host, copies = profile_target.repeated(Config.parse("B3/T32"), heads=2)
    tiled = {name: np.tile(array, copies[name]) for name, array in host.items()}
    problem = Problem(**tiled, cu_seqlens=None, sequences=3, scale=128**-0.5)
    assert (problem.tokens, problem.heads, problem.total_tiles) == (96, 2, 6)
    result = run("s12", problem, machine="emulator")
    assert not result.faults
    snapshots = result.snapshots.reshape(2 * 3, 2, 128, 128)
    assert np.array_equal(snapshots, np.broadcast_to(snapshots[0], snapshots.shape))
    assert not np.array_equal(snapshots[0, 0], snapshots[0, 1])


@pytest.mark.gpu
def test_on_this_gpu():
    try:
        ncu.program()
    except MachineUnavailable as missing:
        pytest.skip(str(missing))
    measured = profiles.profile("s12", config="B2/T64", heads=4)
    if measured.recorded:
        pytest.skip(measured.reason)
    for row in measured.comparisons:
        if row.name in ("LDS", "LDSM", "STS", "STSM"):
            assert abs(row.difference_pct) <= 2
