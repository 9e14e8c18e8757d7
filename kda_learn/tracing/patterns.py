"""Accesses of a traced launch, sorted out for a picture: the address patterns that each source line made."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..ground.errors import BadInput
from ..hardware.banks import service
from ..hardware.given import whole_numbers
from ..hardware.layouts import BANK_BYTES
from ..hardware.limits import LANES
from ..sources.kernel_source import KernelSource
from .rows import Launch, regions_of

if TYPE_CHECKING:
    pass


INACTIVE = -1  # the address of a lane that takes no part


def access(
    op: str,
    bytes: int,
    addresses: ArrayLike,
    *,
    line: int = 0,
    text: str = "",
    section: str = "",
    region: str = "",
    count: int = 1,
) -> dict[str, Any]:
    """One warp instruction as the bank map takes it.

    op: a traced operation's name, such as "lds" or "ldmatrix.x4.trans". bytes: what a lane moves, 2, 4, 8 or
    16 (16 for a row of a matrix). addresses: byte addresses of the 32 lanes in shared memory, -1 for a lane
    that takes no part. line, text, section: where it stands in the source. region: the part of shared
    memory that it meets. count: how often it was seen.
    """
    service(op, bytes)  # refuses operations and widths that shared memory does not have
    places = np.atleast_1d(whole_numbers("addresses", addresses)).tolist()
    if len(places) != LANES:
        raise BadInput(f"{len(places)} addresses were given: want one for each of the {LANES} lanes")
    if max(places) < 0:
        raise BadInput("an access with no active lane was given: at least one address must be 0 or more")
    return {
        "op": op,
        "bytes": int(bytes),
        "addresses": places,
        "line": int(line),
        "text": text,
        "section": section,
        "region": region,
        "count": int(count),
    }


def recorded(
    launch: Launch,
    source: KernelSource,
    *,
    lines: Sequence[int] | None = None,
    regions: Sequence[str] | None = None,
    **parameters: int,
) -> list[dict[str, Any]]:
    """The accesses of a traced launch for `bank_map`, by source line and region, each pattern once.

    Two accesses have one pattern when the addresses of all lanes differ by the same multiple of 4 bytes: the
    banks are then numbered differently, and all else is the same. The first of them is shown, and `count`
    says how many there were. lines, regions: only these source lines, and regions of shared memory by name
    (None: all). parameters: of the kernel's template, such as VSPLIT=4. Accesses made in included files are
    left out.
    """
    in_source = np.array([Path(file).name == source.path.name for file in launch.files], dtype=bool)
    all_regions = source.regions(**parameters)
    region_of = regions_of(launch.accesses, source, all_regions, in_source)
    wanted = in_source[launch.accesses["file"]]
    if lines is not None:
        wanted &= np.isin(launch.accesses["line"], list(lines))
    if regions is not None:
        wanted &= np.isin(region_of, [i for i, one in enumerate(all_regions) if one.name in regions])
    records = launch.accesses[wanted]
    region_of = region_of[wanted]
    if len(records) == 0:
        return []
    is_active = records["mask"][:, None] >> np.arange(LANES, dtype=np.uint32) & 1 == 1
    addresses = np.where(is_active, records["address"], INACTIVE).astype(np.int64)
    lowest = np.where(is_active, addresses, np.iinfo(np.int64).max).min(axis=1)
    pattern = np.where(is_active, addresses - (lowest // BANK_BYTES * BANK_BYTES)[:, None], INACTIVE)
    keys = np.column_stack([records["line"], region_of, records["op"], records["bytes"], pattern])
    _, first, counts = np.unique(keys, axis=0, return_index=True, return_counts=True)
    count_of = dict(zip(first.tolist(), counts.tolist(), strict=True))
    return [
        access(
            str(launch.operations[records["op"][index]]),
            int(records["bytes"][index]),
            addresses[index],
            line=int(records["line"][index]),
            text=source.statement(int(records["line"][index])).removeprefix("#pragma unroll "),
            section=source.sections.get(int(records["line"][index]), ""),
            region=all_regions[region_of[index]].name if region_of[index] >= 0 else "",
            count=count_of[index],
        )
        for index in sorted(count_of, key=lambda index: (records["line"][index], region_of[index], index))
    ]
