"""An example: `dstate_scan` inside the backward pass of a KDA layer, small and plain around it.

Going backward, one thing is serial: the gradient of the state that leaves a tile depends on all tiles behind
it. `dstate_scan` works that out for all tiles. Given the state that enters a tile and the gradient of the one
that leaves it, the rest concerns one tile at a time, so all tiles are done at once, by automatic
differentiation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..ground.errors import BadInput
from .prepare import prepare
from .scan import dstate_scan
from .tile_math import normalise
from .tiling import CHUNK, HEAD_DIM, Tiling

Tensor = torch.Tensor


def kda_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    *,
    initial_state: Tensor | None = None,
    scan: Callable[..., tuple[Tensor, Tensor]] = dstate_scan,
) -> tuple[Tensor, Tensor]:
    """A KDA layer over sequences of one length: outputs bf16 [N, T, H, 128], final states fp32 [N, H, K, V].

    q, k, v bf16 [N, T, H, 128] (q and k before their L2 norm), g fp32 [N, T, H, 128] (natural log of the
    decay, <= 0), beta fp32 [N, T, H] (after the sigmoid), initial_state fp32 [N, H, K, V] (None: zeros).
    scan: what computes the gradient of the states; it is called as `dstate_scan` is.

    A gradient flows to every input. The tiles' own work is done in float32, without any care for speed.
    Raises BadInput for what does not fit.
    """
    if q.dim() != 4 or q.shape[-1] != HEAD_DIM or v.shape != q.shape:
        raise BadInput(
            f"q is {list(q.shape)} and v is {list(v.shape)}: give both as [N, T, H, {HEAD_DIM}], bf16."
        )
    if initial_state is None:
        sequences, _, heads, _ = q.shape
        initial_state = g.new_zeros(sequences, heads, HEAD_DIM, HEAD_DIM)
    return _Layer.apply(q, k, v, g, beta, initial_state, scan)


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        g: Tensor,
        beta: Tensor,
        initial_state: Tensor,
        scan: Callable[..., tuple[Tensor, Tensor]],
    ) -> tuple[Tensor, Tensor]:
        tokens = _Tokens(q.shape, q.device)
        rows = tokens.tiled(q, k, v, g, beta)
        outputs, entering, state = [], [], initial_state
        for tile in range(tokens.tiles):
            entering.append(state)
            output, state = _through_tile(*(one[:, tile] for one in rows), state)
            outputs.append(output)
        ctx.save_for_backward(q, k, v, g, beta, *entering)
        ctx.scan = scan
        return tokens.flat(outputs).to(v.dtype), state

    @staticmethod
    def backward(ctx: Any, do: Tensor, dht: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, g, beta, *entering = ctx.saved_tensors
        prepared = prepare(q, k, g, beta)
        snapshots, ds0 = ctx.scan(
            q,
            k,
            prepared.gc,
            prepared.beta,
            prepared.inv,
            prepared.mqk,
            do.contiguous(),
            scale=HEAD_DIM**-0.5,
            dht=dht.contiguous(),
        )
        tokens = _Tokens(q.shape, q.device)
        inputs = [one.detach().requires_grad_() for one in (q, k, v, g, beta)]
        with torch.enable_grad():
            rows = tokens.tiled(*inputs)
            outputs, leaving = _through_tile(*rows, torch.stack(entering, 1))
        gradients = torch.autograd.grad(
            (outputs, leaving), inputs, (tokens.tiled(do)[0], tokens.by_tile(snapshots))
        )
        return *gradients, ds0, None


def _through_tile(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Outputs [..., 16, H, V] and the state that leaves [..., H, K, V], token by token, as KDA is defined.

    Leading axes are sequences, or sequences and tiles: what all of them do is the same.
    """
    q, k = HEAD_DIM**-0.5 * normalise(q), normalise(k)
    outputs = []
    for row in range(CHUNK):
        key = k[..., row, :, :, None]
        state = state * g[..., row, :, :, None].exp()
        remembered = (key * state).sum(-2)
        correction = beta[..., row, :, None] * (v[..., row, :, :] - remembered)
        state = state + key * correction[..., None, :]
        outputs.append((q[..., row, :, :, None] * state).sum(-2))
    return torch.stack(outputs, -3), state


class _Tokens:
    """Sequences of one length, cut into tiles of 16 rows; rows past the end are zeros and change no state."""

    def __init__(self, shape: torch.Size, device: torch.device) -> None:
        self.sequences, self.length = shape[:2]
        tiling = Tiling.of([self.length])
        self.tiles = tiling.total_tiles
        self._rows = torch.from_numpy(tiling.rows).to(device)
        self._valid = torch.from_numpy(tiling.valid).to(device)

    def tiled(self, *tokens: Tensor) -> list[Tensor]:
        """[N, T, H, ...] as float32 [N, tiles, 16, H, ...]."""
        return [
            one[:, self._rows].float() * self._valid.view(self.tiles, CHUNK, *[1] * (one.dim() - 2))
            for one in tokens
        ]

    def flat(self, outputs: list[Tensor]) -> Tensor:
        """One [N, 16, H, V] for each tile as [N, T, H, V]."""
        return torch.cat(outputs, 1)[:, : self.length]

    def by_tile(self, snapshots: Tensor) -> Tensor:
        """[H * N * tiles, K, V] as [N, tiles, H, K, V]."""
        heads_first = snapshots.float().view(-1, self.sequences, self.tiles, HEAD_DIM, HEAD_DIM)
        return heads_first.permute(1, 2, 0, 3, 4)
