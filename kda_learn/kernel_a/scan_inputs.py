"""What `dstate_scan` may be given: its inputs checked against each other, one sentence for what does not fit.

A call that fits must cost little, so each tensor is compared first; the sentence is made only for one that
differs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real

import torch

from ..ground.errors import BadInput
from .tiling import CHUNK, HEAD_DIM, Tiling
from .variants import check_v_split

ALIGNMENT = 16
"""Bytes: the kernels read and write up to 16 at a time."""

LARGEST_INT = 2**31 - 1
LARGEST_GRID_Y = 65535

SNAPSHOT_TYPES = {torch.float32: "float32", torch.bfloat16: "bfloat16"}

OF_LAYER = "the layer's tensor of q's shape"
PREPARED = "what kda_learn.kernel_a.prepare returns for this q"
STATES = "one state per sequence and head"


@dataclass(frozen=True)
class ScanSize:
    """The sizes that the inputs of `dstate_scan` agree on. `length` is 0 for a varlen batch."""

    sequences: int
    length: int
    tokens: int
    total_tiles: int
    heads: int


def check_kinds(needed: Mapping[str, object], optional: Mapping[str, object]) -> None:
    """Raise BadInput unless all are tensors; the optional ones may be None."""
    for name, value in (*needed.items(), *optional.items()):
        if not isinstance(value, torch.Tensor) and (value is not None or name in needed):
            raise BadInput(f"{name} is {type(value).__name__}: give a PyTorch tensor.")


def check_numbers(scale: object, v_split: object, snapshot_dtype: object) -> None:
    """Raise BadInput for a scale, v_split or snapshot_dtype that `dstate_scan` does not take."""
    if isinstance(scale, bool) or not isinstance(scale, Real) or not -math.inf < scale < math.inf:
        raise BadInput(f"scale is {scale!r}: give a finite number, usually {HEAD_DIM} ** -0.5.")
    if v_split is not None:
        check_v_split(v_split)
    if snapshot_dtype not in (None, *SNAPSHOT_TYPES):
        raise BadInput(f"snapshot_dtype is {snapshot_dtype!r}: give torch.float32 or torch.bfloat16.")


def size_of(q: torch.Tensor, gc: torch.Tensor, cu_seqlens: torch.Tensor | None) -> ScanSize:
    """The sizes, read from shapes that are taken to fit; nothing is read back from the GPU."""
    heads = q.shape[-2]
    if cu_seqlens is None:
        sequences, length = q.shape[:2]
        return ScanSize(sequences, length, sequences * length, gc.shape[0] // heads, heads)
    return ScanSize(cu_seqlens.shape[0] - 1, 0, q.shape[0], gc.shape[0] // heads, heads)


def validate(
    q: torch.Tensor,
    k: torch.Tensor,
    gc: torch.Tensor,
    beta: torch.Tensor,
    inv: torch.Tensor,
    mqk: torch.Tensor,
    do: torch.Tensor,
    dht: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | None = None,
    *,
    read_back: bool = True,
) -> ScanSize:
    """Check tensors against each other, on any device; raise BadInput.

    read_back: look at the contents of cu_seqlens, too.
    """
    _check_tensor("q", q, torch.bfloat16, q.shape, q.device, "bf16 tokens")
    sequences, tokens, total_tiles = _tiles(q, gc, cu_seqlens, read_back)
    heads = q.shape[-2]
    if sequences < 1 or not 1 <= heads <= LARGEST_GRID_Y or q.shape[-1] != HEAD_DIM:
        raise BadInput(
            f"q has the shape {list(q.shape)}: give [N, T, H, {HEAD_DIM}] (or [T_total, H, {HEAD_DIM}] with "
            f"cu_seqlens), at least one sequence and 1 to {LARGEST_GRID_Y} heads."
        )
    tiles = heads * total_tiles
    if max(sequences, tokens, tiles) > LARGEST_INT:
        raise BadInput(
            f"q holds {tokens} tokens in {heads} heads, {tiles} tiles: give at most {LARGEST_INT} tiles."
        )
    device, matrices = q.device, (tiles, CHUNK, CHUNK)
    _check_tensor("k", k, torch.bfloat16, q.shape, device, OF_LAYER)
    _check_tensor("do", do, torch.bfloat16, q.shape, device, OF_LAYER)
    _check_tensor("gc", gc, torch.float32, (tiles, CHUNK, HEAD_DIM), device, PREPARED)
    _check_tensor("beta", beta, torch.float32, (heads, tokens), device, PREPARED)
    _check_tensor("inv", inv, torch.bfloat16, matrices, device, PREPARED)
    _check_tensor("mqk", mqk, torch.bfloat16, matrices, device, PREPARED)
    if dht is not None:
        _check_tensor("dht", dht, torch.float32, (sequences, heads, HEAD_DIM, HEAD_DIM), device, STATES)
    return ScanSize(sequences, 0 if cu_seqlens is not None else q.shape[1], tokens, total_tiles, heads)


def _tiles(
    q: torch.Tensor, gc: torch.Tensor, cu_seqlens: torch.Tensor | None, read_back: bool
) -> tuple[int, int, int]:
    """Sequences, tokens and tiles of one head; BadInput if q and cu_seqlens do not belong together."""
    if q.dim() != (4 if cu_seqlens is None else 3):
        raise BadInput(
            f"q has the shape {list(q.shape)} {'without' if cu_seqlens is None else 'with'} cu_seqlens: give "
            f"[N, T, H, {HEAD_DIM}] for sequences of fixed length, or [T_total, H, {HEAD_DIM}] and "
            "cu_seqlens."
        )
    if cu_seqlens is None:
        sequences, length = q.shape[:2]
        return sequences, sequences * length, sequences * -(-length // CHUNK)
    if cu_seqlens.device != q.device:
        raise BadInput(
            f"cu_seqlens is on {cu_seqlens.device} and q on {q.device}: move cu_seqlens to {q.device}."
        )
    if not cu_seqlens.is_contiguous():
        raise BadInput("cu_seqlens is not contiguous: call .contiguous() on it.")
    if cu_seqlens.dtype != torch.int64 or cu_seqlens.dim() != 1 or len(cu_seqlens) < 2:
        raise BadInput(
            f"cu_seqlens is {_named(cu_seqlens)}: give int64 [N + 1], the borders of 1 sequence or more."
        )
    if not read_back:
        return len(cu_seqlens) - 1, q.shape[0], gc.shape[0] // max(q.shape[1], 1)
    tiling = Tiling.from_cu_seqlens(cu_seqlens.detach().cpu().numpy(), tokens=q.shape[0])
    return tiling.sequences, tiling.tokens, tiling.total_tiles


def _check_tensor(
    name: str,
    tensor: torch.Tensor,
    dtype: torch.dtype,
    shape: tuple[int, ...],
    device: torch.device,
    source: str,
) -> None:
    """Raise BadInput unless `tensor` is contiguous, aligned, on `device`, of this type and shape."""
    if tensor.dtype != dtype or tensor.shape != shape:
        raise BadInput(f"{name} is {_named(tensor)}: give {_type_name(dtype)} {list(shape)}, {source}.")
    if tensor.device != device:
        raise BadInput(f"{name} is on {tensor.device} and q on {device}: move {name} to {device}.")
    if not tensor.is_contiguous():
        raise BadInput(
            f"{name} has the strides {list(tensor.stride())}, not contiguous: call .contiguous() on it."
        )
    if tensor.data_ptr() % ALIGNMENT:
        raise BadInput(
            f"{name} begins at an address that is not a multiple of {ALIGNMENT} B: give a copy (.clone()), "
            "not a view that begins inside another tensor."
        )


def _named(tensor: torch.Tensor) -> str:
    return f"{_type_name(tensor.dtype)} {list(tensor.shape)}"


def _type_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
