"""Inputs for kernels/lab/fragments.cu, the same for the recorder (on a GPU) and the test (on any CPU).

Only the GPU's answers are stored, so the inputs must come out the same everywhere: they are drawn from
RandomState, whose streams NumPy has frozen, and made of integers, which round nowhere. Elements are distinct
numbers wherever possible: a wrong answer then says which element landed in its place.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from paths import TESTS

from kda_learn.ground.files import KERNELS

FRAGMENTS = KERNELS / "lab" / "fragments.cu"
ANSWERS = TESTS / "data" / "hardware_answers.npz"
PROVENANCE = TESTS / "data" / "hardware_answers.json"

LANES = 32
# Constants of fragments.cu; test_hardware_answers.py compares them with the source.
WINDOW_BYTES = 4608
COPY_WINDOW_BYTES = 1536
SOURCE_BYTES = 1536
LOAD_REGISTERS = 14
STORE_VARIANTS = 6
COPY_VARIANTS = 8

ROW_BYTES = 16  # one row of an 8x8 matrix of 16-bit elements
COPY_SLOTS = 96


@dataclass(frozen=True)
class Group:
    """One launch: a kernel, its inputs, its outputs' (shape, dtype), both by name and in parameter order."""

    entry: str
    inputs: dict[str, np.ndarray]
    outputs: dict[str, tuple[tuple[int, ...], str]]
    blocks: int
    shared_bytes: int = 0

    def digest(self) -> str:
        """Changes when an input does: stored answers then belong to other questions."""
        content = hashlib.sha256()
        for name, array in self.inputs.items():
            content.update(f"{name} {array.dtype} {array.shape}".encode())
            content.update(array.tobytes())
        return content.hexdigest()[:16]


class MultiplyCases:
    """Which blocks of the group `multiply` hold which kind of numbers."""

    small_integers = slice(0, 4)
    large_integers = slice(4, 8)
    one_size = slice(8, 24)
    many_sizes = slice(24, 48)
    large_c = slice(48, 56)
    subnormal_products = slice(56, 64)
    subnormal_inputs = slice(64, 72)
    not_finite = slice(72, 76)
    count = 76


def _bits16(generator: np.random.RandomState, *shape: int) -> np.ndarray:
    """Distinct 16-bit patterns, as uint16."""
    count = int(np.prod(shape))
    return generator.permutation(1 << 16)[:count].astype(np.uint16).reshape(shape)


