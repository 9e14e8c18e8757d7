"""Every token has its place in exactly one tile, whatever the lengths."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kda_learn.ground.errors import BadInput
from kda_learn.kernel_a.tiling import CHUNK, HEAD_DIM, Tiling
from kda_learn.sources.stages import STAGES

any_lengths = st.lists(st.integers(0, 70), min_size=1, max_size=8)


@given(any_lengths)
def test_every_token_is_in_one_row_of_a_tile_of_its_own_sequence(lengths):
    tiling = Tiling.of(lengths)
    np.testing.assert_array_equal(tiling.rows[tiling.valid], np.arange(sum(lengths)))
    for sequence, length in enumerate(lengths):
        tiles = tiling.tiles_of(sequence)
        assert len(tiles) == (length + CHUNK - 1) // CHUNK
        rows = tiling.rows[tiles.start : tiles.stop]
        assert np.all(rows >= tiling.token_base[sequence])
        assert np.all(rows < tiling.token_base[sequence + 1])
    assert tiling.total_tiles == len(tiling.rows)


@given(any_lengths)
def test_scatter_undoes_gather_and_padding_is_zero(lengths):
    tiling = Tiling.of(lengths)
    tokens = np.random.default_rng(0).standard_normal((tiling.tokens, 2, 3))
    tiles = tiling.gather(tokens)
    assert tiles.shape == (2, tiling.total_tiles, CHUNK, 3)
    assert not tiles[:, ~tiling.valid].any()
    np.testing.assert_array_equal(tiling.scatter(tiles), tokens)


def test_padding_does_not_let_the_next_sequence_in():
    tiling = Tiling.of([3, 16])
    tokens = np.arange(19.0).reshape(19, 1)
    tokens[3:] = np.nan
    np.testing.assert_array_equal(tiling.gather(tokens)[0, 0], [0, 1, 2] + [0] * 13)


def test_a_batch_without_sequences_has_no_tokens_and_no_tiles():
    tiling = Tiling.of([])
    assert (tiling.sequences, tiling.tokens, tiling.total_tiles) == (0, 0, 0)
    assert (tiling.rows.shape, tiling.valid.shape) == ((0, CHUNK), (0, CHUNK))
    for indices in (tiling.tile_counts, tiling.token_base, tiling.tile_base, tiling.rows):
        assert indices.dtype == np.int64


def test_a_tile_is_as_large_as_the_kernel_has_it():
    for rung in STAGES:
        constants = rung.source.constants()
        assert (constants["C"], constants["D"]) == (CHUNK, HEAD_DIM)


def test_cu_seqlens_and_back():
    borders = np.array([0, 40, 40, 57], np.int64)
    tiling = Tiling.from_cu_seqlens(borders, tokens=57)
    assert tiling.lengths == (40, 0, 17)
    np.testing.assert_array_equal(tiling.token_base, borders)
    np.testing.assert_array_equal(tiling.tile_base, [0, 3, 3, 5])


@pytest.mark.parametrize(
    ("borders", "complaint"),
    [
        ([0, 57], "of type list"),
        (np.array([0, 57], np.int32), "of type int32"),
        (np.array([[0, 57]], np.int64), r"shape \(1, 2\)"),
        (np.array([57], np.int64), r"shape \(1,\)"),
        (np.array([1, 57], np.int64), "from 1 to 57"),
        (np.array([0, 56], np.int64), "from 0 to 56"),
        (np.array([0, 20, 10, 57], np.int64), "falls from 20 to 10 at sequence 1"),
    ],
)
def test_bad_cu_seqlens(borders, complaint):
    with pytest.raises(BadInput, match=f"{complaint}.*: give int64 .* T_total = 57"):
        Tiling.from_cu_seqlens(borders, tokens=57)
