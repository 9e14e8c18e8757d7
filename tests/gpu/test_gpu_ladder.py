"""A small ladder, timed on a real GPU. Skipped without a Hopper GPU or PyTorch for it."""

import pytest

torch = pytest.importorskip("torch", reason="timing makes its data with PyTorch, which is not installed")

from kda_learn.device import free_memory, hopper  # noqa: E402
from kda_learn.ladder import measured_ladders  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this PyTorch sees no GPU"),
]


def test_a_small_ladder_on_the_whole_gpu_and_on_a_part():
    gpu = hopper()
    before = free_memory(gpu)
    whole, part = measured_ladders(["s02", "s12"], ["B2/T2048", "B16/T256"], [None, 16], heads=16)
    assert whole["ladder"]["sms"] == gpu.sms
    assert 16 <= part["ladder"]["sms"] < gpu.sms
    for result in (whole, part):
        assert [(row["stage"], row["base"]) for row in result["ladder"]["rows"]] == [
            ("s02", None),
            ("s12", "s02"),
        ] * 2
        for row in result["ladder"]["rows"]:
            assert row["median_us"] > 0
            assert row["ci_us"][0] <= row["median_us"] <= row["ci_us"][1]
        assert all(row["delta_pct"] < -10 for row in result["ladder"]["rows"] if row["base"])
        assert all(abs(control["delta_pct"]) < 10 for control in result["ladder"]["controls"])
    assert abs(free_memory(gpu) - before) < 64 * 2**20
