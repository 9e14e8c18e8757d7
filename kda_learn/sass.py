"""The machine code of a compiled kernel, one record per instruction, read from nvdisasm's listing."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .errors import MachineUnavailable


@dataclass(frozen=True)
class SassInstruction:
    """One machine instruction.

    `file` and `line` name the source line that asks for it. An operation of gpu.cuh counts for the line that
    calls it, as in the emulator's traces. An instruction to which the compiler gives no line has file "" and
    line 0.
    """

    address: int
    opcode: str
    text: str
    file: str
    line: int


def disassemble(cubin: bytes, symbol: str) -> list[SassInstruction]:
    """The instructions of the kernel `symbol` of a binary, in address order.

    Raises MachineUnavailable if nvdisasm is missing or older than the binary.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        run = subprocess.run([_nvdisasm(), "-gi", "-c", str(path)], capture_output=True, text=True)
    if run.returncode != 0:
        raise MachineUnavailable(
            f"nvdisasm cannot read this binary ({run.stderr.strip()}): install an nvdisasm as new as the "
            "NVRTC that made it."
        )
    return parse(run.stdout, symbol)


def parse(listing: str, symbol: str) -> list[SassInstruction]:
    """The instructions of the kernel `symbol` in a listing of `nvdisasm -gi -c`."""
    _, _, listing = listing.partition(f".text.{symbol}:")
    instructions: list[SassInstruction] = []
    levels: list[tuple[str, int]] = []  # one location per level of inlined call, the innermost first
    place = ("", 0)
    for text in listing.splitlines():
        if text.startswith("//-----"):
            break
        location = re.search(r'//## File "([^"]*)", line (\d+)', text)
        if location:
            levels.append((location.group(1), int(location.group(2))))
        instruction = re.search(r"/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", text)
        if instruction:
            if levels:
                place = next((level for level in levels if Path(level[0]).name != "gpu.cuh"), levels[-1])
                levels = []
            body = re.sub(r"\s+", " ", instruction.group(2))
            words = body.split()
            opcode = words[1] if words[0].startswith("@") else words[0]
            instructions.append(SassInstruction(int(instruction.group(1), 16), opcode, body, *place))
    return instructions


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
