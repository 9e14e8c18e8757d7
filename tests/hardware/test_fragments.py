"""Ownership of tensor-core fragments, against the PTX manual's formulas and against the CPU machine."""

import itertools

import numpy as np
import pytest

from kda_learn.ground.errors import BadInput
from kda_learn.ground.files import KERNELS
from kda_learn.hardware import fragments
from kda_learn.hardware.fragments import FRAGMENTS
from kda_learn.hardware.limits import LANES
from kda_learn.kernel_a.tiling import ds_owner
from kda_learn.machines import emulator

NAMES = sorted(FRAGMENTS)


def manual_place(name: str, lane: int, i: int) -> tuple[int, int]:
    """Row and column of element i of a lane, as the PTX manual's section on mma.m16n8k16 has them."""
    group_id = lane >> 2
    thread_in_group = lane % 4
    if name == "A":
        row = group_id if i < 2 or 4 <= i < 6 else group_id + 8
        return row, thread_in_group * 2 + (i & 1) + (0 if i < 4 else 8)
    if name == "B":
        return thread_in_group * 2 + (i & 1) + (0 if i < 2 else 8), group_id
    return group_id + (0 if i < 2 else 8), thread_in_group * 2 + (i & 1)


@pytest.mark.parametrize("name", NAMES)
def test_elements_lie_where_the_ptx_manual_puts_them(name):
    shape = FRAGMENTS[name]
    for lane, i in itertools.product(range(LANES), range(shape.registers * shape.halves)):
        assert fragments.element(name, lane, *divmod(i, shape.halves)) == manual_place(name, lane, i)


@pytest.mark.parametrize("name", NAMES)
def test_owner_is_the_inverse_of_element(name):
    shape = FRAGMENTS[name]
    places = list(itertools.product(range(shape.rows), range(shape.columns)))
    owners = {fragments.owner(name, *place) for place in places}
    assert len(owners) == len(places) == LANES * shape.registers * shape.halves
    for place in places:
        assert fragments.element(name, *fragments.owner(name, *place)) == place


@pytest.mark.parametrize("transposed", [False, True])
def test_core_element_is_the_inverse_of_core_owner(transposed):
    for row, column in itertools.product(range(8), range(8)):
        lane, half = fragments.core_owner(row, column, transposed)
        assert fragments.core_element(lane, half, transposed) == (row, column)


def move_matrices(name: str, transposed: bool) -> np.ndarray:
    """Which stored element each register holds, by the manual's words for ldmatrix and stmatrix.

    Registers [lane][register][half], holding row * 64 + column of the stored tile. The instruction's rows are
    those that `matrix_row` says: lane 8 i + r gives the address of row r of matrix i.
    """
    shape = FRAGMENTS[name]
    row_of_lane = np.full((LANES, 2), -1)
    for place in itertools.product(range(shape.rows), range(shape.columns)):
        found = fragments.matrix_row(name, *place, transposed)
        row_of_lane[found.address_lane] = found.row, found.column // 8 * 8
    matrices = LANES // 8 if name == "A" else 2
    registers = np.full((LANES, matrices, 2), -1)
    for matrix, lane, half in itertools.product(range(matrices), range(LANES), range(2)):
        row, column = lane // 4, lane % 4 * 2 + half
        if transposed:
            row, column = column, row
        stored_row, first_column = row_of_lane[8 * matrix + row]
        registers[lane, matrix, half] = stored_row * 64 + first_column + column
    return registers


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_matrix_rows_deliver_what_the_fragment_holds(name, transposed):
    shape = FRAGMENTS[name]
    registers = move_matrices(name, transposed)
    for row, column in itertools.product(range(shape.rows), range(shape.columns)):
        held = fragments.packed_owner(row, column) if name == "C" else fragments.owner(name, row, column)
        is_turned = (name == "B") != transposed
        stored = column * 64 + row if is_turned else row * 64 + column
        assert registers[held.lane, held.register, held.half] == stored


def test_movmatrix_makes_operand_b_of_an_accumulator():
    for row, column in itertools.product(range(16), range(8)):
        assert fragments.after_movmatrix(row, column) == fragments.owner("B", row, column)


def test_movmatrix_turns_each_register_between_lanes():
    """The manual: lane l gets row l / 4 of the transposed matrix, columns 2 (l % 4) and the next."""
    for row, column in itertools.product(range(16), range(8)):
        packed = fragments.packed_owner(row, column)
        moved = fragments.after_movmatrix(row, column)
        assert moved.register == packed.register == row // 8
        assert fragments.core_element(packed.lane, packed.half) == (row % 8, column)
        assert fragments.core_element(moved.lane, moved.half) == (column, row % 8)


