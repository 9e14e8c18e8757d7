"""What is said about a guess once the truth is known. The prediction's script finds the same sentence."""

import math
from collections.abc import Sequence
from typing import Any

from ..ground.errors import BadInput

Guess = str | int | float
Truth = str | int | float
RIGHT = 0.02
CLOSE = 0.2

FAR = (0.5, 1.0)
"""How far a number may be off, in shares of the truth: right, close, and from where below and above it is
much too low or too high."""


def answer_for(truth: Truth, unit: str, choices: Sequence[str]) -> dict[str, Any]:
    """What is said about each guess, in the form that `predict.Prediction` takes.

    Raises BadInput for a truth that is not one of the choices, or without choices no finite number.
    """
    if choices and truth not in choices:
        raise BadInput(f"The answer is {truth!r}: give one of the choices, {', '.join(map(repr, choices))}.")
    if isinstance(truth, str) and not choices:
        raise BadInput(
            f"The answer is {truth!r} and the question has no choices: give a number, or choices=."
        )
    if choices:
        said = {
            choice: f"You chose “{choice}”, and so it is."
            if choice == truth
            else f"You chose “{choice}”. It is “{truth}”."
            for choice in choices
        }
        text = str(truth)
        return {"truth": text, "bands": [], "by_choice": said, "without": f"It is “{text}”."}
    number = float(truth)
    if not math.isfinite(number):
        raise BadInput(f"The answer is {truth!r}: give a finite number.")
    text = number_text(number, unit)
    return {"truth": text, "bands": _bands(number, text), "by_choice": {}, "without": f"It is {text}."}


def said_of(guess: Guess | None, unit: str, answer: dict[str, Any]) -> str:
    """The sentence about a guess, as the script finds it too."""
    if guess is None:
        return answer["without"]
    if isinstance(guess, str):
        return answer["by_choice"].get(guess, answer["without"])
    sentence = next(text for bound, text in answer["bands"] if bound is None or guess < bound)
    return sentence.replace("{guess}", number_text(guess, unit))


def number_text(number: float, unit: str) -> str:
    """A number with commas between thousands, and its unit."""
    text = f"{number:,.10g}"
    return f"{text} {unit}" if unit else text


def _bands(truth: float, text: str) -> list[list[Any]]:
    """[bound, sentence] from low to high: the first bound above a guess has its sentence; None: no bound."""
    size = abs(truth)

    def above(share: float) -> float:
        return math.nextafter(truth + share * size, math.inf)

    off = f"You predicted {{guess}}. It is {text}: "
    return [
        [truth - FAR[0] * size, f"{off}your guess was much too low."],
        [truth - CLOSE * size, f"{off}your guess was too low."],
        [truth - RIGHT * size, f"{off}close, a little low."],
        [above(RIGHT), f"You predicted {{guess}}, and it is {text}: right."],
        [above(CLOSE), f"{off}close, a little high."],
        [above(FAR[1]), f"{off}your guess was too high."],
        [None, f"{off}your guess was much too high."],
    ]
