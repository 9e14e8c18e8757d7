"""The prediction: what it says about a guess, in Python and in its script."""

import json

import numpy as np
import pytest

pytest.importorskip("anywidget", reason="the prediction is an anywidget, which is not installed")

from javascript import evaluate

from kda_learn import predict
from kda_learn.ground.errors import BadInput
from kda_learn.lessons import progress
from kda_learn.widgets.answers import answer_for, number_text, said_of
from kda_learn.widgets.explorer import state

STALLS = ["MIO throttle", "barrier", "long scoreboard"]


@pytest.fixture(autouse=True)
def file(monkeypatch, tmp_path):
    path = tmp_path / "progress.json"
    monkeypatch.setenv("KDA_LEARN_PROGRESS", str(path))
    return path


# ---- in Python ----


@pytest.mark.parametrize(
    ("guess", "said"),
    [
        (None, "It is 3,072 wavefronts."),
        (3072, "You predicted 3,072 wavefronts, and it is 3,072 wavefronts: right."),
        (3100.5, "You predicted 3,100.5 wavefronts, and it is 3,072 wavefronts: right."),
        (2600, "You predicted 2,600 wavefronts. It is 3,072 wavefronts: close, a little low."),
        (3500, "You predicted 3,500 wavefronts. It is 3,072 wavefronts: close, a little high."),
        (1600, "You predicted 1,600 wavefronts. It is 3,072 wavefronts: your guess was too low."),
        (96, "You predicted 96 wavefronts. It is 3,072 wavefronts: your guess was much too low."),
        (6000, "You predicted 6,000 wavefronts. It is 3,072 wavefronts: your guess was too high."),
        (1e6, "You predicted 1,000,000 wavefronts. It is 3,072 wavefronts: your guess was much too high."),
    ],
)
def test_what_is_said_about_a_number(guess, said):
    assert said_of(guess, "wavefronts", answer_for(3072, "wavefronts", [])) == said


@pytest.mark.parametrize(
    ("truth", "guess", "end"),
    [
        (0, 0, "right."),
        (0, 0.1, "much too high."),
        (0, -3, "much too low."),
        (-20, -20.2, "right."),
        (-20, -60, "much too low."),
        (-20, 5, "much too high."),
        (4, 3, "too low."),
    ],
)
def test_truths_that_are_zero_or_less(truth, guess, end):
    assert said_of(guess, "%", answer_for(truth, "%", [])).endswith(end)


def test_what_is_said_about_a_choice():
    answer = answer_for("barrier", "", STALLS)
    assert said_of("barrier", "", answer) == "You chose “barrier”, and so it is."
    assert said_of("MIO throttle", "", answer) == "You chose “MIO throttle”. It is “barrier”."
    assert said_of(None, "", answer) == said_of("gone", "", answer) == "It is “barrier”."


def test_a_guess_is_kept_at_once_and_shown_again():
    asked = predict("s02.blocks", "How many blocks?", unit="blocks")
    assert asked.guess is None and repr(asked) == "How many blocks?"
    asked.guess = 3
    assert progress.guess_of("s02.blocks") == 3
    again = predict("s02.blocks", "How many blocks?", unit="blocks", answer=4)
    assert again.guess == 3
    assert repr(again) == "How many blocks? You predicted 3 blocks. It is 4 blocks: your guess was too low."
    for compared in (again.compare(4), predict.reveal("s02.blocks", 4, "blocks")):
        assert compared.compares and compared.guess == 3 and "too low" in repr(compared)


def test_a_kept_guess_that_no_longer_fits_the_question_is_not_shown():
    progress.keep_guess("s02.stall", "tex throttle")
    assert predict("s02.stall", "Which?", choices=STALLS).guess is None
    assert predict("s02.stall", "How many?").guess is None
    progress.keep_guess("s02.stall", "barrier")
    assert predict("s02.stall", "Which?", choices=STALLS).guess == "barrier"


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: predict("a key", "How many?"), "give a short one of letters"),
        (lambda: predict("s02.x", " "), "question is . .: give a sentence"),
        (lambda: predict("s02.x", "Which?", choices="ab"), "give a list of texts to choose from"),
        (lambda: predict("s02.x", "Which?", choices=["one"]), "give a list of texts to choose from"),
        (lambda: predict("s02.x", "Which?", choices=STALLS, answer="wait"), "give one of the choices"),
        (lambda: predict("s02.x", "How many?", answer="four"), "give a number, or choices="),
        (lambda: predict("s02.x", "How many?", answer=float("nan")), "give a finite number"),
        (lambda: predict("s02.x", "How many?").compare("four"), "give a number, or choices="),
    ],
)
def test_bad_requests(ask, message):
    with pytest.raises(BadInput, match=message):
        ask()


# ---- in the script ----


def test_the_script_says_what_python_says():
    random = np.random.default_rng(0)
    cases = []
    for truth in (3072, 4, 0, -21.6, 0.125, 1e-3, 123456.789):
        scale = abs(truth) or 1
        guesses = [*(truth + scale * random.uniform(-2, 3, 40)).round(4), truth, 0, truth * 0.98, truth * 1.2]
        cases += [(float(guess), "ms", answer_for(truth, "ms", [])) for guess in guesses]
        cases.append((None, "ms", answer_for(truth, "ms", [])))
    cases += [(guess, "", answer_for("barrier", "", STALLS)) for guess in (*STALLS, None, "gone")]
    found = evaluate(
        "predict", "value.map(([guess, unit, answer]) => module.verdict(guess, unit, answer))", cases
    )
    assert found == [said_of(*case) for case in cases]


def test_the_script_writes_numbers_as_python_does():
    numbers = [0.0, 3.0, -21.6, 3072.0, 1234567.0, 0.125, 1 / 3, 99999.99999]
    found = evaluate("predict", "value.map((number) => module.guessText(number, 'ms'))", numbers)
    assert found == [number_text(number, "ms") for number in numbers]


def test_the_state_can_be_written_as_json():
    assert json.loads(json.dumps(state(predict("s02.x", "How many?", answer=3))))["answer"]["truth"] == "3"