@pytest.mark.parametrize("v_split", [1, 2, 4, 8])
def test_every_warp_that_multiplies_owns_16_columns_of_ds(v_split):
    owners = [ds_owner(column, v_split) for column in range(128)]
    assert owners == [owners[column // 16 * 16] for column in range(128)]
    assert len(set(owners)) == 8
    assert {block for block, _ in owners} == set(range(v_split))
    assert {warp for _, warp in owners} == set(range(8 // v_split))


def test_nothing_is_transposed_and_the_low_half_is_meant_unless_said():
    assert fragments.core_owner(1, 2) == (5, 0)
    assert fragments.core_element(5, 0) == (1, 2)
    assert fragments.element("A", 0, 0) == (0, 0)
    assert fragments.matrix_row("A", 1, 2) == (1, 2, 0, 1)
    assert ds_owner(64) == (0, 4)


@pytest.mark.parametrize("name", NAMES)
def test_the_matrix_of_a_row_is_the_register_that_it_fills(name):
    for place in itertools.product(range(FRAGMENTS[name].rows), range(FRAGMENTS[name].columns)):
        held = fragments.packed_owner(*place) if name == "C" else fragments.owner(name, *place)
        assert fragments.matrix_row(name, *place).matrix == held.register


def test_blocks_and_warps_are_counted_in_whole_numbers():
    assert all(type(number) is int for number in ds_owner(100, v_split=4))
    assert ds_owner(127)[1] == 7


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fragments.owner("D", 0, 0), "give 'A', 'B' or 'C'"),
        (lambda: fragments.owner("B", 0, 8), "the 8 columns of fragment B is 8: .* from 0 to 7"),
        (lambda: fragments.owner("A", -1, 0), "the 16 rows of fragment A is -1: .* from 0 to 15"),
        (lambda: fragments.element("C", 0, 0, 1), "the 1 halves of a register of fragment C is 1: .* 0 to 0"),
        (lambda: fragments.element("B", 0, 2), "the 2 registers of fragment B is 2: .* 0 to 1"),
        (lambda: fragments.element("A", 32, 0), "the 32 lanes of a warp is 32: .* 0 to 31"),
        (lambda: ds_owner(0, 3), "v_split is 3: give 1, 2, 4 or 8"),
        (lambda: ds_owner(128), "column is 128: give a whole number from 0 to 127"),
    ],
)
def test_wrong_arguments_say_what_is_wanted(call, message):
    with pytest.raises(BadInput, match=message):
        call()


def bf16_bits(values: np.ndarray) -> np.ndarray:
    """Small integers as bf16, uint16."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def registers_of(name: str, matrix: np.ndarray) -> np.ndarray:
    """A matrix as the lanes' registers, [register][lane]: uint32 of two bf16, or float32 for C."""
    shape = FRAGMENTS[name]
    halves = np.zeros((shape.registers, LANES, shape.halves), matrix.dtype)
    for place in itertools.product(range(shape.rows), range(shape.columns)):
        held = fragments.owner(name, *place)
        halves[held.register, held.lane, held.half] = matrix[place]
    return halves.view(np.uint32)[..., 0] if shape.halves == 2 else halves[..., 0]


def launch(entry: str, *arrays: np.ndarray, shared_bytes: int = 0) -> None:
    """Runs one warp of a kernel of kernels/lab/fragments.cu on the CPU machine."""
    library = emulator.build(KERNELS / "lab" / "fragments.cu", entry)
    result = library.launch(list(arrays), (1, 1, 1), (LANES, 1, 1), shared_bytes)
    assert result.faults == []


def test_the_machine_multiplies_what_the_fragments_say():
    random = np.random.default_rng(0)
    a, b, c = (random.integers(-8, 9, size) for size in ((16, 16), (16, 8), (16, 8)))
    d = np.zeros((4, LANES), np.float32)
    launch(
        "multiply",
        registers_of("A", bf16_bits(a)),
        registers_of("B", bf16_bits(b)),
        registers_of("C", c.astype(np.float32)),
        d,
    )
    assert np.array_equal(d, registers_of("C", (a @ b + c).astype(np.float32)))


LOADS = {("B", False): 2, ("B", True): 4, ("A", False): 6, ("A", True): 10}  # first of their 14 registers
WINDOW_BYTES = 4608


@pytest.mark.parametrize(("name", "transposed"), LOADS)
def test_the_machine_loads_what_the_fragments_say(name, transposed):
    shape = FRAGMENTS[name]
    matrix = np.arange(shape.rows * shape.columns, dtype=np.uint16).reshape(shape.rows, shape.columns)
    stored = np.zeros((16, 16), np.uint16)
    rows = np.zeros(LANES, np.uint32)
    for place in itertools.product(range(shape.rows), range(shape.columns)):
        found = fragments.matrix_row(name, *place, transposed)
        stored[found.row, found.column] = matrix[place]
        rows[found.address_lane] = (found.row * 16 + found.column // 8 * 8) * 2
    contents = np.zeros(WINDOW_BYTES // 2, np.uint16)
    contents[: stored.size] = stored.ravel()
    registers = np.zeros((14, LANES), np.uint32)
    launch("load_matrices", contents.view(np.uint32), rows, registers, shared_bytes=WINDOW_BYTES)
    first = LOADS[name, transposed]
    assert np.array_equal(registers[first : first + shape.registers], registers_of(name, matrix))


def test_the_machine_moves_matrices_as_the_fragments_say():
    matrix = np.arange(16 * 8, dtype=np.uint16).reshape(16, 8)
    packed = np.zeros((2, LANES, 2), np.uint16)
    for place in itertools.product(range(16), range(8)):
        held = fragments.packed_owner(*place)
        packed[held.register, held.lane, held.half] = matrix[place]
    moved = np.zeros((2, LANES), np.uint32)
    library = emulator.build(KERNELS / "lab" / "fragments.cu", "transpose_registers")
    library.launch([packed.view(np.uint32)[..., 0].copy(), moved], (2, 1, 1), (LANES, 1, 1), 0)
    assert np.array_equal(moved, registers_of("B", matrix))
