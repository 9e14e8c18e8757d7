"""Widths of accesses in the source and the machine code: they agree in every stage, and a join is named."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from own_kernels import written

import kda_learn
from kda_learn.compilers import nvrtc
from kda_learn.compilers.host import compiler
from kda_learn.compilers.sass import Frame, SassInstruction
from kda_learn.exercises.definition import exercise
from kda_learn.exercises.words import grade_text
from kda_learn.ground.errors import MachineUnavailable
from kda_learn.kernel_a.widths import comparison, widths_of
from kda_learn.lab.own_kernel import run_own
from kda_learn.sources.stages import STAGES, as_stage, stage
from kda_learn.tracing.widths import (
    NEIGHBOURS,
    Comparison,
    Difference,
    Place,
    differences,
    in_machine_code,
    width_of,
)


@pytest.fixture(autouse=True)
def emulator():
    """Skips where there is no C++ compiler."""
    try:
        compiler()
    except MachineUnavailable as missing:
        pytest.skip(str(missing))


@pytest.fixture
def both(emulator):
    """Skips where there is no compiler for GPUs, or no disassembler."""
    try:
        nvrtc.compile(stage("s12").path, entry="kernel_a<1, false, float>").sass()
    except MachineUnavailable as missing:
        pytest.skip(str(missing))


ROW = (
    "    sts<uint4>(smem + Smem::KR + KrLayout::at(row, feature), make_uint4(kr[0], kr[1], kr[2], kr[3]));\n"
)
LOOP = """\
#pragma unroll
    for (u32 i = 0; i < 4; i++)
      sts<u32>(smem + Smem::KR + KrLayout::at(row, feature) + 4 * i, kr[i]);
"""
LINES = "".join(
    f"    sts<u32>(smem + Smem::KR + KrLayout::at(row, feature) + {4 * i}, kr[{i}]);\n" for i in range(4)
)


# ---- the stages ----


@pytest.mark.parametrize("rung", STAGES, ids=lambda rung: rung.id)
def test_they_agree_in_every_stage(both, rung):
    source = widths_of(rung)
    assert len(source) > 30
    assert comparison(rung.path, source) == Comparison()


@pytest.mark.parametrize("variant", [(4, True, "bfloat16"), (8, False, "float32"), (2, True, "float32")])
def test_other_variants_agree_but_for_one_load(both, variant):
    """Of the 8 bytes of a sequence's end the low 4 are used, and the compiler loads no more."""
    rung = STAGES[np.random.default_rng().integers(len(STAGES))]
    found = comparison(rung.path, widths_of(rung, *variant), *variant).differences
    told = [(one.file, one.operation, one.source, one.machine) for one in found]
    assert told == [("problem.cuh", "ldg", (8,), (4,))] * variant[1], rung.id
    assert all("narrowed or split" in str(one) for one in found)


@pytest.mark.parametrize(("stores", "count"), [(LOOP, 1), (LINES, 4)])
def test_four_stores_that_become_one_are_named(both, tmp_path, stores, count):
    """The CPU machine makes four stores, of 128 wavefronts; a GPU makes one, of 32."""
    path = written(tmp_path, stage("s06").source.text, (ROW, stores))
    first = next(
        n for n, line in enumerate(path.read_text().splitlines(), 1) if "sts<u32>(smem + Smem::KR" in line
    )
    lines = tuple(range(first, first + count))
    kernel = as_stage(path)
    found = comparison(path, widths_of(kernel)).differences
    assert found == [Difference("mine.cu", lines, "sts", (4,), (16,))]
    place = f"mine.cu:{first}" + (f" to {lines[-1]}" if count > 1 else "")
    said = f"{place}: stores to shared memory of 4 bytes a lane in the source are of 16 bytes in the machine"
    assert str(found[0]).startswith(said) and "the compiler joined them" in str(found[0])
    traced = kda_learn.trace(path)
    assert traced.wavefronts("store kr") == (128 if count == 1 else 4 * 32)
    for shown in (traced, kda_learn.compile(path)):
        assert said in " ".join(str(shown).split())


# ---- files of one's own, and exercises ----

JOINED = """\
// kda-learn: launch rows grid 1 block 32 shared 32 * 16
// kda-learn: out to uint32[32*4]
#include "gpu.cuh"
__global__ void rows(u32* to) {
  const u32 i = threadIdx.x;
  for (u32 k = 0; k < 4; k++) sts<u32>(smem_base() + i * 16 + k * 4, i + k);
  __syncwarp();
  for (u32 k = 0; k < 4; k++) stg(to + i + 32 * k, lds<u32>(smem_base() + (i + 32 * k) * 4));
}
"""


