"""`dstate_scan`: Kernel A as another project would call it, on PyTorch CUDA tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING

from ..ground.errors import BadInput, MachineUnavailable
from ..machines.gpu import kernel_of
from ..sources.stages import LAST, as_stage
from .arguments import Arguments
from .tiling import CHUNK, HEAD_DIM, Tiling
from .variants import article_v_split, check_v_split, runnable_of

if TYPE_CHECKING:
    import torch

    from ..sources.stages import Stage


ALIGNMENT = 16
"""Bytes: the kernels read and write up to 16 at a time."""

LARGEST_INT = 2**31 - 1
LARGEST_GRID_Y = 65535


@dataclass(frozen=True)
class ScanSize:
    """The sizes that the inputs of `dstate_scan` agree on. `length` is 0 for a varlen batch."""

    sequences: int
    length: int
    tokens: int
    total_tiles: int
    heads: int


def dstate_scan(
    q: torch.Tensor,
    k: torch.Tensor,
    gc: torch.Tensor,
    beta: torch.Tensor,
    inv: torch.Tensor,
    mqk: torch.Tensor,
    do: torch.Tensor,
    *,
    scale: float,
    dht: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | None = None,
    stage: Stage | str = LAST,
    v_split: int | None = None,
    snapshot_dtype: torch.dtype | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The reverse scan of the state's gradient through a KDA layer (K = V = D = 128, chunks of 16 tokens).

    q, k, do      bf16 [N, T, H, D], or [T_total, H, D] with cu_seqlens; q and k before their L2 norm
    gc            fp32 [H * total_tiles, 16, D], inv, mqk bf16 [H * total_tiles, 16, 16], beta fp32 [H,
    T_total]:
                  as `prepare` returns them. total_tiles: tiles of 16 tokens of all sequences, of one head
    scale         the factor of the query, the same that `prepare` used (D ** -0.5 unless said otherwise)
    dht           fp32 [N, H, K, V], gradient of the final states; None: zeros
    cu_seqlens    int64 [N + 1] on the GPU, borders of the sequences; they may be empty, and T any length
    stage         which stage of the ladder runs
    v_split       blocks that share a state's columns: 1, 2, 4, 8, or None for the article's rule
    (`article_v_split`)
    snapshot_dtype  torch.float32 (None means this too) or torch.bfloat16

    Returns (snapshots [H * total_tiles, K, V] of snapshot_dtype, ds0 fp32 [N, H, K, V]). The snapshot of a
    tile, at head * total_tiles + tile, is the gradient of the state that leaves it; ds0 is that of the
    initial states.

    All tensors lie on one Hopper GPU, contiguous. The work is put on the current PyTorch stream and not
    awaited (but cu_seqlens is read back, to check it). No gradient flows through the results. Raises BadInput
    for an argument that does not fit, MachineUnavailable if the GPU cannot run the stage or lacks memory.
    """
    import torch

    stage = as_stage(stage)
    dtype_name = snapshot_dtype_name(snapshot_dtype)
    size = validate(
        q, k, gc, beta, inv, mqk, do, scale=scale, dht=dht, cu_seqlens=cu_seqlens, v_split=v_split
    )
    if q.device.type != "cuda":
        raise BadInput(
            f"The tensors are on the device {q.device}: move them to a Hopper GPU (`.cuda()`), or run a "
            "stage on the CPU with kda_learn.run(stage, problem, machine='emulator')."
        )
    device = q.device.index
    if v_split is None:
        v_split = article_v_split(
            size.sequences, size.heads, torch.cuda.get_device_properties(device).multi_processor_count
        )
    try:
        snapshots = q.new_empty(
            (size.heads * size.total_tiles, HEAD_DIM, HEAD_DIM), dtype=getattr(torch, dtype_name)
        )
        ds0 = q.new_empty((size.sequences, size.heads, HEAD_DIM, HEAD_DIM), dtype=torch.float32)
    except torch.cuda.OutOfMemoryError:
        raise MachineUnavailable(
            f"{size.heads * size.total_tiles} snapshots of {HEAD_DIM} x {HEAD_DIM} {dtype_name} do not fit "
            "in the GPU's memory: give fewer tokens or heads, snapshot_dtype=torch.bfloat16, or free memory."
        ) from None
    arguments = Arguments(
        q=q,
        k=k,
        gc=gc,
        beta=beta,
        inv=inv,
        mqk=mqk,
        do=do,
        dht=dht,
        snapshots=snapshots,
        ds0=ds0,
        cu_seqlens=cu_seqlens,
        scale=scale,
        length=size.length,
        tokens=size.tokens,
        total_tiles=size.total_tiles,
        heads=size.heads,
    )
    runnable = runnable_of(stage, arguments, size.sequences, v_split=v_split, snapshot_dtype=dtype_name)
    stream = torch.cuda.current_stream(q.device).cuda_stream
    kernel_of(runnable, device=device).start(runnable, stream)
    return snapshots, ds0


def snapshot_dtype_name(snapshot_dtype: torch.dtype | None) -> str:
    """ "float32" or "bfloat16"; None means float32. Raises BadInput for any other type."""
    import torch

    names = {None: "float32", torch.float32: "float32", torch.bfloat16: "bfloat16"}
    try:
        return names[snapshot_dtype]
    except (KeyError, TypeError):
        raise BadInput(
            f"snapshot_dtype is {snapshot_dtype!r}: give torch.float32 or torch.bfloat16."
        ) from None


