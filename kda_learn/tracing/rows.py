"""A traced launch, line by line: what every source line did to every region of shared memory, in wavefronts.

The trace holds the 32 lane addresses of every warp instruction that the kernel issued on the emulator. What
an instruction costs is worked out by hardware.banks.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..hardware.banks import cost
from ..machines.emulator_launch import Launch
from ..machines.launching import launch
from ..machines.runnable import Runnable
from ..sources.kernel_source import KernelSource, Region

OUTSIDE_THE_TILE_LOOP = ("start", "finish")  # the first and the last section of a stage
Kind = Literal["load", "store", "copy"]


@dataclass(frozen=True)
class Row:
    """What one source line did to one region, added up over a launch, or per tile."""

    line: int
    section: str
    region: str  # empty outside of all regions
    op: str
    kind: Kind
    bytes: int  # per lane; of ldmatrix and stmatrix per row of a matrix
    instructions: float  # one for a whole warp
    wavefronts: float
    least: float
    excess: float  # wavefronts above the least: the bank conflicts
    max_way: int  # the most distinct words that one bank had to deliver in one phase


@dataclass(frozen=True)
class Total:
    """All rows of one kind and region added up."""

    kind: Kind
    region: str
    instructions: float
    wavefronts: float
    least: float
    excess: float


def traced(runnable: Runnable) -> Launch:
    """A launch on the emulator that keeps the address of every access to shared memory."""
    return launch(runnable, "emulator", trace=True).launch


def rows(launch: Launch, source: KernelSource, **parameters: int) -> list[Row]:
    """The shared-memory accesses of a launch by line, region, operation and width, in the source's order.

    source: the kernel that ran. parameters: of its template, such as VSPLIT=4, by which its regions lie.
    """
    accesses = launch.accesses
    in_source = [Path(file).name == source.path.name for file in launch.files]
    regions = source.regions(**parameters)
    region_of = regions_of(accesses, source, regions, np.array(in_source, dtype=bool))
    fields = [accesses[name].astype(np.int64) for name in ("file", "line", "op", "bytes")]
    keys, group = np.unique(np.stack([*fields, region_of], axis=1), axis=0, return_inverse=True)
    result = []
    for index, (file, line, op, width, region) in enumerate(keys.tolist()):
        members = accesses[group.reshape(-1) == index]
        name = str(launch.operations[op])
        section = source.sections.get(line, "") if in_source[file] else Path(launch.files[file]).name
        region_name = regions[region].name if region >= 0 else ""
        result.append(_row(line, section, region_name, name, width, members))
    return result


def totals(rows: Iterable[Row]) -> list[Total]:
    """The rows added up by kind and region, in the order in which these first appear."""
    found: dict[tuple[Kind, str], Total] = {}
    for row in rows:
        key = (row.kind, row.region)
        so_far = found.get(key, Total(*key, 0, 0, 0, 0))
        found[key] = replace(
            so_far,
            instructions=so_far.instructions + row.instructions,
            wavefronts=so_far.wavefronts + row.wavefronts,
            least=so_far.least + row.least,
            excess=so_far.excess + row.excess,
        )
    return list(found.values())


def per_tile(rows: Iterable[Row], tiles: int) -> list[Row]:
    """The rows of the loop over tiles, divided by how many tiles the launch worked on (of all heads).

    The sections before and after the loop, "start" and "finish", are left out.
    """
    return [
        replace(
            row,
            instructions=row.instructions / tiles,
            wavefronts=row.wavefronts / tiles,
            least=row.least / tiles,
            excess=row.excess / tiles,
        )
        for row in rows
        if row.section not in OUTSIDE_THE_TILE_LOOP
    ]


def kind_of(op: str) -> Kind:
    """Whether an operation loads from shared memory, stores to it, or copies to it asynchronously."""
    if op.startswith("cp.async"):
        return "copy"
    return "load" if op.startswith("ld") else "store"


def _row(line: int, section: str, region: str, op: str, width: int, accesses: NDArray[Any]) -> Row:
    """One row from the accesses that it stands for."""
    taken = cost(op, accesses["address"], accesses["mask"], width)
    all_wavefronts = int(taken.wavefronts.sum())
    fewest = int(taken.least.sum())
    return Row(
        line=line,
        section=section,
        region=region,
        op=op,
        kind=kind_of(op),
        bytes=width,
        instructions=len(accesses),
        wavefronts=all_wavefronts,
        least=fewest,
        excess=all_wavefronts - fewest,
        max_way=int(taken.max_way.max()),
    )


def regions_of(
    accesses: NDArray[Any], source: KernelSource, regions: Sequence[Region], in_source: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """For each access the index of its region, -1 outside of all: the region its lowest address falls into.

    Where an overlay shares the place, the access means the overlay if its section is one that the overlay's
    comment names. A region that the statement itself names (`Smem::NORMS`) is meant in any case.
    """
    lowest = accesses["address"].astype(np.uint32).min(axis=1)  # -1, an inactive lane, becomes the highest
    lines = np.where(in_source[accesses["file"]], accesses["line"], 0).astype(np.int64)
    traced_lines = [line for line in np.unique(lines).tolist() if line]
    named = {line: set(re.findall(r"::(\w+)", source.statement(line))) for line in traced_lines}
    result = np.full(len(accesses), -1, dtype=np.int64)

    inside = [(region.offset <= lowest) & (lowest < region.end) for region in regions]
    for index, region in enumerate(regions):
        if not region.overlay:
            result[inside[index]] = index
    for index, region in enumerate(regions):
        if region.overlay:
            in_sections = [line for line in traced_lines if source.sections.get(line) in region.sections]
            result[inside[index] & np.isin(lines, in_sections)] = index
    for index, region in enumerate(regions):
        naming_it = [line for line in traced_lines if region.name in named[line]]
        result[inside[index] & np.isin(lines, naming_it)] = index
    return result
