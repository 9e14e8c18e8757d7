"""Layouts against CUTLASS's tables, against layouts.cuh, and against what is known of them."""

import gzip
import json
import shutil
import subprocess

import numpy as np
import pytest
from paths import TESTS

from kda_learn.ground.errors import BadInput
from kda_learn.ground.files import KERNELS
from kda_learn.hardware import layouts
from kda_learn.hardware.layouts import Layout, Swizzle

BF16_BYTES = 2
TABLES = TESTS / "data" / "cute_layouts.json.gz"
CUTE = json.loads(gzip.decompress(TABLES.read_bytes()))["layouts"]
ATOMS_FIRST = {"Step<_1,_2>": "rows", "Step<_2,_1>": "columns"}

ALL_LAYOUTS = [
    layouts.plain(16, 128),
    layouts.plain(16, 128, element_bytes=4),
    layouts.padded(16, 128, 130),
    layouts.padded(16, 128, 136),
    layouts.padded(16, 128, 132, element_bytes=4),
    layouts.interleaved(16, 128),
    layouts.interleaved(128, 16, major="MN"),
    layouts.interleaved(16, 32, element_bytes=4),
    layouts.swizzled(128, 128, 32),
    layouts.swizzled(64, 64, 64, major="MN", atoms_first="columns"),
    layouts.swizzled(128, 128, 128),
    layouts.swizzled(16, 128, 128, element_bytes=1),
]


def cute_layout(name: str, shape: list[int], tile_order: str) -> Layout:
    """The layout that CUTLASS calls Layout_<name>_Atom, tiled to a shape."""
    major, kind = name.split("_")
    order = ATOMS_FIRST[tile_order]
    if kind == "INTER":
        return layouts.interleaved(*shape, major=major, atoms_first=order)
    return layouts.swizzled(*shape, int(kind.removeprefix("SW")), major=major, atoms_first=order)


@pytest.mark.parametrize("table", CUTE, ids=lambda t: f"{t['layout']}-{t['shape']}-{t['tile_order']}")
def test_matches_what_cutlass_prints(table):
    layout = cute_layout(table["layout"], table["shape"], table["tile_order"])
    expected = np.cumsum(table["steps"], axis=1) * BF16_BYTES
    assert np.array_equal(layout.offsets(), expected)
    assert layout.name == table["layout"]


def test_tables_cover_every_layout_in_both_orders():
    kinds = {(table["layout"], table["tile_order"]) for table in CUTE}
    names = [f"{major}_{kind}" for major in ("K", "MN") for kind in ("INTER", "SW32", "SW64", "SW128")]
    assert kinds == {(name, order) for name in names for order in ATOMS_FIRST}


@pytest.mark.parametrize("layout", ALL_LAYOUTS, ids=lambda layout: layout.name)
def test_elements_have_places_of_their_own(layout):
    offsets = np.sort(layout.offsets().ravel())
    assert offsets[0] == 0
    assert np.all(np.diff(offsets) >= layout.element_bytes)
    assert offsets[-1] + layout.element_bytes <= layout.size
    rows, columns = layout.shape
    if not layout.name.startswith("padded"):
        assert layout.size == rows * columns * layout.element_bytes


def test_padding_counts_into_the_size():
    assert layouts.padded(16, 128, 130).size == 16 * 130 * 2
    assert layouts.padded(16, 128, 132, element_bytes=4).size == 16 * 132 * 4


@pytest.mark.parametrize("layout", ALL_LAYOUTS, ids=lambda layout: layout.name)
def test_transposed_is_the_same_bytes(layout):
    assert np.array_equal(layout.transposed().offsets(), layout.offsets().T)
    assert layout.transposed().shape == layout.shape[::-1]


def test_mn_major_is_the_transposed_k_major_tile():
    rows_of_tokens = layouts.interleaved(16, 128)
    features_by_tokens = layouts.interleaved(128, 16, major="MN", atoms_first="columns")
    assert np.array_equal(rows_of_tokens.transposed().offsets(), features_by_tokens.offsets())


def test_bank_of_a_core_matrix():
    """Its eight rows of four words fill the 32 banks once; plain rows of 256 bytes meet in four of them."""
    chunks = np.arange(0, 8, 2)
    rows = np.arange(8)[:, None]
    assert sorted(layouts.interleaved(16, 128).bank(rows, chunks).ravel()) == list(range(32))
    assert set(layouts.plain(16, 128).bank(rows, chunks).ravel()) == {0, 1, 2, 3}


