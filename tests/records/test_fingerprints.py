"""A record holds while its stage gives the same PTX, whatever happens to the text around it."""

import shutil
from pathlib import Path

import pytest

from kda_learn.compilers import nvrtc
from kda_learn.compilers.nvrtc import compile
from kda_learn.ground.errors import MachineUnavailable
from kda_learn.ground.files import KERNELS
from kda_learn.records import fingerprints
from kda_learn.records.fingerprints import bare, brought_up_to_date, is_same, ptx_digest, table
from kda_learn.sources import includes
from kda_learn.sources.includes import digest
from kda_learn.sources.stages import STAGES, Stage, stage

ENTRY = "kernel_a<1, false, float>"


@pytest.fixture(scope="module", autouse=True)
def version() -> str:
    """The version of this computer's compiler."""
    try:
        return compile(stage("s12").path, entry=ENTRY).nvrtc
    except MachineUnavailable as missing:
        pytest.skip(str(missing))


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a copy of the kernels; s12 is the copy's, and its table has one variant."""
    shutil.copytree(KERNELS, tmp_path / "kernels")
    path = tmp_path / "kernels" / "kernel_a" / stage("s12").path.name
    monkeypatch.setattr(fingerprints, "STAGES", (Stage("s12", file=path),))
    for looked_in in (includes, nvrtc):
        monkeypatch.setattr(looked_in, "KERNELS", tmp_path / "kernels")
    known = {"nvrtc": "", "entries": [ENTRY], "stages": {}}
    made = brought_up_to_date(known, known["entries"])
    monkeypatch.setattr(fingerprints, "table", lambda: made)
    return tmp_path / "kernels"


def edit(path: Path, before: str, after: str) -> None:
    """Replace the first piece of such text, which must be there."""
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, after, 1), encoding="utf-8")


UNUSED = "inline __device__ u32 nobody_calls_this(u32 x) { return x * 3 + 1; }\nconstexpr u32 NOBODY = 7;\n"


@pytest.mark.parametrize(
    ("file", "added"),
    [
        ("gpu.cuh", UNUSED),
        ("gpu.cuh", "// One more remark.\n"),
        ("layouts.cuh", "constexpr u32 NOBODY_READS[4] = {1, 2, 3, 4};\n"),
        ("kernel_a/s12_odd_half_stride.cu", "\n\n// It was written after the record.\n"),
    ],
)
def test_text_that_no_machine_code_comes_from_leaves_a_record_valid(copied: Path, file: str, added: str):
    recorded = digest(fingerprints.STAGES[0].path)
    path = copied / file
    path.write_text(path.read_text(encoding="utf-8") + added, encoding="utf-8")
    assert digest(fingerprints.STAGES[0].path) != recorded
    assert is_same("s12", recorded)


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("kernel_a/s12_odd_half_stride.cu", "dv.r[0] *= minus_beta;", "dv.r[0] *= -minus_beta;"),
        (
            "kernel_a/s12_odd_half_stride.cu",
            "using KrLayout = Interleaved<C>;",
            "using KrLayout = Rows<bf16, D>;",
        ),
    ],
)
def test_other_code_outdates_a_record(copied: Path, file: str, before: str, after: str):
    recorded = digest(fingerprints.STAGES[0].path)
    edit(copied / file, before, after)
    assert not is_same("s12", recorded)


def test_a_text_that_does_not_compile_outdates_a_record(copied: Path):
    recorded = digest(fingerprints.STAGES[0].path)
    edit(copied / "kernel_a" / "s12_odd_half_stride.cu", "float q_squares = 0,", "float q_squares = ,")
    assert not is_same("s12", recorded)


def test_a_text_that_was_never_known_is_outdated(copied: Path):
    assert not is_same("s12", "0" * 64)
    assert not is_same("s99", digest(fingerprints.STAGES[0].path))


def test_another_compiler_does_not_decide(copied: Path):
    recorded = digest(fingerprints.STAGES[0].path)
    path = copied / "gpu.cuh"
    path.write_text(path.read_text(encoding="utf-8") + UNUSED, encoding="utf-8")
    assert is_same("s12", recorded)
    fingerprints.table()["nvrtc"] = "11.0"
    assert not is_same("s12", recorded)


def test_the_table_forgets_texts_of_another_kernel_and_keeps_those_of_the_same(copied: Path):
    first = fingerprints.table()
    path = copied / "gpu.cuh"
    path.write_text(path.read_text(encoding="utf-8") + UNUSED, encoding="utf-8")
    second = brought_up_to_date(first, first["entries"])
    assert len(second["stages"]["s12"]["texts"]) == 2
    edit(copied / "kernel_a" / "s12_odd_half_stride.cu", "dv.r[0] *= minus_beta;", "dv.r[0] *= -minus_beta;")
    third = brought_up_to_date(second, second["entries"])
    assert third["stages"]["s12"]["texts"] == [digest(fingerprints.STAGES[0].path)]


def test_what_counts_is_what_becomes_machine_code():
    ptx = "\n".join(
        [
            "// a comment",
            '\t.file\t1 "s12.cu"',
            ".global .align 4 .u32 unread = 3;",
            ".global .align 4 .b8 read[4] = {1, 2, 3, 4};",
            "\t.loc\t1 12 3",
            "$L__tmp0:",
            "$L__BB0_1:",
            "\tld.global.u32 %r1, [read];",
            "\t.section\t.debug_info\n\t{\n.b8 1\n\t}",
        ]
    )
    left = [line.strip() for line in bare(ptx).splitlines() if line.strip()]
    assert left == [
        ".global .align 4 .b8 read[4] = {1, 2, 3, 4};",
        "$L__BB0_1:",
        "ld.global.u32 %r1, [read];",
    ]


def test_the_table_is_that_of_the_sources(version: str):
    """After a stage has changed: `python -m kda_learn.maintain fingerprints`."""
    known = table()
    assert list(known["stages"]) == [rung.id for rung in STAGES]
    assert [rung.id for rung in STAGES if digest(rung.path) not in known["stages"][rung.id]["texts"]] == []
    if version == known["nvrtc"]:
        made = ptx_digest(stage("s02").path, known["entries"])
        assert made == (version, known["stages"]["s02"]["ptx"])
