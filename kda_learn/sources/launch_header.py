"""The launch header of a .cu file: lines of comment that say how its kernel is launched, and on what.

    // kda-learn: launch saxpy<128> grid 4 block 128 shared 1024 seed 1
    // kda-learn: in  a float32 2.5
    // kda-learn: in  x float32[4*128] random
    // kda-learn: out y float32[4*128]

One line for the launch (grid and block: up to three sizes, x first, as in `block 32,8`; shared: bytes of
dynamic shared memory; seed: of the random numbers) and one for each parameter of the kernel, in any order:
in, out or inout, its name, its type with its sizes, and what it holds before. Wherever a whole number stands,
an expression of the file's constants may stand.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..ground.errors import BadInput
from .kernel_source import KernelSource
from .signatures import TYPES, Parameter, Signature, signatures

MARK = "// kda-learn:"
FILLS: dict[str, str | int] = {"random": "random", "arange": "arange", "zeros": 0, "ones": 1}
NUMBER_TYPES = tuple(dict.fromkeys(TYPES.values()))
MOST_BYTES = 1 << 30
"""Of all arrays together."""

_SETTINGS = ("grid", "block", "shared", "seed")
_ARGUMENT = re.compile(
    r"(?P<kind>in|out|inout)\s+(?P<name>\w+)\s+(?P<type>\w+)(?P<sizes>(?:\s*\[[^\]]*\])*)(?P<fill>.*)"
)
_VALUE = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|[-+]?(?:inf|nan)")


@dataclass(frozen=True)
class Argument:
    """One line: what a parameter is given."""

    line: int  # in the file
    kind: str  # "in", "out" or "inout"
    name: str
    type: str  # one of NUMBER_TYPES
    shape: tuple[int, ...] | None  # None: a number, or a null pointer
    fill: str | float  # "random", "arange", "null" or a number; "" for an output

    @property
    def is_written(self) -> bool:
        """Whether the kernel writes it."""
        return self.kind != "in"

    @property
    def is_whole(self) -> bool:
        """Whether it holds whole numbers."""
        return "int" in self.type

    @property
    def bytes(self) -> int:
        """Of the array; 0 for a number."""
        return 0 if self.shape is None else math.prod(self.shape) * element_bytes(self.type)


@dataclass(frozen=True)
class LaunchHeader:
    """A whole header; arguments: in the order of the kernel's parameters."""

    path: Path
    line: int  # of the launch
    entry: str  # the kernel's name with its template arguments
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int  # bytes of dynamic shared memory
    seed: int
    arguments: tuple[Argument, ...]


def element_bytes(type: str) -> int:
    """Bytes of one number of a type."""
    return 2 if type == "bf16" else int(re.sub(r"\D", "", type)) // 8


def has_header(path: Path) -> bool:
    """Whether a file has a line of a launch header."""
    return any(True for _ in _lines(KernelSource.load(path)))


def read_header(path: Path) -> LaunchHeader:
    """The header of a .cu file, checked against its kernel's parameters.

    Raises BadInput with file and line for what cannot be read or does not fit, and for a file without header:
    that sentence ends in the lines to write.
    """
    source = KernelSource.load(path)
    lines = list(_lines(source))
    launches = [(line, text) for line, text in lines if text.split()[:1] == ["launch"]]
    if not launches:
        raise BadInput(_without_header(path, [line for line, _ in lines]))
    if len(launches) > 1:
        first, second = (_Place(path.name, line) for line, _ in launches[:2])
        raise second.error(f"a second launch, beside that of line {first.line}", "one")
    line, text = launches[0]
    here = _Place(path.name, line)
    entry, settings = _launch(here, source, text)
    kernel = _kernel(here, signatures(path), entry)
    arguments = [_argument(_Place(path.name, n), source, t) for n, t in lines if n != line]
    found = LaunchHeader(
        path,
        line,
        entry,
        settings["grid"],
        settings["block"],
        settings["shared"][0],
        settings["seed"][0],
        tuple(_in_order(here, kernel, arguments)),
    )
    taken = sum(one.bytes for one in found.arguments)
    if taken > MOST_BYTES:
        raise here.error(f"the arrays take {taken} bytes together", f"at most {MOST_BYTES}, smaller ones")
    return found


