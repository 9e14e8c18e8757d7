"""The exercises there are: which lines of which kernel a reader writes anew, and what helps on the way.

Each is a file in data/exercises, named like its key: `s02.hand_over.toml`. It holds
    title            what to do, in one line
    kernel           the kernel's file, from kernels/
    first_line       the first line of the region, without blanks around it
    next_line        the first line behind the region; both occur once in the kernel
    stub             what the cell holds before the reader begins
    hints            three, each saying more than the one before
    solution         the notebook with the worked solution, from notebooks/
    [[wrong]]        answers that one may well arrive at: name, cell, fails (the demands that it does not
                     meet) and message, a sentence or two that help. A reader's cell that behaves as one of
                     them does, with the same results and addresses, gets its message.
So the kernels need no marks for the exercises' sake, and a test sees to it that the lines are still there.
"""

import tomllib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from ..ground.errors import BadInput
from ..ground.files import DATA, KERNELS
from ..sources.cpp import strip_comments
from ..sources.includes import read_text

FOLDER = DATA / "exercises"


@dataclass(frozen=True)
class WrongAnswer:
    """A cell that many arrive at, and what helps them on."""

    name: str  # such as "forgets beta"
    cell: str
    fails: tuple[str, ...]  # names of demands
    message: str


@dataclass(frozen=True)
class Exercise:
    """One exercise. Line numbers count from 1."""

    subject: str  # a stage's id, or the name of a lab kernel
    region: str
    title: str
    kernel: Path
    first_line: str
    next_line: str
    stub: str
    hints: tuple[str, ...]
    solution: str  # a notebook's path in notebooks/
    wrong: tuple[WrongAnswer, ...]

    @property
    def key(self) -> str:
        """The name under which progress is kept, such as "s02.hand_over"."""
        return f"{self.subject}.{self.region}"

    @property
    def magic(self) -> str:
        """The first line of the reader's cell."""
        return f"%%kernel {self.subject} region={self.region}"

    @cached_property
    def lines(self) -> list[str]:
        """The kernel as it is in the course, line by line."""
        return read_text(self.kernel).splitlines()

    @cached_property
    def place(self) -> tuple[int, int]:
        """The region's first and last line in the kernel. Raises BadInput if it is not there, or twice."""
        first, behind = self._line_of(self.first_line), self._line_of(self.next_line)
        if behind <= first:
            raise BadInput(f"{self.key}: its next_line stands before its first_line in {self.kernel.name}.")
        last = behind - 1
        while last > first and not self.lines[last - 1].strip():
            last -= 1
        return first, last

    @property
    def original(self) -> str:
        """The region's lines in the kernel, without the indentation that all of them share."""
        first, last = self.place
        lines = self.lines[first - 1 : last]
        shared = min(len(line) - len(line.lstrip()) for line in lines if line.strip() and line[0] != "#")
        return "\n".join(line[shared:] if line[:shared].isspace() else line for line in lines) + "\n"

    def is_untouched(self, cell: str) -> bool:
        """Whether a cell is the stub still, or holds no code at all; comments and blanks do not matter."""
        return _code(cell) in ("", _code(self.stub))

    def _line_of(self, text: str) -> int:
        found = [number for number, line in enumerate(self.lines, start=1) if line.strip() == text]
        if len(found) != 1:
            raise BadInput(
                f"{self.key} looks for the line {text!r}, which occurs {len(found)} times in "
                f"{self.kernel.name}: name one that occurs once."
            )
        return found[0]


def keys() -> list[str]:
    """The keys of all exercises, in alphabetical order."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


@lru_cache(maxsize=64)
def exercise(key: str) -> Exercise:
    """The exercise of a key such as "s02.hand_over". Raises BadInput, naming those there are, for others."""
    if key not in keys():
        raise BadInput(f"The exercise {key!r} was asked for: choose one of {', '.join(keys())}.")
    values = tomllib.loads(read_text(FOLDER / f"{key}.toml"))
    subject, _, region = key.partition(".")
    wrong = tuple(
        WrongAnswer(one["name"], one["cell"], tuple(one["fails"]), _joined(one["message"]))
        for one in values["wrong"]
    )
    return Exercise(
        subject=subject,
        region=region,
        title=values["title"],
        kernel=KERNELS / values["kernel"],
        first_line=values["first_line"],
        next_line=values["next_line"],
        stub=values["stub"],
        hints=tuple(hint.strip() for hint in values["hints"]),
        solution=values["solution"],
        wrong=wrong,
    )


def _joined(text: str) -> str:
    """A text of several lines as one line."""
    return " ".join(text.split())


def _code(cell: str) -> str:
    """A cell without comments and blanks."""
    return "".join(strip_comments(cell).split())
