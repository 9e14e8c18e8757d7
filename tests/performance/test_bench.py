"""Timing: what is asked for, the data, and the course of a measurement on a pretended GPU."""

import contextlib
import json
import re
from types import SimpleNamespace

import pytest
from pretended_gpu import H200, PretendedMachine

from kda_learn.ground.errors import BadInput, MachineUnavailable
from kda_learn.kernel_a.batch import BYTES_PER_TOKEN_AND_HEAD, CONFIGS, Config, fitting_heads
from kda_learn.kernel_a.device_data import for_config, make_data
from kda_learn.kernel_a.variants import compile_stage, shared_memory_of
from kda_learn.machines.child import run_in_child
from kda_learn.machines.cuda import SmPartition
from kda_learn.performance import bench, bench_child
from kda_learn.performance.bench import measure
from kda_learn.records.article import figures
from kda_learn.sources.stages import STAGES, stage

# ---- what is asked for ----


@pytest.mark.parametrize(
    ("text", "sequences", "length"), [("B32/T8192", 32, 8192), ("B1/T131072", 1, 131072), ("B2/T16", 2, 16)]
)
def test_a_config(text, sequences, length):
    assert Config.parse(text) == Config(sequences, length)
    assert Config.parse(text).name == text


@pytest.mark.parametrize("text", ["", "B32", "32/8192", "B0/T16", "B1/T0", "B1/T17", "B1/T16 ", "b1/t16"])
def test_a_config_that_is_none(text):
    with pytest.raises(BadInput, match=r"^The config is .*give one such as B32/T8192"):
        Config.parse(text)


def test_the_configs_are_those_of_the_article():
    assert list(CONFIGS) == figures()["configs"]


def test_snapshots_are_most_of_the_memory():
    """32 sequences of 8192 tokens in 32 heads: 34 GB of snapshots, as the design says."""
    tokens = Config.parse("B32/T8192").tokens
    assert tokens * 32 * 4 * 128 * 128 / 16 == pytest.approx(34.4e9, rel=0.01)
    assert tokens * 32 * BYTES_PER_TOKEN_AND_HEAD == pytest.approx(45.7e9, rel=0.01)


@pytest.mark.parametrize(
    ("free_gb", "heads"), [(150, 32), (60, 32), (50, 16), (20, 8), (5, 1), (4, 0), (0, 0)]
)
def test_heads_shrink_to_what_fits(free_gb, heads):
    assert fitting_heads(32, 262144, free_gb * 10**9) == heads


def test_the_rule_of_an_uneven_number_of_heads():
    assert fitting_heads(24, 262144, 20 * 10**9) == 6


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"stages": []}, r"stages is \[\]: give a list of stages"),
        ({"configs": []}, r"configs is \[\]: give a list of shapes"),
        ({"configs": ["B1/T3"]}, "The config is 'B1/T3'"),
        ({"heads": 0}, "heads is 0"),
        ({"heads": True}, "heads is True"),
        ({"sms": [0]}, "sms is 0: give a whole number from 1 on"),
        ({"sms": [None, 133]}, "133 SMs were asked for"),
    ],
)
def test_bad_requests(monkeypatch, changed, said):
    monkeypatch.setattr(bench, "hopper", lambda: H200)
    monkeypatch.setattr(bench, "run_in_child", lambda *_: pytest.fail("a child was started"))
    with pytest.raises(BadInput, match=said):
        measure(**{"stages": ["s12"], "configs": ["B1/T16"], "sms": [None], "heads": 1} | changed)


@pytest.mark.parametrize("name", ["s12", "s12/4", "s02+25600", "s12/8+1024"])
def test_the_name_of_a_variant(name):
    assert bench.Variant.parse(name).name == name


def test_the_child_says_why_it_cannot_run():
    asked = {"stages": ["s12"], "configs": ["B1/T9"], "sms": [None], "heads": 1, "seconds": 1}
    with pytest.raises((MachineUnavailable, BadInput)):  # no GPU, or with one: no such config
        run_in_child("kda_learn.performance.bench_child:run", asked)


def test_a_measurement_asks_the_child(monkeypatch):
    asked = []
    monkeypatch.setattr(bench, "hopper", lambda: H200)
    monkeypatch.setattr(
        bench, "run_in_child", lambda work, request: asked.append((work, request)) or "answer"
    )
    assert measure(("s12",), CONFIGS, (None, 78), seconds=2, clock_samples=1) == "answer"
    ((work, request),) = asked
    assert work == "kda_learn.performance.bench_child:run"
    assert request == {
        "stages": ["s12"],
        "configs": list(CONFIGS),
        "sms": [None, 78],
        "heads": 32,
        "seconds": 2,
        "clock_samples": 1,
    }


# ---- the data ----


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="the data is made with PyTorch, which is not installed")


@pytest.fixture(scope="module")
def data(torch):
    return make_data(2, 96, 3, device=torch.device("cpu"))


