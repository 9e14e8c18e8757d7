"""Where element (row, column) of a tile lives in shared memory: a small layout algebra.

A layout cuts the row index and the column index into digits, as a clock cuts seconds into hours, minutes
and seconds. Every digit has a stride, and an element's place is the sum of digit times stride. A swizzle
may then flip a few bits of the byte offset. Plain rows, padded rows, interleaved core matrices and the
SW32, SW64 and SW128 layouts of Hopper's tensor cores differ only in their digits and their swizzle.

Rows are the M or N coordinate of an operand, columns the K coordinate: "K-major" means that neighbours
along a row are neighbours in memory, "MN-major" that neighbours along a column are. `kernels/layouts.cuh`
says the same in C++; tests compare the two with each other and with tables printed by CUTLASS's own code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..ground.errors import BadInput
from ..ground.given import one_of, whole
from .given import whole_numbers
from .limits import BANK_BYTES, BANKS

CORE_ROWS = 8
CORE_BYTES = 16  # a core matrix, the unit that ldmatrix moves, is 8 rows of 16 bytes
Major = Literal["K", "MN"]
Direction = Literal["rows", "columns"]


@dataclass(frozen=True)
class Digit:
    """One digit of an index: it counts 0 .. count - 1, and each step moves `stride` elements in memory."""

    count: int
    stride: int


@dataclass(frozen=True)
class Swizzle:
    """Flips `bits` bits of a byte offset, from bit `base` up, by the bits that lie `shift` places higher.

    This is CuTe's `Swizzle<bits, base, shift>` with offsets counted in bytes. Zero bits change nothing.
    """

    bits: int = 0
    base: int = 4
    shift: int = 3

    def apply(self, offset: NDArray[np.int64]) -> NDArray[np.int64]:
        """The swizzled byte offsets; applying it twice gives the first offsets back."""
        source = (offset >> (self.base + self.shift)) & ((1 << self.bits) - 1)
        return offset ^ (source << self.base)


@dataclass(frozen=True)
class Layout:
    """A tile of `shape` (rows, columns) in shared memory. Digits run from the innermost outwards."""

    name: str
    row_digits: tuple[Digit, ...]
    column_digits: tuple[Digit, ...]
    element_bytes: int
    swizzle: Swizzle = Swizzle()

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the tile."""
        rows = int(np.prod([digit.count for digit in self.row_digits]))
        columns = int(np.prod([digit.count for digit in self.column_digits]))
        return rows, columns

    @property
    def size(self) -> int:
        """Bytes that the tile takes, the padding behind the last row included."""
        return (
            max(digit.count * digit.stride for digit in self.row_digits + self.column_digits)
            * self.element_bytes
        )

    def offset(self, row: ArrayLike, column: ArrayLike) -> NDArray[np.int64]:
        """Byte offset of element (row, column) from the start of the tile; arrays broadcast.

        Raises BadInput when an index lies outside the tile.
        """
        rows, columns = self.shape
        elements = _place(row, self.row_digits, "row", rows) + _place(
            column, self.column_digits, "column", columns
        )
        return self.swizzle.apply(elements * self.element_bytes)

    def offsets(self) -> NDArray[np.int64]:
        """Byte offsets of the whole tile, int64 [rows, columns]."""
        rows, columns = self.shape
        return self.offset(np.arange(rows)[:, None], np.arange(columns)[None, :])

    def bank(self, row: ArrayLike, column: ArrayLike) -> NDArray[np.int64]:
        """The bank, 0 to 31, that holds element (row, column) of a tile that starts at bank 0."""
        return self.offset(row, column) // BANK_BYTES % BANKS

    def transposed(self) -> Layout:
        """The same bytes read as the transposed tile: element (row, column) is here (column, row)."""
        return replace(
            self,
            name=f"{self.name} transposed",
            row_digits=self.column_digits,
            column_digits=self.row_digits,
        )


def plain(rows: int, columns: int, element_bytes: int = 2) -> Layout:
    """Row after row without a gap."""
    return replace(padded(rows, columns, columns, element_bytes), name="plain")


