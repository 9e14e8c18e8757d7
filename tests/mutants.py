"""A stage's file with one thing changed: the mutants that a check must not let pass."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from kda_learn.cache import cache_folder, write_atomically
from kda_learn.stages import Stage

SYNCHRONISATION = re.compile(
    r"__syncthreads\(\);|__syncwarp\(\);|cp_async_wait<\d>\(\);|cp_async_commit\(\);|\bfence_\w+\(\);"
)
LAYOUT = re.compile(r"using (?P<name>\w+)Layout = (?P<layout>[^;]+);")
PLAIN = {  # what a tile's layout would be if nobody had thought about banks
    "Qk": "Rows<bf16, D>",
    "Gc": "Rows<float, D>",
    "QdKd": "Rows<bf16, D>",
    "Kr": "Rows<bf16, D>",
    "Small": "Rows<bf16, C>",
    "RawSmall": "Rows<bf16, C>",
    "Do": "Rows<bf16, DV>",
    "RawDo": "Rows<bf16, DV>",
    "Ds": "Rows<bf16, D>",
    "Bdv": "Rows<bf16, DV>",
    "Du": "Rows<float, DV>",
    "T1": "Rows<float, D>",
}


@dataclass(frozen=True)
class Mutant:
    """A stage's text with one change."""

    stage: Stage
    line: int
    change: str
    text: str

    @property
    def place(self) -> str:
        """Where it was changed and how, for messages."""
        return f"{self.stage.path.name}:{self.line} {self.change}"

    def write(self) -> Path:
        """The file of this mutant, always in the same place: the emulator then finds what it built before."""
        change = "".join(re.findall(r"\w+", self.change.partition(" -> ")[2]))
        path = cache_folder("mutants") / f"{self.stage.id}_{self.line}_{change}.cu"
        write_atomically(path, self.text.encode())
        return path


def without_synchronisation(stage: Stage) -> list[Mutant]:
    """Every barrier, wait, commit and fence left out, one at a time."""
    code = "\n".join(stage.source.code_lines)
    return [_changed(stage, match, "") for match in SYNCHRONISATION.finditer(code)]


def with_weaker_waits(stage: Stage) -> list[Mutant]:
    """Every wait for copies lets one more group of them be under way, one at a time."""
    code = "\n".join(stage.source.code_lines)
    return [
        _changed(stage, match, f"cp_async_wait<{int(match['groups']) + 1}>();")
        for match in re.finditer(r"cp_async_wait<(?P<groups>\d)>\(\);", code)
    ]


def with_plain_layouts(stage: Stage) -> dict[str, Mutant]:
    """Every layout made plain that is not plain already, one at a time, by the layout's name.

    Reader and writer share the name, so that both change and the numbers stay right.
    """
    code = "\n".join(stage.source.code_lines)
    found = {}
    for match in LAYOUT.finditer(code):
        plain = PLAIN[match["name"]]
        if _with_numbers(match["layout"], stage) != _with_numbers(plain, stage):
            found[match["name"]] = _changed(stage, match, f"using {match['name']}Layout = {plain};")
    return found


def replaced(stage: Stage, before: str, after: str) -> Mutant:
    """A piece of text, which must be there once, replaced by another."""
    (match,) = re.finditer(re.escape(before), stage.source.text)
    return _changed(stage, match, after)


def _changed(stage: Stage, match: re.Match[str], replacement: str) -> Mutant:
    """The stage with a match in its code replaced."""
    text = stage.source.text
    line = text.count("\n", 0, match.start()) + 1
    change = f"{match[0]} -> {replacement or 'nothing'}"
    return Mutant(stage, line, change, text[: match.start()] + replacement + text[match.end() :])


def _with_numbers(layout: str, stage: Stage) -> str:
    """A layout with strides as numbers: Rows<bf16, QK_STRIDE> may be plain already."""
    constants = stage.source.constants()
    return re.sub(r"\w+", lambda name: str(constants.get(name[0], name[0])), layout)
