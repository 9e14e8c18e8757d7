"""`dstate_scan`: Kernel A as another project would call it, on PyTorch CUDA tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..sources.stages import LAST

if TYPE_CHECKING:
    import torch

    from ..sources.stages import Stage


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
    check_inputs: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The reverse scan of the state's gradient through a KDA layer (K = V = D = 128, chunks of 16 tokens).

    q, k, do      bf16 [N, T, H, D], or [T_total, H, D] with cu_seqlens; q and k before their L2 norm
    gc            fp32 [H * total_tiles, 16, D], inv, mqk bf16 [H * total_tiles, 16, 16], beta fp32 [H,
    T_total]:
                  as `prepare` returns them. total_tiles: tiles of 16 tokens of all sequences, of one head
    scale         the factor of the query, the same that `prepare` used (D ** -0.5 unless said otherwise)
    dht           fp32 [N, H, K, V], gradient of the final states; None: zeros
    cu_seqlens    int64 [N + 1] on the GPU, borders of the sequences; they may be empty, and T any length
    stage         which stage of the ladder runs, or the path of a file of your own
    v_split       blocks that share a state's columns: 1, 2, 4, 8, or None for the article's rule
    (`article_v_split`)
    snapshot_dtype  torch.float32 (None means this too) or torch.bfloat16
    check_inputs  False leaves out all checks; inputs that do not fit then read or write other memory

    Returns (snapshots [H * total_tiles, K, V] of snapshot_dtype, ds0 fp32 [N, H, K, V]). The snapshot of a
    tile, at head * total_tiles + tile, is the gradient of the state that leaves it; ds0 is that of the
    initial states.

    All tensors lie on one Hopper GPU, contiguous. The work is put on the current PyTorch stream and not
    awaited. The contents of cu_seqlens are read back, to check them, but not with check_inputs=False and not
    while a CUDA graph is captured. Inside torch.compile it is one operator, `kda_learn::dstate_scan`. No
    gradient flows through the results (`kda_attention` shows it in a layer's backward pass). Raises BadInput
    for an argument that does not fit, MachineUnavailable if the GPU cannot run the stage or lacks memory.
    """
    import torch

    from . import scan_inputs, scan_operator

    if check_inputs:
        tensors = {"q": q, "k": k, "gc": gc, "beta": beta, "inv": inv, "mqk": mqk, "do": do}
        scan_inputs.check_kinds(tensors, {"dht": dht, "cu_seqlens": cu_seqlens})
        scan_inputs.check_numbers(scale, v_split, snapshot_dtype)
    return scan_operator.OPERATOR(
        q,
        k,
        gc,
        beta,
        inv,
        mqk,
        do,
        float(scale),
        dht,
        cu_seqlens,
        scan_operator.name_of(stage),
        int(v_split or 0),
        snapshot_dtype or torch.float32,
        check_inputs,
    )
