"""Timing: the request, the child process, the data, and the course of a measurement on a pretended GPU."""

import contextlib
import ctypes
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module

import numpy as np
import pytest

from kda_learn import bench, bench_child
from kda_learn.bench import BYTES_PER_TOKEN_AND_HEAD, Config, fitting_heads, measure, run_in_child
from kda_learn.compile import compile_stage
from kda_learn.device import Gpu
from kda_learn.errors import BadInput, KdaError, MachineUnavailable
from kda_learn.gpu import SmPartition
from kda_learn.stages import STAGES

H200 = Gpu(0, "NVIDIA H200", 132, (9, 0), "580.159.04", "13.0", 150 * 10**9, 232448, "0000:00:00.0")


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
    from kda_learn.article import figures

    assert list(bench.CONFIGS) == figures()["configs"]


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
        ({"stages": []}, "Nothing is to be timed"),
        ({"configs": []}, "Nothing is to be timed"),
        ({"configs": ["B1/T3"]}, "The config is 'B1/T3'"),
        ({"heads": 0}, "heads is 0"),
        ({"heads": True}, "heads is True"),
        ({"sms": [0]}, "0 SMs were asked for: give a number from 1 to 132"),
        ({"sms": [None, 133]}, "133 SMs were asked for"),
    ],
)
def test_bad_requests(monkeypatch, changed, said):
    monkeypatch.setattr(bench, "hopper", lambda: H200)
    monkeypatch.setattr(bench, "run_in_child", lambda *_: pytest.fail("a child was started"))
    with pytest.raises(BadInput, match=said):
        measure(**{"stages": ["s12"], "configs": ["B1/T16"], "sms": [None], "heads": 1} | changed)


# ---- the child process ----


@pytest.fixture
def child(tmp_path, monkeypatch):
    """Makes a module that run_in_child can start, from its text."""

    def make(text: str) -> str:
        (tmp_path / "pretended_child.py").write_text("import json, pathlib, sys\n" + text)
        return "pretended_child"

    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return make


ANSWER = "pathlib.Path(sys.argv[2]).write_text(json.dumps({answer}))\n"


def test_the_request_arrives_and_the_answer_comes_back(child):
    module = child(
        "request = json.loads(pathlib.Path(sys.argv[1]).read_text())\n"
        "import kda_learn.errors\n" + ANSWER.format(answer="{'measured': {'got': request}}")
    )
    assert run_in_child(module, {"stages": ["s12"], "sms": [None]}) == {
        "got": {"stages": ["s12"], "sms": [None]}
    }


@pytest.mark.parametrize("kind", [BadInput, MachineUnavailable, KdaError])
def test_an_error_in_the_child_is_raised_here(child, kind):
    module = child(ANSWER.format(answer=f"{{'error': ['{kind.__name__}', 'no memory']}}"))
    with pytest.raises(kind, match=r"^no memory$"):
        run_in_child(module, {})


def test_what_the_child_prints_is_passed_on(child, capsys):
    module = child("print('round 1', file=sys.stderr)\n" + ANSWER.format(answer="{'measured': {}}"))
    run_in_child(module, {})
    assert capsys.readouterr().err == "round 1\n"


def test_a_child_that_dies_is_one_sentence(child):
    module = child("sys.exit('out of luck')")
    with pytest.raises(KdaError, match=r"exit status 1 and no answer \(its last words: out of luck\)"):
        run_in_child(module, {})


