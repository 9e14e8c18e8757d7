"""The operator `kda_learn::dstate_scan`: what PyTorch's compiler and its graphs see of Kernel A."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import torch

from ..ground.errors import BadInput, MachineUnavailable
from ..machines.gpu import Kernel, kernel_of
from ..sources.stages import STAGES, Stage, as_stage
from .arguments import Arguments
from .scan_inputs import SNAPSHOT_TYPES, ScanSize, size_of, validate
from .tiling import HEAD_DIM
from .variants import article_v_split, runnable_of

_LIBRARY = torch.library.Library("kda_learn", "DEF")
_LIBRARY.define(
    "dstate_scan(Tensor q, Tensor k, Tensor gc, Tensor beta, Tensor inv, Tensor mqk, Tensor do, float scale, "
    "Tensor? dht, Tensor? cu_seqlens, str stage, int v_split, ScalarType snapshot_dtype, bool check_inputs) "
    "-> (Tensor, Tensor)"
)
OPERATOR = getattr(torch.ops, _LIBRARY.ns).dstate_scan.default


_IDS = frozenset(stage.id for stage in STAGES)


def name_of(stage: Stage | str | Path) -> str:
    """A stage as the operator takes it: an id of the ladder, or the path of a file. Raises as `as_stage`."""
    if isinstance(stage, str) and (stage in _IDS or stage.endswith(".cu")):
        return stage
    found = as_stage(stage)
    return found.id if found in STAGES else str(found.path)


def _launch(
    q: torch.Tensor,
    k: torch.Tensor,
    gc: torch.Tensor,
    beta: torch.Tensor,
    inv: torch.Tensor,
    mqk: torch.Tensor,
    do: torch.Tensor,
    scale: float,
    dht: torch.Tensor | None,
    cu_seqlens: torch.Tensor | None,
    stage: str,
    v_split: int,
    snapshot_dtype: torch.dtype,
    check_inputs: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Starts the kernel on the current stream. v_split 0: the article's rule."""
    if check_inputs:
        read_back = cu_seqlens is not None and not (q.is_cuda and torch.cuda.is_current_stream_capturing())
        size = validate(q, k, gc, beta, inv, mqk, do, dht, cu_seqlens, read_back=read_back)
    else:
        size = size_of(q, gc, cu_seqlens)
    if not q.is_cuda:
        raise BadInput(
            f"The tensors are on the device {q.device}: move them to a Hopper GPU (`.cuda()`), or run a "
            "stage on the CPU with kda_learn.run(stage, problem, machine='emulator')."
        )
    device = q.get_device()
    v_split = v_split or article_v_split(size.sequences, size.heads, _sms(device))
    snapshots, ds0 = _outputs(q, size, snapshot_dtype)
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
    kernel, block = _kernel(stage, v_split, arguments, SNAPSHOT_TYPES[snapshot_dtype], device)
    kernel.launch(
        arguments.in_order(),
        grid=(size.sequences, size.heads, v_split),
        block=block,
        stream=torch._C._cuda_getCurrentRawStream(device),  # a tenth of the time of current_stream()
    )
    return snapshots, ds0


def _shapes(
    q: torch.Tensor,
    k: torch.Tensor,
    gc: torch.Tensor,
    beta: torch.Tensor,
    inv: torch.Tensor,
    mqk: torch.Tensor,
    do: torch.Tensor,
    scale: float,
    dht: torch.Tensor | None,
    cu_seqlens: torch.Tensor | None,
    stage: str,
    v_split: int,
    snapshot_dtype: torch.dtype,
    check_inputs: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What the operator returns, without its contents: for tensors that have none, while PyTorch traces."""
    return _outputs(q, size_of(q, gc, cu_seqlens), snapshot_dtype)


_LIBRARY.impl("dstate_scan", _launch, "CompositeExplicitAutograd")
_LIBRARY.impl("dstate_scan", torch.library.fallthrough_kernel, "Autograd")  # no gradient flows through it
torch.library.register_fake("kda_learn::dstate_scan", _shapes, lib=_LIBRARY)


def _outputs(
    q: torch.Tensor, size: ScanSize, snapshot_dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    snapshots = (size.heads * size.total_tiles, HEAD_DIM, HEAD_DIM)
    states = (size.sequences, size.heads, HEAD_DIM, HEAD_DIM)
    try:
        return q.new_empty(snapshots, dtype=snapshot_dtype), q.new_empty(states, dtype=torch.float32)
    except torch.cuda.OutOfMemoryError:
        raise MachineUnavailable(
            f"{snapshots[0]} snapshots of {HEAD_DIM} x {HEAD_DIM} {SNAPSHOT_TYPES[snapshot_dtype]} do not fit"
            " in the GPU's memory: give fewer tokens or heads, snapshot_dtype=torch.bfloat16, or free memory."
        ) from None


_kernels: dict[tuple, tuple[Kernel, tuple[int, int, int]]] = {}


def _kernel(
    stage: str, v_split: int, arguments: Arguments, snapshot_dtype: str, device: int
) -> tuple[Kernel, tuple[int, int, int]]:
    """The kernel and the shape of a block. A stage is looked up once, a file of one's own at each call."""
    key = (stage, v_split, arguments.cu_seqlens is None, snapshot_dtype, device)
    if key in _kernels:
        return _kernels[key]
    runnable = runnable_of(as_stage(stage), arguments, 1, v_split=v_split, snapshot_dtype=snapshot_dtype)
    found = kernel_of(runnable, device=device), runnable.block
    if not stage.endswith(".cu"):
        _kernels[key] = found
    return found


@lru_cache
def _sms(device: int) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count
