"""dstate_scan on a real GPU: values, streams, graphs, memory. Skipped where no Hopper GPU can be used."""

import dataclasses
import statistics
import time

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="dstate_scan takes PyTorch tensors, and PyTorch is not installed")

from kda_learn.checking.check import expected  # noqa: E402
from kda_learn.ground.errors import MachineUnavailable  # noqa: E402
from kda_learn.kernel_a.accuracy import gate  # noqa: E402
from kda_learn.kernel_a.attention import kda_attention  # noqa: E402
from kda_learn.kernel_a.problem import Problem, random_problem  # noqa: E402
from kda_learn.kernel_a.reference import scan  # noqa: E402
from kda_learn.kernel_a.run import run  # noqa: E402
from kda_learn.kernel_a.scan import dstate_scan  # noqa: E402
from kda_learn.kernel_a.scan_operator import OPERATOR  # noqa: E402
from kda_learn.sources.stages import STAGES  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this PyTorch sees no GPU"),
]


def on_gpu(problem: Problem) -> dict:
    """The arguments of dstate_scan for a problem in host memory."""

    def bf16(bits: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(bits.view(np.int16)).cuda().view(torch.bfloat16)

    def tokens(bits: np.ndarray) -> torch.Tensor:
        if problem.cu_seqlens is not None:
            return bf16(bits)
        return bf16(bits).view(problem.sequences, problem.length, *bits.shape[1:])

    def maybe(array: np.ndarray | None) -> torch.Tensor | None:
        return None if array is None else torch.from_numpy(array).cuda()

    return {
        "q": tokens(problem.q),
        "k": tokens(problem.k),
        "gc": maybe(problem.gc),
        "beta": maybe(problem.beta),
        "inv": bf16(problem.inv),
        "mqk": bf16(problem.mqk),
        "do": tokens(problem.do),
        "dht": maybe(problem.dht),
        "cu_seqlens": maybe(problem.cu_seqlens),
        "scale": problem.scale,
    }


FIXED = random_problem(lengths=[100, 100, 100], heads=2)
VARLEN = random_problem(lengths=[1, 0, 47, 16, 200], heads=3, varlen=True)
NO_GRADIENT = random_problem(lengths=[64], heads=1, final_gradient=False)


@pytest.mark.parametrize("problem", [FIXED, VARLEN, NO_GRADIENT], ids=lambda problem: problem.name)
@pytest.mark.parametrize("v_split", [None, 1, 2, 4, 8])
@pytest.mark.parametrize("dtype", [None, torch.float32, torch.bfloat16])
def test_values(problem, v_split, dtype):
    snapshots, ds0 = dstate_scan(**on_gpu(problem), v_split=v_split, snapshot_dtype=dtype)
    assert snapshots.shape == (problem.heads * problem.total_tiles, 128, 128)
    assert snapshots.dtype == (dtype or torch.float32)
    assert ds0.shape == (problem.sequences, problem.heads, 128, 128)
    truth, simulated = expected(problem, "bfloat16" if dtype == torch.bfloat16 else "float32")
    found = gate((snapshots.float().cpu().numpy(), ds0.cpu().numpy()), truth, simulated)
    assert found.ok, found.message


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.id)
def test_every_stage_gives_what_run_gives(stage):
    snapshots, ds0 = dstate_scan(**on_gpu(VARLEN), stage=stage, v_split=2)
    result = run(stage, VARLEN, machine="gpu", v_split=2)
    assert result.faults == []
    assert np.array_equal(snapshots.cpu().numpy(), result.snapshots)
    assert np.array_equal(ds0.cpu().numpy(), result.ds0)


def test_inputs_that_require_a_gradient():
    arguments = on_gpu(FIXED)
    plain = dstate_scan(**arguments)
    for name in ("q", "k", "gc", "beta", "do", "dht"):
        arguments[name].requires_grad_()
    tracked = dstate_scan(**arguments)
    assert all(torch.equal(one, other) for one, other in zip(plain, tracked, strict=True))
    assert not any(tensor.requires_grad for tensor in tracked)


def test_two_streams_at_once():
    problems = [random_problem(lengths=[512] * 4, heads=8, seed=seed) for seed in (1, 2)]
    arguments = [on_gpu(problem) for problem in problems]
    alone = [dstate_scan(**each) for each in arguments]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in problems]
    together = [[], []]
    for _ in range(5):
        for index, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                together[index].append(dstate_scan(**arguments[index]))
    torch.cuda.synchronize()
    for index, results in enumerate(together):
        for result in results:
            assert all(torch.equal(one, other) for one, other in zip(alone[index], result, strict=True))


def test_the_current_stream_is_used():
    """Work queued before it on the same stream is waited for: the inputs are made there, late."""
    arguments = on_gpu(FIXED)
    wanted, _ = dstate_scan(**arguments)
    late = torch.zeros_like(arguments["do"])
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        late.copy_(arguments["do"])
        snapshots, _ = dstate_scan(**arguments | {"do": late})
    stream.synchronize()
    assert torch.equal(snapshots, wanted)


