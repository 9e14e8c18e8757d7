"""The register tiling in a real browser: an element is chosen, and found in every panel."""

import pytest


def test_an_element_is_found_in_registers_and_back(show):
    explorer = show("tiles-A")
    explorer.click(".panel:first-child [data-elements='58']")
    assert explorer.text("[role=status]") == "Element m 3, k 10 of A: lane 13, register a2, low half."
    assert explorer.count(".here") == 2
    assert explorer.count(".grid .kin") == 8
    assert explorer.text(".lane.kin") == "lane 13"
    explorer.press("ArrowRight")
    assert "k 11 of A: lane 13, register a2, high half" in explorer.text("[role=status]")
    explorer.click(".lane[data-lane='31'] .cell")
    assert "m 7, k 6 of A: lane 31, register a0, low half" in explorer.text("[role=status]")


def test_arrows_move_over_lanes_and_registers(show):
    explorer = show("tiles-C")
    explorer.click(".panel:nth-child(2) .cell")
    for key, held in (
        ("ArrowRight", "lane 0, register c1"),
        ("ArrowDown", "lane 0, register c3"),
        ("ArrowRight", "lane 1, register c2"),
        ("ArrowDown", "lane 5, register c0"),
    ):
        explorer.press(key)
        assert held in explorer.text("[role=status]")
    assert explorer.count(".panel:first-child .cell[tabindex='0']") == 1


@pytest.mark.parametrize(
    ("view", "route", "words"),
    [
        ("A", "ldmatrix.x4", "row m 0, column k 0, matrix 0 of the instruction; lane 0 gives"),
        ("B", "ldmatrix.x2.trans", "row k 0, column n 0, matrix 0"),
        ("C", "stmatrix.x2", "In shared memory: row m 0, column n 0"),
        ("C", "movmatrix", "After movmatrix: lane 0, register b0, low half."),
        ("dS", "8", "Warp 0 of block 0 owns these 16 columns"),
    ],
)
def test_routes_add_a_panel(show, view, route, words):
    explorer = show(f"tiles-{view}")
    before = explorer.drawing(".panels")
    explorer.choose(route)
    assert explorer.drawing(".panels") != before
    assert words in explorer.text("[role=status]")
    assert explorer.count(".here") == explorer.count(".panel") > 0


def test_warps_that_have_no_columns_are_idle(show):
    explorer = show("tiles-dS")
    assert explorer.count(".none") == 0
    explorer.choose("4")
    assert explorer.count(".none") == 4 * 6
    explorer.click(".panel:nth-child(2) .cell[data-elements]")
    assert explorer.count(".panel:first-child .kin") == 8


def test_one_byte_is_marked_in_both_readings(show):
    explorer = show("tiles-dual")
    explorer.click("[data-elements='58']")
    text = explorer.text("[role=status]")
    assert "Element v 3, k 10 of dS lies at byte 2100." in text
    assert "ldmatrix.x4 brings it to lane 13, r1, low half" in text
    assert "ldmatrix.x4.trans brings it to lane 9, r1, high half" in text
    assert explorer.count(".here") == 5


def test_an_element_is_looked_at_with_the_pointer(show):
    explorer = show("tiles-A")
    explorer.hover(".panel:first-child [data-elements='58']")
    assert "m 3, k 10 of A" in explorer.text("[role=status]")
    explorer.hover("legend")
    assert "m 0, k 0 of A" in explorer.text("[role=status]")


def test_views_are_switched(show):
    explorer = show("tiles-A")
    for text in ("B, 16 x 8", "C, 16 x 8", "dS over the warps", "One byte, two readings", "A, 16 x 16"):
        before = explorer.drawing(".panels")
        explorer.choose(text)
        assert explorer.drawing(".panels") != before
