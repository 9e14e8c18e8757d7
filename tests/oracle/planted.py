"""Mistakes put into the CPU machine, one at a time: does the oracle find each on a few random kernels?

cd tests && python -m oracle.planted
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from kda_learn.compilers import host

from .__main__ import today
from .compare import differences
from .language import Program
from .programs import from_seed

COUNT = 200  # programs, as many as in CI
SEEDS = (0, 1, 5)


@dataclass(frozen=True)
class Plant:
    """One piece of text in a file of kernels/emulator, which must be there once, and what takes its place."""

    file: str
    before: str
    after: str


PLANTS = {
    "__syncwarp orders nothing": Plant("warp.cpp", "return join_lanes(index);", "return;"),
    "__syncthreads tells warps nothing": Plant("warp.cpp", "warps_[i].knowledge = everything;", ""),
    "a warp has no races": Plant(
        "shadow.cpp", "lanes &= ~(1u << now.lane);\n  return now", "return true;\n  return now"
    ),
    "reads are not remembered": Plant("shadow.cpp", "    remember_read(granule, now);\n", ""),
    "of a store only the first two bytes count": Plant(
        "shadow.cpp",
        "  Reported reported;\n",
        "  Reported reported;\n  bytes = GRANULE;\n",
    ),
    "nobody must have written": Plant("shadow.cpp", "if (!write.written || write", "if (write"),
    "cp.async lands at the commit": Plant(
        "async.cpp",
        "thread.groups.push_back(static_cast<u32>(thread.copies.size()));\n}",
        "thread.groups.push_back(static_cast<u32>(thread.copies.size()));\n  copy_wait(0, at);\n}",
    ),
    "a wait is for all groups": Plant(
        "async.cpp", "= thread.groups.size() - groups_under_way;", "= thread.groups.size();"
    ),
    "the start of a cp.async is no write": Plant(
        "async.cpp", "    shadow_.begin_copy(to - SHARED_START, bytes, access(site));", "    ;"
    ),
    "copies may be left behind": Plant("async.cpp", "if (thread.copies.empty())", "if (true)"),
    "a wait learns what is not of its phase": Plant(
        "mbarrier.cpp",
        "return learn(thread, barrier->phases[known].arrivals);",
        "return learn(thread, barrier->now().arrivals);",
    ),
    "an arrival hands on what comes behind it": Plant(
        "mbarrier.cpp", "  thread.time++;  // what it does from here on is not handed on\n", ""
    ),
    "no phase is missed": Plant("mbarrier.cpp", "if (overrun_.site != Recorder::NO_SITE)", "if (true)"),
    "no fence is needed": Plant("shadow.cpp", "return !now.by_copy_engine ||", "return true ||"),
    "a fence does nothing": Plant("mbarrier.cpp", "knowledge.fenced.join(knowledge.seen);", ""),
    "bulk copies need no wait": Plant(
        "bulk.cpp", "    report_copies_not_waited_for(barrier);\n}", "    ;\n}"
    ),
}


@contextmanager
def planted(plant: Plant) -> Iterator[None]:
    """The CPU machine is built from a copy of its sources with this mistake in it."""
    with tempfile.TemporaryDirectory() as folder:
        kernels = Path(folder) / "kernels"
        shutil.copytree(host.KERNELS, kernels)
        file = kernels / "emulator" / plant.file
        text = file.read_text(encoding="utf-8")
        assert text.count(plant.before) == 1, (plant.file, plant.before, text.count(plant.before))
        file.write_text(text.replace(plant.before, plant.after), encoding="utf-8")
        with patch.object(host, "KERNELS", kernels):
            yield


def found(plant: Plant, programs: Sequence[Program]) -> int:
    """On how many of the programs the two opinions differ now."""
    with planted(plant):
        return sum(1 for _ in differences(programs, SEEDS))


def table() -> dict[str, int]:
    """Prints, and returns, on how many of COUNT programs each mistake is found."""
    programs = [from_seed(today() + number) for number in range(COUNT)]
    print(f"\nof {COUNT} programs  mistake")
    counts = {}
    for name, plant in PLANTS.items():
        counts[name] = found(plant, programs)
        print(f"{counts[name]:15}  {name}", flush=True)
    return counts


if __name__ == "__main__":
    table()
