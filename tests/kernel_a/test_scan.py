"""dstate_scan: every bad input gives one sentence. All of this is checked before a GPU is needed."""

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="dstate_scan takes PyTorch tensors, and PyTorch is not installed")

from kda_learn.ground.errors import BadInput  # noqa: E402
from kda_learn.kernel_a.scan import dstate_scan  # noqa: E402
from kda_learn.kernel_a.scan_inputs import ScanSize, validate  # noqa: E402
from kda_learn.kernel_a.scan_operator import OPERATOR  # noqa: E402
from kda_learn.kernel_a.variants import article_v_split  # noqa: E402

D = 128


def fixed(*, sequences=2, length=40, heads=3, **changes):
    """Arguments that fit, for sequences of one length; `changes` replace some."""
    return _arguments((sequences, length, heads, D), sequences, sequences * -(-length // 16)) | changes


def varlen(*, lengths=(17, 0, 33), heads=2, **changes):
    """The same for a varlen batch."""
    tiles = sum(-(-length // 16) for length in lengths)
    borders = torch.tensor([0, *lengths]).cumsum(0)
    return _arguments((sum(lengths), heads, D), len(lengths), tiles) | {"cu_seqlens": borders} | changes


def _arguments(shape, sequences, tiles):
    heads = shape[-2]
    tokens = torch.Size(shape[:-2]).numel()
    return {
        "q": torch.ones(shape, dtype=torch.bfloat16),
        "k": torch.ones(shape, dtype=torch.bfloat16),
        "gc": torch.zeros(heads * tiles, 16, D),
        "beta": torch.ones(heads, tokens),
        "inv": torch.ones(heads * tiles, 16, 16, dtype=torch.bfloat16),
        "mqk": torch.ones(heads * tiles, 16, 16, dtype=torch.bfloat16),
        "do": torch.ones(shape, dtype=torch.bfloat16),
        "dht": torch.zeros(sequences, heads, D, D),
        "scale": D**-0.5,
    }


FITS = "on the device cpu: move them to a Hopper GPU"
"""What is said of tensors on the CPU once all else has been found to fit."""


def size(scale, **tensors):
    return validate(**tensors)


def test_sizes_of_a_fixed_length_batch():
    assert size(**fixed()) == ScanSize(sequences=2, length=40, tokens=80, total_tiles=6, heads=3)


def test_sizes_of_a_varlen_batch_with_an_empty_sequence():
    assert size(**varlen()) == ScanSize(sequences=3, length=0, tokens=50, total_tiles=5, heads=2)


@pytest.mark.parametrize(
    "arguments",
    [
        fixed(dht=None),
        fixed(length=1),
        fixed(length=0),
        fixed(length=16),
        varlen(lengths=(0,)),
        varlen(lengths=(0, 0, 5)),
        fixed(scale=1),
        fixed(v_split=8),
        fixed(q=torch.ones(2, 40, 3, D, dtype=torch.bfloat16, requires_grad=True)),
    ],
    ids=[
        "no dht",
        "T 1",
        "T 0",
        "T 16",
        "only an empty one",
        "leading empty",
        "int scale",
        "split",
        "gradient",
    ],
)
def test_what_fits_is_taken(arguments):
    with pytest.raises(BadInput, match=FITS):
        dstate_scan(**arguments)


NAMES = ["q", "k", "gc", "beta", "inv", "mqk", "do", "dht"]


@pytest.mark.parametrize("name", NAMES)
def test_another_type(name):
    arguments = fixed()
    arguments[name] = arguments[name].to(torch.float16)
    with pytest.raises(BadInput, match=rf"^{name} is float16 .*give (bfloat16|float32) "):
        dstate_scan(**arguments)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "q"])
def test_another_shape(name):
    arguments = fixed()
    arguments[name] = arguments[name][:-1].contiguous()
    with pytest.raises(BadInput, match=rf"^{name} is .*\[.*\]: give .*\[.*\], "):
        dstate_scan(**arguments)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "q"])
