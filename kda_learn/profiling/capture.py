"""Kernels captured by ncu: it watches a child process that launches them, and its report is read."""

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..ground.errors import KdaError, MachineUnavailable
from ..ground.say import say
from ..machines.child import answer_in, command, environment
from . import counters, ncu
from .ncu_pages import InstructionCounts, parse_raw, parse_source

SECONDS_FOR_ONE = 60


@dataclass(frozen=True)
class Watched:
    """A launch for ncu to watch.

    make: the function that gives its runnable, with arrays on the GPU, from `options`; named
    "kda_learn.room.module:function", since another process calls it. options: plain enough for JSON.
    """

    name: str  # for people
    make: str
    options: dict[str, Any]


@dataclass(frozen=True)
class Capture:
    """What ncu printed of one launch, and what the child process said about it."""

    metrics: dict[str, float]
    counts: list[InstructionCounts]
    launch: dict[str, Any]  # as watched.launch returns it


@dataclass(frozen=True)
class Pages:
    """The report of one run of ncu: its file, and the two pages that are read."""

    report: Path
    raw: str
    source: str


Keep = Callable[[Pages, Sequence[dict[str, Any]]], None]


def capture(wanted: Sequence[Watched], device: int = 0, keep: Keep | None = None) -> list[Capture | KdaError]:
    """Run some launches under ncu, all in one process; for one that fails, the error in its place.

    keep: called with ncu's pages and the child's answers, before they are read. Raises MachineUnavailable
    without ncu or leave to read the counters, KdaError if ncu fails altogether.
    """
    metrics = counters.wanted(ncu.known_counters())
    with tempfile.TemporaryDirectory() as folder:
        request, answer = Path(folder) / "request.json", Path(folder) / "answer.json"
        asked = {"device": device, "watched": [asdict(one) for one in wanted]}
        request.write_text(json.dumps(asked), encoding="utf-8")
        report = Path(folder) / "profile.ncu-rep"
        say(f"ncu on {', '.join(one.name for one in wanted)}")
        call = command("kda_learn.profiling.watched:launch_all", request, answer)
        _collect(call, report, metrics, SECONDS_FOR_ONE * (1 + len(wanted)))
        say("reading ncu's report")
        launches = answer_in(answer)
        pages = Pages(report, ncu.page(report, "raw"), ncu.page(report, "source", "--print-source", "sass"))
        if keep is not None:
            keep(pages, launches)
    return pair([one.name for one in wanted], launches, pages)


def _collect(call: list[str], report: Path, wanted: list[str], seconds: float) -> None:
    """Run ncu; if it fails, again with fewer counters: it stops at one that it does not know."""
    attempts = ((ncu.SECTIONS, wanted), (ncu.SECTIONS, []), (ncu.FEWEST_SECTIONS, []))
    for number, (sections, metrics) in enumerate(attempts, start=1):
        try:
            ncu.collect(call, report, metrics, sections=sections, environment=environment(), seconds=seconds)
            return
        except MachineUnavailable:
            raise
        except KdaError as error:
            if number == len(attempts):
                raise
            say(f"again with fewer counters: {error}")


def pair(names: Sequence[str], launches: Sequence[dict[str, Any]], pages: Pages) -> list[Capture | KdaError]:
    """Each launch with its part of the pages: these have the launches that succeeded, in order."""
    metrics, counts = parse_raw(pages.raw), parse_source(pages.source)
    launched = [launch for launch in launches if "error" not in launch]
    if not len(launched) == len(metrics) == len(counts):
        raise KdaError(
            f"{len(launched)} kernels were launched; ncu's pages have {len(metrics)} and {len(counts)}: "
            "profile one stage alone, and another ncu if that fails too."
        )
    found: list[Capture | KdaError] = []
    done = iter(zip(metrics, counts, strict=True))
    for number, name in enumerate(names):
        if number >= len(launches):
            found.append(KdaError(f"The profiled process ended before {name}: profile it alone."))
        elif "error" in launches[number]:
            found.append(KdaError(launches[number]["error"]))
        else:
            found.append(Capture(*next(done), launches[number]))
    return found
