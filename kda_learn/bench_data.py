"""The data of a benchmark, made on the GPU: random, never zeros, as a KDA layer would give them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .bench import Config
from .errors import MachineUnavailable
from .gpu import KernelArguments
from .prepare import prepare
from .problem import WEAK_GATE
from .tiling import CHUNK, HEAD_DIM

if TYPE_CHECKING:
    import torch

GATE_SPREAD = 0.5
"""Standard deviation of the gate's logarithm from channel to channel."""


@dataclass
class BenchData:
    """Inputs for `tokens` tokens in `heads` heads, and room for the outputs of any config with no more
    tokens.

    A tile of 16 tokens has the same contents however the tokens are cut into sequences, as long as these are
    multiples of 16 long: so one set of data serves all configs.
    """

    heads: int
    tokens: int
    q: torch.Tensor  # bf16 [tokens, H, D], and k, do
    k: torch.Tensor
    do: torch.Tensor
    gc: torch.Tensor  # fp32 [H, tiles, 16, D]
    beta: torch.Tensor  # fp32 [H, tokens]
    inv: torch.Tensor  # bf16 [H, tiles, 16, 16], and mqk
    mqk: torch.Tensor
    dht: torch.Tensor  # fp32 [most sequences, H, K, V]
    ds0: torch.Tensor
    snapshots: torch.Tensor  # fp32 [H * tiles * K * V]


@dataclass
class ConfigData:
    """What a launch for one config needs. The tensors are named here so that they live as long as their
    addresses.
    """

    config: Config
    arguments: KernelArguments
    snapshots: torch.Tensor  # [H * tiles, K * V]
    ds0: torch.Tensor
    tensors: tuple[torch.Tensor, ...]


def torch_device(index: int = 0) -> torch.device:
    """PyTorch's name of the GPU. Raises MachineUnavailable if PyTorch is missing or sees no GPU."""
    try:
        import torch
    except ImportError:
        raise MachineUnavailable(
            "Timing makes its data with PyTorch, which is missing: `pip install torch`, a build for CUDA."
        ) from None
    if not torch.cuda.is_available():
        raise MachineUnavailable(
            f"Timing makes its data with PyTorch, and PyTorch {torch.__version__} sees no GPU: install a "
            "build for CUDA that fits the driver."
        )
    return torch.device("cuda", index)


def make_data(heads: int, tokens: int, sequences: int, *, device: torch.device, seed: int = 0) -> BenchData:
    """Random inputs under a weak gate, for up to `tokens` tokens (a multiple of 16) in up to `sequences`
    sequences.
    """
    import torch

    random = torch.Generator(device).manual_seed(seed)

    def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device=device).normal_(generator=random)

    token_shape = (1, tokens, heads, HEAD_DIM)
    q, k, do = (normal(*token_shape, dtype=torch.bfloat16) for _ in range(3))
    # exp(spread * normal) has the mean exp(spread^2 / 2). In place: g alone takes GBs.
    g = normal(*token_shape).mul_(GATE_SPREAD).sub_(GATE_SPREAD**2 / 2).exp_().mul_(WEAK_GATE)
    prepared = prepare(q, k, g, normal(1, tokens, heads).sigmoid_())
    del g
    if device.type == "cuda":
        torch.cuda.empty_cache()  # what prepare took for a while is room for the snapshots
    tiles = tokens // CHUNK
    state_shape = (sequences, heads, HEAD_DIM, HEAD_DIM)
    return BenchData(
        heads=heads,
        tokens=tokens,
        q=q[0],
        k=k[0],
        do=do[0],
        gc=prepared.gc.view(heads, tiles, CHUNK, HEAD_DIM),
        beta=prepared.beta,
        inv=prepared.inv.view(heads, tiles, CHUNK, CHUNK),
        mqk=prepared.mqk.view(heads, tiles, CHUNK, CHUNK),
        dht=normal(*state_shape),
        ds0=torch.empty(state_shape, device=device),
        snapshots=torch.empty(heads * tiles * HEAD_DIM**2, device=device),
    )


def for_config(data: BenchData, config: Config) -> ConfigData:
    """The first `config.tokens` tokens of the data, cut into that config's sequences."""
    tiles = config.tokens // CHUNK
    # One head's tiles and tokens lie one after another: to leave some out takes a copy.
    gc, inv, mqk = (tensor[:, :tiles].contiguous() for tensor in (data.gc, data.inv, data.mqk))
    beta = data.beta[:, : config.tokens].contiguous()
    snapshots = data.snapshots[: data.heads * tiles * HEAD_DIM**2].view(data.heads * tiles, HEAD_DIM**2)
    arguments = KernelArguments(
        q=data.q.data_ptr(),
        k=data.k.data_ptr(),
        gc=gc.data_ptr(),
        beta=beta.data_ptr(),
        inv=inv.data_ptr(),
        mqk=mqk.data_ptr(),
        do=data.do.data_ptr(),
        dht=data.dht.data_ptr(),
        snapshots=snapshots.data_ptr(),
        ds0=data.ds0.data_ptr(),
        cu_seqlens=0,
        scale=HEAD_DIM**-0.5,
        length=config.length,
        tokens=config.tokens,
        total_tiles=tiles,
        heads=data.heads,
    )
    return ConfigData(config, arguments, snapshots, data.ds0[: config.sequences], (gc, inv, mqk, beta))