def test_in_a_cuda_graph():
    """A fixed-length call neither waits nor reads back, so it can be captured."""
    arguments = on_gpu(FIXED)
    wanted = dstate_scan(**arguments)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = dstate_scan(**arguments)
    for tensor in captured:
        tensor.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(one, other) for one, other in zip(wanted, captured, strict=True))


def test_a_varlen_call_in_a_cuda_graph_reads_nothing_back():
    arguments = on_gpu(VARLEN)
    wanted = dstate_scan(**arguments)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = dstate_scan(**arguments)
    for tensor in captured:
        tensor.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(one, other) for one, other in zip(wanted, captured, strict=True))


def test_without_checks_the_results_are_the_same():
    for problem in (FIXED, VARLEN):
        arguments = on_gpu(problem)
        pairs = zip(dstate_scan(**arguments), dstate_scan(**arguments, check_inputs=False), strict=True)
        assert all(torch.equal(one, other) for one, other in pairs)


def test_compiled_without_a_graph_break():
    arguments = on_gpu(VARLEN)

    def layer(do, **others):
        snapshots, ds0 = dstate_scan(do=do * 2, **others)
        return snapshots * 0.5, ds0 * 0.5

    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    pairs = zip(compiled(**arguments), layer(**arguments), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_the_operator_is_what_pytorch_expects_of_one():
    given = on_gpu(FIXED)
    scale, dht = given.pop("scale"), given.pop("dht")
    given.pop("cu_seqlens")
    arguments = (*given.values(), scale, dht, None, "s12", 1, torch.float32, True)
    torch.library.opcheck(OPERATOR, arguments, test_utils=("test_schema", "test_faketensor"))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one GPU")
def test_on_another_gpu_than_the_current_one():
    arguments = on_gpu(VARLEN)
    wanted = dstate_scan(**arguments)
    there = {n: a.to("cuda:1") if isinstance(a, torch.Tensor) else a for n, a in arguments.items()}
    found = dstate_scan(**there)
    assert all(torch.equal(one, other.to(one.device)) for one, other in zip(wanted, found, strict=True))


HOST_MICROSECONDS = {True: 60, False: 40}
"""Of one call with and without its checks, allocation included, beside the launch itself."""


@pytest.mark.parametrize("check_inputs", [True, False])
def test_host_time(check_inputs, monkeypatch):
    cupy = pytest.importorskip("cupy")
    arguments = on_gpu(random_problem(lengths=[64] * 2, heads=2))
    dstate_scan(**arguments)
    monkeypatch.setattr(cupy.cuda.driver, "launchKernel", lambda *launch: None)
    seconds = []
    for _ in range(1000):
        start = time.perf_counter()
        dstate_scan(**arguments, check_inputs=check_inputs)
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds) * 1e6
    print(f"check_inputs={check_inputs}: {median:.1f} us of host time beside the launch")
    assert median <= HOST_MICROSECONDS[check_inputs]


def test_a_layer_on_the_gpu_as_with_the_cpu_machines_scan():
    shape = (2, 100, 2, 128)
    given = [torch.randn(shape, device="cuda").bfloat16().requires_grad_() for _ in range(3)]
    given.append((-0.002 * torch.rand(shape, device="cuda")).requires_grad_())
    given.append(torch.rand(shape[:3], device="cuda").requires_grad_())
    do = torch.randn(shape, device="cuda").bfloat16()

    def in_numpy(q, k, gc, beta, inv, mqk, do, *, scale, dht):
        problem = random_problem(lengths=[shape[1]] * shape[0], heads=shape[2])
        bits = {"q": q, "k": k, "do": do, "inv": inv, "mqk": mqk}
        arrays = {n: t.view(torch.int16).cpu().numpy().view(np.uint16) for n, t in bits.items()}
        arrays |= {n: t.cpu().numpy() for n, t in {"gc": gc, "beta": beta, "dht": dht}.items()}
        arrays |= {n: arrays[n].reshape(-1, *shape[2:]) for n in ("q", "k", "do")}
        truth = scan(dataclasses.replace(problem, **arrays, scale=scale))
        return tuple(torch.from_numpy(one).float().cuda() for one in truth)

    results = []
    for backward in (dstate_scan, in_numpy):
        outputs, _ = kda_attention(*given, scan=backward)
        results.append(torch.autograd.grad(outputs, given, do))
    for found, wanted in zip(*results, strict=True):
        assert float((found - wanted).norm() / wanted.norm()) < 0.01


def test_too_little_memory_is_one_sentence():
    arguments = on_gpu(random_problem(lengths=[4096], heads=8))  # 134 MB of snapshots
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    taken = torch.empty(free - 100 * 2**20, dtype=torch.uint8, device="cuda")
    with pytest.raises(MachineUnavailable, match=r"2048 snapshots .* do not fit in the GPU's memory"):
        dstate_scan(**arguments)
    del taken
    torch.cuda.empty_cache()
    dstate_scan(**arguments)
