"""Ceilings: the two kernels on the emulator, the arithmetic around them, a pretended measurement, records."""

import contextlib
import json
import sys
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest

from kda_learn import ceilings, ceilings_child, emulator, records
from kda_learn.bf16 import from_bf16, to_bf16
from kda_learn.compile import compile_stage
from kda_learn.device import Gpu
from kda_learn.errors import KdaError, MachineUnavailable
from kda_learn.fragments import FRAGMENTS, owner
from kda_learn.gpu import SmPartition
from kda_learn.problem import random_problem
from kda_learn.source import StageSource

H200 = Gpu(0, "NVIDIA H200", 132, (9, 0), "580.159.04", "13.0", 150 * 10**9, 232448, "0000:00:00.0")


@pytest.fixture
def compiler():
    try:
        emulator.compiler()
    except MachineUnavailable as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("blocks", [1, 2, 3])
@pytest.mark.parametrize(("entry", "dtype"), [("move_tiles<4>", "float32"), ("move_tiles<2>", "bfloat16")])
def test_the_twin_moves_every_byte(compiler, entry, dtype, blocks):
    bytes_in, bytes_out = ceilings.tile_bytes(dtype)
    source = np.random.default_rng(0).integers(0, 1 << 32, (3, bytes_in // 16, 4), dtype=np.uint32)
    target = np.full((3, bytes_out // 16, 4), 0xFFFFFFFF, np.uint32)
    threads = StageSource.load(ceilings.TWIN).constants()["THREADS"]
    launch = emulator.build(ceilings.TWIN, entry).launch(
        [source, target, np.uint32(3)], grid=(blocks, 1, 1), block=(threads, 1, 1), shared_bytes=0
    )
    assert launch.faults == []
    for tile in range(3):
        assert np.array_equal(target[tile], ceilings.moved(source[tile], dtype))


def test_a_tile_has_the_bytes_that_the_kernel_takes():
    """The inputs of a problem of one tile, and its snapshot."""
    problem = random_problem(lengths=[16])
    names = ("q", "k", "do", "gc", "beta", "inv", "mqk")
    read = sum(getattr(problem, name).nbytes for name in names)
    assert ceilings.tile_bytes() == (read, 128 * 128 * 4)
    assert ceilings.tile_bytes("bfloat16") == (read, 128 * 128 * 2)


def test_the_operations_of_a_tile_are_those_in_the_machine_code():
    """s12's eight warps run the same products, and its loop over tiles holds all of them, unrolled."""
    pytest.importorskip("cupy")
    try:
        products = sum("HMMA" in instruction.opcode for instruction in compile_stage("s12").sass())
    except MachineUnavailable as missing:
        pytest.skip(str(missing))
    assert ceilings.tile_flops() == 8 * products * ceilings.FLOPS_PER_MMA


@pytest.mark.parametrize("rounds", [0, 3])
def test_the_products_are_right(compiler, rounds):
    constants = StageSource.load(ceilings.MMA).constants()
    sums, threads = constants["SUMS"], constants["THREADS"]
    random = np.random.default_rng(1)
    lefts = from_bf16(to_bf16(random.standard_normal((sums, 16, 16))))
    rights = from_bf16(to_bf16(random.standard_normal((sums, 16, 8))))
    found = np.full((threads // 32, sums, 32, 4), np.nan, np.float32)
    launch = emulator.build(ceilings.MMA, "multiply").launch(
        [fragments("A", lefts), fragments("B", rights), found, np.uint32(rounds)],
        grid=(1, 1, 1),
        block=(threads, 1, 1),
        shared_bytes=0,
    )
    assert launch.faults == []
    wanted = lefts.astype(np.float64) @ rights
    for i in range(sums):
        for row in range(16):
            for column in range(8):
                lane, register, _ = owner("C", row, column)
                assert found[:, i, lane, register] == pytest.approx(wanted[i, row, column], abs=1e-4)


def fragments(name, matrices):
    """uint32 [matrices, lanes, registers]: matrices of bf16 numbers as a warp holds them."""
    shape = FRAGMENTS[name]
    halves = np.zeros((len(matrices), 32, shape.registers, 2), np.uint16)
    for row in range(shape.rows):
        for column in range(shape.columns):
            lane, register, half = owner(name, row, column)
            halves[:, lane, register, half] = to_bf16(matrices[:, row, column])
    return halves.view(np.uint32)[..., 0].copy()


# ---- a measurement on a pretended GPU ----


class DeviceArray(np.ndarray):
    """A NumPy array that looks like CuPy's."""

    def get(self):
        return np.array(self)

    @property
    def data(self):
        pointers[self.ctypes.data] = self
        return SimpleNamespace(ptr=self.ctypes.data)


pointers: dict[int, DeviceArray] = {}


class PretendedKernel:
    """Does what the kernel of that name does, in NumPy. `clock` counts the launches."""

    def __init__(self, compiled, clock):
        self.entry, self.gpu, self.clock = compiled, H200, clock

    def blocks_per_sm(self, threads):
        return 2

    def launch(self, grid, block, arguments, stream):
        self.clock.append((self.entry, grid[0], stream))
        if self.entry == "multiply":
            target, rounds = pointers[int(arguments[2])], int(arguments[3])
            target[:] = 2.0 if rounds == 0 else 2.0 + 1e-6
            return
        dtype = {"move_tiles<4>": "float32", "move_tiles<2>": "bfloat16"}[self.entry]
        source, target = (pointers[int(address)] for address in arguments[:2])
        for tile in range(int(arguments[2])):
            target[tile] = ceilings.moved(np.asarray(source[tile]), dtype)


@pytest.fixture
def clock(monkeypatch):
    pytest.importorskip("cupy")
    launches = []

    class Random:
        def standard_normal(self, shape, dtype):
            return np.random.default_rng(0).standard_normal(shape, dtype=dtype).view(DeviceArray)

    pretended_cupy = SimpleNamespace(
        uint32=np.uint32,
        float32=np.float32,
        asarray=lambda array: np.array(array).view(DeviceArray),
        full=lambda shape, value, dtype: np.full(shape, value, dtype).view(DeviceArray),
        random=SimpleNamespace(default_rng=lambda seed: Random()),
        get_default_memory_pool=lambda: SimpleNamespace(free_all_blocks=lambda: None),
    )

    @contextlib.contextmanager
    def part_of_gpu(sms, device):
        yield SmPartition(80, 7) if sms else SmPartition(132, 0)

    pretended_gpu = SimpleNamespace(
        Gpu=Gpu,
        SmPartition=SmPartition,
        hopper=lambda: H200,
        free_memory=lambda device: 8 * (21568 + 65536) + 7 * 10**4,
        load=lambda compiled: PretendedKernel(compiled, launches),
        synchronize=lambda device: None,
        record_event=lambda stream: len(launches),
        elapsed_ms=lambda start, end: 0.5 * (end - start),
        sample_clocks=lambda device: None,
    )
    compiled = type("Name", (str,), {"nvrtc": "13.0"})
    monkeypatch.setitem(sys.modules, "cupy", pretended_cupy)
    monkeypatch.setattr(ceilings_child, "gpu", pretended_gpu)
    monkeypatch.setattr(ceilings_child, "part_of_gpu", part_of_gpu)
    monkeypatch.setattr(ceilings_child, "compile_kernel", lambda path, entry: compiled(entry))
    return launches


def test_a_pretended_measurement(clock):
    measured = ceilings_child.run({"sms": [None, 78]})
    json.dumps(measured)
    assert measured["notes"] == ["80 SMs instead of 78: the driver cuts the GPU into such parts."]
    assert set(measured["sources"]) == {"traffic_twin.cu", "mma_ceiling.cu"}
    for part, sms in zip(measured["parts"], (132, 80), strict=True):
        assert part["sms"] == sms
        assert part["twins"]["float32"]["ns_per_tile"] == pytest.approx(5e5 / 7)  # 0.5 ms for 7 tiles
        assert part["twins"]["float32"]["tb_per_s"] == pytest.approx((21568 + 65536) * 7 / 5e8, rel=1e-3)
        operations = sms * 2 * 8 * 8 * 16001 * 4096
        assert part["mma"]["tflops"] == pytest.approx(operations / 5e-4 / 1e12)
    assert {stream for _, _, stream in clock} == {0, 7}
    assert {blocks for entry, blocks, _ in clock if entry == "move_tiles<4>"} == {
        7,
        *(sms * number for sms in (132, 80) for number in (2, 4, 8)),
    }


def test_a_twin_that_writes_something_else(clock, monkeypatch):
    monkeypatch.setattr(PretendedKernel, "launch", lambda self, *arguments: self.clock.append(("", 0, 0)))
    with pytest.raises(KdaError, match="wrote something else than it read"):
        ceilings_child.run({"sms": [None]})


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
    monkeypatch.setattr(records, "DATA", tmp_path)
    ceilings.recorded.cache_clear()
    yield tmp_path
    ceilings.recorded.cache_clear()


def test_recorded_ceilings(kept):
    assert ceilings.recorded() is None
    ceilings.recorded.cache_clear()
    records.save(records.Record(ceilings.KIND, WHERE, content([(132, 24.0), (80, 27.5)])), kept / "c.json")
    whole, part = ceilings.recorded(), ceilings.recorded(78)
    assert (whole.sms, whole.twin_ns["float32"], whole.twin_ns["bfloat16"]) == (132, 24.0, 12.0)
    assert (part.sms, part.twin_ns["float32"]) == (80, 27.5)
    assert whole.mma_ns == pytest.approx(2.58, abs=0.01)
    assert ceilings.recorded(gpu="NVIDIA H20") is None  # though its name begins the H200's
    assert ceilings.recorded(gpu="NVIDIA H200") == whole


def test_a_measurement_asks_the_child_for_both_sizes(monkeypatch):
    asked = []

    def child(module, request):
        asked.append((module, request))
        return content([(132, 24.0), (80, 27.5)]) | {"provenance": asdict(WHERE)}

    monkeypatch.setattr(ceilings, "hopper", lambda: H200)
    monkeypatch.setattr(ceilings, "run_in_child", child)
    record = ceilings.measure()
    assert asked == [("kda_learn.ceilings_child", {"sms": [None, 78]})]
    assert (record.kind, record.provenance) == ("ceilings", WHERE)
    assert [one.sms for one in ceilings.of_record(record)] == [132, 80]


def test_without_a_gpu(monkeypatch, capsys):
    monkeypatch.setenv("KDA_LEARN_MACHINE", "emulator")
    assert ceilings.main() == 2
    assert "so no GPU is used" in capsys.readouterr().err
