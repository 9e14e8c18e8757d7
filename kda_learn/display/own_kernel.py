"""A run of a kernel of one's own as parts: how it was launched, what it wrote, what went wrong, its lines."""

from pathlib import Path

import numpy as np

from ..lab.own_kernel import Output, OwnRun
from .banners import machine_banner
from .parts import Cell, Part, Sentence, Table, Value, whole

SHOWN = 6
"""First values of an output that are shown."""


def run_parts(run: OwnRun) -> list[Part]:
    """The whole run, from top to bottom; the lines only of a traced one."""
    header = run.header
    launch = [
        ["grid, in blocks", _sizes(header.grid)],
        ["block, in threads", _sizes(header.block)],
        ["shared memory of a block", Cell(f"{header.shared:,} bytes", right=True)],
        ["seed of the inputs", whole(header.seed)],
        ["time of one launch", Cell(_time(run.seconds), right=True)],
    ]
    on_cpu = "In two orders of its warps." if run.machine == "emulator" else ""
    parts: list[Part] = [
        machine_banner(run.machine, on_cpu),
        Table(["", header.entry], launch),
    ]
    if run.outputs:
        headers = ["written", "type", "first values", "least", "largest", "digest"]
        parts.append(Table(headers, [_output_row(one) for one in run.outputs]))
    if run.launch is not None and run.launch.counts:
        parts += _lines(run)
    if run.ok:
        parts.append(
            Sentence(f"{header.entry} ran without a fault; whether its numbers are right, it cannot say.")
        )
    else:
        parts.append(Table(["", "fault"], list(enumerate(run.faults, start=1)), wrap="fault"))
    return parts


def _output_row(output: Output) -> list[Value]:
    values = output.values.reshape(-1)
    numbers = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    first = "  ".join(_number(value) for value in values[:SHOWN])
    ends = [_number(numbers.min()), _number(numbers.max())] if numbers.size else ["", ""]
    shape = "".join(f"[{size}]" for size in output.values.shape)
    return [
        output.name,
        f"{output.type}{shape}",
        first + ("  ..." if values.size > SHOWN else ""),
        *(Cell(end, right=True) for end in ends),
        output.digest,
    ]


def _lines(run: OwnRun) -> list[Part]:
    """What every line did: to shared memory in wavefronts, and else in warp instructions."""
    shared: list[list[Value]] = [
        [
            row.line,
            row.section,
            row.op,
            row.bytes,
            *map(whole, (row.instructions, row.wavefronts, row.least, row.excess)),
            row.max_way,
        ]
        for row in run.rows
    ]
    traced = {(row.line, row.op) for row in run.rows}
    rest: list[list[Value]] = []
    for (file, line, op), count in run.launch.counts.items():
        if Path(file).name == run.header.path.name and (line, op) in traced:
            continue
        moved = run.launch.traffic.get((file, line, op))
        place = str(line) if Path(file).name == run.header.path.name else f"{Path(file).name}:{line}"
        cells = [whole(moved.bytes), whole(moved.sectors)] if moved else [None, None]
        rest.append([Cell(place, right=True), op, whole(count), *cells])
    headers = ["line", "function", "op", "bytes", "instr.", "wavefronts", "least", "excess", "max way"]
    parts: list[Part] = []
    if shared:
        parts.append(Table(headers, shared, caption="Shared memory, all blocks together; bytes: of one lane"))
    if rest:
        headers = ["line", "op", "instr.", "bytes", "sectors"]
        caption = "The rest; bytes and sectors (of 32 bytes): of global memory"
        parts.append(Table(headers, rest, caption=caption))
    return parts + list(map(Sentence, run.widths.sentences()))


def _sizes(sizes: tuple[int, ...]) -> Cell:
    used = [size for place, size in enumerate(sizes) if place == 0 or any(one > 1 for one in sizes[place:])]
    return Cell(" x ".join(map(str, used)), right=True)


def _number(value: np.generic) -> str:
    return f"{value:.4g}" if isinstance(value, np.floating) else str(value)


def _time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{1e6 * seconds:.1f} us"
    return f"{1e3 * seconds:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"