@dataclass(frozen=True)
class _Place:
    """A line of a header, for what is said of it."""

    file: str
    line: int

    def error(self, given: str, wanted: str) -> BadInput:
        return BadInput(f"{self.file}:{self.line}: {given}: give {wanted}.")


def _lines(source: KernelSource) -> Iterator[tuple[int, str]]:
    """The header's lines with their numbers, without the mark."""
    for number, text in enumerate(source.lines, start=1):
        if text.lstrip().startswith(MARK):
            yield number, text.lstrip().removeprefix(MARK).strip()


def _launch(place: _Place, source: KernelSource, text: str) -> tuple[str, dict[str, tuple[int, ...]]]:
    """The kernel's name, and the settings by name."""
    pieces = re.split(rf"\s+({'|'.join(_SETTINGS)})\b", text.removeprefix("launch"))
    entry = pieces[0].strip()
    if not re.fullmatch(r"\w+(?:\s*<.*>)?", entry):
        raise place.error(f"launch {entry or 'without a kernel'}", "a kernel's name, then grid and block")
    given = dict(zip(pieces[1::2], pieces[2::2], strict=True))
    if len(given) < len(pieces) // 2:
        raise place.error("a setting is given twice", "each of grid, block, shared and seed once")
    for name in ("grid", "block"):
        if name not in given:
            raise place.error(f"{name} is missing", f"it, such as `launch {entry} grid 4 block 128`")
    settings = {"shared": (0,), "seed": (0,)}
    for name, value in given.items():
        sizes = tuple(_whole(place, source, name, size) for size in value.split(","))
        most = 3 if name in ("grid", "block") else 1
        if len(sizes) > most or (most == 3 and min(sizes) < 1):
            wanted = (
                "one to three sizes of at least 1, such as 4 or 32,8" if most == 3 else "one whole number"
            )
            raise place.error(f"{name} is {value.strip()}", wanted)
        settings[name] = (*sizes, 1, 1)[:3] if most == 3 else sizes
    return entry, settings


def _kernel(place: _Place, known: list[Signature], entry: str) -> Signature:
    """The kernel that the launch names."""
    name = entry.partition("<")[0].strip()
    for one in known:
        if one.kernel == name:
            if one.template and "<" not in entry:
                wanted = f"values for that, such as `launch {one.example_entry}`"
                raise place.error(f"{name} is a template <{one.template}>", wanted)
            return one
    names = ", ".join(one.kernel for one in known)
    there = f"the file has {names}" if known else "the file has no __global__ function"
    raise place.error(f"launch {name}, and {there}", "the name of one of the file's kernels")


def _whole(place: _Place, source: KernelSource, name: str, text: str) -> int:
    """A whole number of at least 0, which may be an expression of the file's constants."""
    try:
        value = source.value(text)
    except BadInput:
        value = -1
    if value < 0:
        wanted = "a whole number, or an expression of the file's integer constants such as 4*128"
        raise place.error(f"{name} is {text.strip() or 'empty'}", wanted)
    return value


def _argument(place: _Place, source: KernelSource, text: str) -> Argument:
    match = _ARGUMENT.fullmatch(text)
    if match is None:
        raise place.error(
            f"`{text}`", "in, out or inout, a name, a type and its sizes, such as `in x float32[512] random`"
        )
    if match["type"] not in NUMBER_TYPES:
        raise place.error(f"{match['name']} is of type {match['type']}", f"one of {', '.join(NUMBER_TYPES)}")
    sizes = re.findall(r"\[([^\]]*)\]", match["sizes"])
    shape = tuple(_whole(place, source, f"a size of {match['name']}", size) for size in sizes) or None
    return Argument(
        place.line, match["kind"], match["name"], match["type"], shape, _fill(place, source, match, shape)
    )


