"""A kernel's text for the CPU machine: every function that leads to an operation learns where it was called.

An operation of gpu.cuh is told the place that calls it. Inside a function that is the same place however one
came there, while on a GPU the function is copied to where it is called: each way there is an instruction of
its own. So a function that leads to an operation, itself or through others, gets one parameter more. The
compiler fills it in with the place of the call, and the function remembers it while it runs (`Frame` in
kernels/emulator/runtime.h):

    GPU_FN u32 load(saddr at) { return lds<u32>(at); }
    GPU_FN u32 load(saddr at, emulator::Site called_at = ...) { const emulator::Frame frame(called_at); ... }

Every line stays where it is. Functions that cannot take another parameter (operators, constructors, those
with a parameter pack, those handed on by name) stay as they are: what they call is told apart by its own
place alone.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..sources.cpp import blocks, only_code

OPERATION = re.compile(
    r"\b(?:lds|sts|ldg|stg|(?:ld|st)matrix_x[124]\w*|movmatrix_trans|mma|__sync(?:threads|warp)|__shfl_\w+"
    r"|cp_async_\w+|mbar_\w+|bulk_load)\b"
)
_PARAMETER, _FRAME = "emulator_called_at", "emulator_frame"
_DEFAULT = " = emulator::Site::current()"
_NOT_A_FUNCTION = {
    "if",
    "for",
    "while",
    "switch",
    "catch",
    "return",
    "sizeof",
    "alignas",
    "decltype",
    "__launch_bounds__",
}
_BEHIND_PARAMETERS = re.compile(r"(?:\s|\bconst\b|\bmutable\b|\bnoexcept\b|\boverride\b|->[^(){};]*)*$")
_NAME = re.compile(r"(~?\w+)\s*$")
_CAPTURE = re.compile(r"(?:^|[=(,{;?:&|]|\breturn)\s*\[[^\[\]]*\]\s*$")
_VARIABLE = re.compile(r"(\w+)\s*=\s*\[[^\[\]]*\]\s*$")


@dataclass(frozen=True)
class Function:
    """A function or lambda of a text; offsets count its characters."""

    name: str  # "" for a lambda without one
    open: int | None  # of the parenthesis before its parameters; None: a lambda that has none
    close: int  # of the one behind them, or of where they would stand
    body: int  # of the brace
    end: int
    parameters: str
    by_name: bool = False  # a function that others could be handed by its name: no lambda, no member


def with_call_sites(texts: Sequence[str]) -> list[str]:
    """The texts of a kernel file and of the files that it includes, each rewritten.

    They are looked at together: a function of one may lead to an operation through a function of another.
    """
    codes = [only_code(text) for text in texts]
    found = [[one for one in _functions(code) if not _is_passed_on(one, codes)] for code in codes]
    leading = _leading(
        (function, code[function.body : function.end])
        for code, functions in zip(codes, found, strict=True)
        for function in functions
    )
    chosen = [[one for one in functions if id(one) in leading] for functions in found]
    declared = [
        _declarations(code, {one.name for functions in chosen for one in functions if one.name}, functions)
        for code, functions in zip(codes, found, strict=True)
    ]
    elsewhere = [
        {name for other in declared if other is not mine for name, _, _ in other} for mine in declared
    ]
    return [_rewritten(*file) for file in zip(texts, chosen, declared, elsewhere, strict=True)]


def _is_passed_on(function: Function, codes: Sequence[str]) -> bool:
    """A function that is handed to another: called through a pointer it has no default."""
    if not function.by_name:
        return False
    return any(re.search(rf"\b{function.name}\b(?!\s*[(<:])", code) for code in codes)


def _functions(code: str) -> list[Function]:
    """All functions and lambdas that can take one parameter more."""
    found = []
    for block in blocks(code):
        head = code[_before(block.start) : block.start]
        close = block.start - len(head) + _BEHIND_PARAMETERS.search(head).start() - 1
        if close < 0:
            continue
        if code[close] == "]" and _CAPTURE.search(code, _before(close), close + 1):
            found.append(Function(_variable(code, close + 1), None, close + 1, block.start, block.end, ""))
        elif code[close] == ")":
            function = _with_parameters(code, close, block.start, block.end)
            if function is not None:
                is_member = any(re.search(r"\b(struct|class|union)\b", head) for head in block.parents)
                found.append(replace(function, by_name=function.by_name and not is_member))
    return found


def _with_parameters(code: str, close: int, body: int, end: int) -> Function | None:
    open = _opening(code, close)
    before = code[_before(open) : open]
    parameters = code[open + 1 : close]
    if "..." in parameters or parameters.strip() == "void":
        return None
    if before.rstrip().endswith("]") and _CAPTURE.search(code, _before(open), open):
        return Function(_variable(code, open), open, close, body, end, parameters)
    name = _NAME.search(before)
    head = before[max(before.rfind(stop) for stop in ";}{") + 1 :]
    if name is None or name[1] in _NOT_A_FUNCTION or name[1].startswith("~"):
        return None
    returned = head[: len(head) - len(name[0])].strip()
    declares = re.sub(r"\btemplate\s*<[^{}]*?>(?=\s*[\w:])", "", returned).strip()
    if (
        not declares
        or "__global__" in head
        or "=" in declares
        or re.search(r"\b(constexpr|operator)\b", head)
    ):
        return None
    return Function(name[1], open, close, body, end, parameters, by_name=True)


def _opening(code: str, close: int) -> int:
    """The parenthesis that the one at `close` closes."""
    depth = 0
    for place in range(close, -1, -1):
        depth += {")": 1, "(": -1}.get(code[place], 0)
        if depth == 0:
            return place
    return 0


def _before(place: int) -> int:
    """Far enough before a place to see what stands there."""
    return max(0, place - 300)


def _variable(code: str, end: int) -> str:
    """The variable that a lambda is given to."""
    match = _VARIABLE.search(code, _before(end), end)
    return match[1] if match else ""


def _leading(functions: Iterable[tuple[Function, str]]) -> set[int | str]:
    """The functions that lead to an operation: their ids, and their names."""
    waiting = [(function, set(re.findall(r"\b(\w+)\s*(?=[(<])", body)), body) for function, body in functions]
    leading: set[int | str] = set()
    while True:
        new = [
            (function, called)
            for function, called, body in waiting
            if id(function) not in leading
            and (OPERATION.search(body) or called & leading or _calls_a_parameter(function, called))
        ]
        if not new:
            return leading
        for function, _ in new:
            leading |= {id(function)} | ({function.name} if function.name else set())


def _calls_a_parameter(function: Function, called: set[str]) -> bool:
    """A function that is given what it calls may lead anywhere."""
    return bool(called & set(re.findall(r"(\w+)\s*(?:,|$)", function.parameters)))


def _rewritten(
    text: str, functions: list[Function], declared: list[tuple[str, int, str]], elsewhere: set[str]
) -> str:
    """declared: functions of this text without a body; elsewhere: names of such in the other texts."""
    added: list[tuple[int, str]] = []
    for one in functions:
        before = one.name in elsewhere or any(name == one.name and at < one.body for name, at, _ in declared)
        default = "" if before else _DEFAULT
        added.append((one.close, _as_parameter(one, f"emulator::Site {_PARAMETER}{default}")))
        added.append((one.body + 1, f" const emulator::Frame {_FRAME}({_PARAMETER});"))
    for name, close, parameters in declared:
        behind = any(one.name == name and one.body < close for one in functions)
        comma = ", " if parameters.strip() else ""
        added.append((close, f"{comma}emulator::Site{'' if behind else _DEFAULT}"))
    for place, insertion in sorted(added, reverse=True):
        text = text[:place] + insertion + text[place:]
    return text


def _as_parameter(function: Function, parameter: str) -> str:
    if function.open is None:
        return f"({parameter})"
    return f", {parameter}" if function.parameters.strip() else parameter


def _declarations(code: str, names: set[str], functions: list[Function]) -> list[tuple[str, int, str]]:
    """Functions that are declared without a body: name, offset of the closing parenthesis, parameters."""
    found = []
    if not names:
        return found
    for match in re.finditer(
        rf"[\w>*&]\s+({'|'.join(map(re.escape, sorted(names)))})\s*\(([^(){{}};]*)\)\s*;", code
    ):
        inside = any(one.body < match.start() < one.end for one in functions)
        if not inside and not re.search(r"\breturn\s*$", code[: match.start(1)][-12:]):
            found.append((match[1], match.end(2), match[2]))
    return found
