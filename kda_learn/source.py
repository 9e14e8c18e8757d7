"""Reading a kernel's .cu file: header, sections, constants, shared-memory regions, digest, difference.

Tile shapes and memory maps are written down in the kernels and nowhere else; Python reads them from there.
What a file must look like to be read is said at each property of `StageSource`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .cpp import Block, blocks, evaluate, functions, line_of, strip_comments
from .differences import Diff, Side, compare
from .errors import BadInput

_PACKAGE = Path(__file__).resolve().parent
_IN_A_WHEEL = _PACKAGE / "_kernels"
KERNELS = _IN_A_WHEEL if _IN_A_WHEEL.is_dir() else _PACKAGE.parent / "kernels"

_TITLE = re.compile(r"Stage (?P<stage>s\w+): (?P<text>.*)")
_FIELDS = {"Was slow": "was_slow", "Now": "now", "Remains": "remains"}
_FIELD = re.compile(rf"(?P<field>{'|'.join(_FIELDS)}):\s*(?P<text>.*)")
_BANNER = re.compile(r"\s*// ---- (?P<name>.+?) ----\s*")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"(?P<name>[^"]+)"', re.MULTILINE)
_CONSTANT = re.compile(r"\bconstexpr\s+(?:u32|int|unsigned)\s+(?P<name>\w+)\s*=\s*(?P<expression>[^;]+);")
_ELEMENT_BYTES = {"bf16": 2, "fp32": 4}
_OVERLAY = re.compile(
    r"overlay \[bytes (?P<size>[^\]]+)\]\s*(?P<contents>[^:]*?)"
    r"(?:,? in (?P<sections>[^:]+))?(?:: *(?P<rest>.*))?"
)


@dataclass(frozen=True)
class Header:
    """What a stage file says about itself in its first comment; empty strings for what it leaves out."""

    stage: str
    title: str
    was_slow: str = ""
    now: str = ""
    remains: str = ""


@dataclass(frozen=True)
class Region:
    """A named part of a block's dynamic shared memory. Offset and size are bytes, from its start."""

    name: str
    offset: int
    size: int
    description: (
        str  # "<shape> <type>: <written by> .. <last read by>"; for overlays a remark behind the colon
    )
    overlay: bool = False  # it shares its bytes with other regions, at times when those hold nothing of worth
    sections: tuple[
        str, ...
    ] = ()  # of an overlay: where an access to its bytes means it, not what lies below

    @property
    def end(self) -> int:
        """The first byte behind the region."""
        return self.offset + self.size

    @property
    def contents(self) -> str:
        """Shape and type of what it holds, such as "[C][D] bf16"."""
        return self.description.partition(":")[0].strip()

    @property
    def element_bytes(self) -> int | None:
        """Bytes of an element of a known type."""
        return _ELEMENT_BYTES.get(self.contents.rpartition(" ")[2])

    @property
    def written_by(self) -> str:
        """The sections that write it."""
        return self.description.partition(":")[2].partition("..")[0].strip()

    @property
    def last_read_by(self) -> str:
        """The section behind which its contents are dead, with others that read it before."""
        return self.description.partition(":")[2].partition("..")[2].strip()


@dataclass(frozen=True)
class _Constant:
    name: str
    expression: str
    comment: str


