"""What a grade says of accesses that the compiler for GPUs joins or splits."""

from dataclasses import replace

from ..tracing.widths import Comparison
from .cell import Cell
from .grading import Demand


def with_widths(wavefronts: Demand, cell: Cell, compared: Comparison) -> Demand:
    """The demand on wavefronts, with a word on accesses that are not as wide on a GPU as in the source."""
    said = [wavefronts.found]
    for one in compared.differences:
        first, last = (cell.where(line) for line in (one.lines[0], one.lines[-1]))
        place = first if first == last else f"{first} to {last}"
        said.append(one.told(f"{place[:1].upper()}{place[1:]}"))
    if compared.missing:
        said.append("Their widths in a GPU's machine code were not looked at.")
    return replace(wavefronts, found=" ".join(said))
