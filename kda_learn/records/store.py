"""Recorded measurements: JSON files that say on which machine, when and from which sources they come."""

from __future__ import annotations

import datetime
import json
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..ground.errors import BadInput
from ..ground.files import DATA
from ..sources.includes import Stamps, digest, stamps_of
from ..sources.stages import STAGES
from . import fingerprints

if TYPE_CHECKING:
    from ..machines.device import Gpu


@dataclass(frozen=True)
class Provenance:
    """Where a measurement comes from. `date` is ISO 8601, UTC; `digest` maps a stage's id to that of its
    source.
    """

    gpu: str
    sms: int
    driver: str
    cuda: str
    nvrtc: str
    date: str
    digest: dict[str, str]


@dataclass(frozen=True)
class Record:
    """A recorded measurement: `kind` says of what ("ladder", "check"), `content` is what was measured."""

    kind: str
    provenance: Provenance
    content: dict[str, Any]

    def outdated(self, stages: Collection[str] | None = None) -> list[str]:
        """The stages whose kernel is not the one that was measured, or is gone, in the record's order.

        stages: those that are asked about (None: all of the record).
        """
        return [
            stage
            for stage, recorded in self.provenance.digest.items()
            if (stages is None or stage in stages) and not fingerprints.is_same(stage, recorded)
        ]

    def banner(self, stages: Collection[str] | None = None) -> str:
        """One or two sentences to put above the figures: that and where they were recorded, and what has
        changed. stages: those whose figures are shown (None: all of the record).
        """
        where = self.provenance
        text = (
            f"Recorded on {where.date[:10]} on an {where.gpu} with {where.sms} SMs (driver {where.driver}, "
            f"CUDA {where.cuda}), not measured now."
        )
        outdated = self.outdated(stages)
        if outdated:
            text += f" Recorded from another version of the source: {', '.join(outdated)}."
        return text


def provenance(gpu: Gpu, stages: Iterable[str], *, nvrtc: str, sms: int | None = None) -> Provenance:
    """The provenance of a measurement made now; `sms` if only a part of the GPU was used."""
    return Provenance(
        gpu=gpu.name,
        sms=sms or gpu.sms,
        driver=gpu.driver,
        cuda=gpu.cuda,
        nvrtc=nvrtc,
        date=now(),
        digest=digests(stages),
    )


def now() -> str:
    """The present time in UTC, ISO 8601, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def digests(stages: Iterable[str]) -> dict[str, str]:
    """The digest of each stage's source as it is now; a stage that does not exist is left out."""
    paths = {stage.id: stage.path for stage in STAGES}
    return {stage: digest(paths[stage]) for stage in stages if stage in paths}


def save(record: Record, path: Path) -> None:
    """Write a record as JSON. Raises BadInput if the file cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(record), indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise BadInput(
            f"The record cannot be written to {path} ({error.strerror}): give another file."
        ) from None


_loaded: dict[Path, tuple[Stamps, Record]] = {}


def load(path: Path) -> Record:
    """Read a record, once for each state of its file. Raises BadInput if it is missing, or is no record."""
    stamps = stamps_of([path])
    known, record = _loaded.get(path, ({}, None))
    if record is None or known != stamps:
        record = _read(path)
        _loaded[path] = stamps, record
    return record


def _read(path: Path) -> Record:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return Record(values["kind"], Provenance(**values["provenance"]), values["content"])
    except OSError as error:
        raise BadInput(
            f"There is no record to read at {path} ({error.strerror}): give another file."
        ) from None
    except (ValueError, KeyError, TypeError):
        raise BadInput(
            f"{path} is not a record: give a JSON file that `kda-learn ... --record` wrote."
        ) from None


def find(kind: str, *, sms: int | None = None, folder: Path | None = None) -> Record | None:
    """The newest record of a kind; None if there is none. `folder`: DATA.

    With `sms`, a record of as many SMs is taken before others, and else one of the nearest number.
    """

    def rank(record: Record) -> tuple[int, str]:
        distance = 0 if sms is None else abs(record.provenance.sms - sms)
        return -distance, record.provenance.date

    return max(all_of(kind, folder=folder), key=rank, default=None)


def all_of(kind: str, *, folder: Path | None = None) -> list[Record]:
    """All records of a kind, by the names of their files. `folder`: DATA."""
    found = []
    for path in sorted((folder or DATA).glob("*.json")):
        try:
            record = load(path)
        except BadInput:
            continue  # other data lies in this folder too
        if record.kind == kind:
            found.append(record)
    return found
