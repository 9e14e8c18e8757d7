"""A reader's cell put into its kernel, and what a compiler or the emulator says told in lines of the cell."""

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..ground.errors import BadInput, MachineUnavailable
from ..ground.files import cache_folder, write_atomically
from ..sources.cpp import blocks
from .definition import Exercise

_ERROR = re.compile(r"(?P<where>\S*):(?P<line>\d+):\d+: (?:fatal )?error: (?P<what>.*)")
_CUDA_ERROR = re.compile(
    r"(?P<where>\S*)\((?P<line>\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<what>.*)"
)

# What g++ says of a misspelt function in a template.
_UNKNOWN = re.compile(r"there are no arguments to (\S+) that depend on a template parameter.*")


@dataclass(frozen=True)
class Cell:
    """What a reader wrote for an exercise. `path` and its lines are the kernel with the cell in place."""

    exercise: Exercise
    text: str
    first_line: int = 1  # the number of the text's first line as the reader sees it; 2 below a %%kernel line

    @cached_property
    def kernel_text(self) -> str:
        """The kernel with the cell in place of the region."""
        lines = self.exercise.lines
        first, last = self.exercise.place
        return "\n".join([*lines[: first - 1], *self._lines, *lines[last:]]) + "\n"

    @cached_property
    def path(self) -> Path:
        """The same as a file, written when first asked for. Raises MachineUnavailable if that fails."""
        digest = hashlib.sha256(self.kernel_text.encode()).hexdigest()[:10]
        name = f"{self.exercise.subject}_{self.exercise.region}_{digest}.cu"
        path = cache_folder("exercises") / name
        try:
            write_atomically(path, self.kernel_text.encode())
        except OSError as error:
            raise MachineUnavailable(
                f"The kernel with your cell cannot be written to {path} ({error.strerror}): set "
                "KDA_LEARN_CACHE to a folder that can be written."
            ) from None
        return path

    def line_of(self, line: int) -> int | None:
        """The cell's line, as the reader counts, of a line of the kernel; None outside of the cell."""
        inside = line - self.exercise.place[0]
        return inside + self.first_line if 0 <= inside < len(self._lines) else None

    def where(self, line: int) -> str:
        """A line of the kernel in words: "line 5 of your cell", or "line 210 of s02_no_t1.cu"."""
        inside = self.line_of(line)
        if inside is not None:
            return f"line {inside} of your cell"
        first, last = self.exercise.place
        if line >= first:
            line += last - first + 1 - len(self._lines)
        return f"line {line} of {self.exercise.kernel.name}"

    def in_words(self, text: str) -> str:
        """A text in which places such as "/tmp/kernel.cu:210" are told by `where`."""
        place = re.compile(rf"(?:[\w./\\-]*[/\\])?{re.escape(self.path.name)}:(\d+)(?::\d+)?")
        return place.sub(lambda match: self.where(int(match[1])), text)

    def check_braces(self) -> None:
        """Raise BadInput, with the line, if the cell's braces do not match: a compiler would blame others."""
        try:
            blocks("\n" * (self.first_line - 1) + self.text)
        except BadInput as error:
            raise BadInput(f"In your cell {error}.") from None

    def compile_error(self, log: str) -> str:
        """One sentence about the first error of a C++ or CUDA compiler's log."""
        lines = log.splitlines()
        for index, line in enumerate(lines):
            found = _ERROR.search(line) or _CUDA_ERROR.search(line)
            if found is None:
                continue
            if Path(found["where"]).name == self.path.name:
                return self._error(int(found["line"]), found["what"])
            # The error is in a header: the template that the cell calls there. What leads to it stands above.
            calls = re.findall(rf"{re.escape(self.path.name)}[:(](\d+)", "\n".join(lines[: index + 1]))
            in_cell = [int(call) for call in calls if self.line_of(int(call)) is not None]
            if in_cell:
                return self._error(in_cell[-1], found["what"])
            return self.in_words(line.strip())
        return self.in_words(next((line.strip() for line in lines if "error" in line.lower()), log.strip()))

    @cached_property
    def _lines(self) -> list[str]:
        return self.text.rstrip("\n").split("\n")

    def _error(self, line: int, what: str) -> str:
        what = _UNKNOWN.sub(r"nothing is known by the name \1", what.strip().rstrip("."))
        inside = self.line_of(line)
        if inside is not None:
            code = self._lines[inside - self.first_line].strip()
            return f"Line {inside} of your cell ({code}): {what}."
        if line > self.exercise.place[0]:
            return (
                f"The compiler stops behind your cell, at {self.where(line)}: {what}. Look for a missing "
                "semicolon or bracket at the cell's end, and for a name that the rest of the kernel needs."
            )
        return f"The compiler stops before your cell, at {self.where(line)}: {what}."
