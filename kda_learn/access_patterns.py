"""Accesses of a traced launch, sorted out for a picture: the address patterns that each source line made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .banks import LANES, service
from .errors import BadInput
from .layouts import BANK_BYTES, BANKS
from .source import StageSource
from .trace import Launch

INACTIVE = -1  # the address of a lane that takes no part


def access(
    op: str,
    bytes: int,
    addresses: ArrayLike,
    *,
    line: int = 0,
    text: str = "",
    section: str = "",
    count: int = 1,
) -> dict[str, Any]:
    """One warp instruction as the bank map takes it.

    op: a traced operation's name, such as "lds" or "ldmatrix.x4.trans". bytes: what a lane moves, 2, 4, 8 or
    16 (16 for a row of a matrix). addresses: byte addresses of the 32 lanes in shared memory, -1 for a lane
    that takes no part. line, text, section: where it stands in the source. count: how often it was seen.
    """
    service(op, bytes)  # refuses operations and widths that shared memory does not have
    places = np.asarray(addresses, dtype=np.int64).tolist()
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
        "count": int(count),
    }


def recorded(
    launch: Launch, source: StageSource, *, lines: Sequence[int] | None = None
) -> list[dict[str, Any]]:
    """The accesses of a traced launch for `bank_map`, by source line, each pattern once with its count.

    Two accesses have one pattern when their addresses differ by a multiple of 128 bytes, that is, meet the
    same banks. lines: only these source lines (None: all). Accesses made in included files are left out.
    """
    in_source = [Path(file).name == source.path.name for file in launch.files]
    wanted = np.array(in_source)[launch.accesses["file"]]
    if lines is not None:
        wanted &= np.isin(launch.accesses["line"], list(lines))
    records = launch.accesses[wanted]
    if len(records) == 0:
        return []
    is_active = records["mask"][:, None] >> np.arange(LANES, dtype=np.uint32) & 1 == 1
    addresses = np.where(is_active, records["address"], INACTIVE).astype(np.int64)
    lowest = np.where(is_active, addresses, np.iinfo(np.int64).max).min(axis=1)
    whole_lines = lowest // (BANKS * BANK_BYTES) * (BANKS * BANK_BYTES)
    pattern = np.where(is_active, addresses - whole_lines[:, None], INACTIVE)
    keys = np.column_stack([*(records[name] for name in ("line", "op", "bytes")), pattern])
    _, first, counts = np.unique(keys, axis=0, return_index=True, return_counts=True)
    count_of = dict(zip(first.tolist(), counts.tolist(), strict=True))
    return [
        access(
            str(launch.operations[records["op"][index]]),
            int(records["bytes"][index]),
            addresses[index],
            line=int(records["line"][index]),
            text=source.statement(int(records["line"][index])),
            section=source.sections.get(int(records["line"][index]), ""),
            count=count_of[index],
        )
        for index in sorted(count_of, key=lambda index: (records["line"][index], index))
    ]