@dataclass(frozen=True)
class StageSource:
    """One kernel file, read. Lines count from 1."""

    path: Path
    text: str

    @classmethod
    def load(cls, path: Path) -> StageSource:
        """Reads a file. Raises BadInput when there is none."""
        return cls(Path(path), _read(Path(path)))

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the text; line n is lines[n - 1]."""
        return self.text.splitlines()

    @cached_property
    def code_lines(self) -> list[str]:
        """The same lines with blanks for comments."""
        return strip_comments(self.text).splitlines()

    @cached_property
    def header_length(self) -> int:
        """How many comment lines open the file."""
        length = 0
        while length < len(self.lines) and self.lines[length].startswith("//"):
            length += 1
        return length

    @cached_property
    def header(self) -> Header:
        """The file's first comment: `// Stage s12: <title>`, then `// Was slow:`, `// Now:`, `// Remains:`.

        A line that starts with none of these words continues the one before. Raises BadInput without a title.
        """
        comment = [line.removeprefix("//").strip() for line in self.lines[: self.header_length]]
        title = _TITLE.fullmatch(comment[0]) if comment else None
        if title is None:
            raise BadInput(f"{self.path} has no stage header: let its first line be '// Stage sNN: <title>'")
        found = {"title": title["text"]}
        current = "title"
        for line in comment[1:]:
            field = _FIELD.fullmatch(line)
            if field is None:
                found[current] = f"{found[current]} {line}".strip()
            else:
                current = _FIELDS[field["field"]]
                found[current] = field["text"]
        return Header(stage=title["stage"], **found)

    @cached_property
    def sections(self) -> dict[int, str]:
        """Line to section, for every line that lies in a function.

        In a kernel the section is the last banner, `// ---- name ----`, before the first one the kernel's
        name; in any other function it is the function's name.
        """
        found: dict[int, str] = {}
        for function in functions(self.text):
            is_kernel = "__global__" in function.head
            section = str(function.function)
            for line in range(line_of(self.text, function.head_start), line_of(self.text, function.end) + 1):
                banner = _BANNER.fullmatch(self.lines[line - 1]) if is_kernel else None
                if banner is not None:
                    section = banner["name"]
                found[line] = section
        return found

    def constants(self, v_split: int = 1) -> dict[str, int]:
        """The values of the file's integer constants at one VSPLIT, in the order of the file.

        They are `constexpr u32 NAME = EXPRESSION;` at file level and within `struct SharedMemory`. Raises
        BadInput for an expression that `cpp.evaluate` cannot read.
        """
        value_of = self._values(v_split)
        return {constant.name: value_of(constant.name) for constant in self._file_constants + self._map}

    def regions(self, v_split: int = 1) -> list[Region]:
        """The map of dynamic shared memory: the constants of `struct SharedMemory` whose comment has a shape.

        Each is a byte offset, and a region ends where the next one starts, the last one at BYTES. Comments:
        `[rows][columns] <type>: <written by> .. <last read by>`, or, for an overlay,
        `overlay [bytes <size>] [rows][columns] <type>, in <section>, <section>: <remark>`.
        """
        value_of = self._values(v_split)
        described = [constant for constant in self._map if constant.comment.startswith(("[", "overlay"))]
        offsets = [value_of(constant.name) for constant in described]
        overlays = [_OVERLAY.fullmatch(constant.comment) for constant in described]
        ends = [value_of("BYTES")] if described else []
        regions: list[Region] = []
        for constant, offset, overlay in reversed(list(zip(described, offsets, overlays, strict=True))):
            if overlay is None:
                regions.append(Region(constant.name, offset, ends[-1] - offset, constant.comment))
                ends.append(offset)
                continue
            size = evaluate(overlay["size"], value_of)
            sections = tuple(name.strip() for name in (overlay["sections"] or "").split(",") if name.strip())
            description = f"{overlay['contents']}: {overlay['rest'] or ''}"
            regions.append(Region(constant.name, offset, size, description, overlay=True, sections=sections))
        return regions[::-1]

    def statement(self, line: int) -> str:
        """The code of the statement that a line belongs to, without comments, on one line."""
        ends = re.compile(r"[;{}]\s*$")
        first = line
        while (
            first > 1 and not ends.search(self.code_lines[first - 2]) and self.code_lines[first - 2].strip()
        ):
            first -= 1
        last = line
        while last < len(self.lines) and not ends.search(self.code_lines[last - 1]):
            last += 1
        return " ".join(" ".join(self.code_lines[first - 1 : last]).split())

    @cached_property
    def _shared_memory(self) -> Block | None:
        """The braces of `struct SharedMemory`."""
        return next((block for block in blocks(self.text) if block.container == "SharedMemory"), None)

    @cached_property
    def _file_constants(self) -> list[_Constant]:
        """The constants at file level."""
        inside = [(block.start, block.end) for block in blocks(self.text)]
        return [
            constant
            for place, constant in _constants(self.text)
            if not any(start < place < end for start, end in inside)
        ]

    @cached_property
    def _map(self) -> list[_Constant]:
        """The constants of `struct SharedMemory`."""
        block = self._shared_memory
        if block is None:
            return []
        return [constant for place, constant in _constants(self.text) if block.start < place < block.end]

    @cached_property
    def _included_expressions(self) -> dict[str, str]:
        """Name to expression, for the constants at file level of all included files."""
        found: dict[str, str] = {}
        for path in included_files(self.path)[1:]:
            constants = StageSource.load(path)._file_constants
            found |= {constant.name: constant.expression for constant in constants}
        return found

    def _values(self, v_split: int) -> Callable[[str], int]:
        """A function from a constant's name to its value; constants of included files count too."""
        own = {constant.name: constant.expression for constant in self._file_constants + self._map}
        known = {"VSPLIT": v_split}

        def value_of(name: str) -> int:
            if name not in known:
                expression = own.pop(name, None) or self._included_expressions.get(name)
                if expression is None:
                    raise BadInput(f"{self.path.name} uses {name}, which is no integer constant: define it")
                known[name] = evaluate(expression, value_of)
            return known[name]

        return value_of


