"""What is profiled, with NumPy in CuPy's place, and the judge of what is timed."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from kda_learn.compilers.host import compiler
from kda_learn.ground.errors import MachineUnavailable
from kda_learn.kernel_a.batch import Config
from kda_learn.kernel_a.device_data import Agreement, repeated, to_profile
from kda_learn.kernel_a.variants import runnable_of
from kda_learn.machines.launching import launch
from kda_learn.sources.stages import LAST, stage


@pytest.fixture
def numpy_as_cupy(monkeypatch):
    cupy = SimpleNamespace(tile=np.tile, asarray=np.asarray, empty=np.empty)
    monkeypatch.setitem(sys.modules, "cupy", cupy)


@pytest.fixture
def emulator():
    """Skips where there is no C++ compiler."""
    try:
        compiler()
    except MachineUnavailable as missing:
        pytest.skip(str(missing))


def test_inputs_of_the_profiled_program(numpy_as_cupy, emulator):
    """Each sequence and head finds its own copy of the one sequence, so all compute the same."""
    config = Config.parse("B3/T32")
    arguments = repeated(config, heads=2)
    assert (arguments.tokens, arguments.heads, arguments.total_tiles, arguments.length) == (96, 2, 6, 32)
    runnable = runnable_of(stage(LAST), arguments, config.sequences)
    assert launch(runnable, "emulator").faults == []
    snapshots = runnable.written["snapshots"].reshape(2 * 3, 2, 128, 128)
    assert np.array_equal(snapshots, np.broadcast_to(snapshots[0], snapshots.shape))
    assert not np.array_equal(snapshots[0, 0], snapshots[0, 1])


def test_what_is_launched_for_the_profiler(numpy_as_cupy, emulator):
    runnable = to_profile(str(stage(LAST).path), v_split=4, config="B2/T32", heads=2)
    assert (runnable.source, runnable.entry) == (stage(LAST).path, "kernel_a<4, false, float>")
    assert runnable.grid == (2, 2, 4)
    assert launch(runnable, "emulator").faults == []
    assert runnable.judge(runnable.written) == []


@pytest.mark.parametrize("name", ["snapshots", "ds0"])
def test_an_element_that_is_not_finite_is_found(numpy_as_cupy, name):
    runnable = to_profile(str(stage(LAST).path), v_split=1, config="B1/T16", heads=1)
    for output in runnable.written.values():
        output[...] = 1
    assert runnable.judge(runnable.written) == []
    runnable.written[name][0, ..., 5] = np.nan
    assert runnable.judge(runnable.written) == [
        "it left elements of its outputs unwritten or not finite on B1/T16"
    ]


# ---- the judge of stages that are timed ----


@pytest.fixture
def outputs():
    torch = pytest.importorskip("torch", reason="the judge looks at tensors of PyTorch")
    random = torch.Generator().manual_seed(0)
    return {
        "snapshots": torch.randn(100, 256, generator=random),
        "ds0": torch.randn(2, 2, 8, generator=random),
    }


def test_the_first_that_is_right_is_the_measure(outputs):
    judge = Agreement(Config(2, 16)).judge
    assert judge(outputs) == []
    nearly = outputs | {"snapshots": outputs["snapshots"] * 1.02}
    assert judge(nearly) == []
    (wrong,) = judge(outputs | {"snapshots": outputs["snapshots"] * 1.04})
    assert wrong == "its snapshots on B2/T16 are 4.0e-02 off the first stage's"


@pytest.mark.parametrize("name", ["snapshots", "ds0"])
def test_what_is_not_finite_is_no_measure(outputs, name):
    judge = Agreement(Config(2, 16)).judge
    holed = outputs | {name: outputs[name].clone()}
    holed[name].view(-1)[-1] = float("nan")
    assert judge(holed) == ["it left elements of its outputs unwritten or not finite on B2/T16"]
    assert judge(outputs) == []


def test_one_tile_that_differs_is_found(outputs):
    judge = Agreement(Config(2, 16)).judge
    judge(outputs)
    other = outputs["snapshots"].clone()
    other[-1] += 1
    assert len(judge(outputs | {"snapshots": other})) == 1
