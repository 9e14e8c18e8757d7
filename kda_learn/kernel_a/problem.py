"""A `Problem` is everything Kernel A reads, as NumPy arrays; `random_problem` makes one."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..ground.errors import BadInput
from ..ground.given import real, shown, text, whole, yes_or_no
from ..hardware.bf16 import to_bf16
from .prepare import prepare
from .tiling import CHUNK, HEAD_DIM, Tiling, lengths_given

MOST_TOKENS = 1 << 30
"""Of all heads of a problem: more fit into no computer's memory."""

WEAK_GATE = -0.002
"""Mean gate in nat per token at which a tile keeps about 97 % of the state: errors of the recurrence show."""

STRONG_GATE = -1.5
"""Mean gate at which a tile forgets nearly all of the state: overflow shows, and the recurrence hides."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Inputs of Kernel A; K = V = D = 128. bf16 arrays hold their bits as uint16.

    Raises BadInput when an array does not fit. Values are not looked at: tests put NaN where a kernel must
    not read.
    """

    q: np.ndarray  # bf16 [T_total, H, D]
    k: np.ndarray  # bf16 [T_total, H, D]
    gc: np.ndarray  # float32 [H * total_tiles, 16, D]  running sum of the gate inside a tile, log2
    beta: np.ndarray  # float32 [H, T_total]  after the sigmoid
    inv: np.ndarray  # bf16 [H * total_tiles, 16, 16]
    mqk: np.ndarray  # bf16 [H * total_tiles, 16, 16]
    do: np.ndarray  # bf16 [T_total, H, D]  gradient of the outputs
    dht: np.ndarray | None  # float32 [N, H, K, V]  gradient of the final states; None: zeros
    cu_seqlens: np.ndarray | None  # int64 [N + 1]  varlen; None: all sequences are equally long
    sequences: int  # N
    scale: float
    name: str = ""

    def __post_init__(self) -> None:
        if self.sequences < 1:
            raise BadInput(f"The problem has {self.sequences} sequences: give at least one.")
        for name, array in (("q", self.q), ("gc", self.gc)):
            if not isinstance(array, np.ndarray) or array.ndim != 3:
                raise BadInput(
                    f"{name} has the shape {np.shape(array)}: give a NumPy array of three dimensions."
                )
        tokens, heads = self.q.shape[:2]
        if heads < 1:
            raise BadInput(
                f"q has the shape {self.q.shape}: give at least one head, [T_total, H, {HEAD_DIM}]."
            )
        if self.cu_seqlens is None and tokens % self.sequences:
            raise BadInput(
                f"q has {tokens} tokens for {self.sequences} sequences of fixed length: give a multiple of "
                f"{self.sequences}, or cu_seqlens."
            )
        if self.cu_seqlens is not None:
            _check_array("cu_seqlens", self.cu_seqlens, np.int64, (self.sequences + 1,))
        pairs = heads * self.tiling.total_tiles
        token_shape = (tokens, heads, HEAD_DIM)
        _check_array("q", self.q, np.uint16, token_shape)
        _check_array("k", self.k, np.uint16, token_shape)
        _check_array("do", self.do, np.uint16, token_shape)
        _check_array("gc", self.gc, np.float32, (pairs, CHUNK, HEAD_DIM))
        _check_array("beta", self.beta, np.float32, (heads, tokens))
        _check_array("inv", self.inv, np.uint16, (pairs, CHUNK, CHUNK))
        _check_array("mqk", self.mqk, np.uint16, (pairs, CHUNK, CHUNK))
        if self.dht is not None:
            _check_array("dht", self.dht, np.float32, (self.sequences, heads, HEAD_DIM, HEAD_DIM))

    @cached_property
    def tiling(self) -> Tiling:
        """How the sequences are cut into tiles."""
        tokens = self.q.shape[0]
        if self.cu_seqlens is not None:
            return Tiling.from_cu_seqlens(self.cu_seqlens, tokens=tokens)
        return Tiling.of([tokens // self.sequences] * self.sequences)

    @property
    def heads(self) -> int:
        """H."""
        return self.q.shape[1]

    @property
    def tokens(self) -> int:
        """T_total, the tokens of all sequences."""
        return self.q.shape[0]

    @property
    def length(self) -> int:
        """T, the tokens of each sequence of a fixed-length problem; the longest sequence of a varlen one."""
        return max(self.lengths)

    @property
    def lengths(self) -> list[int]:
        """The tokens of each sequence."""
        return list(self.tiling.lengths)

    @property
    def total_tiles(self) -> int:
        """Tiles of all sequences, of one head."""
        return self.tiling.total_tiles


def _check_array(name: str, array: np.ndarray, dtype: type, shape: tuple[int, ...]) -> None:
    """Raise BadInput unless `array` is a contiguous NumPy array of this type and shape."""
    wanted = f"give a contiguous NumPy array of {np.dtype(dtype).name} {list(shape)}"
    if not isinstance(array, np.ndarray):
        raise BadInput(f"{name} is {type(array).__name__}: {wanted}.")
    if array.dtype != dtype or array.shape != shape:
        raise BadInput(f"{name} is {array.dtype.name} {list(array.shape)}: {wanted}.")
    if not array.flags.c_contiguous:
        raise BadInput(f"{name} is not contiguous: {wanted} (numpy.ascontiguousarray makes one).")


def problem_from_layer(
    q: np.ndarray,
    k: np.ndarray,
    g: np.ndarray,
    beta: np.ndarray,
    do: np.ndarray,
    *,
    dht: np.ndarray | None = None,
    cu_seqlens: np.ndarray | None = None,
    name: str = "",
) -> Problem:
    """A Problem from a KDA layer's inputs: NumPy arrays in the shapes that `prepare` takes, do shaped like q.

    Raises BadInput when an array does not fit, or when D is not 128.
    """
    prepared = prepare(q, k, g, beta, cu_seqlens=cu_seqlens)
    sequences = q.shape[0] if cu_seqlens is None else len(cu_seqlens) - 1
    heads = q.shape[-2]
    token_shape = (prepared.beta.shape[1], heads, HEAD_DIM)
    for array_name, array in (("q", q), ("do", do)):
        if not isinstance(array, np.ndarray):
            raise BadInput(f"{array_name} is {type(array).__name__}: give a NumPy array shaped like q.")
        if array.shape != q.shape or array.shape[-1] != HEAD_DIM:
            wanted = [*q.shape[:-1], HEAD_DIM]
            raise BadInput(
                f"{array_name} has the shape {list(array.shape)}: give {wanted}, as Kernel A needs."
            )
    return Problem(
        q=np.ascontiguousarray(q).reshape(token_shape),
        k=np.ascontiguousarray(k).reshape(token_shape),
        gc=prepared.gc,
        beta=prepared.beta,
        inv=prepared.inv,
        mqk=prepared.mqk,
        do=np.ascontiguousarray(do).reshape(token_shape),
        dht=dht,
        cu_seqlens=cu_seqlens,
        sequences=sequences,
        scale=HEAD_DIM**-0.5,
        name=name,
    )


def random_problem(
    *,
    lengths: Sequence[int],
    heads: int = 1,
    varlen: bool = False,
    seed: int | None = 0,
    gate: float = WEAK_GATE,
    final_gradient: bool = True,
    beta_scale: float = 1.0,
    name: str | None = None,
) -> Problem:
    """A problem with random inputs.

    lengths: tokens of each sequence (0 is allowed); without varlen all must be equal. gate: mean of g in nat
    per token, <= 0; each g is the mean times a log-normal factor of spread 0.5, as trained gates differ from
    channel to channel. beta is beta_scale times a sigmoid of normal numbers. final_gradient: a random dht, or
    none. seed None draws a fresh one, which the problem's name shows. The same arguments give the same
    problem. Raises BadInput for what does not fit.
    """
    lengths = lengths_given(lengths)
    _check_request(lengths, heads, varlen, gate, beta_scale, final_gradient, name)
    seed = int(np.random.SeedSequence().entropy % 2**32) if seed is None else whole("seed", seed)
    random = np.random.default_rng(seed)
    tokens = sum(lengths)
    token_shape = (tokens, heads, HEAD_DIM)
    q = to_bf16(random.standard_normal(token_shape, np.float32))
    k = to_bf16(random.standard_normal(token_shape, np.float32))
    do = to_bf16(random.standard_normal(token_shape, np.float32))
    beta = beta_scale / (1.0 + np.exp(-random.standard_normal((tokens, heads), np.float32)))
    spread = 0.5
    # exp(spread * normal) has the mean exp(spread^2 / 2).
    g = gate * np.exp(spread * random.standard_normal(token_shape, np.float32) - spread**2 / 2)
    dht = None
    if final_gradient:
        dht = random.standard_normal((len(lengths), heads, HEAD_DIM, HEAD_DIM), np.float32)
    cu_seqlens = Tiling.of(lengths).token_base if varlen else None

    def shaped(values: np.ndarray) -> np.ndarray:
        """As `prepare` takes it: varlen [T_total, ...], else [N, T, ...]."""
        if varlen:
            return values
        return values.reshape((len(lengths), lengths[0], *values.shape[1:]))

    return problem_from_layer(
        shaped(q),
        shaped(k),
        shaped(g.astype(np.float32)),
        shaped(beta.astype(np.float32)),
        shaped(do),
        dht=dht,
        cu_seqlens=cu_seqlens,
        name=name or _describe(lengths, heads, varlen, gate, final_gradient, seed),
    )


def _check_request(
    lengths: list[int],
    heads: int,
    varlen: bool,
    gate: float,
    beta_scale: float,
    final_gradient: bool,
    name: str | None,
) -> None:
    yes_or_no("varlen", varlen)
    yes_or_no("final_gradient", final_gradient)
    whole("heads", heads, 1)
    if sum(lengths) * heads > MOST_TOKENS:
        raise BadInput(
            f"lengths is {shown(lengths)} and heads is {heads}: give at most {MOST_TOKENS} tokens in all."
        )
    if name is not None:
        text("name", name, "a text, or None for one that says what the problem holds")
    real("gate", gate, "the mean natural log of the decay, 0 or below", most=0)
    real("beta_scale", beta_scale, "a factor from 0 to 1", 0, 1)
    if not varlen and len(set(lengths)) > 1:
        raise BadInput(f"lengths is {lengths}, which differ: give varlen=True, or sequences of one length.")


def _describe(
    lengths: list[int], heads: int, varlen: bool, gate: float, final_gradient: bool, seed: int
) -> str:
    """A short name, such as "2 x 64 tokens, 1 head, gate -0.002, seed 0"."""
    if not varlen:
        shape = f"{len(lengths)} x {lengths[0]} tokens"
    elif len(lengths) <= 6:
        shape = f"varlen {'+'.join(str(length) for length in lengths)} tokens"
    else:
        shape = f"varlen {len(lengths)} sequences, {sum(lengths)} tokens"
    parts = [shape, f"{heads} head{'s' if heads > 1 else ''}", f"gate {gate:g}"]
    if not final_gradient:
        parts.append("no dht")
    parts.append(f"seed {seed}")
    return ", ".join(parts)
