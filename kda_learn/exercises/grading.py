"""What a grade is: the demands on a reader's cell, whether each is met, and how that is shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from ..display.banners import machine_banner
from ..display.parts import Banner, Cell, Part, Sentence, Shown, Table
from ..ground.errors import BadInput
from .definition import Exercise, WrongAnswer

if TYPE_CHECKING:
    import numpy as np

    from ..machines.emulator_launch import Launch


STYLE = """
.kda .kda-hint { border: 1px solid rgba(128, 128, 128, .35); border-radius: 4px; margin: .3em 0; }
.kda .kda-hint > summary { padding: .2em .7em; cursor: pointer; font-size: .92em; }
.kda .kda-hint > div { padding: 0 .7em .3em; }
.kda .kda-hint p { margin: .3em 0; }
.kda .kda-hint pre { margin: .3em 0; overflow-x: auto; background: none; color: inherit; }
.kda .kda-hint code { background: none; color: inherit; padding: 0; }
.kda table.kda-table td.kda-wrap { min-width: 9em; }
"""


@dataclass(frozen=True)
class Demand:
    """One demand on a cell, and what was found."""

    name: str
    ok: bool | None  # None: it cannot be looked at on this computer
    found: str  # a sentence; where the demand is not met, one that helps


HARMLESS = {
    "race",
    "race within a warp",
    "uninitialised read",
    "copy not waited for",
    "copy never waited for",
}
"""Kinds of faults with which a kernel still runs to its end and makes every access."""


@dataclass(frozen=True)
class Observation:
    """What a kernel did on the emulator: what demands are judged by, and what two cells are compared by."""

    faults: list[str]  # one sentence each
    fault_kinds: frozenset[str]
    outputs: tuple[np.ndarray, ...]
    launch: Launch

    @property
    def can_be_counted(self) -> bool:
        """Whether the kernel made all accesses that it wants to make, so that counts mean something."""
        return self.fault_kinds <= HARMLESS


def not_counted(name: str) -> Demand:
    """A demand that has to wait until the faults are gone."""
    return Demand(name, None, "Not counted while there are faults.")


class OfAnExercise(Shown):
    """What an exercise says; its hints need a style of their own."""

    style = STYLE


@dataclass(frozen=True, repr=False)
class Grade(OfAnExercise):
    """The verdict on a cell."""

    exercise: Exercise
    attempted: bool
    demands: list[Demand] = field(default_factory=list)
    recognised: WrongAnswer | None = None  # the known wrong answer that the cell behaves as
    observation: Observation | None = None  # None if the cell was not attempted or does not compile
    note: str = ""

    @property
    def passed(self) -> bool:
        """Whether every demand is met that can be looked at here. An untouched cell has not passed."""
        return self.attempted and all(demand.ok is not False for demand in self.demands)

    @property
    def message(self) -> str:
        """What helps with a known wrong answer; empty for others."""
        return "" if self.recognised is None else self.recognised.message

    def demand(self, name: str) -> Demand:
        """The demand of a name such as "numbers". Raises BadInput if the cell was not judged by one."""
        for demand in self.demands:
            if demand.name == name:
                return demand
        judged = ", ".join(demand.name for demand in self.demands) or "none"
        raise BadInput(f"The demand {name!r} was asked for: the cell was judged by {judged}.")

    def parts(self) -> list[Part]:
        notes = [Sentence(self.note, quiet=True)] if self.note else []
        if not self.attempted:
            text = (
                f"{self.exercise.key}: not attempted. The cell is as you found it: write your lines into it, "
                "run it, then run this cell again."
            )
            return [Sentence(text), *notes]
        rows = [[demand.name, _verdict(demand.ok), demand.found] for demand in self.demands]
        parts: list[Part] = [
            machine_banner("emulator"),
            Table(["demand", "verdict", "found"], rows, wrap="found"),
            Sentence(self._summary()),
        ]
        if self.message:
            parts.append(Banner("What happened", self.message))
        return parts + notes

    def _summary(self) -> str:
        key, count = self.exercise.key, len(self.demands)
        if self.passed:
            return f"{key}: passed. The worked solution, to compare: {self.exercise.solution}"
        missed = sum(demand.ok is False for demand in self.demands)
        if count == 1:
            return f"{key}: not passed yet, the kernel does not compile."
        return f"{key}: not passed yet, {missed} of {count} demands {'is' if missed == 1 else 'are'} not met."


@dataclass(frozen=True)
class HintPart:
    """One hint, folded on a page. Backquotes mark code; lines that are indented by 4 are lines of code."""

    number: int
    words: str
    folded: bool = True

    def html(self) -> str:
        body = "".join(map(_paragraph, re.split(r"\n\s*\n", self.words)))
        state = "" if self.folded else " open"
        summary = f"<summary>Hint {self.number}</summary>"
        return f'<details class="kda-hint"{state}>{summary}<div>{body}</div></details>'

    def text(self) -> str:
        return f"Hint {self.number}: hint({self.number})" if self.folded else self.words


@dataclass(frozen=True, repr=False)
class Kept(OfAnExercise):
    """What a cell with %%kernel gives: it was kept, this is how to go on, and the hints, folded."""

    exercise: Exercise
    lines: int

    def parts(self) -> Sequence[Part | HintPart]:
        first, last = self.exercise.place
        text = (
            f"{self.exercise.title}: your {self.lines} lines are kept, in place of lines {first} to {last} "
            f"of {self.exercise.kernel.name}. grade() builds and judges them."
        )
        hints = [HintPart(number, hint) for number, hint in enumerate(self.exercise.hints, start=1)]
        return [Sentence(text), *hints]


@dataclass(frozen=True, repr=False)
class Hint(OfAnExercise):
    """One hint, unfolded."""

    number: int
    words: str

    def parts(self) -> Sequence[Part | HintPart]:
        return [HintPart(self.number, self.words, folded=False)]


def _verdict(ok: bool | None) -> Cell:
    if ok is None:
        return Cell("not looked at", "quiet")
    return Cell("met", "good") if ok else Cell("not met", "bad")


def _paragraph(text: str) -> str:
    lines = text.splitlines()
    if all(line.startswith("    ") for line in lines):
        code = "\n".join(line[4:] for line in lines)
        return f"<pre><code>{escape(code)}</code></pre>"
    marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    return f"<p>{marked}</p>"
