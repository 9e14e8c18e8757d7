"""The word `predict`: a guess before the answer, kept, and later set beside the truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import BadInput, MachineUnavailable
from . import progress

if TYPE_CHECKING:
    from ..widgets.answers import Guess, Truth
    from ..widgets.predict import Prediction


def predict(
    key: str,
    question: str,
    unit: str | None = None,
    choices: Sequence[str] | None = None,
    answer: Truth | None = None,
) -> Prediction:
    """Ask the reader for a guess, without waiting for it.

    key: under which the guess is kept in the progress file, beginning with the chapter: "s02.blocks". unit:
    what the number counts, such as "wavefronts". choices: what to choose from instead of a number. answer:
    the truth, if it may be shown as soon as there is a guess; else a later cell calls `.compare(truth)` of
    what this returns, or `predict.reveal(key, truth)`.

    `.guess` is the number, the choice, or None. Raises BadInput for an answer that is not one of the choices,
    MachineUnavailable if anywidget is not installed.
    """
    if not question.strip():
        raise BadInput("The question is empty: give a sentence that ends in a question mark.")
    if choices is not None and (isinstance(choices, str) or len(choices) < 2):
        raise BadInput(
            f"choices is {choices!r}: give two or more texts to choose from, or None for a number."
        )
    options = list(choices or [])
    widget = _new(key, unit, options, answer, question=question)
    widget.observe(lambda change: progress.keep_guess(key, change["new"]), names="guess")
    return widget


def reveal(
    key: str, truth: Truth, unit: str | None = None, choices: Sequence[str] | None = None
) -> Prediction:
    """The guess that is kept under a key, beside the truth. Arguments and errors: as `predict`."""
    return _new(key, unit, list(choices or []), truth, compares=True)


predict.reveal = reveal  # type: ignore[attr-defined]


def _fitting(guess: Guess | None, choices: Sequence[str]) -> Guess | None:
    """A kept guess, unless the question has changed so that it no longer fits."""
    if choices:
        return guess if guess in choices else None
    return None if isinstance(guess, str) else guess


def _new(key: str, unit: str | None, choices: list[str], truth: Truth | None, **values: Any) -> Prediction:
    """A widget that holds what was guessed before, or one sentence about what is missing."""
    try:
        from ..widgets.answers import answer_for
        from ..widgets.predict import Prediction
    except ImportError as error:
        raise MachineUnavailable(
            f"A prediction needs a package that is missing here ({error.name}): run `make setup`, or "
            "`pip install anywidget`."
        ) from None
    return Prediction(
        key=progress.checked(key),
        unit=unit or "",
        choices=choices,
        guess=_fitting(progress.guess_of(key), choices),
        answer={} if truth is None else answer_for(truth, unit or "", choices),
        **values,
    )
