"""Which source lines ask for each line of a PTX listing, through inlined calls.

PTX names its source by directives: `.loc 2 158 3, function_name ..., inlined_at 1 77 3` says that what
follows comes from line 158 of file 2, in a function that line 77 of file 1 calls; `.file 2 "gpu.cuh"` names
a file. Line 77 may lie in an inlined function itself: which call of that one is meant, the compiler writes
only at the first instruction of each, so of several calls the one named last is taken.
https://docs.nvidia.com/cuda/parallel-thread-execution/#debugging-directives-loc
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ..ground.errors import MachineUnavailable

_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"([^"]*)"')
_LOCATION = re.compile(
    r"\s*\.loc\s+(?P<place>\d+\s+\d+\s+\d+)(?:\s*,\s*function_name\s+[^,]+,\s*inlined_at\s+(?P<caller>\d+\s+\d+\s+\d+))?"
)
Place = tuple[int, int, int]  # number of the file, line, column


class Frame(NamedTuple):
    """A source line: of an operation, or of a call that an operation was inlined through."""

    file: str
    line: int


def source_frames(ptx: str) -> dict[int, tuple[Frame, ...]]:
    """The source of each line of a PTX text, by the line's number from 1: the innermost frame first.

    Lines that stand before the first `.loc` of the text are left out.
    """
    lines = ptx.split("\n")
    files = {int(match[1]): match[2] for match in map(_FILE.match, lines) if match}
    callers: dict[Place, Place | None] = {}
    chain: tuple[Frame, ...] = ()
    found = {}
    for number, text in enumerate(lines, start=1):
        location = _LOCATION.match(text)
        if location:
            place = _place(location["place"])
            callers[place] = _place(location["caller"]) if location["caller"] else None
            chain = tuple(Frame(files.get(file, ""), line) for file, line, _ in _outwards(place, callers))
        elif chain:
            found[number] = chain
    return found


def _place(numbers: str) -> Place:
    file, line, column = map(int, numbers.split())
    return file, line, column


def _outwards(place: Place, callers: dict[Place, Place | None]) -> Iterator[Place]:
    """A place, the call it was inlined at, the call that this was inlined at, and so on."""
    passed: set[Place] = set()
    current: Place | None = place
    while current is not None and current not in passed:
        yield current
        passed.add(current)
        current = callers.get(current)


_PTX_LINE = re.compile(r'//## File "\.nv_debug_ptx_txt[^"]*", line (\d+)')
_INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
HARDWARE_OPERATIONS = "gpu.cuh"


@dataclass(frozen=True)
class SassInstruction:
    """One machine instruction.

    `frames` are the source lines that ask for it: the innermost, then the call that this was inlined at, and
    so on to a line of the kernel itself (one of them, if several call the same function). Empty where the
    compiler gives no line.
    """

    address: int
    opcode: str
    text: str
    frames: tuple[Frame, ...] = ()

    @property
    def file(self) -> str:
        """The file of `line`; empty if there is none."""
        return self._place.file

    @property
    def line(self) -> int:
        """The line that asks for it, 0 if there is none.

        An operation of gpu.cuh counts for the line that calls it, as in the emulator's traces.
        """
        return self._place.line

    @property
    def never_runs(self) -> bool:
        """Whether its predicate is the constant "false": ptxas pads with such instructions."""
        return self.text.startswith(("@!PT ", "@!UPT "))

    @property
    def _place(self) -> Frame:
        own = [frame for frame in self.frames if Path(frame.file).name != HARDWARE_OPERATIONS]
        return [*own, *self.frames, Frame("", 0)][0]


def disassemble(cubin: bytes, symbol: str, ptx: str) -> list[SassInstruction]:
    """The instructions of the kernel `symbol` of a binary, in address order; `ptx`: what it was made from.

    Source lines come through the PTX: the binary's own table of source lines (`nvdisasm -gi`) has one entry
    for neighbours that call the same operation from different lines, but each has its own line of PTX.

    Raises MachineUnavailable if nvdisasm is missing or older than the binary.
    """
    return parse(_listing(cubin), symbol, source_frames(ptx))


@lru_cache(maxsize=32)
def _listing(cubin: bytes) -> str:
    """What nvdisasm prints of a binary, with lines of PTX. Raises as `disassemble`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        run = subprocess.run([_nvdisasm(), "-gp", "-c", str(path)], capture_output=True, text=True)
    if run.returncode != 0:
        raise MachineUnavailable(
            f"nvdisasm cannot read this binary ({run.stderr.strip()}): install an nvdisasm as new as the "
            "NVRTC that made it."
        )
    return run.stdout


def parse(listing: str, symbol: str, frames: Mapping[int, tuple[Frame, ...]]) -> list[SassInstruction]:
    """The instructions of the kernel `symbol` in a listing of `nvdisasm -gp -c`; `frames` by line of PTX."""
    _, _, listing = listing.partition(f".text.{symbol}:")
    instructions: list[SassInstruction] = []
    ptx_line = 0
    for text in listing.splitlines():
        if text.startswith("//-----"):
            break
        marker = _PTX_LINE.search(text)
        if marker:
            ptx_line = int(marker.group(1))
        instruction = _INSTRUCTION.search(text)
        if instruction:
            address, body = int(instruction.group(1), 16), re.sub(r"\s+", " ", instruction.group(2))
            instructions.append(SassInstruction(address, opcode_of(body), body, frames.get(ptx_line, ())))
    return instructions


def opcode_of(text: str) -> str:
    """The opcode with its modifiers, such as "LDS.U16", of an instruction's text."""
    words = text.split()
    return words[1] if words[0].startswith("@") else words[0]


def _nvdisasm() -> str:
    """The program's path: from the package nvidia-cuda-nvdisasm, or a CUDA toolkit on the PATH."""
    try:
        from cuda.pathfinder import find_nvidia_binary_utility

        found = find_nvidia_binary_utility("nvdisasm")
    except Exception:  # cuda-pathfinder is missing, or too old for this
        found = None
    found = found or shutil.which("nvdisasm")
    if found is None:
        raise MachineUnavailable(
            "Machine code cannot be shown, nvdisasm is missing: run `make setup`, or `pip install "
            "nvidia-cuda-nvdisasm`."
        )
    return found
