"""A small ladder, timed on a real GPU. Skipped without a Hopper GPU or PyTorch for it."""

import pytest

torch = pytest.importorskip("torch", reason="timing makes its data with PyTorch, which is not installed")

from kda_learn.machines.device import free_memory, hopper  # noqa: E402
from kda_learn.performance.ladder import measured_ladders  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this PyTorch sees no GPU"),
]


def test_a_small_ladder_on_the_whole_gpu_and_on_a_part():
    gpu = hopper()
    before = free_memory(gpu)
    whole, part = measured_ladders(["s02", "s12"], ["B2/T2048", "B16/T256"], [None, 16], heads=16)
    assert whole.sms == gpu.sms
    assert 16 <= part.sms < gpu.sms
    for ladder in (whole, part):
        assert ladder.recorded is False
        assert [(row.stage, row.base) for row in ladder.rows] == [("s02", None), ("s12", "s02")] * 2
        for row in ladder.rows:
            assert row.median_us > 0
            assert row.ci_us[0] <= row.median_us <= row.ci_us[1]
        assert all(row.delta_pct < -10 for row in ladder.rows if row.base)
        assert all(abs(control["delta_pct"]) < 10 for control in ladder.controls)
    assert abs(free_memory(gpu) - before) < 64 * 2**20