def test_another_device(name):
    arguments = fixed()
    arguments[name] = arguments[name].to("meta")
    with pytest.raises(BadInput, match=rf"^{name} is on meta and q on cpu: move {name} to cpu"):
        size(**arguments)


@pytest.mark.parametrize("name", NAMES)
def test_not_contiguous(name):
    arguments = fixed()
    arguments[name] = arguments[name].transpose(-1, -2).contiguous().transpose(-1, -2)
    with pytest.raises(BadInput, match=rf"^{name} has the strides .* call \.contiguous\(\) on it"):
        dstate_scan(**arguments)


@pytest.mark.parametrize("name", NAMES)
def test_not_aligned(name):
    arguments = fixed()
    wanted = arguments[name]
    storage = torch.empty(wanted.numel() + 1, dtype=wanted.dtype)
    arguments[name] = storage[1:].view(wanted.shape)
    with pytest.raises(BadInput, match=rf"^{name} begins at an address that is not a multiple of 16 B"):
        dstate_scan(**arguments)


@pytest.mark.parametrize("name", NAMES)
def test_not_a_tensor(name):
    arguments = fixed()
    arguments[name] = arguments[name].float().numpy()
    with pytest.raises(BadInput, match=rf"^{name} is ndarray: give a PyTorch tensor"):
        dstate_scan(**arguments)


@pytest.mark.parametrize(
    "shape", [(2, 40, 3, 64), (0, 40, 3, D), (2, 40, 0, D)], ids=["D 64", "no sequence", "no head"]
)
def test_a_q_no_kernel_takes(shape):
    with pytest.raises(BadInput, match=r"^q has the shape .*give \[N, T, H, 128\]"):
        dstate_scan(**fixed(q=torch.ones(shape, dtype=torch.bfloat16)))


def test_more_heads_than_a_grid_has_rows():
    q = torch.empty(1, 0, 65536, D, dtype=torch.bfloat16)
    with pytest.raises(BadInput, match="1 to 65535 heads"):
        dstate_scan(**fixed(q=q))


def test_more_tiles_than_an_int_counts():
    q = torch.empty(1, device="cpu", dtype=torch.bfloat16).expand(1, 2**31 - 16, 32, D)
    with pytest.raises(BadInput, match=r"(strides|at most 2147483647 tiles)"):
        dstate_scan(**fixed(q=q))


@pytest.mark.parametrize("dimensions", [2, 3, 5])
def test_q_with_other_dimensions(dimensions):
    q = torch.ones((2,) * (dimensions - 1) + (D,), dtype=torch.bfloat16)
    with pytest.raises(BadInput, match=r"^q has the shape .* without cu_seqlens: give \[N, T, H, 128\]"):
        dstate_scan(**fixed(q=q))


def test_fixed_length_q_with_cu_seqlens():
    with pytest.raises(BadInput, match=r"^q has the shape .* with cu_seqlens: give"):
        dstate_scan(**fixed(cu_seqlens=torch.tensor([0, 40, 80])))


@pytest.mark.parametrize(
    ("borders", "said"),
    [
        (torch.tensor([0, 17, 17, 50], dtype=torch.int32), r"is int32 \[4\]: give int64 \[N"),
        (torch.tensor([[0, 17, 17, 50]]), r"is int64 \[1, 4\]"),
        (torch.tensor([50]), r"is int64 \[1\]: give"),
        (torch.tensor([1, 17, 17, 50]), "runs from 1 to 50"),
        (torch.tensor([0, 17, 17, 49]), "runs from 0 to 49"),
        (torch.tensor([0, 17, 17, 66]), "runs from 0 to 66"),
        (torch.tensor([0, 20, 17, 50]), "falls from 20 to 17 at sequence 1"),
        (torch.tensor([0, 0, 17, 0, 17, 0, 50, 0])[::2], "not contiguous"),
        (torch.tensor([0, 17, 17, 50], device="meta"), "is on meta"),
        ([0, 17, 17, 50], "is list"),
    ],
    ids=[
        "int32",
        "2-D",
        "no sequence",
        "start",
        "too short",
        "too long",
        "falls",
        "strided",
        "device",
        "list",
    ],
)
def test_cu_seqlens_that_do_not_fit(borders, said):
    arguments = varlen(cu_seqlens=borders)
    with pytest.raises(BadInput, match=said):
        size(**arguments) if getattr(borders, "is_meta", False) else dstate_scan(**arguments)


