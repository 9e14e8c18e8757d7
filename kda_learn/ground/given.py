"""What the functions of this package ask at their door: is what was given of the kind that is wanted?

Each returns the value in its plain form, or raises BadInput: the name, what was given, what to give.
"""

import math
import operator
from collections.abc import Collection, Iterable
from typing import Any

from .errors import BadInput

LONGEST_SHOWN = 80
"""Characters of a value that a sentence shows."""


def shown(value: Any) -> str:
    """A value in a sentence: on one line, and cut where it gets long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def whole(name: str, value: Any, least: int = 0, most: int | None = None) -> int:
    """A whole number, Python's or NumPy's, from `least` to `most` (None: no end). 16.0 and True are none."""
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if number < least or (most is not None and number > most):
        upwards = f"from {least} on" if most is None else f"from {least} to {most}"
        raise BadInput(f"{name} is {shown(value)}: give a whole number {upwards}.")
    return number


def real(name: str, value: Any, wanted: str, least: float = -math.inf, most: float = math.inf) -> float:
    """A number from `least` to `most` that is not NaN; wanted: what to give, in words."""
    try:
        number = math.nan if isinstance(value, (bool, str, bytes)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not least <= number <= most:
        raise BadInput(f"{name} is {shown(value)}: give {wanted}.")
    return number


def several(name: str, values: Any, wanted: str, *, least: int = 1) -> list[Any]:
    """The items of a list, a tuple or an array, at least so many; a text is no list of its letters."""
    if isinstance(values, (str, bytes, dict)) or not isinstance(values, Iterable) or _has_no_axis(values):
        raise BadInput(f"{name} is {shown(values)}: give a list of {wanted}.")
    items = list(values)
    if len(items) < least:
        raise BadInput(f"{name} is {shown(values)}: give a list of {wanted}, at least {least}.")
    return items


def yes_or_no(name: str, value: Any) -> bool:
    """True or False, Python's or NumPy's; a text such as "no" would count as True."""
    if type(value).__name__ not in ("bool", "bool_"):
        raise BadInput(f"{name} is {shown(value)}: give True or False.")
    return bool(value)


def text(name: str, value: Any, wanted: str) -> str:
    """A text; wanted: what to give, in words."""
    if not isinstance(value, str):
        raise BadInput(f"{name} is {shown(value)}: give {wanted}.")
    return value


def one_of(name: str, value: Any, choices: Collection[Any]) -> Any:
    """One of some texts or numbers, whose type counts: "32" is not 32."""
    for choice in choices:
        if isinstance(value, type(choice)) and not isinstance(value, bool) and value == choice:
            return choice
        if isinstance(choice, int) and _index(value) == choice:
            return choice
    raise BadInput(f"{name} is {shown(value)}: give {_listed(choices)}.")


def _index(value: Any) -> int | None:
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def _has_no_axis(values: Any) -> bool:
    return getattr(values, "ndim", 1) == 0


def _listed(choices: Collection[Any]) -> str:
    *most, last = map(repr, choices)
    return f"{', '.join(most)} or {last}" if most else last
