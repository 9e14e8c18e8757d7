"""The words `bank_map` and `tiles`: the explorers, fed with what a stage did."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..ground.errors import BadInput, MachineUnavailable
from ..ground.given import several
from . import progress
from .tracing import Trace, trace

if TYPE_CHECKING:
    from ..sources.stages import Stage
    from ..widgets.answers import Guess, Truth
    from ..widgets.bank_map import BankMap
    from ..widgets.predict import Prediction
    from ..widgets.tiles import Tiles


CHOICES = ("kind", "region", "section", "line")


def bank_map(
    what: Stage | Trace | str | Path | Sequence[dict[str, Any]] | None = None,
    words: str = "",
    *,
    v_split: int = 1,
    **options: Any,
) -> BankMap:
    """The bank map: what one warp instruction asks of the 32 banks, phase by phase.

    what: a stage such as "s02" (traced on the CPU machine), a trace, or what `trace(...).access(...)` gave.
    Which of its accesses: words and kind=, region=, section=, as in `trace(...).wavefronts`, and line=, a
    source line: bank_map("s02", "store kr"). Without `what`, a pattern that the reader builds: lanes=,
    width=, stride=, padding=, distance=, swizzle=, as in `kda_learn.widgets.bank_map`.

    Raises BadInput for what does not fit, MachineUnavailable if anywidget is not installed.
    """
    draw = _explorer("bank_map", "bank_map")
    if what is None:
        return draw(**options)
    if isinstance(what, (list, tuple, dict)):
        if not what:
            raise BadInput(f"The accesses are {what!r}: give at least one, or leave them out for a pattern.")
        return draw([what] if isinstance(what, dict) else what, **options)
    unknown = set(options) - set(CHOICES)
    if unknown:
        raise BadInput(
            f"{', '.join(sorted(unknown))} was given beside a stage: choose its accesses by "
            f"{', '.join(CHOICES)}, or leave out the stage to build a pattern"
        )
    traced = what if isinstance(what, Trace) else trace(what, v_split=v_split)
    worst = traced.access(words, **options)
    others = [access for access in traced.accesses(words, **options) if access is not worst]
    return draw([worst, *others])


def tiles(view: str = "A", v_split: int = 1) -> Tiles:
    """The register tiling: which lane and which register hold an element of a tensor-core tile.

    view: "A", "B", "C", "dS" or "dual"; v_split: blocks that share dS, 1, 2, 4 or 8. See
    `kda_learn.widgets.tiles`. Raises BadInput for another view, MachineUnavailable without anywidget.
    """
    return _explorer("tiles", "tiles")(view, v_split)


def _explorer(module: str, name: str) -> Any:
    """A name of a module of kda_learn.widgets, or one sentence about the package that is missing."""
    try:
        return getattr(import_module(f"..widgets.{module}", __package__), name)
    except ImportError as error:
        raise MachineUnavailable(
            f"The explorers need a package that is missing here ({error.name}): run `make setup`, or "
            "`pip install anywidget`."
        ) from None


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
    if not isinstance(question, str) or not question.strip():
        raise BadInput(f"question is {question!r}: give a sentence that ends in a question mark.")
    wanted = "texts to choose from, or None for a number"
    options = [] if choices is None else several("choices", choices, wanted, least=2)
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
    answer_for = _explorer("answers", "answer_for")
    new = _explorer("predict", "Prediction")
    return new(
        key=progress.checked(key),
        unit=unit or "",
        choices=choices,
        guess=_fitting(progress.guess_of(key), choices),
        answer={} if truth is None else answer_for(truth, unit or "", choices),
        **values,
    )
