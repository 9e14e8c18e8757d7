"""The word `diff`: what a stage changes in the one it starts from, coloured."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from html import escape

from ..display.parts import Part, Sentence, Shown
from ..ground.errors import BadInput
from ..sources.differences import Hunk
from ..sources.stages import diff as diff_stages
from ..sources.stages import stage as stage_named

STYLE = """
.kda .kda-diff { display: inline-block; min-width: 100%; box-sizing: border-box; white-space: pre;
  font: .86em/1.5 var(--jp-code-font-family, var(--md-code-font-family, ui-monospace)), monospace;
  tab-size: 2; }
.kda .kda-diff > span { display: block; padding-right: 1em; }
.kda .kda-diff .kda-line { display: inline-block; width: 3.2em; padding-right: .9em; text-align: right;
  opacity: .8; user-select: none; }
.kda .kda-diff .kda-add { background: rgba(46, 160, 67, .17); }
.kda .kda-diff .kda-del { background: rgba(248, 81, 73, .17); }
.kda .kda-diff .kda-add b { background: rgba(46, 160, 67, .38); font-weight: inherit; }
.kda .kda-diff .kda-del b { background: rgba(248, 81, 73, .38); font-weight: inherit; }
.kda .kda-hunk { border: 1px solid rgba(128, 128, 128, .35); border-radius: 4px; margin: .4em 0; }
.kda .kda-hunk > summary { padding: .25em .7em; cursor: pointer; font-size: .92em; }
.kda .kda-hunk .kda-box { margin: 0; border-top: 1px solid rgba(128, 128, 128, .35); }
"""
_WORD = re.compile(r"\w+|\s+|.")

ALIKE = 0.75
"""Two lines are set against each other word by word if at least this share of them is the same."""


@dataclass(frozen=True)
class Place:
    """A hunk and where it lies: its number from 1, and the sections whose lines it changes."""

    number: int
    sections: tuple[str, ...]
    hunk: Hunk

    @property
    def heading(self) -> str:
        where = f" in {', '.join(self.sections)}" if self.sections else " outside of functions"
        count = self.hunk.code_lines
        return f"Hunk {self.number}{where}: {count} {'line' if count == 1 else 'lines'} of code"


@dataclass(frozen=True)
class HunkPart:
    """One hunk, as a box that can be folded."""

    place: Place

    def html(self) -> str:
        lines = "".join(_lines_html(self.place.hunk))
        return (
            f'<details class="kda-hunk" open><summary>{escape(self.place.heading)}</summary>'
            f'<div class="kda-box" tabindex="0" role="group" aria-label="{escape(self.place.heading)}">'
            f'<div class="kda-diff">{lines}</div></div></details>'
        )

    def text(self) -> str:
        return f"{self.place.heading}\n{self.place.hunk.text}".rstrip()


@dataclass(frozen=True, repr=False)
class Difference(Shown):
    """What a stage changes in its base; `places` are the hunks that are shown."""

    stage: str
    base: str
    base_name: str
    name: str
    places: list[Place]
    all_hunks: int
    all_code_lines: int

    @property
    def code_lines(self) -> int:
        """Changed lines of code in the hunks shown; a line in another's place counts once."""
        return sum(place.hunk.code_lines for place in self.places)

    @property
    def hunks(self) -> list[Hunk]:
        """The hunks shown."""
        return [place.hunk for place in self.places]

    @property
    def sections(self) -> list[str]:
        """The sections that the hunks shown change, in the file's order."""
        return list(dict.fromkeys(name for place in self.places for name in place.sections))

    @property
    def text(self) -> str:
        """The hunks shown, in the unified format."""
        return f"--- {self.base_name}\n+++ {self.name}\n" + "".join(hunk.text for hunk in self.hunks)

    def only(self, *wanted: int | str) -> Difference:
        """The same with some hunks only: by number (from 1) or by section, such as "r1" or "g4 g5".

        Raises BadInput where nothing is changed there.
        """
        places = [
            place for place in self.places if place.number in wanted or set(place.sections) & set(wanted)
        ]
        if not places:
            choice = ", ".join(["a number up to " + str(self.all_hunks), *map(repr, self.sections)])
            raise BadInput(
                f"{', '.join(map(repr, wanted)) or 'nothing'} was given, and the change from {self.base} to "
                f"{self.stage} has no such hunk: give {choice}."
            )
        return replace(self, places=places)

    def parts(self) -> Sequence[Part | HunkPart]:
        counts = Counter("-+".find(line[:1]) for hunk in self.hunks for line in hunk.text.splitlines()[1:])
        shown = len(self.places)
        some = "" if shown == self.all_hunks else f" Shown: {shown} of {self.all_hunks} hunks."
        total = (
            f"{self.base} to {self.stage}: {self.all_code_lines} changed lines of code in "
            f"{self.all_hunks} {'hunk' if self.all_hunks == 1 else 'hunks'}; comments not counted.{some}"
        )
        key = f"- taken out of {self.base_name} ({counts[0]} lines), + put into {self.name} ({counts[1]})."
        return [Sentence(total), Sentence(key, quiet=True), *map(HunkPart, self.places)]

    def _repr_html_(self) -> str:
        return super()._repr_html_().replace("<style>", f"<style>{STYLE}", 1)


