"""The views of the register-tiling explorer for fragments A, B and C of mma.m16n8k16."""

from ..hardware import fragments
from ..hardware.fragments import FRAGMENTS, FragmentName
from .panels import Panel, Route, View, grid, lanes, places, route, view

BF16_BYTES = 2
PACKED = (
    "Neighbours are rounded to bf16 and packed first: c0 and c1 into one register, c2 and c3 into the next. "
)


def a_view() -> View:
    """Fragment A and the two loads that fill it."""
    return _fragment_view(
        "A",
        [
            route("in registers", "The left operand: 16 rows m, 16 columns k, two bf16 in a register."),
            route("ldmatrix.x4", "A lies in shared memory as rows m and is loaded as it is.", _stored("A")),
            route(
                "ldmatrix.x4.trans",
                "A lies in shared memory turned, as rows k: .trans turns each 8 x 8 matrix back on the way.",
                _stored("A", transposed=True),
            ),
        ],
    )


def b_view() -> View:
    """Fragment B and the two loads that fill it."""
    return _fragment_view(
        "B",
        [
            route(
                "in registers",
                "The right operand: 16 rows k, 8 columns n. As in A, a register holds two neighbours in k.",
            ),
            route("ldmatrix.x2", "B lies in shared memory as rows n and is loaded as it is.", _stored("B")),
            route(
                "ldmatrix.x2.trans",
                "B lies in shared memory as rows k: .trans turns each 8 x 8 matrix on the way.",
                _stored("B", transposed=True),
            ),
        ],
    )


def c_view() -> View:
    """The accumulator, the two stores that empty it, and the move that makes an operand of it."""
    shape = FRAGMENTS["C"]
    moved = [fragments.after_movmatrix(*place) for place in places(shape.rows, shape.columns)]
    as_b = lanes(
        "After movmatrix: operand B of the next product",
        moved,
        prefix="b",
        registers=2,
        halves=2,
        sentence="After movmatrix: lane {lane}, register {prefix}{register}, {half_name} half.",
    )
    return _fragment_view(
        "C",
        [
            route("in registers", "The accumulator: 16 rows m, 8 columns n, one fp32 in a register."),
            route("stmatrix.x2", f"{PACKED}They are stored as rows m.", _stored("C")),
            route(
                "stmatrix.x2.trans",
                f"{PACKED}They are stored turned, as rows n.",
                _stored("C", transposed=True),
            ),
            route(
                "movmatrix",
                f"{PACKED}movmatrix turns each 8 x 8 matrix between lanes, without shared memory: "
                "the rows m of C become the rows k of a B.",
                as_b,
            ),
        ],
    )


def _fragment_view(name: FragmentName, routes: list[Route]) -> View:
    """A fragment's tile and its registers, and what the routes add."""
    shape = FRAGMENTS[name]
    at = places(shape.rows, shape.columns)
    owners = [fragments.owner(name, row, column) for row, column in at]
    down, across = shape.axes
    tile = grid(
        f"{name}, {down} down and {across} across; a number is a lane",
        (shape.rows, shape.columns),
        at,
        axes=shape.axes,
        label=[str(held.lane) for held in owners],
        colour=[held.register for held in owners],
        group=[held.lane for held in owners],
        sentence=f"Element {down} {{row}}, {across} {{column}} of {name}:",
    )
    registers = lanes(
        f"The 32 lanes and their registers {shape.prefix}0 to {shape.prefix}{shape.registers - 1}",
        owners,
        prefix=shape.prefix,
        registers=shape.registers,
        halves=shape.halves,
        down_first=name == "A",
    )
    return view(name, f"{name}, {shape.rows} x {shape.columns}", [tile, registers], routes)


def _stored(name: FragmentName, transposed: bool = False) -> Panel:
    """The tile in shared memory, as ldmatrix finds it or stmatrix leaves it."""
    shape = FRAGMENTS[name]
    at = places(shape.rows, shape.columns)
    found = [fragments.matrix_row(name, row, column, transposed) for row, column in at]
    is_turned = (name == "B") != transposed
    axes = shape.axes[::-1] if is_turned else shape.axes
    rows, columns = (shape.columns, shape.rows) if is_turned else (shape.rows, shape.columns)
    return grid(
        f"In shared memory: rows {axes[0]} of {columns * BF16_BYTES} bytes",
        (rows, columns),
        [(one.row, one.column) for one in found],
        axes=axes,
        label=[str(fragments.owner(name, row, column).lane) for row, column in at],
        colour=[one.matrix for one in found],
        group=[one.address_lane for one in found],
        matrix=[one.matrix for one in found],
        address_lane=[one.address_lane for one in found],
        sentence=f"In shared memory: row {axes[0]} {{row}}, column {axes[1]} {{column}}, matrix {{matrix}} "
        "of the instruction; lane {address_lane} gives the address of these 16 bytes.",
    )