def test_data_is_random_and_finite(data):
    for name in ("q", "k", "do", "gc", "beta", "inv", "mqk", "dht"):
        tensor = getattr(data, name).double()
        assert tensor.isfinite().all(), name
        assert tensor.std() > 0.001, name
    decay = (2.0 ** data.gc[:, :, -1].double()).median()
    assert 0.95 < decay < 0.99  # a weak gate: a tile keeps about 97 % of the state
    assert data.beta.min() > 0 and data.beta.max() < 1


@pytest.mark.parametrize("text", ["B3/T32", "B1/T96", "B2/T32"])
def test_data_for_a_config_is_what_prepare_gives_for_it(torch, data, text):
    """Tiles are the same however the tokens are cut; fewer tokens leave out the last tiles of each head."""
    config = Config.parse(text)
    made = for_config(data, config)
    tiles = config.tokens // 16
    assert torch.equal(made.gc, data.gc[:, :tiles])
    assert torch.equal(made.inv, data.inv[:, :tiles])
    assert torch.equal(made.mqk, data.mqk[:, :tiles])
    assert torch.equal(made.beta, data.beta[:, : config.tokens])
    arrays = [one for one in made.in_order() if isinstance(one, torch.Tensor)]
    assert len(arrays) == 10
    assert all(array.is_contiguous() for array in arrays)
    assert (made.length, made.tokens, made.total_tiles, made.heads) == (
        config.length,
        config.tokens,
        tiles,
        2,
    )
    assert made.snapshots.shape == (2 * tiles, 128 * 128)


def test_the_arguments_are_those_of_the_kernel(torch, data):
    """Sixteen parameters, in the order of the contract: eleven addresses, the scale, four ints."""
    values = for_config(data, Config(3, 32)).in_order()
    arrays, numbers = values[:11], values[11:]
    assert [isinstance(array, torch.Tensor) for array in arrays] == [True] * 10 + [False]
    assert arrays[10] is None
    assert [number.dtype.str[1:] for number in numbers] == ["f4"] + ["i4"] * 4
    assert arrays[0].data_ptr() == data.q.data_ptr()
    assert arrays[8].data_ptr() == data.snapshots.data_ptr()
    assert list(numbers[1:]) == [32, 96, 6, 2]


@pytest.mark.parametrize("rung", STAGES, ids=lambda rung: rung.id)
def test_every_stage_takes_these_arguments(data, rung):
    """Number and types, read from the compiler's own listing of the kernel's parameters."""
    try:
        compiled = compile_stage(rung)
    except MachineUnavailable as missing:
        pytest.skip(str(missing))
    entry = compiled.ptx.partition(f".entry {compiled.symbol}(")[2].partition(")")[0]
    wanted = re.findall(r"\.param \.(\w+)", entry)
    kinds = {"float32": "f32", "int32": "u32"}
    *addresses, scale, length, tokens, total_tiles, heads = for_config(data, Config(3, 32)).in_order()
    numbers = [kinds[str(value.dtype)] for value in (scale, length, tokens, total_tiles, heads)]
    assert wanted == ["u64"] * len(addresses) + numbers


# ---- a measurement on a pretended GPU ----


