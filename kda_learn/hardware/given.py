"""Arrays of whole numbers at the door of this room's functions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ground.errors import BadInput
from ..ground.given import shown


def whole_numbers(name: str, values: Any, least: int | None = None, most: int | None = None) -> NDArray[Any]:
    """An array of whole numbers, each from `least` to `most`, in the type that it has. Raises BadInput."""
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        array = np.asarray(None)
    if array.size == 0:
        array = array.astype(np.int64)
    outside = "" if array.dtype.kind in "iu" else shown(values)
    if not outside and array.size and least is not None and array.min() < least:
        outside = f"{array.min()}"
    if not outside and array.size and most is not None and array.max() > most:
        outside = f"{array.max()}"
    if outside:
        between = "" if least is None else f" from {least} on" if most is None else f" from {least} to {most}"
        raise BadInput(f"{name} is {outside}: give whole numbers{between}.")
    return array
