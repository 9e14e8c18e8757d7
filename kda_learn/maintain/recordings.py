"""Measuring and keeping: each function writes files into a folder and returns their paths."""

import json
from pathlib import Path

from ..checking import budget as wavefronts
from ..checking.sanitize import sanitize
from ..checking.standard_set import check_stages, record_check
from ..kernel_a import builds as compiled
from ..kernel_a.batch import CONFIGS
from ..kernel_a.tile import trace
from ..kernel_a.variants import SNAPSHOT_TYPES, V_SPLITS, compile_stage, kernel_entry
from ..machines.device import hopper
from ..performance import blocks as fewer_blocks
from ..performance import ceilings as limits
from ..performance import split_v as splits
from ..performance.explained import explained
from ..performance.ladder import KIND, ids_of, measured_ladders, record_of
from ..records import fingerprints as prints
from ..records import store as records
from ..records.article import H20_SMS
from ..sources.stages import STAGES

HEADS = 32
ENTRIES = [kernel_entry(v_split) for v_split in V_SPLITS] + [kernel_entry(1, True, list(SNAPSHOT_TYPES)[-1])]
"""The variants whose PTX tells whether a stage is the same: those that are timed, and one of the others."""


def ladder(folder: Path) -> list[Path]:
    """Every stage at the article's configs, on the whole GPU and on a part as large as the article's, on the
    same data.
    """
    measured = measured_ladders(ids_of(None), CONFIGS, (None, H20_SMS), HEADS)
    return [_save(record_of(explained(one)), folder, KIND, sms=True) for one in measured]


def blocks(folder: Path) -> list[Path]:
    """The stage that has most blocks on an SM, with fewer."""
    name = f"{fewer_blocks.KIND}-{fewer_blocks.STAGE}"
    return [_save(record, folder, name, sms=True) for record in fewer_blocks.recordings()]


def ceilings(folder: Path) -> list[Path]:
    """How fast bytes move and tensor cores multiply."""
    return [_save(limits.measure(), folder, limits.KIND)]


def split_v(folder: Path) -> list[Path]:
    """VSplit 1 to 8 over the size of the batch."""
    return [_save(splits.sweep(), folder, splits.KIND)]


def check(folder: Path) -> list[Path]:
    """Every stage on the standard set of a GPU."""
    path = folder / f"check-{_slug(hopper().name)}.json"
    record_check(check_stages(STAGES, machine="gpu"), path)
    return [path]


def sanitizers(folder: Path) -> list[Path]:
    """Every stage under compute-sanitizer."""
    names = ids_of(None)
    rows = sanitize(names)
    where = records.provenance(hopper(), names, nvrtc=compile_stage(STAGES[0]).nvrtc)
    return [_save(records.Record("sanitizers", where, {"rows": rows}), folder, "sanitizers")]


def builds(folder: Path) -> list[Path]:
    """Registers, spills, shared memory and opcodes of every stage; no GPU is needed."""
    path = folder / "builds.json"
    records.save(compiled.recording(), path)
    return [path]


def budget(folder: Path) -> list[Path]:
    """Every stage's wavefronts, traced on the emulator; what was predicted of them stays as it is."""
    per_tile = {stage.id: wavefronts.spent(trace(stage)) for stage in STAGES}
    return [_write(folder / wavefronts.FILE.name, wavefronts.load() | {"per_tile": per_tile})]


def fingerprints(folder: Path) -> list[Path]:
    """The PTX of every stage, and the texts that give it."""
    known = prints.table() if prints.FILE.exists() else {"nvrtc": "", "stages": {}}
    return [_write(folder / prints.FILE.name, prints.brought_up_to_date(known, ENTRIES))]


def _save(record: records.Record, folder: Path, name: str, *, sms: bool = False) -> Path:
    """A record named after what it is of, its GPU and, if several numbers of SMs are kept, that number."""
    where = record.provenance
    path = folder / f"{name}-{_slug(where.gpu)}{f'-{where.sms}sms' if sms else ''}.json"
    records.save(record, path)
    return path


def _write(path: Path, values: dict) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    return path


def _slug(gpu: str) -> str:
    return gpu.lower().replace(" ", "-")
