"""What everything that is shown is made of: tables, numbers, sentences, errors."""

from lesson_pages import words

from kda_learn.display.parts import Bar, Cell, Sentence, Table, decimal, interval, percent, whole
from kda_learn.ground.errors import BadInput


def test_a_table_as_text_and_as_html():
    table = Table(
        ["name", "count", "bar", "tone"], [["<a>", whole(1234), Bar(0.5, 0.25), Cell("ok", "good")]]
    )
    assert table.text().splitlines()[0].startswith("name  count")
    assert "<a>   1,234  ##########!!!!!" in table.text()
    assert words(table.html()) == "name count bar tone <a> 1,234 ok"
    assert "&lt;a&gt;" in table.html()
    assert 'tabindex="0"' in table.html()  # a box that scrolls can be reached by the keyboard


def test_columns_of_numbers_stand_to_the_right():
    html = Table(["", "n", "words"], [["a", None, "x"], ["b", 3, "y"]]).html()
    assert html.count('class="kda-right"') == 3
    assert Table(["a", "b"], [["x", None]]).without_blanks().headers == ["a"]


def test_numbers():
    cells = [decimal(1234.567, 2), percent(-3.14159), interval((1, 2.25)), whole(None), percent(None)]
    assert [cell.value for cell in cells] == ["1,234.57", "-3.1 %", "1.0 to 2.2", "", ""]
    assert Sentence("a & b").html() == '<p class="kda-sentence">a &amp; b</p>'


def test_an_error_in_a_notebook_is_one_sentence():
    assert BadInput("Give another.")._render_traceback_() == ["BadInput: Give another."]
