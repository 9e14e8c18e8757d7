"""How one kernel file differs from another: hunks as `diff -u` shows them, and how much code they change."""

from dataclasses import dataclass
from difflib import SequenceMatcher

from .cpp import strip_comments

CONTEXT = 3  # unchanged lines shown around a change; changes nearer than twice that share a hunk


@dataclass(frozen=True)
class Hunk:
    """Neighbouring changes with the unchanged lines around them."""

    base_line: int  # first line shown, of the base file
    line: int  # and of the new file
    text: str  # "@@ ..." and lines that start with " ", "-" or "+"
    code_lines: int  # changed lines of code; a line in another's place counts once, comments and blanks not
    cosmetic: bool  # the code on both sides is the same but for comments, blanks and line breaks


@dataclass(frozen=True)
class Diff:
    """All hunks between a base file and a new file."""

    base_name: str
    name: str
    hunks: list[Hunk]

    @property
    def code_lines(self) -> int:
        """Changed lines of code in all hunks."""
        return sum(hunk.code_lines for hunk in self.hunks)

    @property
    def text(self) -> str:
        """The difference in the unified format; empty when there is none."""
        if not self.hunks:
            return ""
        return f"--- {self.base_name}\n+++ {self.name}\n" + "".join(hunk.text for hunk in self.hunks)


@dataclass(frozen=True)
class Side:
    """One of the two files. Its first `skip` lines are left out of the comparison."""

    name: str
    text: str
    skip: int = 0

    @property
    def lines(self) -> list[str]:
        """The lines that are compared."""
        return [line.rstrip() for line in self.text.splitlines()[self.skip :]]

    @property
    def code(self) -> list[str]:
        """For each of these lines its code: no comments, no blanks at all."""
        return ["".join(line.split()) for line in strip_comments(self.text).splitlines()[self.skip :]]


def compare(base: Side, new: Side) -> Diff:
    """The difference from base to new."""
    base_lines, base_code = base.lines, base.code
    new_lines, new_code = new.lines, new.code
    matcher = SequenceMatcher(a=base_lines, b=new_lines, autojunk=False)
    hunks = []
    for group in matcher.get_grouped_opcodes(CONTEXT):
        shown: list[str] = []
        code_lines = 0
        removed_code = ""
        added_code = ""
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                shown += [f" {line}" for line in base_lines[i1:i2]]
                continue
            shown += [f"-{line}" for line in base_lines[i1:i2]]
            shown += [f"+{line}" for line in new_lines[j1:j2]]
            removed = [line for line in base_code[i1:i2] if line]
            added = [line for line in new_code[j1:j2] if line]
            if "".join(removed) != "".join(added):
                code_lines += max(len(removed), len(added))
            removed_code += "".join(removed)
            added_code += "".join(added)
        base_line = group[0][1] + base.skip + 1
        new_line = group[0][3] + new.skip + 1
        base_count = group[-1][2] - group[0][1]
        new_count = group[-1][4] - group[0][3]
        heading = f"@@ -{base_line},{base_count} +{new_line},{new_count} @@"
        text = "\n".join([heading, *shown]) + "\n"
        hunks.append(Hunk(base_line, new_line, text, code_lines, cosmetic=removed_code == added_code))
    return Diff(base.name, new.name, hunks)
