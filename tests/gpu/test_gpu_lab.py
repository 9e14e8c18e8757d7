"""The lab kernels on a real GPU, through each engine. Skipped without a Hopper GPU; the last without ncu."""

from dataclasses import replace

import pytest
from lab_on_gpu import BLOCKS, ROUNDS, TILES, in_host_memory, on_gpu
from paths import TESTS

from kda_learn.ground.errors import KdaError, MachineUnavailable
from kda_learn.lab import banks, mma_ceiling, traffic_twin
from kda_learn.machines.cuda import part_of_gpu
from kda_learn.machines.device import hopper
from kda_learn.machines.launching import launch
from kda_learn.profiling.capture import Watched, capture
from kda_learn.sources.kernel_source import KernelSource
from kda_learn.timing.rounds import FEWEST_ROUNDS, time_in_rounds
from kda_learn.tracing.rows import rows, traced

pytestmark = pytest.mark.gpu

FAMILIES = ("twin", "multiply", "banks")


@pytest.mark.parametrize("family", FAMILIES)
def test_launched_from_host_memory(family):
    runnable = in_host_memory(family)
    finished = launch(runnable, "gpu")
    assert (finished.machine, finished.faults, finished.launch) == ("gpu", [], None)
    assert finished.seconds > 0
    assert runnable.judge(runnable.written) == []


@pytest.mark.parametrize("sms", [None, 16])
def test_timed_in_rounds(sms, tmp_path):
    device = hopper()
    runnables = {family: on_gpu(family) for family in FAMILIES}
    text = banks.SOURCE.read_text().replace("at(row, col));", "at(row ^ 1, col));")
    (tmp_path / "banks.cu").write_text(text)
    runnables["wrong"] = replace(on_gpu("banks"), source=tmp_path / "banks.cu")
    with part_of_gpu(sms, device) as part:
        found = time_in_rounds(runnables, device, part, seconds=0.001)
    assert found.rejected == {"wrong": "1024 of 1024 elements came back wrong"}
    assert set(found.times_us) == set(found.blocks_per_sm) == set(FAMILIES)
    assert found.rounds >= FEWEST_ROUNDS
    assert all(len(times) == found.rounds and min(times) > 0 for times in found.times_us.values())
    assert (found.control, len(found.control_us)) == ("banks", found.rounds)
    assert all(blocks >= 1 for blocks in found.blocks_per_sm.values())


def test_captured_by_ncu(monkeypatch):
    """What ncu counts at single instructions is what the kernels are known to do."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    wanted = [Watched(family, "lab_on_gpu:on_gpu", {"family": family}) for family in FAMILIES]
    try:
        captured = dict(zip(FAMILIES, capture(wanted), strict=True))
    except MachineUnavailable as missing:
        pytest.skip(str(missing))
    assert [str(one) for one in captured.values() if isinstance(one, KdaError)] == []

    def executed(family: str, opcode: str) -> int:
        counts = captured[family].counts
        return sum(one.executed for one in counts if one.text.split()[0].startswith(opcode))

    pieces_written = traffic_twin.tile_bytes()[1] // traffic_twin.PIECE
    assert executed("twin", "STG") == TILES * pieces_written // 32
    assert executed("multiply", "HMMA") == mma_ceiling.products(BLOCKS, ROUNDS)

    source = KernelSource.load(banks.SOURCE)
    simulated = rows(traced(banks.runnable()), source)
    for kind, opcode in (("load", "LDS"), ("store", "STS")):
        counts = [one for one in captured["banks"].counts if one.text.split()[0].startswith(opcode)]
        assert sum(one.wavefronts for one in counts) == sum(
            row.wavefronts for row in simulated if row.kind == kind
        )
    assert captured["banks"].launch["dynamic_smem_bytes"] == banks.GIVEN_BYTES
