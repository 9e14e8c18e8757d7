"""Differences of two texts, hunk by hunk."""

from kda_learn.sources.differences import Diff, Hunk, Side, compare

BASE = [f"step({number});" for number in range(40)]


def difference(new: list[str], base: list[str] = BASE) -> Diff:
    return compare(Side("base", "\n".join(base)), Side("new", "\n".join(new)))


def changed(**lines: list[str]) -> list[str]:
    """BASE with other lines for some of its own: at7=[...] stands in place of line 7, counted from 0."""
    return [line for number, own in enumerate(BASE) for line in lines.get(f"at{number}", [own])]


def test_a_side_has_all_its_lines_but_those_to_skip():
    text = "a  \n  b // why\nc\n"
    assert Side("name", text).lines == ["a", "  b // why", "c"]
    assert Side("name", text, skip=1).lines == ["  b // why", "c"]
    assert Side("name", text, skip=1).code == ["b", "c"]


def test_skipped_lines_count_in_the_places_of_hunks():
    base, new = Side("base", "title\nx\ny", skip=1), Side("new", "long\ntitle\nx\nz", skip=2)
    assert compare(base, new).hunks == [Hunk(2, 3, "@@ -2,2 +3,2 @@\n x\n-y\n+z\n", 1, cosmetic=False)]


def test_each_hunk_has_its_heading_and_stands_in_the_text_once():
    found = difference(changed(at2=["a();", "b();"], at30=[]))
    assert [hunk.text.splitlines()[0] for hunk in found.hunks] == ["@@ -1,6 +1,7 @@", "@@ -28,7 +29,6 @@"]
    assert [(hunk.base_line, hunk.line) for hunk in found.hunks] == [(1, 1), (28, 29)]
    assert found.text == "--- base\n+++ new\n" + found.hunks[0].text + found.hunks[1].text
    assert found.code_lines == 3


def test_three_lines_stand_around_a_change_and_six_between_two_make_one_hunk():
    (hunk,) = difference(changed(at10=["a();"])).hunks
    assert hunk.text.splitlines()[1:4] == [" step(7);", " step(8);", " step(9);"]
    assert len(difference(changed(at10=["a();"], at17=["b();"])).hunks) == 1
    assert len(difference(changed(at10=["a();"], at18=["b();"])).hunks) == 2


def test_lines_put_together_or_broken_are_no_change_of_code():
    broken = changed(at8=["step(", "    8);"])
    for found in (difference(broken), difference(BASE, base=broken)):
        (hunk,) = found.hunks
        assert (hunk.cosmetic, hunk.code_lines) == (True, 0)


def test_a_hunk_is_cosmetic_if_all_its_changes_are():
    broken = changed(at8=["step(", "    8);"], at10=["step(10);  // why"])
    for found in (difference(broken), difference(BASE, base=broken)):
        assert [(hunk.cosmetic, hunk.code_lines) for hunk in found.hunks] == [(True, 0)]
    (hunk,) = difference(changed(at8=["other(8);"], at10=["step(10);  // why"])).hunks
    assert (hunk.cosmetic, hunk.code_lines) == (False, 1)


def test_a_line_in_anothers_place_counts_once_and_blank_ones_not():
    found = difference(changed(at8=["// why", "", "a();", "b();"]))
    assert found.code_lines == 2
    assert difference(changed(at8=["", ""])).code_lines == 1


def test_one_line_more_among_hundreds_of_the_same_is_one_line_more():
    """SequenceMatcher would pass over lines that come often."""
    same = ["same();"] * 300
    assert difference([*same[:150], "other();", *same[150:]], base=same).code_lines == 1


def test_equal_files_have_no_text():
    assert difference(BASE) == Diff("base", "new", [])
    assert difference(BASE).text == ""