def test_a_traced_run_of_ones_own_names_them(both, tmp_path):
    run = run_own(written(tmp_path, JOINED), machine="emulator", trace=True)
    assert run.widths.differences == [Difference("mine.cu", (6,), "sts", (4,), (16,))]
    assert "mine.cu:6: stores to shared memory" in str(kda_learn.run_file(run.header.path, trace=True))
    assert run_own(run.header.path, machine="emulator").widths == Comparison()


def test_a_grade_names_them_in_lines_of_the_cell(both):
    """The swizzle is right, and four stores of 4 bytes take four times the wavefronts here, not on a GPU."""
    task = exercise("banks.layout")
    stores = [f"sts<u32>(tile + at(row, col) + {4 * i}, piece.{part});" for i, part in enumerate("xyzw")]
    text = "\n".join(
        [
            "GPU_FN u32 at(u32 row, u32 col) { return row * 128 + ((col / 8) ^ (row % 8)) * 16; }",
            "GPU_FN void write_piece(saddr tile, u32 row, u32 col, uint4 piece) {",
            *stores,
            "}",
            next(line for line in task.lines if "uint4 read_piece(" in line),
        ]
    )
    demand = grade_text(task.key, text).demand("wavefronts")
    assert demand.ok is False
    assert "Line 3 of your cell to line 6 of your cell: stores to shared memory of 4 bytes" in demand.found
    assert "the compiler joined them" in demand.found


def test_without_a_compiler_for_gpus_that_is_said(tmp_path, monkeypatch):
    def missing(*arguments, **options):
        raise MachineUnavailable("NVRTC is missing.")

    for module in ("kernel_a.widths", "lab.own_kernel", "exercises.banks"):
        monkeypatch.setattr(f"kda_learn.{module}.compile", missing)
    assert comparison(stage("s12").path, {}).sentences() == [
        "Not compared with the widths of accesses in a GPU's machine code: NVRTC is missing."
    ]
    path = written(tmp_path, JOINED)
    assert "Not compared with the widths" in str(kda_learn.run_file(path, trace=True))
    assert "Not compared with the widths" in str(kda_learn.trace(written(tmp_path, stage("s12").source.text)))
    task = exercise("banks.layout")
    text = "\n".join(task.lines[task.place[0] - 1 : task.place[1]]).replace("* 2", "* 2u")
    assert "were not looked at" in grade_text(task.key, text).demand("wavefronts").found


# ---- reading machine code ----


@pytest.mark.parametrize(
    ("opcode", "bytes"),
    [
        ("LDS", 4),
        ("LDS.U16", 2),
        ("LDS.S8", 1),
        ("STS.64", 8),
        ("STS.128", 16),
        ("LDG.E", 4),
        ("LDG.E.128.CONSTANT", 16),
        ("STG.E.U16", 2),
        ("LDGSTS.E.BYPASS.128", 16),
        ("LDGSTS.E", 4),
        ("LDSM.16.M88", 4),
        ("LDSM.16.MT88.2", 8),
        ("LDSM.16.MT88.4", 16),
        ("STSM.16.M88.4", 16),
    ],
)
def test_widths_of_opcodes(opcode, bytes):
    assert width_of(opcode) == bytes


def test_padding_is_left_out_and_copies_are_of_both_kinds():
    frames = (Frame("/x/gpu.cuh", 5), Frame("/x/mine.cu", 7))
    code = [
        SassInstruction(0, "LDS", "@!PT LDS RZ, [RZ]", frames),
        SassInstruction(16, "LDGSTS.E", "LDGSTS.E [R1], [R2]", frames),
        SassInstruction(32, "FADD", "FADD R1, R2", frames),
    ]
    assert in_machine_code(code) == {
        Place("mine.cu", 7, "cp.async.ca"): {4},
        Place("mine.cu", 7, "cp.async.cg"): {4},
    }


def test_what_is_split_and_what_is_left_out():
    source = {Place("a.cu", 1, "ldg"): {12}, Place("a.cu", 30, "ldg"): {4}, Place("a.cu", 2, "lds"): {4}}
    machine = {Place("a.cu", 1, "ldg"): {4}, Place("a.cu", 2, "lds"): {4}, Place("a.cu", 9, "sts"): {16}}
    split, gone = differences(source, machine)
    assert split == Difference("a.cu", (1,), "ldg", (12,), (4,)) and "narrowed or split" in str(split)
    assert gone == Difference("a.cu", (30,), "ldg", (4,), ()) and "left out" in str(gone)


def test_lines_that_lie_apart_are_told_apart():
    random = np.random.default_rng()
    line, lines = 1, []
    for gap in random.integers(1, 2 * NEIGHBOURS, 20):
        line += int(gap)
        lines.append(line)
    found = differences({Place("a.cu", one, "sts"): {4} for one in lines}, {})
    assert [one for group in found for one in group.lines] == lines
    for before, after in pairwise(found):
        assert after.lines[0] - before.lines[-1] > NEIGHBOURS
    assert Path(found[0].file).name == "a.cu"
