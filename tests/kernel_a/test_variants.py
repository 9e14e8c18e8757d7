"""The variants of a stage's kernel: their names, what they need, and a launch of one as a runnable."""

from dataclasses import replace

import numpy as np
import pytest

from kda_learn.ground.errors import BadInput, MachineUnavailable
from kda_learn.kernel_a.problem import random_problem
from kda_learn.kernel_a.run import of_problem
from kda_learn.kernel_a.variants import (
    V_SPLITS,
    compile_at_once,
    compile_stage,
    kernel_entry,
    shared_memory_of,
    threads_of,
)
from kda_learn.sources.stages import LAST, STAGES, Stage, stage

every_stage = pytest.mark.parametrize("rung", STAGES, ids=lambda rung: rung.id)


@pytest.mark.parametrize(
    ("v_split", "varlen", "snapshot_dtype", "entry"),
    [(1, False, "float32", "kernel_a<1, false, float>"), (4, True, "bfloat16", "kernel_a<4, true, bf16>")],
)
def test_the_entry_of_a_variant(v_split, varlen, snapshot_dtype, entry):
    assert kernel_entry(v_split, varlen, snapshot_dtype) == entry


@pytest.mark.parametrize("v_split", [0, 3, 16, True, 2.0, "4", None])
def test_a_v_split_no_stage_has(v_split):
    with pytest.raises(BadInput, match=r"v_split is .*give 1, 2, 4 or 8"):
        kernel_entry(v_split)


def test_a_snapshot_type_no_stage_has():
    with pytest.raises(BadInput, match=r"float16.*'float32' or 'bfloat16'"):
        kernel_entry(snapshot_dtype="float16")


@every_stage
def test_every_stage_compiles_without_spills(rung):
    try:
        compiled = compile_stage(rung)
    except MachineUnavailable as missing:
        pytest.skip(str(missing))
    assert compiled.spill_bytes == 0
    assert compiled.static_smem == 0


@every_stage
@pytest.mark.parametrize("v_split", V_SPLITS)
def test_what_a_stage_needs_is_what_its_file_says(rung, v_split):
    assert shared_memory_of(rung, v_split) == rung.source.constants(VSPLIT=v_split)["BYTES"]
    assert threads_of(rung) == 256


@pytest.mark.parametrize(
    ("cut", "what", "question"),
    [
        ("THREADS", "THREADS at file level", threads_of),
        ("BYTES", r"SharedMemory<VSPLIT>::BYTES", shared_memory_of),
    ],
)
def test_a_file_that_does_not_say_it(tmp_path, cut, what, question):
    path = tmp_path / "mine.cu"
    path.write_text(stage(LAST).path.read_text().replace(f"u32 {cut} =", f"u32 {cut}_2 ="))
    with pytest.raises(BadInput, match=rf"mine\.cu has no {what}: give a file made like a stage's"):
        question(Stage("mine", file=path))


def test_a_launch_on_a_problem():
    problem = random_problem(lengths=[20, 0, 36], heads=2, varlen=True)
    rung = stage(LAST)
    runnable = of_problem(rung, problem, 4, "bfloat16", extra_smem=1000)
    assert (runnable.source, runnable.entry) == (rung.path, "kernel_a<4, true, bf16>")
    assert (runnable.grid, runnable.threads) == ((3, 2, 4), threads_of(rung))
    assert runnable.dynamic_smem_bytes == shared_memory_of(rung, 4) + 1000
    assert runnable.arguments[0] is problem.q
    assert runnable.arguments[10] is problem.cu_seqlens
    assert [number.dtype for number in runnable.arguments[11:]] == [np.float32] + [np.int32] * 4
    assert runnable.arguments[13:] == (problem.tokens, problem.total_tiles, 2)
    snapshots, ds0 = runnable.written["snapshots"], runnable.written["ds0"]
    assert (snapshots.shape, snapshots.dtype) == ((2 * problem.total_tiles, 128, 128), np.uint16)
    assert (ds0.shape, ds0.dtype) == ((3, 2, 128, 128), np.float32)


def test_without_sequence_borders_the_lengths_are_equal():
    problem = random_problem(lengths=[32, 32], final_gradient=False)
    runnable = of_problem(stage(LAST), problem)
    assert runnable.entry == "kernel_a<1, false, float>"
    assert (runnable.arguments[7], runnable.arguments[10]) == (None, None)
    assert runnable.arguments[12] == 32
    assert runnable.written["snapshots"].dtype == np.float32


def test_compiling_ahead_leaves_errors_to_whoever_needs_the_kernel(tmp_path):
    path = tmp_path / "broken.cu"
    path.write_text("no kernel")
    compile_at_once(
        [(Stage("broken", file=path), 1, False, "float32"), (replace(stage(LAST)), 1, False, "float32")]
    )
