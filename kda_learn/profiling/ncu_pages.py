"""Reading what Nsight Compute (ncu) prints of a report: its pages "raw" and "source", as CSV.

A report holds one result for each profiled launch, in launch order, and so do the pages.
"""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..ground.errors import KdaError

SAMPLES = ("# Samples", "Warp Stall Sampling (All Samples)", "Warp Stall Sampling (All Cycles)")
EXECUTED = ("Instructions Executed", "inst_executed")
WAVEFRONTS = ("L1 Wavefronts Shared", "memory_l1_wavefronts_shared")

LEAST_WAVEFRONTS = ("L1 Wavefronts Shared Ideal", "memory_l1_wavefronts_shared_ideal")
"""Each column's heading, and what other versions of ncu call it."""

_SHARED_MEMORY = re.compile(r"\b(?:LDS|STS|LDSM|STSM|ATOMS|LDGSTS)\b")
_STALL = re.compile(r"(?:stall_|smsp__pcsamp_warps_issue_stalled_)(\w+)")

_STALL_NAMES = {
    "dispatch": "dispatch_stall",
    "imc": "imc_miss",
    "lg": "lg_throttle",
    "long_sb": "long_scoreboard",
    "math": "math_pipe_throttle",
    "mio": "mio_throttle",
    "no_inst": "no_instruction",
    "short_sb": "short_scoreboard",
    "sleep": "sleeping",
    "tex": "tex_throttle",
}
"""The source page's short names, as the counters of the whole kernel write them."""


@dataclass(frozen=True)
class InstructionCounts:
    """What ncu counted at one machine instruction, over the whole launch.

    address: from the kernel's first instruction. executed: by how many warps; one whose lanes are all
    switched off by the predicate counts. wavefronts and least_wavefronts: of shared memory. samples: how
    often the sampler found a warp there; stalls: the same by what the warp waited for.
    """

    address: int
    text: str
    executed: int
    wavefronts: int
    least_wavefronts: int
    samples: int
    stalls: dict[str, int] = field(default_factory=dict)


def parse_raw(text: str) -> list[dict[str, float]]:
    """`--page raw --csv`: for each launch the value of every metric. What is no number ("n/a") is left out.

    The page is one wide table: a row of metrics, a row of their units, a row for each launch.
    """
    rows = list(csv.reader(_table_lines(text, '"ID"')))
    if len(rows) < 2:
        return []
    headings = rows[0]
    launches = []
    for row in rows[1:]:
        if not row or not row[0].strip().isdigit():
            continue  # the units
        numbers = {name: _number(value) for name, value in zip(headings, row, strict=False)}
        launches.append({name: value for name, value in numbers.items() if value is not None})
    return launches


def parse_source(text: str) -> list[list[InstructionCounts]]:
    """`--page source --print-source sass --csv`: for each launch its instructions, in address order.

    Each launch is a line with the kernel's name, a row of headings, and a row for each instruction.
    Raises KdaError if a column that is needed has a heading unknown here.
    """
    launches: list[list[InstructionCounts]] = []
    columns: _Columns | None = None
    for row in csv.reader(text.splitlines()):
        if "Address" in row and "Source" in row:
            columns = _Columns(row)
            launches.append([])
        elif columns is not None and len(row) == columns.count and columns.is_instruction(row):
            launches[-1].append(columns.read(row))
    return [_from_zero(instructions) for instructions in launches if instructions]


class _Columns:
    """Which cell of a row of the source page is what."""

    def __init__(self, headings: Sequence[str]) -> None:
        self.count = len(headings)
        self._address = headings.index("Address")
        self._text = headings.index("Source")
        self._executed = _position(headings, EXECUTED)
        self._samples = _position(headings, SAMPLES)
        self._headings = headings
        self._stalls: dict[int, str] = {}
        for position, heading in enumerate(headings):
            match = _STALL.fullmatch(heading)
            if match and not heading.endswith("_not_issued"):
                self._stalls[position] = _STALL_NAMES.get(match[1], match[1])

    def is_instruction(self, row: Sequence[str]) -> bool:
        return row[self._address].startswith("0x") or row[self._address].isdigit()

    def read(self, row: Sequence[str]) -> InstructionCounts:
        stalls = {name: _count(row[position]) for position, name in self._stalls.items()}
        text = " ".join(row[self._text].split())
        return InstructionCounts(
            address=int(row[self._address], 0),
            text=text,
            executed=_count(row[self._executed]),
            wavefronts=self._of_shared_memory(row, text, WAVEFRONTS),
            least_wavefronts=self._of_shared_memory(row, text, LEAST_WAVEFRONTS),
            samples=_count(row[self._samples]),
            stalls={name: count for name, count in stalls.items() if count},
        )

    def _of_shared_memory(self, row: Sequence[str], text: str, names: Sequence[str]) -> int:
        """A count that ncu leaves out of a kernel that uses no shared memory."""
        if not any(name in self._headings for name in names) and not _SHARED_MEMORY.search(text):
            return 0
        return _count(row[_position(self._headings, names)])


def _position(headings: Sequence[str], names: Sequence[str]) -> int:
    """The first column that has one of these headings."""
    for name in names:
        if name in headings:
            return headings.index(name)
    raise KdaError(
        f"ncu's source page has no column {names[0]!r}: its headings are {', '.join(headings[:12])}, ...; "
        "use the ncu of CUDA 12 or 13, or add the heading to kda_learn/profiling/ncu_pages.py."
    )


def _from_zero(instructions: list[InstructionCounts]) -> list[InstructionCounts]:
    """The same with addresses that count from the first: ncu gives those in the GPU's memory."""
    first = instructions[0].address
    return [replace(counts, address=counts.address - first) for counts in instructions]


def _table_lines(text: str, heading: str) -> list[str]:
    """The lines from the one that begins with `heading` on, without ncu's own messages (==PROF== ...)."""
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if line.startswith(heading)), len(lines))
    return [line for line in lines[start:] if line.startswith('"')]


def _number(value: str) -> float | None:
    """A cell's number; its thousands may be set apart by commas."""
    try:
        return float(value.replace(",", ""))
    except ValueError:
        return None


def _count(value: str) -> int:
    """A count; "-" and an empty cell are none."""
    return int(_number(value) or 0)