def padded(rows: int, columns: int, pitch: int, element_bytes: int = 2) -> Layout:
    """Rows that start `pitch` elements apart; the `pitch - columns` elements behind each row stay unused."""
    _check_tile(rows, columns, element_bytes)
    if whole("pitch", pitch, 1) < columns:
        raise BadInput(
            f"a pitch of {pitch} was given for rows of {columns} elements: make it {columns} or more"
        )
    return Layout(f"padded to {pitch}", (Digit(rows, pitch),), (Digit(columns, 1),), element_bytes)


def interleaved(
    rows: int, columns: int, *, major: Major = "K", atoms_first: Direction = "rows", element_bytes: int = 2
) -> Layout:
    """Core matrices of 8 rows of 16 contiguous bytes, 128 bytes each, one after the other (CuTe's INTER).

    The eight rows of a core matrix fall in all 32 banks, so ldmatrix and stmatrix meet no conflict.
    """
    return _atoms(rows, columns, CORE_BYTES, major, atoms_first, element_bytes)


def swizzled(
    rows: int,
    columns: int,
    width: int,
    *,
    major: Major = "K",
    atoms_first: Direction = "rows",
    element_bytes: int = 2,
) -> Layout:
    """Atoms of 8 rows of `width` = 32, 64 or 128 bytes, their 16-byte chunks permuted (CuTe's SW32 ...).

    `atoms_first` says in which direction the second atom lies: along the rows or along the columns.
    """
    width = one_of("the width of a swizzle, in bytes,", width, (32, 64, 128))
    return _atoms(rows, columns, width, major, atoms_first, element_bytes)


def _atoms(
    rows: int, columns: int, width: int, major: Major, atoms_first: Direction, element_bytes: int
) -> Layout:
    """Atoms of 8 rows (columns if MN-major) of `width` bytes, laid one after the other over the tile."""
    if isinstance(major, str) and major == "MN":
        along = {"rows": "columns", "columns": "rows"}
        transposed_order = along[one_of("atoms_first", atoms_first, tuple(along))]
        dual = _atoms(columns, rows, width, "K", transposed_order, element_bytes).transposed()
        return replace(dual, name=_atom_name("MN", width))
    one_of("major", major, ("K", "MN"))
    one_of("atoms_first", atoms_first, ("rows", "columns"))
    _check_tile(rows, columns, element_bytes)
    atom_columns = width // element_bytes
    if rows % CORE_ROWS or columns % atom_columns:
        raise BadInput(
            f"a {rows} x {columns} tile was given for atoms of {CORE_ROWS} x {atom_columns} elements: "
            "make both sides multiples of the atom's"
        )
    atoms_down = rows // CORE_ROWS
    atoms_across = columns // atom_columns
    atom_elements = CORE_ROWS * atom_columns
    if atoms_first == "rows":
        down_stride = atom_elements
        across_stride = atom_elements * atoms_down
    else:
        down_stride = atom_elements * atoms_across
        across_stride = atom_elements
    return Layout(
        name=_atom_name("K", width),
        row_digits=(Digit(CORE_ROWS, atom_columns), Digit(atoms_down, down_stride)),
        column_digits=(Digit(atom_columns, 1), Digit(atoms_across, across_stride)),
        element_bytes=element_bytes,
        swizzle=Swizzle(bits=(width // CORE_BYTES).bit_length() - 1),
    )


def _atom_name(major: Major, width: int) -> str:
    """CuTe's name without its Layout_ prefix, such as K_INTER or MN_SW128."""
    return f"{major}_INTER" if width == CORE_BYTES else f"{major}_SW{width}"


def _place(index: ArrayLike, digits: tuple[Digit, ...], what: str, count: int) -> NDArray[np.int64]:
    """Elements that the index contributes to an element's place."""
    rest = whole_numbers(f"the {what}", index).astype(np.int64)
    if rest.size and (rest.min() < 0 or rest.max() >= count):
        raise BadInput(
            f"{what} indices from {rest.min()} to {rest.max()} were given for a tile of {count} {what}s: "
            f"stay within 0 to {count - 1}"
        )
    place = np.zeros_like(rest)
    for digit in digits:
        place = place + rest % digit.count * digit.stride
        rest = rest // digit.count
    return place


def _check_tile(rows: int, columns: int, element_bytes: int) -> None:
    """Raises BadInput unless the tile has elements of a size that shared memory is read in."""
    whole("the number of rows", rows, 1)
    whole("the number of columns", columns, 1)
    one_of("element_bytes", element_bytes, (1, 2, 4, 8, 16))