def included_files(path: Path) -> list[Path]:
    """A file and every file that it includes by `#include "..."`, directly or not, each once, itself first.

    Names are looked up beside the including file, then in `kernels/`. Raises BadInput when one is missing.
    """
    found: list[Path] = []
    waiting = [Path(path).resolve()]
    while waiting:
        current = waiting.pop(0)
        if current in found:
            continue
        found.append(current)
        for match in _INCLUDE.finditer(strip_comments(_read(current))):
            candidates = [folder / match["name"] for folder in (current.parent, KERNELS)]
            existing = [candidate.resolve() for candidate in candidates if candidate.is_file()]
            if not existing:
                raise BadInput(
                    f"{current} includes {match['name']!r}, which lies neither beside it nor in {KERNELS}"
                )
            waiting.append(existing[0])
    return found


def digest(path: Path) -> str:
    """A fingerprint (SHA-256, hexadecimal) of the text of a kernel file and of all it includes.

    Files of the emulator are left out: a GPU never sees them, and its figures do not change with them.
    """
    result = hashlib.sha256()
    for file in included_files(path):
        if file.parent == KERNELS / "emulator":
            continue
        text = file.read_bytes()
        result.update(f"{file.name} {len(text)}\n".encode())
        result.update(text)
    return result.hexdigest()


def diff(stage: StageSource, base: StageSource) -> Diff:
    """How a stage's file differs from its base's, the headers left out."""
    return compare(
        Side(base.path.name, base.text, skip=base.header_length),
        Side(stage.path.name, stage.text, skip=stage.header_length),
    )


def _read(path: Path) -> str:
    """A file's text."""
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError):
        raise BadInput(f"{path} was given, which is no file: give the path of a .cu or .cuh file") from None


def _constants(text: str) -> list[tuple[int, _Constant]]:
    """Every integer constant of a text, with its place and the comment that stands behind it."""
    code = strip_comments(text)
    lines = text.splitlines()
    code_lines = code.splitlines()
    found = []
    for match in _CONSTANT.finditer(code):
        line = line_of(text, match.end() - 1)
        parts = []
        column = lines[line - 1].find("//", match.end() - 1 - text.rfind("\n", 0, match.end() - 1))
        # A comment goes on in the next line when that line holds nothing else and starts in the same column.
        while column >= 0 and line <= len(lines) and lines[line - 1].find("//") == column:
            parts.append(lines[line - 1][column:].lstrip("/").strip())
            line += 1
            if line <= len(lines) and code_lines[line - 1].strip():
                break
        expression = " ".join(match["expression"].split())
        found.append((match.start(), _Constant(match["name"], expression, " ".join(parts))))
    return found
