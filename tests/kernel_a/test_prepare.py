"""`prepare` against plain linear algebra, NumPy against torch, and the inputs that break other kernels."""

import numpy as np
import pytest
import torch

from kda_learn.ground.errors import BadInput
from kda_learn.hardware.bf16 import from_bf16, to_bf16
from kda_learn.kernel_a import prepare as prepare_module
from kda_learn.kernel_a.prepare import Prepared, prepare
from kda_learn.kernel_a.tile_math import LOG2_E, normalise, tile_matrices, unit_lower_inverse
from kda_learn.kernel_a.tiling import CHUNK, Tiling

HEADS = 2
DIM = 32
BF16_ROUNDING = 2.0**-8
"""Largest relative distance between a number and the bf16 number next to it."""


def layer_inputs(tokens: int, *, gate: float = -0.1, seed: int = 0) -> dict[str, np.ndarray]:
    """Varlen inputs [T_total, ...] as NumPy arrays."""
    random = np.random.default_rng(seed)
    shape = (tokens, HEADS, DIM)
    return dict(
        q=to_bf16(random.standard_normal(shape)),
        k=to_bf16(random.standard_normal(shape)),
        g=(gate * np.exp(0.5 * random.standard_normal(shape))).astype(np.float32),
        beta=random.uniform(0, 1, shape[:2]).astype(np.float32),
    )


def borders(*lengths: int) -> np.ndarray:
    return Tiling.of(lengths).token_base