def validate(
    q: torch.Tensor,
    k: torch.Tensor,
    gc: torch.Tensor,
    beta: torch.Tensor,
    inv: torch.Tensor,
    mqk: torch.Tensor,
    do: torch.Tensor,
    *,
    scale: float,
    dht: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | None = None,
    v_split: int | None = None,
) -> ScanSize:
    """Check the inputs of `dstate_scan` against each other; any device will do. Raises BadInput, one
    sentence.
    """
    import torch

    if v_split is not None:
        check_v_split(v_split)
    if isinstance(scale, bool) or not isinstance(scale, Real) or not math.isfinite(scale):
        raise BadInput(f"scale is {scale!r}: give a finite number, usually {HEAD_DIM} ** -0.5.")
    _check_tensor("q", q, torch.bfloat16, q.shape if isinstance(q, torch.Tensor) else (), None, "bf16 tokens")
    tiling = _tiling(q, cu_seqlens)
    sequences, heads = tiling.sequences, q.shape[-2]
    tokens, total_tiles = tiling.tokens, tiling.total_tiles
    if sequences < 1 or not 1 <= heads <= LARGEST_GRID_Y or q.shape[-1] != HEAD_DIM:
        raise BadInput(
            f"q has the shape {list(q.shape)}: give [N, T, H, {HEAD_DIM}] (or [T_total, H, {HEAD_DIM}] with "
            f"cu_seqlens), at least one sequence and 1 to {LARGEST_GRID_Y} heads."
        )
    if max(sequences, tokens, heads * total_tiles) > LARGEST_INT:
        raise BadInput(
            f"q holds {tokens} tokens in {heads} heads, {heads * total_tiles} tiles: give at most "
            f"{LARGEST_INT} tiles."
        )
    tiles = heads * total_tiles
    of_layer = "the layer's tensor of q's shape"
    prepared = "what kda_learn.kernel_a.prepare returns for this q"
    wanted = {
        "k": (k, torch.bfloat16, tuple(q.shape), of_layer),
        "do": (do, torch.bfloat16, tuple(q.shape), of_layer),
        "gc": (gc, torch.float32, (tiles, CHUNK, HEAD_DIM), prepared),
        "beta": (beta, torch.float32, (heads, tokens), prepared),
        "inv": (inv, torch.bfloat16, (tiles, CHUNK, CHUNK), prepared),
        "mqk": (mqk, torch.bfloat16, (tiles, CHUNK, CHUNK), prepared),
    }
    if dht is not None:
        wanted["dht"] = (
            dht,
            torch.float32,
            (sequences, heads, HEAD_DIM, HEAD_DIM),
            "one state per sequence and head",
        )
    for name, (tensor, dtype, shape, source) in wanted.items():
        _check_tensor(name, tensor, dtype, shape, q.device, source)
    length = 0 if cu_seqlens is not None else q.shape[1]
    return ScanSize(sequences, length, tokens, total_tiles, heads)


def _tiling(q: torch.Tensor, cu_seqlens: torch.Tensor | None) -> Tiling:
    """How q's sequences are cut into tiles; BadInput if q and cu_seqlens do not belong together."""
    import torch

    dimensions = 4 if cu_seqlens is None else 3
    if q.dim() != dimensions:
        raise BadInput(
            f"q has the shape {list(q.shape)} {'without' if cu_seqlens is None else 'with'} cu_seqlens: give "
            f"[N, T, H, {HEAD_DIM}] for sequences of fixed length, or [T_total, H, {HEAD_DIM}] and "
            "cu_seqlens."
        )
    if cu_seqlens is None:
        return Tiling.of([q.shape[1]] * q.shape[0])
    if not isinstance(cu_seqlens, torch.Tensor):
        raise BadInput(f"cu_seqlens is {type(cu_seqlens).__name__}: give a PyTorch tensor, int64 [N + 1].")
    if cu_seqlens.device != q.device:
        raise BadInput(
            f"cu_seqlens is on {cu_seqlens.device} and q on {q.device}: move cu_seqlens to {q.device}."
        )
    if not cu_seqlens.is_contiguous():
        raise BadInput("cu_seqlens is not contiguous: call .contiguous() on it.")
    return Tiling.from_cu_seqlens(cu_seqlens.detach().cpu().numpy(), tokens=q.shape[0])


def _check_tensor(
    name: str,
    tensor: object,
    dtype: torch.dtype,
    shape: tuple[int, ...],
    device: torch.device | None,
    source: str,
) -> None:
    """Raise BadInput unless `tensor` is a contiguous, aligned tensor of this type and shape on `device`
    (None: any).
    """
    import torch

    wanted = f"{str(dtype).removeprefix('torch.')} {list(shape)}"
    if not isinstance(tensor, torch.Tensor):
        raise BadInput(f"{name} is {type(tensor).__name__}: give a PyTorch tensor, {source}.")
    given = f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
    if tensor.dtype != dtype or tuple(tensor.shape) != tuple(shape):
        raise BadInput(f"{name} is {given}: give {wanted}, {source}.")
    if device is not None and tensor.device != device:
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
