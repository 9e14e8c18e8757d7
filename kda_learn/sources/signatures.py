"""What a kernel takes, read from its text: names, whether pointers or numbers, and of which type."""

import re
from dataclasses import dataclass
from pathlib import Path

from .cpp import functions, strip_comments
from .kernel_source import KernelSource

TYPES = {
    "float": "float32",
    "double": "float64",
    "bf16": "bf16",
    "char": "int8",
    "signed char": "int8",
    "unsigned char": "uint8",
    "short": "int16",
    "unsigned short": "uint16",
    "u16": "uint16",
    "int": "int32",
    "bool": "uint8",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "u32": "uint32",
    "long": "int64",
    "unsigned long": "uint64",
    "size_t": "uint64",
    "long long": "int64",
    "unsigned long long": "uint64",
} | {f"{sign}int{bits}_t": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
"""C++ types, by NumPy's names for them (and bf16, which it does not have). Others, such as uint4, which may
stand for any 16 bytes, are left open."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel."""

    name: str
    declared: str  # as it stands in the source: "const float* x"
    is_pointer: bool
    is_const: bool  # of a pointer: whether what it points to may only be read
    type: str | None  # one of TYPES' values; None where the text does not tell

    @property
    def example(self) -> str:
        """A line of a launch header that gives it."""
        type = self.type or "float32"
        if not self.is_pointer:
            return f"in {self.name} {type} 1"
        return f"in {self.name} {type}[32] random" if self.is_const else f"out {self.name} {type}[32]"


@dataclass(frozen=True)
class Signature:
    """A kernel's name and parameters; template: what stands between the brackets of its template, if any."""

    kernel: str
    parameters: tuple[Parameter, ...]
    template: str = ""

    @property
    def example_entry(self) -> str:
        """The kernel's name with something for each parameter of its template."""
        kinds = [kind.split()[0] for kind in self.template.split(",") if kind.split()]
        values = {"typename": "float", "class": "float", "bool": "true"}
        inside = ", ".join(values.get(kind, "1") for kind in kinds)
        return f"{self.kernel}<{inside}>" if inside else self.kernel

    def example(self) -> list[str]:
        """The lines of a launch header for it, without the mark in front."""
        return [f"launch {self.example_entry} grid 1 block 32", *(one.example for one in self.parameters)]

    def parameter(self, name: str) -> Parameter | None:
        """The parameter of a name; None if there is none."""
        return next((one for one in self.parameters if one.name == name), None)


def signatures(path: Path) -> list[Signature]:
    """The kernels (`__global__` functions) of a file, in its order. Raises BadInput if it is no file."""
    found = []
    for function in functions(KernelSource.load(path).text):
        head = " ".join(strip_comments(function.head).split())
        if "__global__" in head:
            inside = re.search(rf"\b{function.function}\s*\((?P<parameters>.*)\)", head)
            template = re.search(
                r"template\s*<(?P<inside>.*?)>\s*(?=__global__|void|__launch_bounds__)", head
            )
            texts = _split(inside["parameters"]) if inside else []
            found.append(
                Signature(
                    str(function.function),
                    tuple(map(_parameter, texts)),
                    template["inside"] if template else "",
                )
            )
    return found


def _split(parameters: str) -> list[str]:
    """The text between a function's brackets at the commas that stand in no further bracket."""
    texts, depth = [""], 0
    for letter in parameters:
        depth += (letter in "<([") - (letter in ">)]")
        if letter == "," and depth == 0:
            texts.append("")
        else:
            texts[-1] += letter
    return [text.strip() for text in texts if text.strip() not in ("", "void")]


def _parameter(text: str) -> Parameter:
    declared = text.partition("=")[0].strip()
    name = re.search(r"(\w+)\s*(?:\[\w*\])?$", declared)
    is_pointer = "*" in declared or declared.endswith("]")
    bare = re.sub(
        r"\b(?:const|volatile|__restrict__|__restrict|__grid_constant__)\b|[*&]|\[\w*\]", " ", declared
    )
    words = bare.split()[:-1]
    return Parameter(
        name=name[1] if name else "",
        declared=declared,
        is_pointer=is_pointer,
        is_const=is_pointer and bool(re.search(r"\bconst\b", declared.partition("*")[0])),
        type=TYPES.get(" ".join(words)),
    )
