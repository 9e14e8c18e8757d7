"""The prediction: a question that a reader answers before the answer is shown, and never has to."""

from __future__ import annotations

from typing import Any

import traitlets

from .answers import Truth, answer_for, said_of
from .explorer import Explorer, bundle


class Prediction(Explorer):
    """A question with a place for a guess, or (`compares`) the guess beside the truth.

    guess: a number, one of `choices`, or None. answer: what is said about a guess once the truth is known,
    {truth, bands: [[bound, sentence]], by_choice: {choice: sentence}, without}; empty until then. A number
    gets the sentence of the first bound above it, and {guess} in a sentence stands for it. On a page without
    Python the script keeps the guess in the browser, under `key`.
    """

    script = "predict"
    state_names = ("key", "question", "unit", "choices", "guess", "answer", "compares")
    _esm = bundle("predict")
    key = traitlets.Unicode().tag(sync=True)
    question = traitlets.Unicode().tag(sync=True)
    unit = traitlets.Unicode().tag(sync=True)
    choices = traitlets.List(traitlets.Unicode()).tag(sync=True)
    guess: Any = traitlets.Any(None, allow_none=True).tag(sync=True)
    answer = traitlets.Dict().tag(sync=True)
    compares = traitlets.Bool(False).tag(sync=True)

    def compare(self, truth: Truth) -> Prediction:
        """The guess beside the truth, for a later cell. Raises BadInput for a truth that does not fit."""
        return Prediction(
            key=self.key,
            unit=self.unit,
            choices=self.choices,
            guess=self.guess,
            answer=answer_for(truth, self.unit, self.choices),
            compares=True,
        )

    def __repr__(self) -> str:
        said = said_of(self.guess, self.unit, self.answer) if self.answer else ""
        return " ".join(filter(None, [self.question, said]))