def _row_layouts(generator: np.random.RandomState) -> list[np.ndarray]:
    """Byte offsets of 32 different rows inside the window, one array per layout."""
    lane = np.arange(LANES)
    linear = lane % 16 * 256 + lane // 16 * ROW_BYTES
    padded = lane % 16 * 272 + lane // 16 * ROW_BYTES
    interleaved = lane * ROW_BYTES
    shuffled = [generator.permutation(WINDOW_BYTES // ROW_BYTES)[:LANES] * ROW_BYTES for _ in range(3)]
    return [linear, padded, interleaved, *shuffled]


def load_matrices() -> Group:
    """ldmatrix: the row layouts, rows named by several lanes, and one row named by all."""
    generator = np.random.RandomState(1)
    contents = _bits16(generator, WINDOW_BYTES // 2).view(np.uint32)
    repeated = generator.randint(0, WINDOW_BYTES // ROW_BYTES // 16, LANES) * ROW_BYTES
    same = np.full(LANES, 5 * ROW_BYTES)
    rows = np.array([*_row_layouts(generator), repeated, same], dtype=np.uint32)
    outputs = {"registers": ((len(rows), LOAD_REGISTERS, LANES), "uint32")}
    return Group("load_matrices", {"contents": contents, "rows": rows}, outputs, len(rows), WINDOW_BYTES)


def store_matrices() -> Group:
    """stmatrix: the row layouts."""
    generator = np.random.RandomState(2)
    rows = np.array(_row_layouts(generator), dtype=np.uint32)
    registers = _bits16(generator, len(rows), 4, LANES, 2).view(np.uint32)[..., 0]
    outputs = {"windows": ((len(rows), STORE_VARIANTS, WINDOW_BYTES // 4), "uint32")}
    inputs = {"registers": np.ascontiguousarray(registers), "rows": rows}
    return Group("store_matrices", inputs, outputs, len(rows), WINDOW_BYTES)


def transpose_registers() -> Group:
    """movmatrix."""
    matrix = _bits16(np.random.RandomState(3), 4, LANES, 2).view(np.uint32)[..., 0]
    outputs = {"transposed": ((4, LANES), "uint32")}
    return Group("transpose_registers", {"matrix": np.ascontiguousarray(matrix)}, outputs, 4)


def copy_async() -> Group:
    """cp.async: slots in order, spread, shuffled, sources shared by lanes; all, none or some lanes valid."""
    generator = np.random.RandomState(4)
    source = _bits16(generator, SOURCE_BYTES // 2).view(np.uint32)
    lane = np.arange(LANES)
    shuffled = [generator.permutation(COPY_SLOTS)[:LANES] for _ in range(4)]
    destinations = [lane, lane * 3, shuffled[0], shuffled[1], lane]
    sources = [lane, lane, shuffled[2], shuffled[3], lane // 4]
    some = generator.randint(0, 2, (3, LANES))
    valid = [np.ones(LANES), np.zeros(LANES), *some]
    inputs = {
        "source": source,
        "source_slots": np.array(sources, dtype=np.uint32),
        "destination_slots": np.array(destinations, dtype=np.uint32),
        "valid": np.array(valid, dtype=np.uint32),
    }
    outputs = {"windows": ((len(sources), COPY_VARIANTS, COPY_WINDOW_BYTES // 4), "uint32")}
    return Group("copy_async", inputs, outputs, len(sources), COPY_WINDOW_BYTES)


def _bf16_bits(values: np.ndarray) -> np.ndarray:
    """The nearest bf16 bits of float32 values that are finite or infinite, as uint16."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def _numbers(generator: np.random.RandomState, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers between -4 and 4 with 18 binary places."""
    return generator.randint(-(1 << 20), (1 << 20) + 1, shape) / (1 << 18)


def _scaled(generator: np.random.RandomState, shape: tuple[int, ...], low: int, high: int) -> np.ndarray:
    """Such numbers, each times 2 to a power drawn from low .. high."""
    return np.ldexp(_numbers(generator, shape), generator.randint(low, high + 1, shape))


def multiply() -> Group:
    """mma.

    Integers whose sums are exact in float32 whatever the order; then random numbers of one size, of many
    sizes, under a large c, with subnormal products, with subnormal inputs; last, infinities and NaN.
    """
    generator = np.random.RandomState(5)
    a_shape = (MultiplyCases.count, 4, LANES, 2)
    b_shape = (MultiplyCases.count, 2, LANES, 2)
    c_shape = (MultiplyCases.count, 4, LANES)
    a = _numbers(generator, a_shape)
    b = _numbers(generator, b_shape)
    c = _numbers(generator, c_shape)

    small = MultiplyCases.small_integers
    a[small] = generator.randint(-8, 9, a[small].shape)
    b[small] = generator.randint(-8, 9, b[small].shape)
    c[small] = generator.randint(-1000, 1001, c[small].shape)
    large = MultiplyCases.large_integers  # sums up to 16 * 2^16 + 2^20 = 2^21, below float32's 2^24
    a[large] = generator.randint(-256, 257, a[large].shape)
    b[large] = generator.randint(-256, 257, b[large].shape)
    c[large] = generator.randint(-(1 << 20), (1 << 20) + 1, c[large].shape)

    many_sizes = MultiplyCases.many_sizes
    a[many_sizes] = _scaled(generator, a[many_sizes].shape, -8, 8)
    b[many_sizes] = _scaled(generator, b[many_sizes].shape, -8, 8)
    c[many_sizes] = _scaled(generator, c[many_sizes].shape, -16, 16)
    c[MultiplyCases.large_c] *= 1000
    tiny_products = MultiplyCases.subnormal_products
    a[tiny_products] = _scaled(generator, a[tiny_products].shape, -72, -64)
    b[tiny_products] = _scaled(generator, b[tiny_products].shape, -72, -64)
    c[tiny_products] = _scaled(generator, c[tiny_products].shape, -142, -130)
    tiny_inputs = MultiplyCases.subnormal_inputs
    a[tiny_inputs] = _scaled(generator, a[tiny_inputs].shape, -132, -126)
    b[tiny_inputs] = _scaled(generator, b[tiny_inputs].shape, 0, 40)
    c[tiny_inputs] = _scaled(generator, c[tiny_inputs].shape, -120, -80)

    first = MultiplyCases.not_finite.start
    a[first, 0, :8] = np.inf
    a[first + 1, 0, :8] = -np.inf
    b[first + 1, 0, 3] = 0
    c[first + 2, :, ::3] = np.inf
    c[first + 3, :, ::3] = np.nan
    inputs = {
        "a": np.ascontiguousarray(_bf16_bits(a).view(np.uint32)[..., 0]),
        "b": np.ascontiguousarray(_bf16_bits(b).view(np.uint32)[..., 0]),
        "c": c.astype(np.float32),
    }
    return Group("multiply", inputs, {"d": (c_shape, "float32")}, MultiplyCases.count)


def _interesting_floats(generator: np.random.RandomState, count: int) -> np.ndarray:
    """float32 numbers at which rounding, 2^x or 1/sqrt(x) could go wrong, and random bit patterns."""
    zero_to_infinity = [
        0,
        1,
        0x7F,
        0x8000,
        0x8001,
        0x7FFFFF,
        0x800000,
        0x7F7F7FFF,
        0x7F7F8000,
        0x7F7FFFFF,
        0x7F800000,
    ]
    not_a_number = [0x7F800001, 0x7F80FFFF, 0x7FBFFFFF, 0x7FC00000, 0x7FC12345, 0x7FFFFFFF]
    upper_halves = generator.randint(0, 0x7F80, 64)
    ties = [(half << 16) + low for half in upper_halves for low in (0x7FFF, 0x8000, 0x8001)]
    subnormal = generator.randint(1, 0x800000, 32)
    bits = np.concatenate([zero_to_infinity, not_a_number, ties, subnormal]).astype(np.uint32)
    numbers = [
        np.arange(-302, 270) / 2,
        generator.randint(-20 << 16, 0, 256) / (1 << 16),  # what a gate's 2^x is taken of
        generator.randint(-150 << 12, 130 << 12, 256) / (1 << 12),  # from below the subnormals to overflow
        generator.randint(0, 4 << 20, 128) / (1 << 20),
    ]
    chosen = [bits, bits | np.uint32(0x80000000), *(x.astype(np.float32).view(np.uint32) for x in numbers)]
    remaining = count - sum(len(part) for part in chosen)
    random = generator.randint(0, 1 << 32, remaining, dtype=np.uint32)
    return generator.permutation(np.concatenate([*chosen, random])).view(np.float32)


def convert() -> Group:
    """Rounding to bf16, widening from it, 2^x and 1/sqrt(x)."""
    generator = np.random.RandomState(6)
    count = 2048
    values = _interesting_floats(generator, count)
    inputs = {
        "values": values,
        "others": generator.permutation(values.view(np.uint32)).view(np.float32),
        "pairs": generator.randint(0, 1 << 32, count, dtype=np.uint32),
    }
    outputs = {name: ((count,), "float32") for name in ("exp2", "rsqrt")}
    outputs |= {"packed": ((count,), "uint32"), "rounded": ((count,), "uint16")}
    outputs |= {name: ((count,), "float32") for name in ("low", "high", "one")}
    return Group("convert", inputs, outputs, count // LANES)


def groups() -> list[Group]:
    """All launches of fragments.cu."""
    return [load_matrices(), store_matrices(), transpose_registers(), copy_async(), multiply(), convert()]