def diff(stage: str, against: str | None = None) -> Difference:
    """What a stage's file changes in its base's, or in that of the stage `against`; the headers left out.

    `.only("r1")` or `.only(2)` shows a part. Raises BadInput for an unknown stage, and for the first one,
    which has no base.
    """
    found = diff_stages(stage, against)
    changed = stage_named(stage)
    base = stage_named(against or changed.base or "")
    places = [
        Place(number, _sections(hunk, changed.source.sections, base.source.sections), hunk)
        for number, hunk in enumerate(found.hunks, start=1)
    ]
    return Difference(
        stage=changed.id,
        base=base.id,
        base_name=found.base_name,
        name=found.name,
        places=places,
        all_hunks=len(places),
        all_code_lines=found.code_lines,
    )


def _numbered(hunk: Hunk) -> Iterator[tuple[str, int | None, int | None, str]]:
    """The lines of a hunk: sign, line in the base, line in the stage, text."""
    base_line, line = hunk.base_line, hunk.line
    for shown in hunk.text.splitlines()[1:]:
        sign = shown[:1]
        yield sign, base_line if sign in " -" else None, line if sign in " +" else None, shown[1:]
        base_line += sign in " -"
        line += sign in " +"


def _sections(hunk: Hunk, sections: dict[int, str], base_sections: dict[int, str]) -> tuple[str, ...]:
    """The sections of the lines that a hunk changes, in order; functions of the base that are gone too."""
    found: dict[str, None] = {}
    for sign, base_line, line, text in _numbered(hunk):
        if sign == " " or not text.strip():
            continue
        section = sections.get(line or 0) if sign == "+" else base_sections.get(base_line or 0)
        if section:
            found[section] = None
    return tuple(found)


def _lines_html(hunk: Hunk) -> Iterator[str]:
    """The lines of a hunk; in a run of removed and as many added lines, the words that differ are marked."""
    block: list[tuple[str, int | None, int | None, str]] = []
    for entry in [*_numbered(hunk), (" ", None, None, "")]:
        if entry[0] != " ":
            block.append(entry)
            continue
        yield from _block_html(block)
        block = []
        if entry[1] is not None:
            yield _line_html(*entry[:3], escape(entry[3]))


def _block_html(block: Sequence[tuple[str, int | None, int | None, str]]) -> Iterator[str]:
    removed = [entry for entry in block if entry[0] == "-"]
    added = [entry for entry in block if entry[0] == "+"]
    marked = {id(entry): escape(entry[3]) for entry in block}
    if len(removed) == len(added):
        for before, after in zip(removed, added, strict=True):
            marked[id(before)], marked[id(after)] = _mark(before[3], after[3])
    for entry in block:
        yield _line_html(*entry[:3], marked[id(entry)])


def _mark(before: str, after: str) -> tuple[str, str]:
    """Two lines in HTML, what differs in bold; as they are if they have little in common."""
    words, new_words = _WORD.findall(before), _WORD.findall(after)
    matcher = SequenceMatcher(a=words, b=new_words, autojunk=False)
    if matcher.ratio() < ALIKE:
        return escape(before), escape(after)
    old, new = "", ""
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        left, right = escape("".join(words[i1:i2])), escape("".join(new_words[j1:j2]))
        old += left if tag == "equal" or not left else f"<b>{left}</b>"
        new += right if tag == "equal" or not right else f"<b>{right}</b>"
    return old, new


def _line_html(sign: str, base_line: int | None, line: int | None, code: str) -> str:
    name = {"+": ' class="kda-add"', "-": ' class="kda-del"'}.get(sign, "")
    number = base_line if line is None else line
    return f'<span{name}><span class="kda-line">{number}</span>{sign} {code}</span>'
