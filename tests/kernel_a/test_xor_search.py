"""Chapter s12x's search: its layouts against plain loops, and the bound that none gets below."""

from functools import reduce
from operator import xor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kda_learn.hardware import layouts
from kda_learn.hardware.banks import wavefronts
from kda_learn.kernel_a import xor_search
from kda_learn.sources.stages import stage

chunk_bits = st.integers(0, 7)


def worst_read(masks: tuple[int, ...]) -> int:
    """Wavefronts of the worst of R1's reads of q: lane by lane, 32 lanes of 8 warps, 8 features each."""
    worst = 0
    for warp in range(8):
        for feature in range(8):
            words_of: dict[int, set[int]] = {}
            for lane in range(32):
                token = lane % 16
                column = 64 * (warp // 4) + 8 * (warp % 4) + 32 * (lane // 16) + feature
                chunk, inside = divmod(column, 8)
                for bit, mask in enumerate(masks):
                    if token & 1 << bit:
                        chunk ^= mask
                word = (token * 256 + chunk * 16 + inside * 2) // 4
                words_of.setdefault(word % 32, set()).add(word)
            worst = max(worst, *(len(words) for words in words_of.values()))
    return worst


@settings(max_examples=40, deadline=None)
@given(st.tuples(chunk_bits, chunk_bits, chunk_bits, chunk_bits))
def test_what_a_layout_takes(masks):
    assert xor_search.search().of(masks) == worst_read(masks)


def test_the_swizzle_of_the_tensor_cores_in_this_notation():
    """In rows of 128 bytes it moves chunk c of row r to where chunk c ^ flips(r) would lie."""
    places = layouts.swizzled(16, 64, 128).offset(np.arange(16)[:, None], np.arange(0, 64, 8)) // 16 % 8
    for row, chunk in np.ndindex(16, 8):
        flips = [mask for bit, mask in enumerate(xor_search.SW128) if row & 1 << bit]
        assert places[row, chunk] == reduce(xor, flips, chunk)


def test_no_linear_xor_gets_below_the_bound():
    found = xor_search.search()
    assert found.masks.shape == (4096, 4)
    assert len(np.unique(found.masks, axis=0)) == 4096
    assert found.best == xor_search.bound() == 4
    assert found.histogram == {4: 3360, 8: 720, 16: 16}
    assert found.of((0, 0, 0, 0)) == 16
    assert found.of(xor_search.SW128) == 4


def test_the_bound_belongs_to_16_byte_chunks():
    assert xor_search.bound(chunk_bytes=4) == 1
    assert xor_search.bound(chunk_bytes=8) == 2
    assert xor_search.bound(lanes=16) == 2


@settings(max_examples=50, deadline=None)
@given(st.permutations(range(256)), st.integers(0, 7))
def test_no_permutation_of_chunks_gets_below_the_bound(place: list[int], slot: int):
    """Any of the 256! layouts, and any 2 bytes of a chunk: R1's lanes want 32 different chunks."""
    lane = np.arange(32)
    chunk = lane % 16 * 16 + lane // 16 * 4
    addresses = np.array(place)[chunk] * 16 + slot * 2
    assert wavefronts([addresses], [0xFFFFFFFF], 2)[0] >= xor_search.bound()


@pytest.mark.parametrize(
    ("lanes", "chunk_bytes", "wanted"),
    [(32, 16, 4), (33, 16, 5), (31, 16, 4), (8, 16, 1), (9, 16, 2), (32, 4, 1), (32, 2, 1), (32, 128, 32)],
)
def test_the_bound_by_the_pigeonhole_principle(lanes, chunk_bytes, wanted):
    """128 bytes have so many places for the start of a chunk, or of a word if chunks are smaller."""
    places = len({start // 4 for start in range(0, 128, chunk_bytes)})
    fullest = max(len(range(place, lanes, places)) for place in range(places))
    found = xor_search.bound(lanes=lanes, chunk_bytes=chunk_bytes)
    assert type(found) is int
    assert found == fullest == wanted


def test_numbers_are_those_of_the_kernel():
    constants = stage("s12x").source.constants()
    assert 2 * constants["D"] == xor_search.ROW_BYTES
    assert constants["C"] == xor_search.ROWS
    assert constants["THREADS"] == xor_search.WARPS * 32