@pytest.fixture
def machine(torch, monkeypatch):
    """The kernels fill the snapshots with a number each, and take their time."""
    milliseconds = {"s00": 80.0, "s01": 76.0, "s12": 15.0}

    def name_of(runnable):
        return runnable.source.stem.split("_")[0]

    def work(runnable):
        name = name_of(runnable)
        snapshots, ds0 = runnable.written["snapshots"], runnable.written["ds0"]
        snapshots.view(-1)[: int(snapshots.numel() * made.share_written)] = made.fill[name]
        ds0.zero_()
        return milliseconds[name]

    made = PretendedMachine(work, name_of).install(monkeypatch)
    made.fill, made.share_written, made.faults = dict.fromkeys(milliseconds, 1.0), 1.0, {}

    @contextlib.contextmanager
    def part_of_gpu(sms, device):
        yield SmPartition(132, 0) if sms is None else SmPartition(-(-sms // 8) * 8, 77, asked=sms)

    def check(name, problem, *, machine, v_split):
        faults = made.faults.get(name, [])
        return SimpleNamespace(ok=not faults, faults=faults)

    monkeypatch.setattr(bench_child, "hopper", lambda: H200)
    monkeypatch.setattr(bench_child, "free_memory", lambda gpu: 140 * 10**9)
    monkeypatch.setattr(bench_child, "torch_device", lambda index: torch.device("cpu"))
    monkeypatch.setattr(bench_child, "part_of_gpu", part_of_gpu)
    monkeypatch.setattr(bench_child, "check", check)
    monkeypatch.setattr(bench_child, "compile_stage", lambda stage: SimpleNamespace(nvrtc="13.0"))
    bench_child.fails_its_check.cache_clear()
    yield made
    bench_child.fails_its_check.cache_clear()


def request(**changes):
    return {
        "stages": ["s00", "s01", "s12"],
        "configs": ["B2/T32", "B1/T32"],
        "sms": [None, 78],
        "heads": 2,
        "seconds": 2.0,
        "clock_samples": 3,
    } | changes


def one_run(**changes):
    (part,) = bench_child.run(request(configs=["B1/T32"], sms=[None]) | changes)["parts"]
    (run,) = part["runs"]
    return run


def test_a_measurement(machine):
    measured = bench_child.run(request())
    assert measured["heads"] == 2
    assert measured["provenance"]["gpu"] == "NVIDIA H200"
    assert set(measured["provenance"]["digest"]) == {"s00", "s01", "s12"}
    assert [part["sms"] for part in measured["parts"]] == [132, 80]
    assert measured["notes"] == ["80 SMs instead of 78: the driver cuts the GPU into such parts."]
    assert {start.stream for start in machine.starts} == {0, 77}
    for part in measured["parts"]:
        assert [run["config"] for run in part["runs"]] == ["B2/T32", "B1/T32"]
        for run in part["runs"]:
            assert run["v_split"] == 4  # 4 or 2 (sequence, head) pairs are fewer than the SMs
            assert run["rounds"] == int(2000 / (80 + 76 + 15))
            assert run["times_us"]["s00"] == pytest.approx([80e3] * run["rounds"])
            assert run["times_us"]["s12"] == pytest.approx([15e3] * run["rounds"])
            assert (run["control"], run["control_us"]) == ("s12", pytest.approx([15e3] * run["rounds"]))
            assert run["rejected"] == {}
            assert run["blocks_per_sm"] == {"s00": 3, "s01": 3, "s12": 3}
    json.dumps(measured)


def test_a_variant_has_its_own_split(machine):
    """The rule says 4 here. Each variant runs at its own VSplit, and so does the control."""
    run = one_run(stages=["s00", "s12/1", "s12/2"], clock_samples=1)
    splits = [start.runnable.grid[2] for start in machine.starts]
    assert splits[:4] == [4, 1, 2, 2]
    assert set(run["times_us"]) == {"s00", "s12/1", "s12/2"}
    assert (run["control"], run["v_split"]) == ("s12/2", 4)
    assert sorted(splits[4:]) == sorted([4, 1, 2, 2] * run["rounds"])


def test_a_variant_asks_for_shared_memory_that_it_leaves_alone(machine):
    run = one_run(stages=["s12", "s12+25600"])
    needed = shared_memory_of(stage("s12"), 4)
    assert [start.runnable.dynamic_smem_bytes for start in machine.starts[:2]] == [needed, needed + 25600]
    assert set(run["times_us"]) == {"s12", "s12+25600"}


def test_each_stage_is_checked_once_for_each_split(machine, monkeypatch):
    checked = []

    def check(name, problem, *, machine, v_split):
        checked.append((name, machine, v_split))
        return SimpleNamespace(ok=True, faults=[])

    monkeypatch.setattr(bench_child, "check", check)
    bench_child.run(request(stages=["s12", "s12/1", "s00"]))
    assert checked == [("s12", "gpu", 4), ("s12", "gpu", 1), ("s00", "gpu", 4)]


def test_a_stage_that_fails_its_check_is_not_timed(machine):
    machine.faults["s01"] = ["snapshot 3 is off by 0.2"]
    run = one_run()
    assert set(run["times_us"]) == {"s00", "s12"}
    assert run["rejected"] == {"s01": "not timed, its check fails: snapshot 3 is off by 0.2"}
    assert "s01" not in machine.order


def test_a_stage_that_writes_something_else_at_full_size_is_not_timed(machine):
    machine.fill["s12"] = 1.1
    run = one_run()
    assert set(run["times_us"]) == {"s00", "s01"}
    assert "off the first stage's" in run["rejected"]["s12"]
    assert machine.order.count("s12") == 1


def test_a_snapshot_left_unwritten_is_seen_and_nothing_is_timed(machine):
    machine.share_written = 0.99
    run = one_run()
    assert run["times_us"] == {}
    assert run["control"] is None
    assert set(run["rejected"]) == {"s00", "s01", "s12"}
    assert all("unwritten" in reason for reason in run["rejected"].values())


def test_fewer_heads_are_said(machine, monkeypatch):
    monkeypatch.setattr(bench_child, "fitting_heads", lambda heads, tokens, free: 1)
    measured = bench_child.run(request())
    assert measured["heads"] == 1
    assert measured["notes"][0] == "1 heads instead of 2: 140.0 GB of GPU memory are free."


def test_no_memory_at_all(machine, monkeypatch):
    monkeypatch.setattr(bench_child, "fitting_heads", lambda heads, tokens, free: 0)
    with pytest.raises(MachineUnavailable, match="not even with one head"):
        bench_child.run(request())
