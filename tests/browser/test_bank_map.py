"""The bank map in a real browser, on plain pages with no Python behind it: moved, and seen to redraw."""

TIMES = "\u00d7"


def test_a_pattern_is_built(show):
    explorer = show("bank")
    assert explorer.figures() == [32, 1, 31]
    assert "32 wavefronts where 1 would do: 31 in excess" in explorer.text("[role=status]")
    before = explorer.drawing("[role=group]")

    explorer.type("Padding", 4)
    assert explorer.figures() == [1, 1, 0]
    assert "1 wavefront, the least possible" in explorer.text("[role=status]")
    assert f"row {TIMES} 132" in explorer.text("code")
    assert explorer.count("[data-word]") == 32
    assert explorer.drawing("[role=group]") != before

    explorer.select("Lane map", f"16 tokens {TIMES} 2 halves")
    explorer.type("Padding", 0)
    explorer.type("Row", 256)
    explorer.select("Bytes per lane", "2")
    assert explorer.figures() == [16, 1, 15]
    explorer.type("Halves apart", 2)
    assert explorer.figures() == [16, 1, 15]
    assert explorer.text("[data-word]") == f"{TIMES}2"

    explorer.select("Swizzle", "SW128")
    assert explorer.figures() == [2, 1, 1]
    assert explorer.get("return labelled('Row').disabled")


def test_what_the_hardware_refuses_is_said(show):
    explorer = show("bank")
    explorer.select("Lane map", "ldmatrix / stmatrix .x4 rows")
    explorer.type("Row", 260)
    assert "lane 1 would reach for 16 bytes at byte 260" in explorer.text("[role=status]")
    assert explorer.count("[data-lane], .figure") > 0
    assert not explorer.get("return all('[data-lane], .figure').some((one) => one.checkVisibility())")
    explorer.type("Row", 272)
    assert explorer.figures() == [4, 4, 0]


def test_phases_are_moved_with_the_keyboard(show):
    explorer = show("both")
    assert explorer.texts(".lane:not(.idle)") == [str(lane) for lane in range(8)]
    explorer.focus("fieldset:not([hidden]) .choice :checked", 1)
    explorer.press("ArrowRight", "ArrowRight")
    assert explorer.texts(".lane:not(.idle)") == [str(lane) for lane in range(16, 24)]
    assert "Lanes 16-23" in explorer.text("[role=status]")


def test_lanes_are_looked_at_with_the_keyboard(show):
    explorer = show("bank")
    assert explorer.texts("[data-lane][tabindex='0']") == ["0"]
    explorer.focus("[data-lane][tabindex='0']")
    explorer.press("ArrowRight", "ArrowRight")
    assert explorer.focused() == "2"
    assert explorer.text(".detail").startswith("Lane 2: byte 256, bank 0, served in wavefront 3. Collides")
    assert explorer.texts(".word.mine") == ["2"]
    assert explorer.count(".word.rival") == 31
    assert explorer.style(":focus", "outlineStyle") != "none"
    explorer.press("End")
    assert explorer.focused() == "31"


def test_a_lane_is_looked_at_with_the_pointer(show):
    explorer = show("bank")
    explorer.hover("[data-lane='5']")
    assert explorer.text(".detail").startswith("Lane 5: byte 640")
    explorer.hover("code")
    assert explorer.text(".detail").startswith("Point at a lane")


def test_recorded_accesses_are_chosen(show):
    explorer = show("recorded")
    assert explorer.text("code") == "lds<bf16>(row)"
    assert explorer.figures() == [16, 1, 15]
    lines = explorer.get("return [...labelled('Source line').options].map((option) => option.text)")
    assert lines[0] == "101: lds, 2 bytes, (r1): 15 excess"
    assert "Pattern 1 of 2, seen 8 times" in explorer.text(".root")
    explorer.get("labelled('Pattern').focus()")
    explorer.press("ArrowRight")
    assert "Pattern 2 of 2, seen 2 times" in explorer.text(".root")
    assert explorer.figures() == [2, 1, 1]
    explorer.select("Source line", "212: stmatrix.x4.trans, 16 bytes, DS (combine)")
    assert explorer.text("code") == "stmatrix_x4_trans(at, x)"
    assert explorer.figures() == [4, 4, 0]
    explorer.choose("Build your own")
    assert explorer.figures() == [32, 1, 31]
    explorer.choose("Recorded in a run")
    assert explorer.figures() == [4, 4, 0]


def test_numbers_stand_in_a_table_too(show):
    explorer = show("bank")
    explorer.click("summary")
    rows = explorer.texts("tr")
    assert rows[0] == "lane byte word bank wavefront"
    assert rows[4] == "3 384 96 0 4"
    assert len(rows) == 33