def test_the_child_ends_with_this_process(child, monkeypatch):
    """Ctrl-C while the child runs: it must not go on holding the GPU."""
    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: started.append(popen(*a, **k)) or started[-1])
    module = child("import time\nprint('ready', file=sys.stderr, flush=True)\ntime.sleep(60)")

    def interrupted(*arguments, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.print", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_in_child(module, {})
    assert started[0].wait(timeout=10) != 0


def test_the_real_child_says_why_it_cannot_run(tmp_path):
    request, answer = tmp_path / "request.json", tmp_path / "answer.json"
    request.write_text(
        json.dumps({"stages": ["s12"], "configs": ["B1/T9"], "sms": [None], "heads": 1, "seconds": 1})
    )
    subprocess.run([sys.executable, "-m", "kda_learn.bench_child", request, answer], check=True)
    kind, _ = json.loads(answer.read_text())["error"]
    assert kind in ("MachineUnavailable", "BadInput")  # no GPU, or with one: no such config


# ---- the data ----


@pytest.fixture(scope="module")
def data():
    torch = pytest.importorskip("torch", reason="the data is made with PyTorch, which is not installed")
    from kda_learn.bench_data import make_data

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
def test_data_for_a_config_is_what_prepare_gives_for_it(data, text):
    """Tiles are the same however the tokens are cut; fewer tokens leave out the last tiles of each head."""
    torch = pytest.importorskip("torch")
    from kda_learn.bench_data import for_config

    config = Config.parse(text)
    made = for_config(data, config)
    gc, inv, _, beta = made.tensors
    tiles = config.tokens // 16
    assert torch.equal(gc, data.gc[:, :tiles])
    assert torch.equal(beta, data.beta[:, : config.tokens])
    assert all(tensor.is_contiguous() for tensor in made.tensors)
    arguments = made.arguments
    assert (arguments.gc, arguments.inv, arguments.beta) == (gc.data_ptr(), inv.data_ptr(), beta.data_ptr())
    assert (arguments.length, arguments.tokens, arguments.total_tiles, arguments.heads) == (
        config.length,
        config.tokens,
        tiles,
        2,
    )
    assert made.snapshots.shape == (2 * tiles, 128 * 128)


def test_the_arguments_are_those_of_the_kernel(data):
    """Sixteen parameters, in the order of the contract: eleven addresses, the scale, four ints."""
    from kda_learn.bench_data import for_config

    values = for_config(data, Config(3, 32)).arguments.as_list()
    assert [value.dtype for value in values] == [np.dtype(t) for t in ["u8"] * 11 + ["f4"] + ["i4"] * 4]
    assert values[0] == data.q.data_ptr()
    assert values[8] == data.snapshots.data_ptr()
    assert values[10] == 0
    assert values[12:] == [32, 96, 6, 2]


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.id)
def test_every_stage_takes_these_arguments(data, stage):
    """Number and types, read from the compiler's own listing of the kernel's parameters."""
    from kda_learn.bench_data import for_config

    try:
        compiled = compile_stage(stage)
    except MachineUnavailable as missing:
        pytest.skip(str(missing))
    entry = compiled.ptx.partition(f".entry {compiled.symbol}(")[2].partition(")")[0]
    sizes = {"u64": 8, "f32": 4, "u32": 4}
    wanted = re.findall(r"\.param \.(\w+)", entry)
    given = for_config(data, Config(3, 32)).arguments.as_list()
    assert [value.itemsize for value in given] == [sizes[kind] for kind in wanted]
    assert [value.dtype.kind == "f" for value in given] == [kind == "f32" for kind in wanted]


# ---- a measurement on a pretended GPU ----


@dataclass
class PretendedKernel:
    name: str
    gpu: Gpu = H200

    def blocks_per_sm(self) -> int:
        return 3


