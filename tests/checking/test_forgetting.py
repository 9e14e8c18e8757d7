"""Gates that forget everything, run through stages."""

import numpy as np
import pytest

from kda_learn.checking.check import expected
from kda_learn.hardware.bf16 import to_bf16
from kda_learn.kernel_a.accuracy import gate
from kda_learn.kernel_a.problem import WEAK_GATE, Problem, problem_from_layer
from kda_learn.kernel_a.run import run
from kda_learn.sources.stages import LAST, STAGES

LENGTH, HEADS, TOKEN = 53, 2, 20


def forgetful(value: float) -> Problem:
    """One sequence with a tail, whose token 20 has the gate `value` in every channel."""
    random = np.random.default_rng()
    shape = (1, LENGTH, HEADS, 128)
    q, k, do = (to_bf16(random.standard_normal(shape).astype(np.float32)) for _ in range(3))
    g = np.full(shape, WEAK_GATE, np.float32)
    g[:, TOKEN] = value
    beta = random.uniform(0, 1, shape[:3]).astype(np.float32)
    dht = random.standard_normal((1, HEADS, 128, 128)).astype(np.float32)
    return problem_from_layer(q, k, g, beta, do, dht=dht)


@pytest.mark.parametrize("stage", [STAGES[0].id, LAST])
@pytest.mark.parametrize("value", [-1e4, np.finfo(np.float32).min, -np.inf])
def test_a_stage_forgets(stage, value):
    problem = forgetful(value)
    result = run(stage, problem, machine="emulator")
    assert result.faults == []
    found = gate((result.snapshots, result.ds0), *expected(problem, "float32"))
    assert found.ok, found.message
