"""Tables of plain text."""

from kda_learn.ground.text_table import WIDTH, table


def test_numbers_are_set_to_the_right_and_text_to_the_left():
    assert table(["name", "n"], [("a", 5), ("bcdef", 12)]).splitlines() == [
        "name    n",
        "-----  --",
        "a       5",
        "bcdef  12",
    ]


def test_a_wide_column_is_broken():
    text = table(["id", "what"], [("a", "word " * 60), ("b", None)], wrap="what")
    assert max(map(len, text.splitlines())) <= WIDTH
    assert text.splitlines()[-1] == "b"


def test_a_table_without_rows_is_its_header():
    assert table(["a", "b"], []) == "a  b\n-  -"
