"""The progress bar: in a notebook (pretended), and in a terminal."""

import sys
import types

import pytest

from kda_learn.bench import run_in_child
from kda_learn.lessons import steps as steps_module
from kda_learn.lessons.steps import Steps

CHILD = """
import json, sys
print("kda-learn: data for 262144 tokens", file=sys.stderr)
print("kda-learn: checking s02 <again>", file=sys.stderr)
json.dump({"measured": 7}, open(sys.argv[2], "w"))
"""


@pytest.fixture
def notebook(monkeypatch):
    """What a notebook would show, each time that it changes."""
    shown = []

    class Handle:
        def update(self, bar):
            shown.append(bar._repr_html_())

    def display(bar, display_id):
        assert display_id and repr(bar) == ""
        shown.append(bar._repr_html_())
        return Handle()

    monkeypatch.setattr(steps_module, "_in_notebook", lambda: True)
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))
    return shown


def test_a_bar_moves_and_goes(notebook):
    with Steps(2) as steps:
        for text in ("one", "two", "one more than was said"):
            steps.step(text)
    assert [html.partition('value="')[2][:4] for html in notebook] == ["0.00", "0.50", "0.67", ""]
    assert notebook[0].endswith("</progress> one") and notebook[-1] == ""


def test_a_bar_goes_after_an_error_too(notebook):
    with pytest.raises(ZeroDivisionError), Steps(2) as steps:
        steps.step("one")
        raise ZeroDivisionError
    assert notebook[-1] == ""


def test_the_lines_of_a_child_process_are_steps(notebook, monkeypatch, tmp_path, capsys):
    (tmp_path / "lesson_child.py").write_text(CHILD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Steps(2) as steps, steps.from_standard_error():
        assert run_in_child("lesson_child", {}) == 7
    assert [html.partition("</progress> ")[2] for html in notebook] == [
        "data for 262144 tokens",
        "checking s02 &lt;again&gt;",
        "",
    ]
    assert capsys.readouterr().err == ""


def test_outside_of_a_notebook_lines_go_where_they_went(capsys):
    with Steps(2) as steps, steps.from_standard_error():
        steps.step("one")
        print("two", file=sys.stderr)
    assert capsys.readouterr().err == "two\n"


def test_a_terminal_gets_a_line_for_each_step(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with Steps(2) as steps:
        steps.step("one")
    assert capsys.readouterr().err == "kda-learn: one\n"
