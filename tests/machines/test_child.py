"""Work in a child process: the answer, errors by kind, what is said, and its end with this process."""

import json
import subprocess

import pytest

from kda_learn.ground.errors import BadInput, KdaError, MachineUnavailable
from kda_learn.ground.say import heard_by
from kda_learn.machines import child
from kda_learn.machines.child import run_in_child

HEAD = """import sys, time
from kda_learn.ground.errors import BadInput, KdaError, MachineUnavailable
from kda_learn.ground.say import say

def work(request):
"""


@pytest.fixture
def work(tmp_path, monkeypatch):
    """Makes a function that a child process can find, from its body, and gives its name."""

    def make(body: str) -> str:
        (tmp_path / "pretended_work.py").write_text(
            HEAD + "".join(f"    {line}\n" for line in body.split("\n"))
        )
        return "pretended_work:work"

    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return make


def test_the_request_arrives_and_the_answer_comes_back(work):
    name = work("return {'got': request}")
    asked = {"stages": ["s12"], "sms": [None]}
    assert run_in_child(name, asked) == {"got": asked}


@pytest.mark.parametrize("kind", [BadInput, MachineUnavailable, KdaError])
def test_an_error_in_the_child_is_raised_here(work, kind):
    name = work(f"raise {kind.__name__}('no memory')")
    with pytest.raises(KdaError, match=r"^no memory$") as raised:
        run_in_child(name, {})
    assert type(raised.value) is kind


def test_an_error_of_a_kind_that_is_not_known_here_is_one_of_ours(tmp_path):
    (tmp_path / "answer.json").write_text(json.dumps({"error": ["CompileError", "line 3"]}))
    with pytest.raises(KdaError, match=r"^line 3$"):
        child.answer_in(tmp_path / "answer.json")


def test_what_the_child_says_is_said_here_and_the_rest_is_passed_on(work, capsys):
    name = work("say('round 1')\nprint('a warning', file=sys.stderr)\nsay('round 2')\nreturn 3")
    heard = []
    with heard_by(heard.append):
        assert run_in_child(name, {}) == 3
    assert heard == ["round 1", "round 2"]
    assert capsys.readouterr().err == "a warning\n"


def test_without_a_listener_it_goes_to_standard_error(work, capsys):
    assert run_in_child(work("say('round 1')"), {}) is None
    assert capsys.readouterr().err == "kda-learn: round 1\n"


def test_what_the_child_prints_is_no_answer(work):
    assert run_in_child(work("print('{}')\nreturn []"), {}) == []


def test_a_child_that_dies_is_one_sentence(work):
    name = work("sys.exit('out of luck')")
    with pytest.raises(KdaError, match=r"exit status 1 and no answer \(its last words: out of luck\)"):
        run_in_child(name, {})


def test_an_error_that_nobody_foresaw_is_named(work):
    name = work("return 1 / 0")
    with pytest.raises(KdaError, match=r"no answer \(its last words: ZeroDivisionError: division by zero\)"):
        run_in_child(name, {})


def test_the_child_ends_with_this_process(work, monkeypatch):
    """Ctrl-C while the child runs: it must not go on holding the GPU."""
    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: started.append(popen(*a, **k)) or started[-1])

    def interrupted(text):
        raise KeyboardInterrupt

    with heard_by(interrupted), pytest.raises(KeyboardInterrupt):
        run_in_child(work("say('ready')\ntime.sleep(60)"), {})
    assert started[0].wait(timeout=10) != 0


def test_the_command_line_that_others_watch(work, tmp_path):
    """ncu and compute-sanitizer start the same work and leave its answer in a file."""
    request, answer = tmp_path / "request.json", tmp_path / "answer.json"
    request.write_text(json.dumps([1, 2]))
    call = child.command(work("return sum(request)"), request, answer)
    subprocess.run(call, env=child.environment(), check=True)
    assert child.answer_in(answer) == 3
