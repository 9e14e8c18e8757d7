"""A stage's file with one thing changed: what the stage lives by, left out or spoilt, one at a time.

Each barrier, wait, commit and fence can be left out, each wait made weaker, each layout made plain; a check
must notice every one of them. An id such as "g4_g5.syncwarp.1" names the section, what is changed there, and
which of several it is.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ..ground.files import cache_folder, write_atomically
from ..sources.stages import Stage

SYNCHRONISATION = re.compile(
    r"__(?P<sync>sync\w+)\(\);|cp_async_(?P<wait>wait)<(?P<groups>\d)>\(\);|cp_async_(?P<commit>commit)\(\);"
    r"|\b(?P<fence>fence_\w+)\(\);"
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
    id: str  # such as "g4_g5.syncwarp.1"
    line: int
    change: str  # such as "__syncwarp(); -> nothing"
    text: str

    @property
    def place(self) -> str:
        """Where it was changed and how, for messages."""
        return f"{self.stage.path.name}:{self.line} {self.change}"

    def write(self) -> Path:
        """The file of this mutant, always in the same place: the emulator then finds what it built before."""
        path = cache_folder("mutants") / f"{self.stage.id}.{self.id}.cu"
        write_atomically(path, self.text.encode())
        return path


def mutants_of(stage: Stage) -> dict[str, Mutant]:
    """All mutants of a stage by id, in the order of their kinds and of the file."""
    found = [*without_synchronisation(stage), *with_weaker_waits(stage), *with_plain_layouts(stage)]
    return {mutant.id: mutant for mutant in found}


def without_synchronisation(stage: Stage) -> list[Mutant]:
    """Every barrier, wait, commit and fence left out, one at a time."""
    matches = SYNCHRONISATION.finditer(_code(stage))
    return _changed(stage, ((match, "") for match in matches), _what)


def with_weaker_waits(stage: Stage) -> list[Mutant]:
    """Every wait for copies lets one more group of them be under way, one at a time."""
    changes = [
        (match, f"cp_async_wait<{int(match['groups']) + 1}>();")
        for match in SYNCHRONISATION.finditer(_code(stage))
        if match["wait"]
    ]
    return _changed(stage, changes, lambda match: "weaker_wait")


def with_plain_layouts(stage: Stage) -> list[Mutant]:
    """Every layout made plain that is not plain already, one at a time.

    Reader and writer share the name, so that both change and the numbers stay right.
    """
    changes = [
        (match, f"using {match['name']}Layout = {PLAIN[match['name']]};")
        for match in LAYOUT.finditer(_code(stage))
        if _with_numbers(match["layout"], stage) != _with_numbers(PLAIN[match["name"]], stage)
    ]
    return _changed(stage, changes, lambda match: match["name"].lower())


def replaced(stage: Stage, before: str, after: str) -> Mutant:
    """A piece of text, which must be there once, replaced by another."""
    (match,) = re.finditer(re.escape(before), stage.source.text)
    (mutant,) = _changed(stage, [(match, after)], lambda match: "replaced")
    return mutant


def _changed(
    stage: Stage, changes: Iterable[tuple[re.Match[str], str]], what: Callable[[re.Match[str]], str]
) -> list[Mutant]:
    """The stage with each match of its code replaced, one at a time. what: the middle of its id."""
    text, sections = stage.source.text, stage.source.sections
    seen: Counter[str] = Counter()
    mutants = []
    for match, replacement in changes:
        line = text.count("\n", 0, match.start()) + 1
        kind = f"{sections.get(line, 'layout').replace(' ', '_')}.{what(match)}"
        seen[kind] += 1
        change = f"{match[0]} -> {replacement or 'nothing'}"
        changed = text[: match.start()] + replacement + text[match.end() :]
        mutants.append(Mutant(stage, f"{kind}.{seen[kind]}", line, change, changed))
    return mutants


def _what(match: re.Match[str]) -> str:
    """What is left out: "syncthreads", "wait", "commit" or the fence's name."""
    return match["sync"] or match["wait"] or match["commit"] or match["fence"]


def _code(stage: Stage) -> str:
    """The stage's text with blanks for comments, every character in its place."""
    return "\n".join(stage.source.code_lines)


def _with_numbers(layout: str, stage: Stage) -> str:
    """A layout with strides as numbers: Rows<bf16, QK_STRIDE> may be plain already."""
    constants = stage.source.constants()
    return re.sub(r"\w+", lambda name: str(constants.get(name[0], name[0])), layout)
