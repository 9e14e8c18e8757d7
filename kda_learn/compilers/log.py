"""Reading the log of a CUDA compiler: its first error, and what ptxas -v reports about a kernel."""

import re
from pathlib import Path

from ..ground.errors import BadInput


class CompileError(BadInput):
    """The CUDA source does not compile. `log` holds everything the compiler said."""

    def __init__(self, message: str, log: str):
        super().__init__(message)
        self.log = log


def parse_resources(log: str, symbol: str) -> dict[str, int]:
    """What ptxas -v reports for the kernel `symbol`: registers, spill_bytes, stack_bytes, static_smem.

    ptxas counts spill stores and loads apart; spill_bytes is the larger of the two. The log may report on
    other kernels of the same file, too. Raises CompileError if it does not report on this one.
    """
    report = log.partition(f"Compiling entry function '{symbol}'")[2].partition("Compiling entry function")[0]
    frame = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", report)
    registers = re.search(r"Used (\d+) registers", report)
    if frame is None or registers is None:
        raise CompileError(
            f"The compiler did not report the registers and spills of {symbol}: if NVRTC took a binary from "
            "its cache, run again with CUDA_CACHE_DISABLE=1 in the environment; else its log has a new form.",
            log,
        )
    static_smem = re.search(r"(\d+) bytes smem", report)
    return {
        "registers": int(registers.group(1)),
        "spill_bytes": max(int(frame.group(2)), int(frame.group(3))),
        "stack_bytes": int(frame.group(1)),
        "static_smem": int(static_smem.group(1)) if static_smem else 0,
    }


def first_error(log: str, path: Path, entry: str) -> str:
    """One sentence about the first error of a compiler's log: file, line, what is wrong, how many more there
    are.
    """
    errors = re.findall(r"^(.*?)\((\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (.*)$", log, re.MULTILINE)
    if not errors:
        said = next((line.strip() for line in log.splitlines() if "error" in line.lower()), "no reason given")
        return f"{path.name} does not compile for {entry} ({said}): correct the source."
    file, line, message = errors[0]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{file}:{line}: {message.strip()}{more}: correct this line so that {entry} compiles."
