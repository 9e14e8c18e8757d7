"""The views of the register-tiling explorer for dS, the state gradient: who owns it, how it is read."""

from ..hardware import fragments
from ..hardware.fragments import CORE, Owner
from ..hardware.layouts import BANK_BYTES, BANKS, CORE_BYTES, interleaved
from ..hardware.limits import LANES
from ..kernel_a.tiling import DS_COLUMNS, WARP_COLUMNS, WARPS, ds_owner
from .panels import WIDE_CELL, Route, View, grid, lanes, places, route, view

V_SPLITS = (1, 2, 4, 8)
TILE = 16
TILES = DS_COLUMNS // TILE
BF16_BYTES = 2
MATRICES = 4  # of a 16 x 16 tile


def ds_view() -> View:
    """dS over the warps: a route for each way of cutting v."""
    return view("dS", "dS over the warps", [], [_ds_route(v_split) for v_split in V_SPLITS], "VSplit")


def dual_view() -> View:
    """A 16 x 16 tile of dS, stored [v][k] in interleaved core matrices, read K-major and MN-major."""
    at = places(TILE, TILE)
    offsets = [int(offset) for offset in interleaved(DS_COLUMNS, DS_COLUMNS).offsets()[:TILE, :TILE].flat]
    plain = [_ds_read(v, k, transposed=False) for v, k in at]
    turned = [_ds_read(v, k, transposed=True) for v, k in at]
    # Either load gets its rows of 16 bytes from the same addresses: lane 8 m + v % 8 gives those of matrix m.
    address_lanes = [held.register * CORE + v % CORE for (v, _), held in zip(at, plain, strict=True)]
    chunks = sorted({offset // CORE_BYTES for offset in offsets})
    tiles = [
        grid(
            f"The tile, v down and k across: lanes after {name}",
            (TILE, TILE),
            at,
            axes=("v", "k"),
            label=[str(held.lane) for held in owners],
            colour=[held.register for held in owners],
            group=[held.lane for held in owners],
            offset=offsets,
            sentence=sentence,
        )
        for name, owners, sentence in (
            ("ldmatrix.x4", plain, "Element v {row}, k {column} of dS lies at byte {offset}."),
            ("ldmatrix.x4.trans", turned, ""),
        )
    ]
    plain_lanes = lanes(
        "After ldmatrix.x4: k along a register",
        plain,
        prefix="r",
        registers=MATRICES,
        halves=2,
        sentence="ldmatrix.x4 brings it to lane {lane}, r{register}, {half_name} half: K-major, "
        "operand B of G2.",
    )
    turned_lanes = lanes(
        "After ldmatrix.x4.trans: v along a register",
        turned,
        prefix="r",
        registers=MATRICES,
        halves=2,
        sentence="ldmatrix.x4.trans brings it to lane {lane}, r{register}, {half_name} half: MN-major, "
        "as the accumulators of G4 and G5 hold theirs.",
    )
    memory = grid(
        "The same bytes in memory, 16 in a row",
        (len(chunks), CORE),
        [(chunks.index(offset // CORE_BYTES), offset % CORE_BYTES // BF16_BYTES) for offset in offsets],
        axes=("byte", "+"),
        row_names=[str(chunk * CORE_BYTES) for chunk in chunks],
        column_names=[str(column * BF16_BYTES) for column in range(CORE)],
        label=[""] * len(offsets),
        colour=[held.register for held in plain],
        group=address_lanes,
        bank=[offset // BANK_BYTES % BANKS for offset in offsets],
        address_lane=address_lanes,
        sentence="That is bank {bank}; lane {address_lane} gives either load the address of its 16 bytes.",
    )
    note = (
        "The kernel stores dS once, as rows v in interleaved core matrices of 8 x 16 bytes, and reads it in "
        "two roles, from the same addresses: only .trans differs."
    )
    panels = [tiles[0], plain_lanes, tiles[1], turned_lanes, memory]
    return view("dual", "One byte, two readings", panels, [route("both", note)])


def _ds_route(v_split: int) -> Route:
    """dS cut into `v_split` blocks along v."""
    at = places(TILES, TILES)
    owners = [ds_owner(tile * WARP_COLUMNS, v_split) for _, tile in at]
    warps = [warp for _, warp in owners]
    labels = [f"w{warp}" for warp in warps]
    groups = [block * LANES + warp for block, warp in owners]
    tiles = grid(
        "dS, 128 x 128: a cell is a tile of 16 x 16",
        (TILES, TILES),
        at,
        axes=("k", "v"),
        label=labels,
        colour=warps,
        group=groups,
        step=TILE,
        cell_width=WIDE_CELL,
        cuts=TILES // v_split,
        first_k=[row * TILE for row, _ in at],
        last_k=[row * TILE + TILE - 1 for row, _ in at],
        first_v=[column * TILE for _, column in at],
        last_v=[column * TILE + TILE - 1 for _, column in at],
        sentence="Tile of rows k {first_k} to {last_k}, columns v {first_v} to {last_v}.",
    )
    blocks = grid(
        "The warps of the block" if v_split == 1 else "The warps of each block",
        (v_split, WARPS),
        owners,
        axes=("block", "warp"),
        label=labels,
        colour=warps,
        group=groups,
        cell_width=WIDE_CELL,
        empty="idle",
        sentence="Warp {column} of block {row} owns these 16 columns, in all 128 rows k.",
    )
    return route(str(v_split), _ds_note(v_split), tiles, blocks)


def _ds_note(v_split: int) -> str:
    """What cutting v does to the warps, in words."""
    if v_split == 1:
        return "One block has all of dS, and each of its 8 warps multiplies for 16 columns."
    busy = WARPS // v_split
    who = f"{busy} of the 8 warps multiply" if busy > 1 else "1 of the 8 warps multiplies"
    return (
        f"{v_split} blocks have {DS_COLUMNS // v_split} columns each. In every block {who}; "
        f"the other {WARPS - busy} are idle then, but all 256 threads rebuild qd, kd and kr."
    )


def _ds_read(v: int, k: int, transposed: bool) -> Owner:
    """Who gets element (v, k) of a 16 x 16 tile of dS from ldmatrix.x4, whose matrix i goes to register i."""
    lane, half = fragments.core_owner(v % CORE, k % CORE, transposed)
    return Owner(lane, v // CORE * 2 + k // CORE, half)