class PretendedGpu:
    """Stands in for gpu.py: a clock that only kernels move, and kernels that fill the snapshots."""

    def __init__(self):
        self.milliseconds = {"s00": 80.0, "s01": 76.0, "s12": 15.0}
        self.fill = dict.fromkeys(self.milliseconds, 1.0)
        self.written = 1.0
        self.now = 0.0
        self.order = []
        self.streams = set()
        self.extra_smem = []
        self.Gpu, self.SmPartition = Gpu, SmPartition

    def hopper(self):
        return H200

    def free_memory(self, gpu):
        return 140 * 10**9

    def load(self, compiled, extra_smem=0):
        self.extra_smem.append(extra_smem)
        return PretendedKernel(compiled)

    def launch_kernel_a(self, kernel, arguments, sequences, v_split, stream):
        self.now += self.milliseconds[kernel.name]
        self.order.append(kernel.name)
        self.streams.add(stream)
        elements = int(arguments.heads * arguments.total_tiles * 128 * 128 * self.written)
        values = np.full(elements, self.fill[kernel.name], np.float32)
        ctypes.memmove(arguments.snapshots, values.ctypes.data, values.nbytes)
        states = np.zeros(sequences * arguments.heads * 128 * 128, np.float32)
        ctypes.memmove(arguments.ds0, states.ctypes.data, states.nbytes)

    def record_event(self, stream):
        return self.now

    def elapsed_ms(self, start, end):
        return end - start

    def wait(self, event):
        pass

    def synchronize(self, gpu):
        pass

    def sample_clocks(self, gpu):
        return None

    @contextlib.contextmanager
    def sm_partition(self, sms, device):
        yield SmPartition(-(-sms // 8) * 8, 77)


@dataclass
class Row:
    ok: bool = True
    faults: tuple = ()


@pytest.fixture
def pretended(monkeypatch):
    torch = pytest.importorskip("torch", reason="the data is made with PyTorch, which is not installed")
    machine = PretendedGpu()
    machine.rows = {}
    compiled = type("Name", (str,), {"nvrtc": "13.0"})
    monkeypatch.setattr(bench_child, "gpu", machine)
    monkeypatch.setattr(bench_child, "compile_stage", lambda stage, v_split=1: compiled(stage))
    monkeypatch.setattr("kda_learn.bench_data.torch_device", lambda index: torch.device("cpu"))
    check = import_module("kda_learn.check")
    monkeypatch.setattr(check, "check", lambda stage, problem, machine, v_split: rows_of(stage))

    def rows_of(stage):
        return machine.rows.get(stage, Row())

    return machine


def request(**changes):
    return {
        "stages": ["s00", "s01", "s12"],
        "configs": ["B2/T32", "B1/T32"],
        "sms": [None, 78],
        "heads": 2,
        "seconds": 2.0,
        "clock_samples": 3,
    } | changes


def test_a_measurement(pretended):
    measured = bench_child.run(request())
    assert measured["heads"] == 2
    assert measured["provenance"]["gpu"] == "NVIDIA H200"
    assert set(measured["provenance"]["digest"]) == {"s00", "s01", "s12"}
    assert [part["sms"] for part in measured["parts"]] == [132, 80]
    assert measured["notes"] == ["80 SMs instead of 78: the driver cuts the GPU into such parts."]
    assert pretended.streams == {0, 77}
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


def test_a_variant_has_its_own_split(pretended, monkeypatch):
    """The rule says 4 here. Each variant runs at its own VSplit, and so does the control."""
    splits = []
    launch = pretended.launch_kernel_a

    def launch_and_note(kernel, arguments, sequences, v_split, stream):
        splits.append(v_split)
        launch(kernel, arguments, sequences, v_split, stream)

    monkeypatch.setattr(pretended, "launch_kernel_a", launch_and_note)
    asked = request(stages=["s00", "s12/1", "s12/2"], configs=["B1/T32"], sms=[None], clock_samples=1)
    run = bench_child.run(asked)["parts"][0]["runs"][0]
    assert splits[:4] == [4, 1, 2, 2]
    assert set(run["times_us"]) == {"s00", "s12/1", "s12/2"}
    assert (run["control"], run["v_split"]) == ("s12/2", 4)
    assert sorted(splits[4:]) == sorted([4, 1, 2, 2] * run["rounds"])


@pytest.mark.parametrize("name", ["s12", "s12/4", "s02+25600", "s12/8+1024"])
def test_the_name_of_a_variant(name):
    assert bench.Variant.parse(name).name == name


def test_stages_take_turns_in_changing_order(pretended):
    run = bench_child.run(request(configs=["B1/T32"], sms=[None]))["parts"][0]["runs"][0]
    warm_up, rounds = pretended.order[:3], pretended.order[4:]
    assert warm_up == ["s00", "s01", "s12"]
    rounds = [tuple(rounds[4 * i : 4 * i + 4]) for i in range(run["rounds"])]
    assert all(sorted(round_) == ["s00", "s01", "s12", "s12"] for round_ in rounds)
    assert len(set(rounds)) > 2


@pytest.mark.parametrize(("seconds", "rounds"), [(0.001, 5), (1e6, 25)])
def test_the_number_of_rounds_has_limits(pretended, seconds, rounds):
    run = bench_child.run(request(configs=["B1/T32"], sms=[None], seconds=seconds))["parts"][0]["runs"][0]
    assert run["rounds"] == rounds


def test_a_stage_that_fails_its_check_is_not_timed(pretended):
    pretended.rows["s01"] = Row(False, ("snapshot 3 is off by 0.2",))
    run = bench_child.run(request(configs=["B1/T32"], sms=[None]))["parts"][0]["runs"][0]
    assert set(run["times_us"]) == {"s00", "s12"}
    assert run["rejected"] == {"s01": "not timed, its check fails: snapshot 3 is off by 0.2"}
    assert "s01" not in pretended.order


def test_a_stage_that_writes_something_else_at_full_size_is_not_timed(pretended):
    pretended.fill["s12"] = 1.1
    run = bench_child.run(request(configs=["B1/T32"], sms=[None]))["parts"][0]["runs"][0]
    assert set(run["times_us"]) == {"s00", "s01"}
    assert "off the first stage's" in run["rejected"]["s12"]
    assert pretended.order.count("s12") == 1


def test_a_snapshot_left_unwritten_is_seen_and_nothing_is_timed(pretended):
    pretended.written = 0.99
    run = bench_child.run(request(configs=["B1/T32"], sms=[None]))["parts"][0]["runs"][0]
    assert run["times_us"] == {}
    assert run["control"] is None
    assert all("unwritten" in reason for reason in run["rejected"].values())


def test_fewer_heads_are_said(pretended, monkeypatch):
    monkeypatch.setattr(bench_child, "fitting_heads", lambda heads, tokens, free: 1)
    measured = bench_child.run(request())
    assert measured["heads"] == 1
    assert measured["notes"][0] == "1 heads instead of 2: 140.0 GB of GPU memory are free."


def test_no_memory_at_all(pretended, monkeypatch):
    monkeypatch.setattr(bench_child, "fitting_heads", lambda heads, tokens, free: 0)
    with pytest.raises(MachineUnavailable, match="not even with one head"):
        bench_child.run(request())