def _fill(
    place: _Place, source: KernelSource, match: re.Match[str], shape: tuple[int, ...] | None
) -> str | float:
    """What an argument holds before the launch."""
    name, kind, text = match["name"], match["kind"], match["fill"].strip()
    if kind == "out":
        if shape is None:
            raise place.error(
                f"the output {name} has no size", f"one, such as `out {name} {match['type']}[512]`"
            )
        if text:
            raise place.error(
                f"the output {name} holds {text}", "nothing there, or inout for an array to change"
            )
        return ""
    if shape is None and text == "null":
        return text
    if shape is not None and text in ("", *FILLS):
        return FILLS[text or "random"]
    if _VALUE.fullmatch(text):
        return (
            float(text)
            if match["type"] in ("bf16", "float32", "float64")
            else _fitting(place, match["type"], text)
        )
    try:
        return source.value(text)
    except BadInput:
        choices = "a number" if shape is None else f"{', '.join(FILLS)} or a number"
        raise place.error(
            f"{name} holds {text or 'nothing'}",
            f"{choices}, or an array's sizes [...]" if shape is None else choices,
        ) from None


def _fitting(place: _Place, type: str, text: str) -> int:
    """A whole number that a type can hold."""
    bits = 8 * element_bytes(type)
    low, high = (0, (1 << bits) - 1) if type.startswith("u") else (-(1 << bits - 1), (1 << bits - 1) - 1)
    if not re.fullmatch(r"[-+]?\d+", text) or not low <= int(text) <= high:
        raise place.error(
            f"{text} was given for a number of type {type}", f"a whole number from {low} to {high}"
        )
    return int(text)


def _in_order(place: _Place, kernel: Signature, arguments: list[Argument]) -> Iterator[Argument]:
    """The arguments as the kernel takes them, each checked against its parameter."""
    takes = ", ".join(one.name for one in kernel.parameters) or "nothing"
    given: dict[str, Argument] = {}
    for one in arguments:
        here = _Place(place.file, one.line)
        if kernel.parameter(one.name) is None:
            raise here.error(
                f"{one.name} is no parameter of {kernel.kernel}", f"one of those that it takes: {takes}"
            )
        if one.name in given:
            raise here.error(f"{one.name} is given in line {given[one.name].line} already", "it once")
        given[one.name] = one
        _check(here, kernel, kernel.parameter(one.name), one)
    for parameter in kernel.parameters:
        if parameter.name not in given:
            wanted = f"it in a line such as `{MARK} {parameter.example}`"
            raise place.error(f"{kernel.kernel} takes {parameter.declared}, which no line gives", wanted)
        yield given[parameter.name]


def _check(here: _Place, kernel: Signature, parameter: Parameter, given: Argument) -> None:
    takes = f"and {kernel.kernel} takes {parameter.declared}"
    is_array = given.shape is not None or given.fill == "null"
    if parameter.is_pointer and not is_array:
        raise here.error(f"{given.name} is a number, {takes}", f"its sizes, `{given.name} {given.type}[512]`")
    if not parameter.is_pointer and is_array:
        raise here.error(f"{given.name} is an array, {takes}", f"a number, `in {given.name} {given.type} 1`")
    if parameter.is_const and given.kind != "in":
        raise here.error(f"{given.name} is written ({given.kind}), {takes}", "in, or take the const away")
    if parameter.type not in (None, given.type):
        raise here.error(f"{given.name} is of type {given.type}, {takes}", f"{parameter.type}")


def _without_header(path: Path, lines: list[int]) -> str:
    """What to write: made from the file's own first kernel."""
    kernels = signatures(path)
    if not kernels:
        return f"{path.name} has no kernel, that is, no __global__ function: give a file with one."
    said = f"{path.name}:{lines[0]}: no line says launch" if lines else f"{path.name} has no launch header"
    wanted = "\n".join(f"{MARK} {line}" for line in kernels[0].example())
    return f"{said}: put such lines at its top, with your own sizes and values:\n{wanted}"
