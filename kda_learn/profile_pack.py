"""Records the profiles of the ladder: `python -m kda_learn.profile_pack --out FOLDER`, on a Hopper GPU.

It writes profiles.json, the record that `profile` shows where nothing can be measured, and profiles_raw.zip:
ncu's own pages with the kernels they belong to. From these `--rebuild profiles_raw.zip` makes the record
again without a GPU, for instance after a change to how the pages are read.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from .compile import compile_stage
from .device import hopper
from .errors import KdaError, MachineUnavailable
from .profile import Profile, Target, save
from .profile_measure import Keep, Pages, build, measure, pair, simulate
from .records import Provenance, digests, provenance
from .sass import disassemble
from .stages import STAGES

BATCH = 4
V_SPLITS = (1, 4)
"""Those that the article's rule chooses between."""

SPLIT_CONFIG = "B1/T1024"
"""At VSplit 4 the article runs one long sequence: 128 blocks with 32 heads. 64 tiles of it are enough."""

LARGEST_REPORT = 12 * 10**6


def targets(stages: Sequence[str] | None = None, v_splits: Sequence[int] = V_SPLITS) -> list[Target]:
    """Every stage at VSplit 1, then at VSplit 4; `stages` (ids) and `v_splits` narrow the choice."""
    chosen = [stage.id for stage in STAGES if stages is None or stage.id in stages]
    whole = [Target(stage) for stage in chosen if 1 in v_splits]
    return whole + [Target(stage, 4, SPLIT_CONFIG) for stage in chosen if 4 in v_splits]


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 if every profile was made, 1 if some were, 2 if none."""
    parser = argparse.ArgumentParser(prog="python -m kda_learn.profile_pack", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for profiles.json and the pages")
    parser.add_argument("--stages", nargs="*", help="ids (default: all)")
    parser.add_argument("--v-split", type=int, choices=V_SPLITS, help="only this VSplit (default: both)")
    parser.add_argument("--seconds", type=float, default=240, help="start no run of ncu after this time")
    parser.add_argument("--rebuild", type=Path, metavar="ZIP", help="from these pages, without a GPU")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    if options.rebuild:
        done = rebuild(options.rebuild)
        wanted = len(done)
    else:
        chosen = targets(options.stages, [options.v_split] if options.v_split else V_SPLITS)
        wanted = len(chosen)
        done = record(chosen, options.out, options.seconds)
    profiles = [one for one in done if isinstance(one, Profile)]
    for one in done:
        print(summary(one) if isinstance(one, Profile) else f"FAILED: {one}", flush=True)
    if not profiles:
        return 2
    save(profiles, options.out / "profiles.json")
    return 0 if len(profiles) == wanted else 1


def record(wanted: Sequence[Target], out: Path, seconds: float) -> list[Profile | Exception]:
    """Profile in batches, and keep what ncu says in profiles_raw.zip. A batch that fails is tried one by one.

    After `seconds` no further batch is started.
    """
    start = time.monotonic()
    try:
        hopper()
    except MachineUnavailable as error:
        return [error]
    prepare(wanted)
    _say(f"compiled after {time.monotonic() - start:.0f} s")
    done: list[Profile | Exception] = []
    waiting = [list(wanted[first : first + BATCH]) for first in range(0, len(wanted), BATCH)]
    with zipfile.ZipFile(out / "profiles_raw.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        while waiting:
            batch = waiting.pop(0)
            if time.monotonic() - start > seconds:
                done += [KdaError(f"{_name(target)}: not started, the time was up") for target in batch]
                continue
            try:
                done += measure(batch, report=_say, keep=_keeper(archive, batch))
            except MachineUnavailable as error:
                return [*done, error]
            except Exception as error:  # whatever it is, the pages are kept and the other stages go on
                traceback.print_exc()
                if len(batch) > 1:
                    waiting += [[target] for target in batch]
                else:
                    done.append(error)
            profiles = [one for one in done if isinstance(one, Profile)]
            if profiles:
                save(profiles, out / "profiles.json")  # so that a run that is cut off leaves what it had
            _say(f"{len(profiles)} profiles after {time.monotonic() - start:.0f} s")
    return done


def prepare(wanted: Sequence[Target]) -> None:
    """Compile for the GPU and for the emulator, several at a time; errors show again when they matter."""

    def one(target: Target) -> None:
        try:
            compile_stage(target.path, target.v_split)
            simulate(target)
        except Exception as error:
            _say(f"{_name(target)}: {error}")

    with ThreadPoolExecutor() as pool:
        list(pool.map(one, wanted))


def _keeper(archive: zipfile.ZipFile, batch: Sequence[Target]) -> Keep:
    """A function that puts ncu's pages, and all that is needed to read them again, into the archive."""
    number = sum(name.endswith("about.json") for name in archive.namelist())
    folder = f"{number:02d}"

    def keep(pages: Pages, launches: Sequence[dict[str, Any]]) -> None:
        archive.writestr(f"{folder}/raw.csv", pages.raw)
        archive.writestr(f"{folder}/source.csv", pages.source)
        symbols = []
        for position, target in enumerate(batch):
            compiled = compile_stage(target.path, target.v_split)
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


def rebuild(pages: Path) -> list[Profile | Exception]:
    """The profiles once more, from profiles_raw.zip. A stage whose source has changed since fails."""
    done: dict[Target, Profile | Exception] = {}
    with zipfile.ZipFile(pages) as archive:
        for folder in sorted(
            name.split("/")[0] for name in archive.namelist() if name.endswith("about.json")
        ):
            about = json.loads(archive.read(f"{folder}/about.json"))
            batch = [Target(**target) for target in about["targets"]]
            try:
                done |= _rebuilt(archive, folder, about, batch)
            except Exception as error:  # one batch that cannot be read does not stop the others
                done |= {target: error for target in batch if target not in done}
    return list(done.values())


def _rebuilt(
    archive: zipfile.ZipFile, folder: str, about: dict[str, Any], batch: Sequence[Target]
) -> dict[Target, Profile | Exception]:
    """One batch of an archive."""
    raw, source = (archive.read(f"{folder}/{name}.csv").decode() for name in ("raw", "source"))
    where = Provenance(**about["provenance"])
    done: dict[Target, Profile | Exception] = {}
    captures = pair(batch, about["launches"], Pages(Path(folder), raw, source))
    for position, (target, captured) in enumerate(zip(batch, captures, strict=True)):
        done[target] = captured
        if isinstance(captured, KdaError):
            continue
        own = replace(where, digest={target.name: where.digest.get(target.name, "")})
        try:
            if digests([target.name]) != own.digest:
                raise KdaError(f"The source of {target.name} has changed since: profile it again.")
            cubin = archive.read(f"{folder}/{position}.cubin")
            ptx = archive.read(f"{folder}/{position}.ptx").decode()
            sass = disassemble(cubin, about["symbols"][position], ptx)
            done[target] = build(captured, sass, simulate(target), own)
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


def _name(target: Target) -> str:
    return f"{target.name}, VSplit {target.v_split}"


def _say(text: str) -> None:
    print(f"kda-learn: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
