"""Who holds what in a tensor-core product: element (row, column) <-> lane, register, half of the register.

A warp multiplies A (16 x 16) by B (16 x 8) into C (16 x 8) with `mma.m16n8k16`: bf16 operands, fp32
accumulators. No lane sees a whole tile; each of the 32 lanes holds a few elements in its registers. Every
fragment is made of 8x8 matrices ("core matrices"), and one rule covers them all: in a core matrix a lane
holds two neighbours of one row, row lane / 4, columns 2 * (lane % 4) and the next.

`ldmatrix` fills such registers from shared memory and `stmatrix` empties them: register i is core matrix i,
and lanes 8i .. 8i + 7 give the addresses of its eight rows of 16 bytes. `.trans` transposes each core matrix
on the way, and `movmatrix` does so between registers. Source: PTX ISA, "Matrix Fragments for mma.m16n8k16"
and the sections on ldmatrix, stmatrix and movmatrix.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from ..ground.given import one_of, whole
from .limits import LANES

CORE = 8  # rows, and columns, of a core matrix
FragmentName = Literal["A", "B", "C"]


class Owner(NamedTuple):
    """Where an element is held: which lane, which of its registers, which 16-bit half (0 low, 1 high)."""

    lane: int
    register: int
    half: int


class Place(NamedTuple):
    """An element's row and column."""

    row: int
    column: int


class MatrixRow(NamedTuple):
    """How a matrix instruction reaches an element in shared memory."""

    row: int  # row of the stored tile
    column: int  # column of the stored tile
    matrix: int  # which core matrix of the instruction, and so which register
    address_lane: int  # the lane that gives the address of the 16-byte row


@dataclass(frozen=True)
class Fragment:
    """One operand of mma.m16n8k16: its shape, its axes, and the registers of a lane."""

    name: FragmentName
    rows: int
    columns: int
    axes: tuple[str, str]  # what rows and columns are called in the product C[m][n] += A[m][k] B[k][n]
    registers: int
    halves: int  # elements in a register: 2 for bf16, 1 for fp32
    prefix: str  # PTX calls the registers a0.., b0.., c0..


FRAGMENTS: dict[str, Fragment] = {
    "A": Fragment("A", 16, 16, ("m", "k"), registers=4, halves=2, prefix="a"),
    "B": Fragment("B", 16, 8, ("k", "n"), registers=2, halves=2, prefix="b"),
    "C": Fragment("C", 16, 8, ("m", "n"), registers=4, halves=1, prefix="c"),
}


def fragment_named(name: str) -> Fragment:
    """The fragment "A", "B" or "C"; BadInput names them otherwise."""
    return FRAGMENTS[one_of("fragment", name, tuple(FRAGMENTS))]


def core_owner(row: int, column: int, transposed: bool = False) -> tuple[int, int]:
    """Lane and half that hold element (row, column) of an 8x8 matrix; `transposed` is what `.trans` does."""
    if transposed:
        row, column = column, row
    return row * 4 + column // 2, column % 2


def core_element(lane: int, half: int, transposed: bool = False) -> Place:
    """Row and column, in the 8x8 matrix, of the element that a lane holds: the inverse of `core_owner`."""
    row, column = lane // 4, lane % 4 * 2 + half
    return Place(column, row) if transposed else Place(row, column)


def owner(fragment: FragmentName, row: int, column: int) -> Owner:
    """Which lane, register and half hold element (row, column) of fragment A, B or C.

    B is held transposed: its columns n run over the lanes as A's rows m do, so that both operands keep
    neighbours in k in one register. C is fp32: a register holds one element, and half is always 0.
    """
    shape = fragment_named(fragment)
    _check(row, shape.rows, f"rows of fragment {fragment}")
    _check(column, shape.columns, f"columns of fragment {fragment}")
    lane, half = core_owner(row % CORE, column % CORE, transposed=fragment == "B")
    lower, right = row // CORE, column // CORE
    if fragment == "A":
        return Owner(lane, 2 * right + lower, half)
    if fragment == "B":
        return Owner(lane, lower, half)
    return Owner(lane, 2 * lower + half, 0)


def element(fragment: FragmentName, lane: int, register: int, half: int = 0) -> Place:
    """Row and column of what a lane's register holds: the inverse of `owner`."""
    shape = fragment_named(fragment)
    _check(lane, LANES, "lanes of a warp")
    _check(register, shape.registers, f"registers of fragment {fragment}")
    _check(half, shape.halves, f"halves of a register of fragment {fragment}")
    if fragment == "A":
        row, column = core_element(lane, half)
        return Place(row + register % 2 * CORE, column + register // 2 * CORE)
    if fragment == "B":
        row, column = core_element(lane, half, transposed=True)
        return Place(row + register * CORE, column)
    row, column = core_element(lane, register % 2)
    return Place(row + register // 2 * CORE, column)


def packed_owner(row: int, column: int) -> Owner:
    """Where an element of C is once c0, c1 and c2, c3 are packed into pairs of bf16."""
    lane, register, _ = owner("C", row, column)
    return Owner(lane, register // 2, register % 2)


def matrix_row(fragment: FragmentName, row: int, column: int, transposed: bool = False) -> MatrixRow:
    """How ldmatrix (A, B) or stmatrix (C, packed) reaches element (row, column) in shared memory.

    The tile is stored so that the instruction delivers, or empties, exactly the registers of `owner`: plain
    with A as [m][k], B as [n][k], C as [m][n]; `transposed` (.trans) with A as [k][m], B as [k][n],
    C as [n][m]. A takes .x4, B and C take .x2.
    """
    held = packed_owner(row, column) if fragment == "C" else owner(fragment, row, column)
    across = (fragment == "B") != transposed
    stored_row, stored_column = (column, row) if across else (row, column)
    return MatrixRow(stored_row, stored_column, held.register, held.register * CORE + stored_row % CORE)


def after_movmatrix(row: int, column: int) -> Owner:
    """Where an element of C is after packing and `movmatrix`: in place as operand B of the next product.

    C's rows become B's rows k, so that the product just made is multiplied again without shared memory.
    """
    packed = packed_owner(row, column)
    lane, half = core_owner(*core_element(packed.lane, packed.half), transposed=True)
    return Owner(lane, packed.register, half)


def _check(index: int, count: int, what: str) -> None:
    """Raises BadInput when an index lies outside 0 .. count - 1."""
    whole(f"the index of one of the {count} {what}", index, 0, count - 1)
