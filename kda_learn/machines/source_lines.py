"""From an instruction of a kernel's library to the line of the kernel that it belongs to."""

import re
import shutil
import subprocess
from pathlib import Path

from ..ground.files import KERNELS

_PLACE = re.compile(r"^(?P<file>.+?):(?P<line>[1-9]\d*)", re.MULTILINE)


def source_line(library: Path, instruction: int) -> tuple[str, int] | None:
    """File and line of an instruction, at that distance from the library's start.

    Of functions compiled into each other it is the innermost outside of gpu.cuh and the emulator. None where
    no `addr2line` or `llvm-symbolizer` can tell.
    """
    for command in (["addr2line", "-i", "-e"], ["llvm-symbolizer", "--output-style=GNU", "-i", "-e"]):
        if shutil.which(command[0]) is None:
            continue
        done = subprocess.run(
            [*command, str(library), hex(instruction)], capture_output=True, text=True, check=False
        )
        for match in _PLACE.finditer(done.stdout):
            file = Path(match["file"])
            if file != KERNELS / "gpu.cuh" and KERNELS / "emulator" not in file.parents and file.is_file():
                return str(file), int(match["line"])
    return None
