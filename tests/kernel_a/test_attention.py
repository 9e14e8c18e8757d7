"""The example layer against automatic differentiation through the token recurrence, in float64."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the layer is one of PyTorch, and PyTorch is not installed")

from recurrence import token_step  # noqa: E402

from kda_learn.ground.errors import BadInput  # noqa: E402
from kda_learn.kernel_a.attention import kda_attention  # noqa: E402
from kda_learn.kernel_a.problem import Problem  # noqa: E402
from kda_learn.kernel_a.run import run  # noqa: E402
from kda_learn.kernel_a.tile_math import normalise  # noqa: E402

SHAPE = (2, 37, 2, 128)  # sequences with a tail, two heads
LARGEST_ERROR = 0.01
"""Relative RMS: operands and dS are bf16 in the kernel, and the layer's q, k, v and do are, too."""


def inputs(gate: float = -0.002) -> list[torch.Tensor]:
    q, k, v = (torch.randn(SHAPE).bfloat16() for _ in range(3))
    g = gate * torch.exp(0.5 * torch.randn(SHAPE))
    beta = torch.rand(SHAPE[:3])
    state = torch.randn(SHAPE[0], SHAPE[2], 128, 128)
    return [one.requires_grad_() for one in (q, k, v, g, beta, state)]


def in_float64(q, k, v, g, beta, state):
    """Outputs and final states by the definition, one token after another."""
    q, k = 128**-0.5 * normalise(q), normalise(k)
    outputs = []
    for t in range(SHAPE[1]):
        state, output = token_step(state, q[:, t], k[:, t], v[:, t], g[:, t].exp(), beta[:, t])
        outputs.append(output)
    return torch.stack(outputs, 1), state


def on_the_cpu_machine(q, k, gc, beta, inv, mqk, do, *, scale, dht):
    """What `dstate_scan` gives, without a GPU."""

    def bits(tensor: torch.Tensor) -> np.ndarray:
        return tensor.view(torch.int16).numpy().view(np.uint16)

    def tokens(tensor: torch.Tensor) -> np.ndarray:
        return bits(tensor).reshape(-1, *SHAPE[2:])

    problem = Problem(
        q=tokens(q),
        k=tokens(k),
        gc=gc.numpy(),
        beta=beta.numpy(),
        inv=bits(inv),
        mqk=bits(mqk),
        do=tokens(do),
        dht=dht.numpy(),
        cu_seqlens=None,
        sequences=SHAPE[0],
        scale=scale,
    )
    result = run("s12", problem, machine="emulator")
    assert result.faults == []
    return torch.from_numpy(result.snapshots), torch.from_numpy(result.ds0)


@pytest.mark.parametrize("gate", [-0.002, -0.5])
def test_every_gradient_is_that_of_the_definition(gate):
    given = inputs(gate)
    outputs, state = kda_attention(*given[:5], initial_state=given[5], scan=on_the_cpu_machine)
    do, dht = torch.randn(outputs.shape).bfloat16(), torch.randn(state.shape)
    found = torch.autograd.grad((outputs, state), given, (do, dht))
    exact = [one.detach().double().requires_grad_() for one in given]
    true_outputs, true_state = in_float64(*exact)
    wanted = torch.autograd.grad((true_outputs, true_state), exact, (do.double(), dht.double()))
    pairs = [(outputs, true_outputs), (state, true_state), *zip(found, wanted, strict=True)]
    errors = [float((one.double() - truth).detach().norm() / truth.detach().norm()) for one, truth in pairs]
    assert max(errors) < LARGEST_ERROR, errors


def test_without_the_scan_the_gradients_are_wrong():
    """The check above would notice: here no gradient comes back from the tiles behind."""
    given = inputs()
    outputs, _ = kda_attention(
        *given[:5],
        initial_state=given[5],
        scan=lambda *a, **b: [torch.zeros_like(x) for x in on_the_cpu_machine(*a, **b)],
    )
    do = torch.randn(outputs.shape).bfloat16()
    (found,) = torch.autograd.grad(outputs, given[1:2], do)
    exact = [one.detach().double().requires_grad_() for one in given]
    (wanted,) = torch.autograd.grad(in_float64(*exact)[0], exact[1:2], do.double())
    assert float((found.double() - wanted).norm() / wanted.norm()) > 10 * LARGEST_ERROR


def test_shapes_that_do_not_fit():
    q, k, v, g, beta, _ = inputs()
    with pytest.raises(BadInput, match=r"v is \[2, 37, 2, 64\]: give both as \[N, T, H, 128\]"):
        kda_attention(q, k, v[..., :64], g, beta)
