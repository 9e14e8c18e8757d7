"""A runnable launched once from host memory: outputs start poisoned, what nobody wrote is named."""

import dataclasses

import numpy as np
import pytest

from kda_learn.compilers.host import compiler
from kda_learn.ground.errors import BadInput, MachineUnavailable
from kda_learn.machines import launching
from kda_learn.machines.launching import launch, poison, unwritten
from kda_learn.machines.runnable import Runnable

KERNEL = """#include "gpu.cuh"
constexpr u32 THREADS = 32;

// Scales the first `count` numbers and counts them; what belongs to the others is left alone.
template <u32 FACTOR>
__global__ void scale(const u32* from, u32* to, u16* low, const u32* nothing, u32 count) {
  const u32 i = blockIdx.x * THREADS + threadIdx.x;
  sts<u32>(smem_base() + 4 * threadIdx.x, ldg(from + i) * FACTOR);
  if (i < count) {
    stg(to + i, lds<u32>(smem_base() + 4 * threadIdx.x));
    stg(low + i, static_cast<u16>(i));
  }
}
"""


@pytest.fixture
def runnable(tmp_path):
    """Two blocks; all 64 elements of both outputs are written."""
    try:
        compiler()
    except MachineUnavailable as missing:
        pytest.skip(str(missing))
    (tmp_path / "scale.cu").write_text(KERNEL)
    return Runnable(
        source=tmp_path / "scale.cu",
        entry="scale<3>",
        arguments=(
            np.arange(64, dtype=np.uint32),
            np.zeros(64, np.uint32),
            np.zeros((4, 16), np.uint16),
            None,
            np.uint32(64),
        ),
        grid=(2, 1, 1),
        threads=32,
        dynamic_smem_bytes=128,
        outputs={"scaled": 1, "low": 2},
    )


def cut_to(runnable, count):
    return dataclasses.replace(runnable, arguments=(*runnable.arguments[:-1], np.uint32(count)))


def test_the_outputs_are_in_the_runnables_own_arrays(runnable):
    finished = launch(runnable, "emulator")
    assert (finished.machine, finished.faults) == ("emulator", [])
    assert finished.seconds > 0
    assert np.array_equal(runnable.written["scaled"], np.arange(64) * 3)
    assert np.array_equal(runnable.written["low"].reshape(-1), np.arange(64))


def test_elements_that_nobody_wrote_are_named(runnable):
    short = cut_to(runnable, 50)
    finished = launch(short, "emulator")
    assert finished.faults == [
        "14 of 64 elements of scaled were never written",
        "14 of 64 elements of low were never written",
    ]
    assert np.array_equal(short.written["scaled"][:50], np.arange(50) * 3)
    assert (short.written["scaled"][50:] == 0xFFFFFFFF).all()
    assert (short.written["low"].reshape(-1)[50:] == 0xFFFF).all()


def test_what_an_earlier_launch_wrote_does_not_count(runnable):
    assert launch(runnable, "emulator").faults == []
    assert len(launch(cut_to(runnable, 63), "emulator").faults) == 2


def test_inputs_are_not_poisoned(runnable):
    launch(runnable, "emulator")
    assert np.array_equal(runnable.arguments[0], np.arange(64))


def test_faults_of_the_emulator_come_first(runnable):
    text = runnable.source.read_text().replace("threadIdx.x, ldg", "(threadIdx.x ^ 1), ldg")
    runnable.source.write_text(text)
    faults = launch(cut_to(runnable, 63), "emulator").faults
    assert faults[0].startswith("race within a warp: scale.cu:")
    assert faults[-1] == "1 of 64 elements of low were never written"


@pytest.mark.parametrize("dtype", [np.float32, np.uint16, np.float16])
def test_poison_is_a_nan_and_is_seen_element_by_element(dtype, runnable):
    output = np.zeros((3, 4), dtype)
    poison(output)
    if output.dtype.kind == "f":
        assert np.isnan(output).all()
    output[1, 2] = 0
    one = dataclasses.replace(runnable, arguments=(output,), outputs={"it": 0})
    assert unwritten(one) == ["11 of 12 elements of it were never written"]


def test_an_output_without_elements_has_none_unwritten(runnable):
    empty = dataclasses.replace(runnable, arguments=(np.zeros((0, 4), np.float32),), outputs={"it": 0})
    poison(empty.written["it"])
    assert unwritten(empty) == []


def test_a_trace_is_kept_if_it_is_asked_for(runnable):
    assert len(launch(runnable, "emulator").launch.accesses) == 0
    finished = launch(runnable, "auto", trace=True)
    assert finished.machine == "emulator"
    assert {finished.launch.operations[access["op"]] for access in finished.launch.accesses} == {"sts", "lds"}


def test_the_seed_reaches_the_emulator(runnable, monkeypatch):
    seeds = []
    build = launching.emulator.build

    class Library:
        def __init__(self, *of):
            self.library = build(*of)

        def launch(self, *arguments, seed, **options):
            seeds.append(seed)
            return self.library.launch(*arguments, seed=seed, **options)

    monkeypatch.setattr(launching.emulator, "build", Library)
    launch(runnable, "emulator", seed=5)
    assert seeds == [5]


def test_a_gpu_does_not_trace(runnable):
    with pytest.raises(BadInput, match=r"machine is 'gpu' and trace is on.*give machine='emulator'"):
        launch(runnable, "gpu", trace=True)


def test_a_machine_that_is_none(runnable):
    with pytest.raises(BadInput, match=r"machine is 'cpu': give one of auto, gpu, emulator"):
        launch(runnable, "cpu")


def test_without_a_gpu(runnable, monkeypatch):
    monkeypatch.setenv("KDA_LEARN_MACHINE", "emulator")
    assert launch(runnable).machine == "emulator"
    with pytest.raises(MachineUnavailable, match="so no GPU is used"):
        launch(runnable, "gpu")
