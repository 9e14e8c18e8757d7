"""From a KDA layer's inputs to what Kernel A reads: gc, beta, INV and Mqk.

Works on NumPy arrays (bf16 as uint16 bits) and on torch tensors (CPU or CUDA) and returns the same kind. The
work goes slab by slab, so that temporaries stay below about 1 GiB for a batch of any size.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ground.errors import BadInput
from ..ground.given import real
from ..hardware.bf16 import from_bf16, to_bf16
from .tile_math import Array, array_module, gate_sum, normalise, tile_matrices
from .tiling import CHUNK, Tiling

# A slab holds about this many (head, tile) pairs; one needs some 150 KiB of float64 temporaries.
_PAIRS_PER_SLAB = 4096


@dataclass(frozen=True)
class Prepared:
    """Kernel A's workspace; entry `head * total_tiles + tile` belongs to one head and tile."""

    gc: Array  # float32 [H * total_tiles, 16, D]  running sum of the gate inside the tile, log2
    beta: Array  # float32 [H, T_total]
    inv: Array  # bf16 [H * total_tiles, 16, 16]
    mqk: Array  # bf16 [H * total_tiles, 16, 16]


def prepare(
    q: Array, k: Array, g: Array, beta: Array, *, cu_seqlens: Array | None = None, scale: float | None = None
) -> Prepared:
    """Compute the workspace of Kernel A from a layer's inputs.

    Fixed length: q, k bf16 [N, T, H, D], g float32 [N, T, H, D] (natural log, <= 0), beta float32 [N, T, H]
    (after the sigmoid). Varlen: the same without N, [T_total, ...], and cu_seqlens int64 [N + 1], the
    sequences' borders. q and k need not be normalised. scale multiplies the query (default D^-1/2) and is
    part of Mqk.

    Everything is computed in float64 from gc as returned (rounded to float32) and rounded once, so NumPy and
    torch agree but for ties. It is safe for gates of any strength and for keys that are nearly the same
    (`tile_math`). In rows past a sequence's end gc repeats the last valid row, and INV and Mqk are those of
    q = k = 0.

    Raises BadInput for a shape, type, device or value that does not fit.
    """
    arrays = _TorchArrays() if _is_tensor(q) else _NumpyArrays()
    _check_kinds(arrays, q=q, k=k, g=g, beta=beta)
    tiling = _tiling_of(q, cu_seqlens)
    _check_shapes(q, k, g, beta)
    _check_values(g, beta)
    heads, head_dim = q.shape[-2:]
    scale = head_dim**-0.5 if scale is None else real("scale", scale, "a number, or None for D^-1/2")

    def flat(tokens: Array) -> Array:
        """[N, T, H, ...] as [T_total, H, ...]; varlen arrays are that already."""
        trailing = 1 if cu_seqlens is not None else 2
        return tokens.reshape((tiling.tokens, *tokens.shape[trailing:]))

    q, k, g, beta = (arrays.without_gradient(flat(tokens)) for tokens in (q, k, g, beta))
    gc = arrays.empty((heads, tiling.total_tiles, CHUNK, head_dim), arrays.float32, like=g)
    inv = arrays.empty((heads, tiling.total_tiles, CHUNK, CHUNK), arrays.bf16, like=g)
    mqk = arrays.empty((heads, tiling.total_tiles, CHUNK, CHUNK), arrays.bf16, like=g)
    tiles_per_slab = max(1, _PAIRS_PER_SLAB // heads)
    for begin in range(0, tiling.total_tiles, tiles_per_slab):
        slab = slice(begin, begin + tiles_per_slab)
        gather = _Gather(arrays, tiling, slab, like=g)
        slab_gc = arrays.to_float32(gate_sum(gather(arrays.to_float64, g)))
        q_hat = normalise(gather(arrays.from_bf16, q))
        k_hat = normalise(gather(arrays.from_bf16, k))
        slab_beta = gather(arrays.to_float64, beta)
        slab_inv, slab_mqk = tile_matrices(q_hat, k_hat, arrays.to_float64(slab_gc), slab_beta, scale)
        gc[:, slab] = slab_gc
        inv[:, slab] = arrays.to_bf16(slab_inv)
        mqk[:, slab] = arrays.to_bf16(slab_mqk)
    pairs = heads * tiling.total_tiles
    return Prepared(
        gc=gc.reshape((pairs, CHUNK, head_dim)),
        beta=arrays.contiguous(beta.swapaxes(0, 1)),
        inv=inv.reshape((pairs, CHUNK, CHUNK)),
        mqk=mqk.reshape((pairs, CHUNK, CHUNK)),
    )


class _NumpyArrays:
    """What NumPy and torch say differently, for NumPy: bf16 lives in uint16."""

    float32: Any = np.dtype(np.float32)
    bf16: Any = np.dtype(np.uint16)

    def accepts(self, array: Any) -> bool:
        return isinstance(array, np.ndarray)

    def index(self, indices: np.ndarray, like: np.ndarray) -> np.ndarray:
        return indices

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, like: np.ndarray) -> np.ndarray:
        return np.empty(shape, dtype)

    def to_float32(self, values: np.ndarray) -> np.ndarray:
        return values.astype(np.float32)

    def to_float64(self, values: np.ndarray) -> np.ndarray:
        return values.astype(np.float64)

    def from_bf16(self, bits: np.ndarray) -> np.ndarray:
        return from_bf16(bits).astype(np.float64)

    def to_bf16(self, values: np.ndarray) -> np.ndarray:
        return to_bf16(values)

    def contiguous(self, values: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(values)

    def without_gradient(self, values: np.ndarray) -> np.ndarray:
        return values


class _TorchArrays:
    """The same for torch, which has bfloat16 and devices."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.float32: Any = torch.float32
        self.bf16: Any = torch.bfloat16

    def accepts(self, array: Any) -> bool:
        return isinstance(array, self.torch.Tensor)

    def index(self, indices: np.ndarray, like: Any) -> Any:
        return self.torch.from_numpy(indices).to(like.device)

    def empty(self, shape: tuple[int, ...], dtype: Any, like: Any) -> Any:
        return self.torch.empty(shape, dtype=dtype, device=like.device)

    def to_float32(self, values: Any) -> Any:
        return values.float()

    def to_float64(self, values: Any) -> Any:
        return values.double()

    def from_bf16(self, values: Any) -> Any:
        return values.double()

    def to_bf16(self, values: Any) -> Any:
        return values.float().bfloat16()

    def contiguous(self, values: Any) -> Any:
        return values.contiguous()

    def without_gradient(self, values: Any) -> Any:
        return values.detach()


class _Gather:
    """Copies tokens [T_total, H, ...] into a slab of tiles: [H, tiles, 16, ...], padding rows 0."""

    def __init__(
        self, arrays: _NumpyArrays | _TorchArrays, tiling: Tiling, slab: slice, *, like: Array
    ) -> None:
        self.rows = arrays.index(tiling.rows[slab], like)
        self.valid = arrays.index(tiling.valid[slab], like)

    def __call__(self, convert: Any, tokens: Array) -> Array:
        """`convert` turns the gathered elements into float64."""
        xp = array_module(tokens)
        tiles = xp.moveaxis(convert(tokens[self.rows]), 2, 0)
        valid = self.valid.reshape((1, *self.valid.shape) + (1,) * (tiles.ndim - 3))
        # where, not a product: a NaN times zero would stay a NaN.
        return xp.where(valid, tiles, 0.0)


def _is_tensor(array: Array) -> bool:
    return type(array).__module__.split(".")[0] == "torch"


def _check_kinds(arrays: _NumpyArrays | _TorchArrays, **given: Array) -> None:
    """All of one kind, on one device, with the element types that prepare wants."""
    wanted_types = {"q": arrays.bf16, "k": arrays.bf16, "g": arrays.float32, "beta": arrays.float32}
    device = getattr(given["q"], "device", "cpu")
    for name, array in given.items():
        if not arrays.accepts(array):
            raise BadInput(
                f"prepare got {name} as {type(array).__name__}: give q, k, g and beta all as NumPy arrays "
                "or all as torch tensors."
            )
        if array.dtype != wanted_types[name]:
            raise BadInput(
                f"prepare got {name} with elements of type {array.dtype}: give {wanted_types[name]} "
                "(q and k are bf16, which NumPy holds as bits in uint16; g and beta are float32)."
            )
        if getattr(array, "device", "cpu") != device:
            raise BadInput(f"prepare got {name} on {array.device} and q on {device}: move all to one device.")


def _tiling_of(q: Array, cu_seqlens: Array | None) -> Tiling:
    if cu_seqlens is None:
        if len(q.shape) != 4:
            raise BadInput(
                f"prepare got q of shape {tuple(q.shape)} without cu_seqlens: give [N, T, H, D] "
                "for sequences of fixed length, or pass cu_seqlens."
            )
        sequences, length = q.shape[:2]
        return Tiling.of([length] * sequences)
    if len(q.shape) != 3:
        raise BadInput(
            f"prepare got q of shape {tuple(q.shape)} with cu_seqlens: give [T_total, H, D], all sequences "
            "one after another, or leave cu_seqlens out."
        )
    borders = cu_seqlens.cpu().numpy() if _is_tensor(cu_seqlens) else cu_seqlens
    return Tiling.from_cu_seqlens(borders, tokens=q.shape[0])


def _check_shapes(q: Array, k: Array, g: Array, beta: Array) -> None:
    wanted_shapes = {"k": (k, q.shape), "g": (g, q.shape), "beta": (beta, q.shape[:-1])}
    for name, (array, wanted) in wanted_shapes.items():
        if tuple(array.shape) != tuple(wanted):
            raise BadInput(
                f"prepare got {name} of shape {tuple(array.shape)} with q of shape {tuple(q.shape)}: "
                f"give {name} of shape {tuple(wanted)}."
            )
    if 0 in q.shape[-2:]:
        raise BadInput(f"prepare got q of shape {tuple(q.shape)}: give at least one head and one dimension.")


def _check_values(g: Array, beta: Array) -> None:
    """Catch the usual mix-ups (a gate that was not made a logarithm, beta before the sigmoid). NaN passes."""
    if 0 in g.shape:
        return
    if g.max() > 0:
        raise BadInput(
            f"prepare got g up to {float(g.max()):.3g}: give the natural log of the decay, which is <= 0."
        )
    if beta.min() < 0 or beta.max() > 1:
        raise BadInput(
            f"prepare got beta from {float(beta.min()):.3g} to {float(beta.max()):.3g}: give beta after the "
            "sigmoid, from 0 to 1."
        )
