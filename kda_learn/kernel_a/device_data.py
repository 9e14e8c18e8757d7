"""Arguments on the GPU, to time and to profile: random, never zeros, as a KDA layer would give them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ground.errors import MachineUnavailable
from ..machines.runnable import Runnable
from ..sources.stages import as_stage
from .arguments import Arguments
from .batch import Config
from .prepare import prepare
from .problem import WEAK_GATE, random_problem
from .tiling import CHUNK, HEAD_DIM
from .variants import runnable_of

if TYPE_CHECKING:
    import torch

COMPARED_TILES = 64

LARGEST_DIFFERENCE = 0.03
"""Relative RMS between two stages' snapshots of a tile: both are within about 0.01 of the truth if they are
right.
"""

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


def for_config(data: BenchData, config: Config) -> Arguments:
    """The first `config.tokens` tokens of the data, cut into that config's sequences."""
    tiles = config.tokens // CHUNK
    # One head's tiles and tokens lie one after another: to leave some out takes a copy.
    gc, inv, mqk = (tensor[:, :tiles].contiguous() for tensor in (data.gc, data.inv, data.mqk))
    return Arguments(
        q=data.q,
        k=data.k,
        gc=gc,
        beta=data.beta[:, : config.tokens].contiguous(),
        inv=inv,
        mqk=mqk,
        do=data.do,
        dht=data.dht,
        snapshots=data.snapshots[: data.heads * tiles * HEAD_DIM**2].view(data.heads * tiles, HEAD_DIM**2),
        ds0=data.ds0[: config.sequences],
        cu_seqlens=None,
        scale=HEAD_DIM**-0.5,
        length=config.length,
        tokens=config.tokens,
        total_tiles=tiles,
        heads=data.heads,
    )


class Agreement:
    """Judges what stages write at full size: everything finite, and some tiles as the first stage has them.

    A check on a small problem came before; this one sees that every snapshot was written.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self._first: torch.Tensor | None = None

    def judge(self, outputs: Mapping[str, torch.Tensor]) -> list[str]:
        """What is wrong with snapshots and ds0; the first that are right become the measure."""
        import torch

        snapshots = outputs["snapshots"]
        # A sum is finite only if all its terms are, and takes no memory.
        if not bool(torch.isfinite(snapshots.sum() + outputs["ds0"].sum())):
            return [f"it left elements of its outputs unwritten or not finite on {self.config.name}"]
        tiles = torch.linspace(0, len(snapshots) - 1, COMPARED_TILES, dtype=torch.float64).long()
        sample = snapshots[tiles.to(snapshots.device)].double()
        if self._first is None:
            self._first = sample
        difference = float(((sample - self._first).norm(dim=1) / self._first.norm(dim=1)).max())
        if difference <= LARGEST_DIFFERENCE:
            return []
        return [f"its snapshots on {self.config.name} are {difference:.1e} off the first stage's"]


def repeated(config: Config, heads: int) -> Arguments:
    """Arguments for a profile, as CuPy arrays: every sequence and head has the same random data, each at its
    own addresses. What a counter counts does not depend on the values, and one sequence is made in no time.
    """
    import cupy

    one = random_problem(lengths=[config.length])
    tiles = config.tokens // CHUNK
    by_token, by_tile = (config.sequences, heads, 1), (heads * config.sequences, 1, 1)

    def tiled(array: np.ndarray, copies: tuple[int, ...]) -> Any:
        return cupy.tile(cupy.asarray(array), copies)

    return Arguments(
        q=tiled(one.q, by_token),
        k=tiled(one.k, by_token),
        gc=tiled(one.gc, by_tile),
        beta=tiled(one.beta, (heads, config.sequences)),
        inv=tiled(one.inv, by_tile),
        mqk=tiled(one.mqk, by_tile),
        do=tiled(one.do, by_token),
        dht=tiled(one.dht, (config.sequences, heads, 1, 1)),
        snapshots=cupy.empty((heads * tiles, HEAD_DIM, HEAD_DIM), np.float32),
        ds0=cupy.empty((config.sequences, heads, HEAD_DIM, HEAD_DIM), np.float32),
        cu_seqlens=None,
        scale=HEAD_DIM**-0.5,
        length=config.length,
        tokens=config.tokens,
        total_tiles=tiles,
        heads=heads,
    )


def to_profile(path: str, v_split: int, config: str, heads: int) -> Runnable:
    """A stage's launch on the GPU for the profiler; path: its .cu file."""
    batch = Config.parse(config)

    def judge(outputs: Mapping[str, Any]) -> list[str]:
        # A sum is finite only if all its terms are.
        if np.isfinite(sum(float(output.sum()) for output in outputs.values())):
            return []
        return [f"it left elements of its outputs unwritten or not finite on {config}"]

    return runnable_of(as_stage(path), repeated(batch, heads), batch.sequences, v_split=v_split, judge=judge)
