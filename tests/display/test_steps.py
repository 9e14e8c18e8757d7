"""The progress bar: in a notebook (pretended), and in a terminal."""

import sys
import types

import pytest

from kda_learn.display import steps as steps_module
from kda_learn.display.steps import Steps
from kda_learn.ground.say import heard_by
from kda_learn.machines.child import run_in_child

CHILD = """
import sys
from kda_learn.ground.say import say

def work(request):
    say("data for 262144 tokens")
    print("a warning of a library", file=sys.stderr)
    say("checking s02 <again>")
    return {"measured": request["wanted"]}
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


@pytest.fixture
def child(monkeypatch, tmp_path):
    """The name of a work that says two things."""
    (tmp_path / "lesson_child.py").write_text(CHILD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "lesson_child:work"


def test_what_a_child_process_says_are_steps(notebook, child, capsys):
    with Steps(2) as steps, heard_by(steps.step):
        assert run_in_child(child, {"wanted": 7}) == {"measured": 7}
    assert [html.partition("</progress> ")[2] for html in notebook] == [
        "data for 262144 tokens",
        "checking s02 &lt;again&gt;",
        "",
    ]
    assert capsys.readouterr().err == "a warning of a library\n"


def test_where_nobody_looks_only_other_lines_are_passed_on(child, capsys):
    """Neither a notebook nor a terminal: standard error keeps what is not a step."""
    with Steps(2) as steps, heard_by(steps.step):
        steps.step("one")
        print("two", file=sys.stderr)
        run_in_child(child, {"wanted": 7})
    assert capsys.readouterr().err == "two\na warning of a library\n"


def test_a_terminal_gets_a_line_for_each_step(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with Steps(2) as steps:
        steps.step("one")
    assert capsys.readouterr().err == "kda-learn: one\n"
