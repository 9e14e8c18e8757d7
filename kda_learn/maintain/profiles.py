"""Records the profiles of the ladder.

Beside the record that `profile` shows where nothing can be measured, it keeps profiles_raw.zip: ncu's own
pages with the kernels they belong to. From these the record can be made again without a GPU, for instance
after a change to how the pages are read.
"""

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ..compilers.sass import disassemble
from ..ground.errors import BadInput, KdaError
from ..ground.say import say
from ..kernel_a.variants import compile_stage
from ..machines.device import hopper
from ..performance.profile import Profile, Target, save, targets
from ..performance.profile_measure import Keep, build, in_batches, measure, simulate
from ..profiling.capture import Pages, pair
from ..records.store import Provenance, digests, provenance

RECORD, PAGES = Path("profiles") / "h200.json", "profiles_raw.zip"
LARGEST_REPORT = 12 * 10**6


def record(folder: Path) -> list[Path]:
    """Profile every stage, at the two VSplits that the article's rule chooses between.

    Raises KdaError if not one profile could be made.
    """
    hopper()
    path, pages = folder / RECORD, folder / PAGES
    folder.mkdir(parents=True, exist_ok=True)
    done: list[Profile] = []
    with zipfile.ZipFile(pages, "w", zipfile.ZIP_DEFLATED) as archive:
        for batch in in_batches(targets()):
            done += _told(dict(zip(batch, measure(batch, keep=_keeper(archive)), strict=True)))
            if done:
                save(done, path)  # so that a run that is cut off leaves what it had
    _check_any(done)
    return [path, pages]


def rebuild(folder: Path) -> list[Path]:
    """The record once more, from the pages. A stage whose kernel has changed since is left out, and said.

    Raises KdaError if no profile is left, BadInput if there are no pages.
    """
    found: dict[Target, Profile | KdaError] = {}
    pages = folder / PAGES
    if not pages.is_file():
        raise BadInput(
            f"There are no pages of ncu at {pages}: `profiles` keeps them, or give another folder."
        )
    with zipfile.ZipFile(pages) as archive:
        for about_file in sorted(name for name in archive.namelist() if name.endswith("about.json")):
            found |= _rebuilt(archive, about_file.split("/")[0], json.loads(archive.read(about_file)))
    done = _told(found)
    _check_any(done)
    path = folder / RECORD
    save(done, path)
    return [path]


def _told(found: Mapping[Target, Profile | KdaError]) -> list[Profile]:
    """Says how each went, and leaves out those that failed."""
    for target, one in found.items():
        say(summary(one) if isinstance(one, Profile) else f"{target.label} FAILED: {one}")
    return [one for one in found.values() if isinstance(one, Profile)]


def _check_any(done: Sequence[Profile]) -> None:
    if not done:
        raise KdaError("No profile could be made, so the record stays as it was: the lines above say why.")


def _keeper(archive: zipfile.ZipFile) -> Keep:
    """A function that puts ncu's pages, and all that is needed to read them again, into the archive."""

    def keep(batch: Sequence[Target], pages: Pages, launches: Sequence[dict[str, Any]]) -> None:
        number = sum(name.endswith("about.json") for name in archive.namelist())
        folder = f"{number:02d}"
        archive.writestr(f"{folder}/raw.csv", pages.raw)
        archive.writestr(f"{folder}/source.csv", pages.source)
        symbols = []
        for position, target in enumerate(batch):
            compiled = compile_stage(target.kernel, target.v_split)
            symbols.append(compiled.symbol)
            archive.writestr(f"{folder}/{position}.cubin", compiled.cubin)
            archive.writestr(f"{folder}/{position}.ptx", compiled.ptx)
        where = provenance(hopper(), [target.name for target in batch], nvrtc=compiled.nvrtc)
        about = {
            "targets": [asdict(target) for target in batch],
            "launches": list(launches),
            "symbols": symbols,
            "provenance": asdict(where),
        }
        archive.writestr(f"{folder}/about.json", json.dumps(about, indent=1))
        if number == 0 and pages.report.stat().st_size < LARGEST_REPORT:
            archive.write(pages.report, f"{folder}/{pages.report.name}")

    return keep


def _rebuilt(
    archive: zipfile.ZipFile, folder: str, about: dict[str, Any]
) -> dict[Target, Profile | KdaError]:
    """One batch of an archive."""
    batch = [Target(**target) for target in about["targets"]]
    raw, source = (archive.read(f"{folder}/{name}.csv").decode() for name in ("raw", "source"))
    where = Provenance(**about["provenance"])
    try:
        pages = Pages(Path(folder), raw, source)
        captures = pair([target.label for target in batch], about["launches"], pages)
    except KdaError as error:  # then its launches were profiled once more, one by one
        return dict.fromkeys(batch, error)
    done: dict[Target, Profile | KdaError] = {}
    for position, (target, captured) in enumerate(zip(batch, captures, strict=True)):
        own = replace(where, digest={target.name: where.digest.get(target.name, "")})
        try:
            if isinstance(captured, KdaError):
                raise captured
            if digests([target.name]) != own.digest:
                raise KdaError(f"The source of {target.name} has changed since: profile it again.")
            cubin = archive.read(f"{folder}/{position}.cubin")
            ptx = archive.read(f"{folder}/{position}.ptx").decode()
            sass = disassemble(cubin, about["symbols"][position], ptx)
            done[target] = build(target, captured, sass, simulate(target), own)
        except KdaError as error:
            done[target] = error
    return done


def summary(one: Profile) -> str:
    """A line for the log: the time, and how far simulated and measured wavefronts differ."""
    differences = " ".join(
        f"{row.name} {row.measured:.0f}/{row.simulated:.0f}"
        + ("" if row.difference_pct is None else f" ({row.difference_pct:+.2f} %)")
        for row in one.comparisons
        if row.simulated is not None
    )
    waits = ", ".join(f"{name} {value:.2f}" for name, value in list(one.stalls.items())[:4])
    values = " ".join(
        f"{name} {one.counters[name]:.0f}"
        for name in ("time_us", "l1_pct", "dram_pct", "tensor_pct", "occupancy_pct")
        if name in one.counters
    )
    return f"{one.stage} VSplit {one.v_split}: {values} | {differences} | {waits}"
