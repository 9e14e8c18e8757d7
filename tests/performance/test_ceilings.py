"""Ceilings: the arithmetic around the two lab kernels, a measurement on a pretended GPU, records."""

import contextlib
import json
import sys
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest
from lab_answers import products_of
from pretended_gpu import H200, PretendedMachine

from kda_learn.ground.errors import KdaError, MachineUnavailable
from kda_learn.kernel_a.variants import compile_stage
from kda_learn.lab import mma_ceiling, traffic_twin
from kda_learn.machines.cuda import SmPartition
from kda_learn.maintain.__main__ import main
from kda_learn.performance import ceilings, ceilings_child
from kda_learn.records import store as records
from kda_learn.sources.stages import LAST, stage


def test_the_operations_of_a_tile_are_those_in_the_machine_code():
    """The eight warps run the same products, and the loop over tiles holds all of them, unrolled."""
    try:
        sass = compile_stage(stage(LAST)).sass()
    except MachineUnavailable as missing:
        pytest.skip(str(missing))
    products = sum("HMMA" in instruction.opcode for instruction in sass)
    assert ceilings.tile_flops() == 8 * products * mma_ceiling.FLOPS_PER_MMA


# ---- a measurement on a pretended GPU ----

TILES = 7


@pytest.fixture
def machine(monkeypatch):
    """The kernels do what they must, in NumPy; each launch takes half a millisecond."""
    products = products_of(mma_ceiling.runnable(1, 0))

    def work(runnable):
        target = runnable.written["target"]
        if not made.works:
            target[...] = 0
        elif runnable.entry == "multiply":
            target[...] = products
        else:
            dtype = {"move_tiles<4>": "float32", "move_tiles<2>": "bfloat16"}[runnable.entry]
            for tile, source in enumerate(runnable.arguments[0]):
                target[tile] = traffic_twin.moved(source, dtype)
        return 0.5

    made = PretendedMachine(work).install(monkeypatch)
    made.works = True

    @contextlib.contextmanager
    def part_of_gpu(sms, device):
        yield SmPartition(80, 7, asked=sms) if sms else SmPartition(132, 0)

    cupy = SimpleNamespace(
        uint32=np.uint32,
        float32=np.float32,
        empty=np.empty,
        random=np.random,
        get_default_memory_pool=lambda: SimpleNamespace(free_all_blocks=lambda: None),
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(ceilings_child, "hopper", lambda: H200)
    monkeypatch.setattr(ceilings_child, "part_of_gpu", part_of_gpu)
    monkeypatch.setattr(ceilings_child, "free_memory", lambda device: 8 * (21568 + 65536) + 7 * 10**4)
    monkeypatch.setattr(
        ceilings_child, "kernel_of", lambda runnable: SimpleNamespace(blocks_per_sm=lambda threads: 2)
    )
    monkeypatch.setattr(ceilings_child, "on_device", lambda runnable: runnable)
    monkeypatch.setattr(ceilings_child, "compile", lambda path, entry: SimpleNamespace(nvrtc="13.0"))
    return made


def test_a_pretended_measurement(machine):
    measured = ceilings_child.run({"sms": [None, 78]})
    json.dumps(measured)
    assert measured["notes"] == ["80 SMs instead of 78: the driver cuts the GPU into such parts."]
    assert set(measured["sources"]) == {"traffic_twin.cu", "mma_ceiling.cu"}
    for part, sms in zip(measured["parts"], (132, 80), strict=True):
        assert part["sms"] == sms
        twin = part["twins"]["float32"]
        assert (twin["tiles"], twin["bytes_in"], twin["bytes_out"]) == (TILES, 21568, 65536)
        assert twin["ns_per_tile"] == pytest.approx(5e5 / TILES)  # 0.5 ms for all tiles
        assert twin["tb_per_s"] == pytest.approx((21568 + 65536) * TILES / 5e8, rel=1e-3)
        operations = sms * 2 * 8 * 8 * 16001 * 4096
        assert part["mma"]["tflops"] == pytest.approx(operations / 5e-4 / 1e12)
        assert part["mma"]["blocks"] == 2 * sms
    assert {start.stream for start in machine.starts} == {0, 7}
    assert {start.runnable.grid[0] for start in machine.starts if start.name == "move_tiles<4>"} == {
        TILES,
        *(sms * number for sms in (132, 80) for number in (2, 4, 8)),
    }


def test_the_fastest_number_of_blocks_counts(machine, monkeypatch):
    work = machine.work
    monkeypatch.setattr(machine, "work", lambda runnable: work(runnable) / (1 + (runnable.grid[0] == 528)))
    twin = ceilings_child.time_twin("float32", H200, SmPartition(132, 0))
    assert twin["blocks"] == 528
    assert twin["ns_per_tile"] == pytest.approx(2.5e5 / TILES)


def test_a_twin_that_writes_something_else(machine):
    machine.works = False
    with pytest.raises(KdaError, match=r"kernel of 264 blocks is wrong: tile 0 of 7 holds something else"):
        ceilings_child.run({"sms": [None]})


def test_products_that_are_wrong(machine):
    machine.works = False
    with pytest.raises(KdaError, match=r"kernel of multiply is wrong: the products are 1\.0e\+00 off"):
        ceilings_child.time_mma(H200, SmPartition(132, 0))


# ---- what is recorded ----


def content(sms_and_ns):
    def part(sms, ns):
        twins = {
            name: {"ns_per_tile": ns / share, "tb_per_s": 3.6}
            for name, share in (("float32", 1), ("bfloat16", 2))
        }
        return {"sms": sms, "twins": twins, "mma": {"tflops": sms * 5.0}, "clocks": []}

    return {"notes": [], "sources": {}, "parts": [part(*one) for one in sms_and_ns]}


WHERE = records.Provenance("NVIDIA H200", 132, "580.1", "13.0", "13.0", "2026-11-30T10:00:00+00:00", {})


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setattr("kda_learn.records.store.DATA", tmp_path)
    ceilings.recorded.cache_clear()
    yield tmp_path
    ceilings.recorded.cache_clear()


def test_recorded_ceilings(kept):
    assert ceilings.recorded() is None
    ceilings.recorded.cache_clear()
    records.save(
        records.Record(ceilings.KIND, WHERE, content([(132, 24.0), (80, 27.5)])), kept / "ceilings.json"
    )
    whole, part = ceilings.recorded(), ceilings.recorded(78)
    assert (whole.sms, whole.twin_ns["float32"], whole.twin_ns["bfloat16"]) == (132, 24.0, 12.0)
    assert (part.sms, part.twin_ns["float32"]) == (80, 27.5)
    assert whole.mma_ns == pytest.approx(2.58, abs=0.01)
    assert ceilings.recorded(gpu="NVIDIA H20") is None  # though its name begins the H200's
    assert ceilings.recorded(gpu="NVIDIA H200") == whole


def test_a_measurement_asks_the_child_for_both_sizes(monkeypatch):
    asked = []

    def child(work, request):
        asked.append((work, request))
        return content([(132, 24.0), (80, 27.5)]) | {"provenance": asdict(WHERE)}

    monkeypatch.setattr(ceilings, "hopper", lambda: H200)
    monkeypatch.setattr(ceilings, "run_in_child", child)
    record = ceilings.measure()
    assert asked == [("kda_learn.performance.ceilings_child:run", {"sms": [None, 78]})]
    assert (record.kind, record.provenance) == ("ceilings", WHERE)
    assert [one.sms for one in ceilings.of_record(record)] == [132, 80]


def test_without_a_gpu(monkeypatch, capsys):
    monkeypatch.setenv("KDA_LEARN_MACHINE", "emulator")
    assert main(["ceilings"]) == 2
    assert "so no GPU is used" in capsys.readouterr().err
