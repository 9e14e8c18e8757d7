"""Reading a kernel's .cu file: header, sections, constants, shared-memory regions, difference to another.

Tile shapes and memory maps are written down in the kernels and nowhere else; Python reads them from there.
What a file must look like to be read is said at each property of `KernelSource`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path

from ..ground.errors import BadInput
from .cpp import Block, blocks, evaluate, functions, line_of, strip_comments
from .differences import Diff, Side, compare
from .includes import included_files, kept_while_unchanged, read_text

_TITLE = re.compile(r"Stage (?P<stage>s\w+): (?P<text>.*)")
_FIELDS = {"Was slow": "was_slow", "Now": "now", "Remains": "remains"}
_FIELD = re.compile(rf"(?P<field>{'|'.join(_FIELDS)}):\s*(?P<text>.*)")
_BANNER = re.compile(r"\s*// ---- (?P<name>.+?) ----\s*")
_CONSTANT = re.compile(r"\bconstexpr\s+(?:u32|int|unsigned)\s+(?P<name>\w+)\s*=\s*(?P<expression>[^;]+);")
_PARAMETERS = re.compile(r"\b(?:u32|int|unsigned)\s+(\w+)")
_ELEMENT_BYTES = {"bf16": 2, "fp32": 4}
_REGION = re.compile(
    r"(?P<overlay>overlay (?:\[bytes \d+\] )?)?(?P<shape>(?:\[\w+\])+) (?P<type>bf16|fp32)"
    r"(?:, in (?P<sections>[^:]+))?: (?P<lifetime>.*)"
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
    contents: str  # shape and type of what it holds, such as "[C][D] bf16"
    contents_bytes: int  # what these take; the same as the size unless bytes lie idle
    lifetime: str  # "<written by> .. <last read by>"; of an overlay: when its bytes are free for it
    overlay: bool = False  # it shares its bytes with other regions, while those hold nothing of worth
    sections: tuple[str, ...] = ()  # of an overlay: where accesses to its bytes mean it

    @property
    def end(self) -> int:
        """The first byte behind the region."""
        return self.offset + self.size

    @property
    def description(self) -> str:
        """Contents and lifetime in one line."""
        return f"{self.contents}: {self.lifetime}"


@dataclass(frozen=True)
class _Constant:
    name: str
    expression: str
    comment: str


@dataclass(frozen=True)
class KernelSource:
    """One kernel file, read. Lines count from 1."""

    path: Path
    text: str

    @classmethod
    def load(cls, path: Path) -> KernelSource:
        """Reads a file, once for each state it is in. Raises BadInput when there is none."""
        return _loaded(Path(path))

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

    def constants(self, **parameters: int) -> dict[str, int]:
        """The values of the file's integer constants, in the order of the file.

        parameters: of `struct SharedMemory`'s template, such as VSPLIT=4; one that is left out counts as 1.

        They are `constexpr u32 NAME = EXPRESSION;` at file level and within `struct SharedMemory`. Raises
        BadInput for an expression that `cpp.evaluate` cannot read.
        """
        value_of = self._values(parameters)
        return {constant.name: value_of(constant.name) for constant in self._file_constants + self._map}

    def value(self, expression: str) -> int:
        """The value of an expression of the file's constants. Raises BadInput, as `constants` does."""
        return evaluate(expression, self._values({}))

    def regions(self, **parameters: int) -> list[Region]:
        """The map of dynamic shared memory: the constants of `struct SharedMemory` whose comment has a shape.

        parameters: as in `constants`. Each is a byte offset, and a region ends where the next one starts, the
        last one at BYTES. Comments:
        `[rows][columns] <bf16 or fp32>: <written by> .. <last read by>`. An overlay is as large as its shape:
        `overlay [bytes <size>] [rows][columns] <type>, in <section>, <section>: <when>`, the bytes optional.
        """
        value_of = self._values(parameters)
        regions: list[Region] = []
        next_offset = value_of("BYTES") if self._map else 0
        for constant in reversed(self._map):
            described = _REGION.fullmatch(constant.comment)
            if described is None:
                continue
            offset = value_of(constant.name)
            sides = re.findall(r"\w+", described["shape"])
            contents_bytes = (
                prod(evaluate(side, value_of) for side in sides) * _ELEMENT_BYTES[described["type"]]
            )
            is_overlay = described["overlay"] is not None
            region = Region(
                name=constant.name,
                offset=offset,
                size=contents_bytes if is_overlay else next_offset - offset,
                contents=f"{described['shape']} {described['type']}",
                contents_bytes=contents_bytes,
                lifetime=described["lifetime"],
                overlay=is_overlay,
                sections=tuple(re.split(r",\s*", described["sections"] or "")) if is_overlay else (),
            )
            regions.append(region)
            if not is_overlay:
                next_offset = offset
        return regions[::-1]

    def statement(self, line: int) -> str:
        """The code of the statement that a line belongs to, without comments, on one line."""
        code = [line_of_code.strip() for line_of_code in self.code_lines]
        first = line
        while first > 1 and code[first - 2] and not code[first - 2].endswith((";", "{", "}")):
            first -= 1
        last = line
        while last < len(code) and not code[last - 1].endswith((";", "{", "}")):
            last += 1
        return " ".join(code[first - 1 : last])

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
            constants = KernelSource.load(path)._file_constants
            found |= {constant.name: constant.expression for constant in constants}
        return found

    def _values(self, parameters: Mapping[str, int]) -> Callable[[str], int]:
        """A function from a constant's name to its value; constants of included files count too."""
        template = _PARAMETERS.findall(self._shared_memory.head) if self._shared_memory else []
        own = {constant.name: constant.expression for constant in self._file_constants + self._map}
        unknown = set(parameters) - set(template) if template else ()
        if unknown:
            raise BadInput(
                f"{', '.join(sorted(unknown))} was given for {self.path.name}, whose SharedMemory has the "
                f"template parameters {', '.join(template)}: give one of these."
            )
        known = dict.fromkeys(template, 1) | parameters

        def value_of(name: str) -> int:
            if name not in known:
                expression = own.pop(name, None) or self._included_expressions.get(name)
                if expression is None:
                    raise BadInput(f"{self.path.name} uses {name}, which is no integer constant: define it")
                known[name] = evaluate(expression, value_of)
            return known[name]

        return value_of


@kept_while_unchanged
def _loaded(path: Path) -> KernelSource:
    return KernelSource(path, read_text(path))


def diff(stage: KernelSource, base: KernelSource) -> Diff:
    """How a stage's file differs from its base's, the headers left out."""
    return compare(
        Side(base.path.name, base.text, skip=base.header_length),
        Side(stage.path.name, stage.text, skip=stage.header_length),
    )


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