def test_banks_are_whole_numbers_that_come_again_every_128_bytes():
    banks = layouts.plain(2, 64, element_bytes=4).bank([[0], [1]], np.arange(64))
    assert np.array_equal(banks, [[*range(32), *range(32)]] * 2)
    assert layouts.plain(1, 64).bank(0, [0, 1, 2, 3, 63]).tolist() == [0, 0, 1, 1, 31]


@pytest.mark.parametrize("element_bytes", [1, 2, 4, 8, 16])
def test_the_smallest_tile_of_every_element(element_bytes):
    layout = layouts.plain(1, 1, element_bytes)
    assert (layout.shape, layout.size, layout.offsets().tolist()) == ((1, 1), element_bytes, [[0]])


def test_small_integers_as_indices_do_not_overflow():
    rows = np.arange(16, dtype=np.uint8)
    offsets = layouts.plain(16, 128).offset(rows, 127)
    assert offsets.tolist() == [row * 256 + 254 for row in range(16)]
    assert offsets.dtype == layouts.plain(16, 128).offset(3, 4).dtype == np.int64


def test_names_say_what_a_layout_is():
    assert layouts.plain(16, 128).name == "plain"
    assert layouts.padded(16, 128, 130).name == "padded to 130"
    assert layouts.padded(16, 128, 130).transposed().name == "padded to 130 transposed"


def test_swizzle_undoes_itself():
    offsets = np.arange(4096)
    for swizzle in (Swizzle(), Swizzle(1), Swizzle(2), Swizzle(3), Swizzle(3, shift=4)):
        assert np.array_equal(swizzle.apply(swizzle.apply(offsets)), offsets)
        assert np.array_equal(np.sort(swizzle.apply(offsets)), offsets)
    assert np.array_equal(Swizzle().apply(offsets), offsets)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: layouts.padded(16, 128, 120), "pitch of 120"),
        (lambda: layouts.plain(0, 128), "number of rows is 0"),
        (lambda: layouts.padded(16, 0, 8), "number of columns is 0"),
        *(
            (lambda size=size: layouts.plain(16, 128, size), f"element_bytes is {size}")
            for size in (0, 3, 5, 9, 17, 32)
        ),
        (lambda: layouts.interleaved(12, 128), "12 x 128 tile"),
        (lambda: layouts.swizzled(16, 128, 48), "in bytes, is 48: give 32, 64 or 128"),
        (lambda: layouts.swizzled(16, 32, 128), "16 x 32 tile"),
        (lambda: layouts.interleaved(16, 128, major="M"), "major is 'M'"),
        (lambda: layouts.interleaved(16, 128, atoms_first="K"), "atoms_first is 'K'"),
        (lambda: layouts.interleaved(128, 16, major="MN", atoms_first="K"), "atoms_first is 'K'"),
        (lambda: layouts.plain(16, 128).offset(16, 0), "row indices"),
        (lambda: layouts.plain(16, 128).bank(0, -1), "column indices"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(BadInput, match=words):
        call()


@pytest.fixture(scope="module")
def dumped(tmp_path_factory) -> list[list[str]]:
    """What kernels/lab/layouts_dump.cpp prints, line by line, word by word."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler here")
    program = tmp_path_factory.mktemp("layouts") / "dump"
    source = KERNELS / "lab" / "layouts_dump.cpp"
    subprocess.run([compiler, "-std=c++20", "-w", f"-I{KERNELS}", source, "-o", program], check=True)
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return [line.split() for line in printed.splitlines()]


def python_layout(name: str, number: int, rows: int, columns: int, element_bytes: int) -> Layout:
    """The layout of layouts.py that stands for one of layouts.cuh."""
    if name == "Rows":
        return layouts.padded(rows, columns, number, element_bytes)
    if name == "Interleaved":
        return layouts.interleaved(rows, columns)
    return layouts.swizzled(rows, columns, 16 << number)


def test_cpp_layouts_are_the_python_layouts(dumped):
    assert {words[0] for words in dumped} == {"Rows", "Interleaved", "Swizzled"}
    for words in dumped:
        number, rows, columns, element_bytes, next_16_columns, next_16_rows, *offsets = map(int, words[1:])
        expected = python_layout(words[0], number, rows, columns, element_bytes).offsets()
        assert np.array_equal(np.array(offsets).reshape(rows, columns), expected), words[:5]
        if next_16_columns:
            assert np.all(expected[:, 16:] - expected[:, :-16] == next_16_columns), words[:5]
            assert np.all(expected[16:] - expected[:-16] == next_16_rows), words[:5]