def to_torch(arrays: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    for name in ("q", "k"):
        tensors[name] = tensors[name].view(torch.bfloat16)
    return tensors


def bits(tensor: torch.Tensor) -> np.ndarray:
    return tensor.view(torch.uint16).numpy()


def assert_bf16_close(actual: np.ndarray, expected: np.ndarray) -> None:
    """Bits against numbers: within one rounding of each number."""
    np.testing.assert_allclose(from_bf16(actual), expected, rtol=BF16_ROUNDING, atol=1e-7)


def expected_tile(inputs: dict[str, np.ndarray], tokens: slice, head: int) -> tuple[np.ndarray, ...]:
    """gc, INV and Mqk of one tile by the textbook formulas (mild gates only), for its valid rows."""
    q_hat = normalise(from_bf16(inputs["q"][tokens, head]).astype(np.float64))
    k_hat = normalise(from_bf16(inputs["k"][tokens, head]).astype(np.float64))
    gc = np.cumsum(inputs["g"][tokens, head].astype(np.float64) * LOG2_E, axis=0)
    beta = inputs["beta"][tokens, head].astype(np.float64)
    inverse_keys = k_hat * np.exp2(-gc)
    lower = beta[:, None] * np.tril((k_hat * np.exp2(gc)) @ inverse_keys.T, -1)
    inv = np.linalg.inv(np.eye(len(beta)) + lower)
    mqk = DIM**-0.5 * np.tril((q_hat * np.exp2(gc)) @ inverse_keys.T)
    return gc, inv, mqk


def test_each_tile_is_the_textbook_formula_and_padding_is_as_for_zeros():
    lengths = (40, 0, 16, 1, 7)
    inputs = layer_inputs(sum(lengths))
    prepared = prepare(**inputs, cu_seqlens=borders(*lengths))
    tiling = Tiling.of(lengths)
    assert prepared.gc.shape == (HEADS * tiling.total_tiles, CHUNK, DIM)
    np.testing.assert_array_equal(prepared.beta, inputs["beta"].T)
    for head in range(HEADS):
        for tile in range(tiling.total_tiles):
            first = tiling.rows[tile, 0]
            rows = int(tiling.valid[tile].sum())
            gc, inv, mqk = expected_tile(inputs, slice(first, first + rows), head)
            entry = head * tiling.total_tiles + tile
            np.testing.assert_allclose(prepared.gc[entry, :rows], gc, rtol=1e-6)
            np.testing.assert_array_equal(
                prepared.gc[entry, rows:], prepared.gc[entry, [rows - 1] * (CHUNK - rows)]
            )
            padded_inv = np.eye(CHUNK)
            padded_inv[:rows, :rows] = inv
            padded_mqk = np.zeros((CHUNK, CHUNK))
            padded_mqk[:rows, :rows] = mqk
            assert_bf16_close(prepared.inv[entry], padded_inv)
            assert_bf16_close(prepared.mqk[entry], padded_mqk)


def test_fixed_length_is_varlen_with_equal_lengths():
    inputs = layer_inputs(3 * 21)
    varlen = prepare(**inputs, cu_seqlens=borders(21, 21, 21))
    fixed = prepare(**{name: array.reshape(3, 21, *array.shape[1:]) for name, array in inputs.items()})
    for name in ("gc", "beta", "inv", "mqk"):
        np.testing.assert_array_equal(getattr(fixed, name), getattr(varlen, name))


@pytest.mark.parametrize("gate", [-0.002, -1.5, -40.0])
def test_torch_gives_what_numpy_gives(gate):
    lengths = (33, 5, 64)
    inputs = layer_inputs(sum(lengths), gate=gate)
    from_numpy = prepare(**inputs, cu_seqlens=borders(*lengths))
    from_torch = prepare(**to_torch(inputs), cu_seqlens=torch.from_numpy(borders(*lengths)))
    assert (from_torch.gc.dtype, from_torch.inv.dtype) == (torch.float32, torch.bfloat16)
    assert all(getattr(from_torch, name).is_contiguous() for name in ("gc", "beta", "inv", "mqk"))
    np.testing.assert_array_equal(from_torch.beta.numpy(), from_numpy.beta)
    np.testing.assert_allclose(from_torch.gc.numpy(), from_numpy.gc, rtol=1e-6)
    for name in ("inv", "mqk"):
        assert_bf16_close(bits(getattr(from_torch, name)), from_bf16(getattr(from_numpy, name)))
        same = bits(getattr(from_torch, name)) == getattr(from_numpy, name)
        assert same.mean() > 0.999


def test_torch_fixed_length_with_gradients_and_strides():
    inputs = to_torch(layer_inputs(2 * 20))
    shaped = {name: tensor.reshape(2, 20, *tensor.shape[1:]) for name, tensor in inputs.items()}
    wanted = prepare(**shaped)
    strided = {name: tensor.transpose(1, 2).contiguous().transpose(1, 2) for name, tensor in shaped.items()}
    strided["g"].requires_grad_()
    prepared = prepare(**strided)
    assert not prepared.gc.requires_grad
    assert torch.equal(prepared.inv, wanted.inv)
    assert torch.equal(prepared.gc, wanted.gc)


@pytest.mark.parametrize("pairs", [1, HEADS, 3 * HEADS, 3 * HEADS + 1, 1000])
def test_slabs_do_not_show(monkeypatch, pairs):
    inputs = layer_inputs(200)
    whole = prepare(**inputs, cu_seqlens=borders(150, 50))
    monkeypatch.setattr(prepare_module, "_PAIRS_PER_SLAB", pairs)
    in_slabs = prepare(**inputs, cu_seqlens=borders(150, 50))
    for name in ("gc", "inv", "mqk"):
        np.testing.assert_array_equal(getattr(in_slabs, name), getattr(whole, name))


@pytest.mark.parametrize("pairs", [1, 3 * HEADS])
def test_a_slab_holds_no_more_than_it_may_and_each_tile_is_computed_once(monkeypatch, pairs):
    tiles = []

    def recorded(q_hat, *others):
        tiles.append(q_hat.shape[1])
        return tile_matrices(q_hat, *others)

    monkeypatch.setattr(prepare_module, "_PAIRS_PER_SLAB", pairs)
    monkeypatch.setattr(prepare_module, "tile_matrices", recorded)
    prepare(**layer_inputs(200), cu_seqlens=borders(150, 50))
    assert max(tiles) == max(1, pairs // HEADS)
    assert sum(tiles) == Tiling.of([150, 50]).total_tiles


def test_matrices_follow_from_gc_as_it_is_returned():
    """Strong gates make gc so large that its rounding to float32 shows in INV and Mqk."""
    inputs = layer_inputs(320, gate=-40.0)
    prepared = prepare(**inputs, cu_seqlens=borders(320))
    tiling = Tiling.of([320])
    q_hat, k_hat = (
        normalise(tiling.gather(from_bf16(inputs[name]).astype(np.float64))) for name in ("q", "k")
    )
    gc = prepared.gc.astype(np.float64).reshape(q_hat.shape)
    matrices = tile_matrices(q_hat, k_hat, gc, tiling.gather(inputs["beta"].astype(np.float64)), DIM**-0.5)
    for found, wanted in zip((prepared.inv, prepared.mqk), matrices, strict=True):
        np.testing.assert_array_equal(found, to_bf16(wanted).reshape(found.shape))


def test_no_tokens_at_all():
    prepared = prepare(**layer_inputs(0), cu_seqlens=borders(0, 0))
    assert prepared.gc.shape == (0, CHUNK, DIM)
    assert prepared.beta.shape == (HEADS, 0)


def test_gates_that_overflow_the_textbook_form():
    """At -40 nat per token 2^-gc is 2^900 and more, past float32; only differences of gc may be raised."""
    inputs = layer_inputs(32, gate=-40.0)
    prepared = prepare(**inputs, cu_seqlens=borders(32))
    assert prepared.gc.min() < -127
    for matrices in (from_bf16(prepared.inv), from_bf16(prepared.mqk)):
        assert np.isfinite(matrices).all()
        assert not np.triu(matrices, 1).any()
    diagonal = np.diagonal(from_bf16(prepared.mqk), axis1=1, axis2=2)
    q_hat, k_hat = (normalise(from_bf16(inputs[name]).astype(np.float64)) for name in ("q", "k"))
    expected = DIM**-0.5 * (q_hat * k_hat).sum(-1)  # no decay on the diagonal, however strong the gate
    np.testing.assert_allclose(diagonal.reshape(HEADS, 32), expected.T, rtol=BF16_ROUNDING)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("gate", [-1e4, np.finfo(np.float32).min, -np.inf])
def test_a_token_that_forgets_everything(gate, kind):
    """The tile begins anew there; infinity minus infinity and 0 times infinity lie in wait."""
    token = 5
    inputs = layer_inputs(CHUNK)
    inputs["g"][token] = gate
    given = inputs if kind == "numpy" else to_torch(inputs)
    edges = borders(CHUNK) if kind == "numpy" else torch.from_numpy(borders(CHUNK))
    prepared = prepare(**given, cu_seqlens=edges)
    inv, mqk = (
        from_bf16(array if kind == "numpy" else bits(array)) for array in (prepared.inv, prepared.mqk)
    )
    assert np.isfinite(np.asarray(prepared.gc)).all()
    assert not inv[:, token:, :token].any()
    assert not mqk[:, token:, :token].any()
    alone = prepare(
        **{name: array[token:] for name, array in inputs.items()}, cu_seqlens=borders(CHUNK - token)
    )
    rows = slice(0, CHUNK - token)
    for found, wanted in ((inv, alone.inv), (mqk, alone.mqk)):
        np.testing.assert_allclose(
            found[:, token:, token:], from_bf16(wanted)[:, rows, rows], rtol=2 * BF16_ROUNDING, atol=1e-4
        )


def nearly_identical_keys() -> dict[str, np.ndarray]:
    """Keys of one tile that differ by about 1 %, strong beta, hardly any decay: L is nearly all ones."""
    random = np.random.default_rng(3)
    inputs = layer_inputs(CHUNK, gate=-1e-4)
    key = random.standard_normal((1, HEADS, DIM))
    inputs["k"] = to_bf16(key * (1 + 0.01 * random.standard_normal((CHUNK, HEADS, DIM))))
    inputs["beta"][:] = 0.999
    return inputs


def neumann_inverse(lower: np.ndarray, round_product) -> np.ndarray:
    """(I - L)(I + L^2)(I + L^4)(I + L^8), as public kernels have it, each product rounded."""
    eye = np.eye(CHUNK)
    inverse = eye - lower
    power = lower
    for _ in range(3):
        power = round_product(power @ power)
        inverse = round_product(inverse @ (eye + power))
    return inverse


def test_nearly_identical_keys():
    inputs = nearly_identical_keys()
    prepared = prepare(**inputs, cu_seqlens=borders(CHUNK))
    for head in range(HEADS):
        _, inv, _ = expected_tile(inputs, slice(0, CHUNK), head)
        np.testing.assert_allclose(from_bf16(prepared.inv[head]), inv, atol=BF16_ROUNDING)


def test_nearly_identical_keys_break_the_neumann_series():
    _, inv, _ = expected_tile(nearly_identical_keys(), slice(0, CHUNK), 0)
    lower = np.linalg.inv(inv) - np.eye(CHUNK)
    assert np.abs(neumann_inverse(lower, lambda product: product) - inv).max() < 1e-9
    in_bf16 = neumann_inverse(lower, lambda product: from_bf16(to_bf16(product)).astype(np.float64))
    assert np.abs(in_bf16 - inv).max() > 1.0  # of numbers that are at most 1
    substituted = unit_lower_inverse(lower.astype(np.float32))
    assert np.abs(substituted - inv).max() < 1e-5


def test_a_nan_stays_in_its_tile():
    inputs = layer_inputs(48)
    clean = prepare(**inputs, cu_seqlens=borders(20, 28))
    inputs["k"][20:36] = 0x7FFF  # NaN in the first tile of the second sequence
    inputs["g"][20:36] = np.nan
    dirty = prepare(**inputs, cu_seqlens=borders(20, 28))
    tiles = 4
    for entry in range(HEADS * tiles):
        same = np.array_equal(clean.mqk[entry], dirty.mqk[entry])
        assert same == (entry % tiles != 2)


def test_numpy_results_have_the_types_that_the_kernel_reads():
    prepared = prepare(**layer_inputs(20), cu_seqlens=borders(20))
    types = {name: getattr(prepared, name).dtype for name in ("gc", "beta", "inv", "mqk")}
    assert types == dict(gc=np.float32, beta=np.float32, inv=np.uint16, mqk=np.uint16)
    assert all(getattr(prepared, name).flags.c_contiguous for name in types)


def test_no_decay_and_any_beta_up_to_its_borders_are_taken():
    inputs = layer_inputs(20)
    inputs["g"][:] = 0
    inputs["beta"][:10], inputs["beta"][10:] = 0, 1
    prepared = prepare(**inputs, cu_seqlens=borders(20))
    assert not prepared.gc.any()
    for head in range(HEADS):
        _, inv, mqk = expected_tile(inputs, slice(0, CHUNK), head)
        assert_bf16_close(prepared.inv[2 * head], inv)
        assert_bf16_close(prepared.mqk[2 * head], mqk)


def bad(**changes) -> dict:
    return {**layer_inputs(20), "cu_seqlens": borders(20), **changes}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (bad(cu_seqlens=None), r"q of shape \(20, 2, 32\) without cu_seqlens: give \[N, T, H, D\]"),
        (bad(cu_seqlens=borders(19)), "from 0 to 19: give"),
        (bad(cu_seqlens=[0, 20]), "of type list: give"),
        (bad(q=np.zeros((1, 20, 2, 32), np.uint16)), r"with cu_seqlens: give \[T_total, H, D\]"),
        (bad(k=np.zeros((20, 2, 16), np.uint16)), r"k of shape \(20, 2, 16\).*give k of shape \(20, 2, 32\)"),
        (bad(beta=np.zeros((2, 20), np.float32)), r"give beta of shape \(20, 2\)"),
        (bad(q=np.zeros((20, 2, 32), np.float32)), "q with elements of type float32: give uint16"),
        (bad(k=np.zeros((20, 2, 32), np.float32)), "k with elements of type float32: give uint16"),
        (bad(g=np.zeros((20, 2, 31), np.float32)), r"got g of shape \(20, 2, 31\) .* give g of shape"),
        (bad(g=np.zeros((20, 2, 32))), "g with elements of type float64: give float32"),
        (bad(g=torch.zeros((20, 2, 32))), "g as Tensor: give .* all as NumPy arrays or all as torch tensors"),
        (bad(q=[1.0]), "q as list: give"),
        (bad(g=np.full((20, 2, 32), 0.5, np.float32)), "g up to 0.5: give the natural log"),
        (bad(g=np.full((20, 2, 32), 1e-30, np.float32)), "g up to 1e-30: give the natural log"),
        (bad(beta=np.full((20, 2), 3, np.float32)), "beta from 3 to 3: give beta after the sigmoid"),
        (bad(beta=np.full((20, 2), 1.001, np.float32)), "beta from 1 to 1: give beta after the sigmoid"),
        (bad(beta=np.full((20, 2), -0.001, np.float32)), "beta from -0.001 to -0.001: give beta after"),
        (
            dict(
                q=np.zeros((20, 0, 32), np.uint16),
                k=np.zeros((20, 0, 32), np.uint16),
                g=np.zeros((20, 0, 32), np.float32),
                beta=np.zeros((20, 0), np.float32),
                cu_seqlens=borders(20),
            ),
            "give at least one head",
        ),
    ],
)
def test_bad_input(arguments, complaint):
    with pytest.raises(BadInput, match=complaint):
        prepare(**arguments)


