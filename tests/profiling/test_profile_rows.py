"""Machine instructions and the source lines that they count for, those of the emulator's trace."""

import pytest

from kda_learn.compilers.sass import SassInstruction, source_frames
from kda_learn.ground.errors import KdaError, MachineUnavailable
from kda_learn.kernel_a.tile import trace
from kda_learn.kernel_a.variants import compile_stage
from kda_learn.profiling.ncu_pages import InstructionCounts
from kda_learn.profiling.rows import Work, match, op_class, stage_line, traced_class
from kda_learn.sources.stages import stage


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


@pytest.mark.parametrize("name, v_split", [("s00", 1), ("s02", 4), ("s07", 1), ("s10", 1), ("s12", 4)])
def test_every_shared_memory_instruction_has_the_line_of_the_trace(sass, traced, name, v_split):
    source = stage(name).source
    compiled = compile_stage(stage(name), v_split).sass()
    simulated = {(row.line, traced_class(row.op)) for row in trace(name, v_split=v_split)}
    kinds = [op_class(instruction) for instruction in compiled]
    in_sass = {
        (stage_line(instruction, source), kind)
        for instruction, kind in zip(compiled, kinds, strict=True)
        if kind
    }
    assert in_sass == simulated
    products = [instruction for instruction in compiled if instruction.opcode.startswith("HMMA")]
    assert products
    assert all("mma(" in source.statement(stage_line(one, source)) for one in products)


def test_neighbouring_instructions_keep_their_own_lines(sass, traced):
    """Eight reads of q and eight of k alternate: a table that joins neighbours would give 13 and 3."""
    source = stage("s12").source
    count = {}
    for instruction in sass:
        key = stage_line(instruction, source), op_class(instruction)
        count[key] = count.get(key, 0) + 1
    unrolled = [row for row in traced if row.section in ("r1", "g1 g2", "g4 g5", "combine", "snapshot")]
    assert len(unrolled) > 10
    for row in unrolled:
        assert count[row.line, traced_class(row.op)] * 8 == row.instructions, row


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


def test_how_often_a_launch_goes_through_a_section():
    work = Work(tiles=64, sequences=8)
    assert (work.times("g1 g2"), work.times("start"), work.times("finish")) == (64, 8, 8)


def test_another_kernels_profile_is_refused(sass):
    counts = [InstructionCounts(sass[0].address, "HMMA R0, R1", 1, 0, 0, 0)]
    with pytest.raises(KdaError, match="profile it again"):
        match(counts, sass, "s12")


def test_padding_moves_no_memory():
    assert op_class(SassInstruction(0, "LDS", "@!PT LDS RZ, [RZ]")) is None
    assert op_class(SassInstruction(0, "LDS.U16", "LDS.U16 R1, [R2]")) == "LDS"
    assert op_class(SassInstruction(0, "LDG.E", "LDG.E R1, [R2]")) is None
