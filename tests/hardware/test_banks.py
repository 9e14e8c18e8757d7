"""The wavefront model against its rule in the plainest form: lane by lane, phase by phase, sets of words."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kda_learn.ground.errors import BadInput
from kda_learn.hardware import banks

FULL = 0xFFFFFFFF
LANE = np.arange(32)
WIDTHS = {  # operation -> the bytes that a lane may move
    **dict.fromkeys(["lds", "sts", "cp.async.ca", "cp.async.cg"], (2, 4, 8, 16)),
    **dict.fromkeys(
        [
            f"{way}matrix.x{number}{turned}"
            for way in ("ld", "st")
            for number in (1, 2, 4)
            for turned in ("", ".trans")
        ],
        (16,),
    ),
}
kinds = st.sampled_from([(op, width) for op, widths in WIDTHS.items() for width in widths])
edges = st.sampled_from([0, 1, 1 << 31, 1 << 15, 1 << 16, 0xFFFF, 0xFFFF0000, 0x55555555, 0xAAAAAAAA, FULL])
masks = edges | st.integers(0, FULL)
seeds = st.integers(0, 2**32 - 1)
some = settings(deadline=None, max_examples=60)


def random_addresses(seed: int, width: int) -> np.ndarray:
    """32 addresses near each other, often the same: single lanes, pairs, and fours of one address."""
    random = np.random.default_rng(seed)
    addresses = random.integers(0, random.choice([8, 64, 1024]), 32) * width
    return addresses[LANE // random.choice([1, 2, 4])]


@dataclass
class PlainPhase:
    """One phase: its active lanes, and for each the words it touches."""

    words: dict[int, list[int]]

    @property
    def wavefronts(self) -> int:
        """Distinct words of the busiest bank."""
        distinct = {word for words in self.words.values() for word in words}
        return max(Counter(word % 32 for word in distinct).values())


def plain_phases(op: str, addresses: np.ndarray, mask: int, width: int) -> list[PlainPhase]:
    """The phases that have an active lane, by the words of the module's text."""
    active = [lane for lane in range(32) if mask & 1 << lane]
    by_matrices = "matrix" in op
    lanes = 8 if by_matrices else min(32, 128 // width)
    if op == "lds" and width >= 8:
        pairs = [(lane, lane + 1) for lane in range(0, 32, 2)]
        if all(addresses[a] == addresses[b] or not {a, b} <= set(active) for a, b in pairs):
            lanes *= 2
    last = 8 * int(op.split(".x")[1][0]) if by_matrices else 32
    words_per_lane = max(1, width // 4)
    phases = []
    for first in range(0, last, lanes):
        in_phase = [lane for lane in active if first <= lane < first + lanes]
        if in_phase:
            words = {lane: [addresses[lane] // 4 + i for i in range(words_per_lane)] for lane in in_phase}
            phases.append(PlainPhase(words))
    return phases


@some
@given(kinds, masks, seeds)
def test_costs_of_any_lanes(kind, mask, seed):
    op, width = kind
    addresses = random_addresses(seed, width)
    phases = [] if op == "cp.async.cg" else plain_phases(op, addresses, mask, width)
    found = banks.cost(op, [addresses], [mask], width)
    wanted = [phase.wavefronts for phase in phases]
    assert found.wavefronts.tolist() == [sum(wanted)]
    assert found.least.tolist() == [len(wanted)]
    assert found.max_way.tolist() == [max(wanted, default=0)]


@some
@given(kinds, masks, seeds)
def test_phases_for_pictures_of_any_lanes(kind, mask, seed):
    op, width = kind
    addresses = random_addresses(seed, width)
    found = banks.phases(addresses, mask, op, width)
    for phase, wanted in zip(found, plain_phases(op, addresses, mask, width), strict=True):
        assert dict(zip(phase.lanes, phase.words, strict=True)) == wanted.words
        assert phase.banks == [[word % 32 for word in words] for words in phase.words]
        assert phase.wavefronts == wanted.wavefronts
        asked = {
            word: [lane for lane in phase.lanes if word in wanted.words[lane]]
            for words in phase.words
            for word in words
        }
        assert phase.shared == {word: lanes for word, lanes in asked.items() if len(lanes) > 1}


@pytest.mark.parametrize("lane", [0, 1, 15, 16, 30, 31])
def test_each_bit_of_a_mask_is_its_own_lane(lane):
    (phase,) = banks.phases(LANE * 4, 1 << lane, "sts", 4)
    assert (phase.lanes, phase.words, phase.banks) == ([lane], [[lane]], [[lane]])
    all_but_one = banks.cost("sts", [LANE * 128], [FULL ^ 1 << lane], 4)
    assert all_but_one.wavefronts.tolist() == [31]


@pytest.mark.parametrize("width", [8, 16])
@pytest.mark.parametrize("mask", [0x55555555, 0xAAAAAAAA, 0x99999999])
def test_an_idle_lane_makes_a_pair_with_any_other(mask, width):
    """Of each pair one lane is idle, its address another: two pairs' worth of lanes share a phase."""
    found = banks.cost("lds", [LANE * 256], [mask], width)
    assert found.least.tolist() == [width // 8]
    assert banks.cost("lds", [LANE * 256], [mask | 3], width).least.tolist() == [width // 4]


def test_masks_and_addresses_of_any_kind():
    for mask in ([FULL], np.array([FULL], np.uint32), np.array([-1], np.int64), FULL):
        assert banks.wavefronts([(LANE * 128).tolist()], mask, 4).tolist() == [32]
    for kind in (np.int16, np.uint64):
        found = banks.cost("lds", (LANE * 128).astype(kind)[None], FULL, 4)
        assert found.wavefronts.tolist() == [32]
        assert found.wavefronts.dtype == np.int64


def test_instructions_do_not_touch_each_other():
    """More of them than are counted at a time, each other one of another kind."""
    number = 2 * banks.CHUNK + 3
    addresses = np.where(np.arange(number)[:, None] % 3 == 0, LANE * 256, LANE // 2 * 16)
    mask = np.where(np.arange(number) % 2 == 0, FULL, 0xFF).astype(np.uint32)
    found = banks.cost("lds", addresses, mask, 16)
    kinds = [banks.cost("lds", addresses[i : i + 1], mask[i : i + 1], 16) for i in range(6)]
    for name in ("wavefronts", "least", "max_way"):
        wanted = [int(getattr(kind, name)[0]) for kind in kinds]
        assert getattr(found, name).tolist() == (wanted * (number // 6 + 1))[:number]


@pytest.mark.parametrize(("width", "fewest"), [(2, 1), (4, 1), (8, 2), (16, 4)])
def test_loads_without_matrices_are_what_is_meant_unless_said(width, fewest):
    assert banks.least([LANE * width], [FULL], width).tolist() == [fewest]
    assert banks.wavefronts([LANE * width], [FULL], width).tolist() == [fewest]


def test_no_instructions_cost_nothing():
    assert banks.wavefronts(np.zeros((0, 32), int), np.zeros(0, np.uint32), 4).shape == (0,)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        *(
            (lambda width=width: banks.service("lds", width), f"is {width}: give 2, 4, 8 or 16")
            for width in (0, 1, 3, 5, 9, 17, 32)
        ),
        *(
            (lambda op=op: banks.service(op, 16), f"'{op}'")
            for op in ("ldmatrix.x3", "ldmatrix.x8", "ldmatrix", "ld")
        ),
        (lambda: banks.cost("lds", np.zeros((2, 32), int), [FULL], 4), r"\[2, 32\] and 1 masks"),
        (lambda: banks.cost("lds", np.zeros((1, 31), int), [FULL], 4), r"\[1, 31\] and 1 masks"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(BadInput, match=words):
        call()