def test_torch_types_are_checked_too():
    tensors = to_torch(layer_inputs(20))
    tensors["q"] = tensors["q"].float()
    with pytest.raises(BadInput, match=r"q with elements of type torch.float32: give torch.bfloat16"):
        prepare(**tensors, cu_seqlens=torch.tensor([0, 20]))


def test_arrays_on_two_devices_are_refused():
    tensors = to_torch(layer_inputs(20))
    tensors["beta"] = tensors["beta"].to("meta")
    with pytest.raises(BadInput, match="beta on meta and q on cpu: move all to one device"):
        prepare(**tensors, cu_seqlens=torch.tensor([0, 20]))


def test_torch_parameters_are_tensors_too():
    tensors = to_torch(layer_inputs(20))
    wanted = prepare(**tensors, cu_seqlens=torch.tensor([0, 20]))
    tensors["q"] = torch.nn.Parameter(tensors["q"])
    assert torch.equal(prepare(**tensors, cu_seqlens=torch.tensor([0, 20])).mqk, wanted.mqk)


def test_results_and_indices_go_to_the_device_of_the_inputs():
    """A device without memory stands in for a GPU."""
    arrays, elsewhere = prepare_module._TorchArrays(), torch.zeros(1, device="meta")
    assert arrays.empty((2,), torch.float32, like=elsewhere).device == elsewhere.device
    assert arrays.index(np.arange(2), like=elsewhere).device == elsewhere.device


def test_scale_is_a_factor_of_mqk_alone():
    inputs = layer_inputs(20)
    usual: Prepared = prepare(**inputs, cu_seqlens=borders(20))
    doubled: Prepared = prepare(**inputs, cu_seqlens=borders(20), scale=2 * DIM**-0.5)
    np.testing.assert_array_equal(from_bf16(doubled.mqk), 2 * from_bf16(usual.mqk))
    np.testing.assert_array_equal(doubled.inv, usual.inv)
