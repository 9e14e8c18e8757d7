"""The lab kernels on the emulator: what they write is right, and their judges find planted faults."""

from dataclasses import replace

import numpy as np
import pytest
from lab_answers import products_of

from kda_learn.compilers.host import compiler
from kda_learn.ground.errors import MachineUnavailable
from kda_learn.kernel_a.problem import random_problem
from kda_learn.lab import banks, mma_ceiling, traffic_twin
from kda_learn.machines.launching import launch


@pytest.fixture(autouse=True)
def emulator():
    """Skips where there is no C++ compiler."""
    try:
        compiler()
    except MachineUnavailable as missing:
        pytest.skip(str(missing))


def judged(runnable, **options):
    """Launch on the emulator; returns the emulator's launch, and what the judge finds."""
    finished = launch(runnable, "emulator", **options)
    assert finished.faults == []
    return finished.launch, runnable.judge(runnable.written)


# ---- the traffic twin ----


@pytest.mark.parametrize("blocks", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_twin_moves_every_byte(dtype, blocks):
    source = traffic_twin.inputs(3)
    runnable = traffic_twin.runnable(source, blocks, dtype)
    assert judged(runnable)[1] == []
    target = runnable.written["target"]
    bytes_in, bytes_out = traffic_twin.tile_bytes(dtype)
    assert (source[0].nbytes, target[0].nbytes) == (bytes_in, bytes_out)
    for tile in range(3):
        assert np.array_equal(target[tile], traffic_twin.moved(source[tile], dtype))
        # Every piece that is read shows in what is written.
        assert np.array_equal(np.bitwise_xor.reduce(target[tile, :256]), np.bitwise_xor.reduce(source[tile]))


def test_the_twin_writes_where_it_is_told():
    source = traffic_twin.inputs(2, seed=3)
    target = np.zeros((2, traffic_twin.tile_bytes()[1] // 16, 4), np.uint32)
    assert judged(traffic_twin.runnable(source, 1, target=target))[1] == []
    assert target.any()


def test_a_tile_has_the_bytes_that_the_kernel_takes():
    """The inputs of a problem of one tile, and its snapshot."""
    problem = random_problem(lengths=[16])
    names = ("q", "k", "do", "gc", "beta", "inv", "mqk")
    read = sum(getattr(problem, name).nbytes for name in names)
    assert traffic_twin.tile_bytes() == (read, 128 * 128 * 4)
    assert traffic_twin.tile_bytes("bfloat16") == (read, 128 * 128 * 2)


# ---- the mma ceiling ----


@pytest.mark.parametrize("rounds", [0, 3])
def test_the_products_are_right(rounds):
    runnable = mma_ceiling.runnable(1, rounds, seed=1)
    assert judged(runnable)[1] == []
    found = runnable.written["target"]
    assert np.abs(found - products_of(runnable)).max() < 1e-4


def test_products_are_counted():
    launched, _ = judged(mma_ceiling.runnable(2, 3), trace=True)
    executed = sum(count for (_, _, operation), count in launched.counts.items() if "mma" in operation)
    assert executed == mma_ceiling.products(2, 3)


# ---- banks ----


def test_a_tile_is_written_by_rows_and_read_by_columns():
    runnable = banks.runnable()
    assert judged(runnable)[1] == []
    tile, copy = runnable.arguments
    rows, pieces, piece = banks.shape()
    by_rows = tile.reshape(rows, pieces, piece)
    for row, column in np.ndindex(rows, pieces):
        assert np.array_equal(copy[column, row], by_rows[row, column])


def test_the_tile_takes_less_than_it_is_given():
    assert banks.tile_bytes() == 16 * 64 * 2 < banks.GIVEN_BYTES


# ---- planted faults ----


def planted(runnable, folder, old, new):
    """The same launch of the kernel with one change in its source."""
    text = runnable.source.read_text()
    assert text.count(old) == 1
    path = folder / runnable.source.name
    path.write_text(text.replace(old, new))
    return replace(runnable, source=path)


@pytest.mark.parametrize(
    ("old", "new", "tiles"),
    [
        ("seen = mix(seen, ldg(from + i));", "seen = ldg(from + i);", [0, 2, 4]),
        ("make_uint4(seen.x + i, seen", "make_uint4(seen.x, seen", [0, 2, 4]),
        ("static_cast<unsigned long long>(tile) * PIECES_IN", "0ull * PIECES_IN", [2, 4]),
    ],
)
def test_a_twin_that_writes_something_else(tmp_path, old, new, tiles):
    runnable = traffic_twin.runnable(traffic_twin.inputs(5), 2)
    _, wrong = judged(planted(runnable, tmp_path, old, new))
    assert wrong == [f"tile {tile} of 5 holds something else than what was read" for tile in tiles]


def test_a_tile_that_the_twin_leaves_out(tmp_path):
    """The launch says that it was never written; the judge sees it too."""
    runnable = planted(
        traffic_twin.runnable(traffic_twin.inputs(2), 1), tmp_path, "tile < tiles", "tile + 1 < tiles"
    )
    finished = launch(runnable, "emulator")
    assert finished.faults == ["16384 of 32768 elements of target were never written"]
    assert runnable.judge(runnable.written) == ["tile 1 of 2 holds something else than what was read"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("negated(y.y)}}", "y.y}}"),
        ("{{x.x, x.y, x.z, x.w}}", "{{x.x, x.z, x.y, x.w}}"),
        ("x.r[2], x.r[3]", "x.r[3], x.r[2]"),
    ],
)
def test_products_that_are_wrong(tmp_path, old, new):
    _, (wrong,) = judged(planted(mma_ceiling.runnable(1, 2), tmp_path, old, new))
    assert "off after 2 rounds" in wrong


def test_a_tile_that_is_read_somewhere_else(tmp_path):
    old = "lds<uint4>(tile + at(row, col))"
    runnable = planted(banks.runnable(), tmp_path, old, old.replace("row", "row ^ 1"))
    assert judged(runnable)[1] == ["1024 of 1024 elements came back wrong"]


def test_a_layout_that_puts_two_pieces_in_one_place(tmp_path):
    """A single row of the tile is lost."""
    source = tmp_path / "banks.cu"
    old = "(row * COLS + col) * 2"
    source.write_text(banks.SOURCE.read_text().replace(old, "((row == 5 ? 4 : row) * COLS + col) * 2"))
    finished = launch(runnable := banks.runnable(source), "emulator")
    assert runnable.judge(runnable.written) == ["64 of 1024 elements came back wrong"]
    assert any("race" in fault for fault in finished.faults)
