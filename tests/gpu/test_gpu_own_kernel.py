"""A kernel of one's own on a GPU: the same launch, the same bits as on the CPU machine."""

import json

import numpy as np
import pytest
from own_kernels import AXPY, SUMS, written

from kda_learn.cli.main import main
from kda_learn.ground.files import KERNELS
from kda_learn.lab.own_kernel import run_own

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("text", [AXPY, SUMS, (KERNELS / "lab" / "transpose.cu").read_text()])
def test_both_machines_write_the_same(tmp_path, text):
    path, seed = written(tmp_path, text), int(np.random.default_rng().integers(1 << 31))
    there, here = (run_own(path, seed=seed, machine=machine) for machine in ("gpu", "emulator"))
    assert (there.machine, there.faults, here.faults) == ("gpu", [], [])
    assert 0 < there.seconds < 1
    if text is AXPY:  # a GPU may round the product and the sum at once
        assert np.allclose(there.output("y"), here.output("y"), atol=1e-6)
        assert np.array_equal(there.output("index"), here.output("index"))
    else:
        assert [one.digest for one in there.outputs] == [one.digest for one in here.outputs]


def test_what_a_kernel_leaves_out_is_seen_on_a_gpu_too(tmp_path, capsys):
    path = written(tmp_path, AXPY, ("  stg(index + i,", "  if (threadIdx.x % 8) stg(index + i,"))
    assert main(["run", str(path), "--machine", "gpu", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["machine"], found["faults"]) == ("gpu", ["24 of 192 elements of index were never written"])