def test_a_batch_cut_otherwise_than_prepared():
    """The same tokens in other sequences make another number of tiles."""
    with pytest.raises(BadInput, match=r"^gc is .*\[10, 16, 128\]: give float32 \[8, 16, 128\]"):
        dstate_scan(**varlen(cu_seqlens=torch.tensor([0, 16, 32, 50])))


@pytest.mark.parametrize("scale", [None, "1", float("nan"), float("inf"), True, torch.tensor(1.0)])
def test_a_scale_that_is_no_number(scale):
    with pytest.raises(BadInput, match=r"^scale is .*give a finite number"):
        dstate_scan(**fixed(scale=scale))


def test_a_v_split_no_stage_has():
    with pytest.raises(BadInput, match=r"^v_split is 3: give 1, 2, 4 or 8"):
        dstate_scan(**fixed(v_split=3))


@pytest.mark.parametrize("snapshot_dtype", [torch.float16, "float32", 32, []])
def test_a_snapshot_type_no_stage_has(snapshot_dtype):
    with pytest.raises(BadInput, match=r"^snapshot_dtype is .*give torch\.float32 or torch\.bfloat16"):
        dstate_scan(**fixed(), snapshot_dtype=snapshot_dtype)


def test_an_unknown_stage():
    with pytest.raises(BadInput, match="s99"):
        dstate_scan(**fixed(), stage="s99")


def test_tensors_on_the_cpu():
    with pytest.raises(BadInput, match=FITS):
        dstate_scan(**fixed())


@pytest.mark.parametrize(
    ("sequences", "heads", "sms", "v_split"),
    [(1, 32, 78, 4), (32, 32, 78, 1), (1, 78, 78, 1), (1, 77, 78, 4)],
)
def test_the_articles_rule(sequences, heads, sms, v_split):
    assert article_v_split(sequences, heads, sms) == v_split


def test_importing_it_does_not_import_torch_or_cupy():
    code = (
        "import sys, kda_learn.kernel_a.scan, kda_learn.machines.gpu, kda_learn.performance.bench\n"
        "sys.exit('torch' in sys.modules or 'cupy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_what_pytorch_knows_of_it_without_running_it():
    for arguments in (fixed(), varlen(), fixed(dht=None)):
        there = {n: a.to("meta") if isinstance(a, torch.Tensor) else a for n, a in arguments.items()}
        snapshots, ds0 = dstate_scan(**there, snapshot_dtype=torch.bfloat16)
        wanted = size(**arguments)
        assert snapshots.shape == (wanted.heads * wanted.total_tiles, D, D)
        assert ds0.shape == (wanted.sequences, wanted.heads, D, D)
        assert (snapshots.dtype, ds0.dtype) == (torch.bfloat16, torch.float32)


@pytest.mark.parametrize("arguments", [fixed(), varlen()], ids=["fixed", "varlen"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_the_compiler_sees_one_operator(arguments, dynamic):
    """No graph break: all of a function around the call lands in one graph, in which it is one node."""
    graphs = []

    def remember(graph, inputs):
        graphs.append([str(node.target) for node in graph.graph.nodes if node.op == "call_function"])
        return graph.forward

    def layer(q, **others):
        snapshots, ds0 = dstate_scan(q * 2, **others)
        return snapshots.sum() + ds0.sum()

    with pytest.raises(BadInput, match=FITS):  # from the operator itself, once the graph runs
        torch.compile(layer, backend=remember, fullgraph=True, dynamic=dynamic)(**arguments)
    assert len(graphs) == 1
    assert graphs[0].count(str(OPERATOR)) == 1
