"""A stage's profile: the hardware's counters, and where the time goes by source line.

Measured with Nsight Compute on this computer's GPU or, where that is not possible, taken from a record, which
then says so. Wavefronts of shared memory stand beside those that the emulator's trace gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from ..ground.errors import BadInput
from ..ground.files import DATA
from ..ground.given import whole
from ..kernel_a.batch import Config
from ..kernel_a.tiling import CHUNK
from ..kernel_a.variants import check_v_split
from ..profiling.capture import Watched
from ..profiling.rows import Comparison, LineRow, SharedRow, Work
from ..records import store as records
from ..records.store import Provenance, Record
from ..sources.stages import STAGES, Stage, as_stage

CONFIG = "B32/T2048"
"""The article's first configuration, B32/T8192, with sequences cut to 128 tiles: the blocks are the same,
every tile costs the same, and what a block does before and after its tiles is a hundredth of it.
"""

HEADS = 32
KIND = "profile"

PROFILED_V_SPLITS = (1, 4)
"""Those that the article's rule chooses between."""

RECORDS = DATA / "profiles"
"""The profiles that come with the package."""


@dataclass(frozen=True)
class Target:
    """A launch to profile: a stage's kernel at a VSplit, on `heads` heads of a config such as "B32/T2048".

    stage: its id, or the path of a .cu file of your own. Raises BadInput for what does not fit.
    """

    stage: str
    v_split: int = 1
    config: str = CONFIG
    heads: int = HEADS

    def __post_init__(self) -> None:
        Config.parse(self.config)
        check_v_split(self.v_split)
        whole("heads", self.heads, 1)

    @property
    def kernel(self) -> Stage:
        """The stage, or the file of your own as one."""
        return as_stage(self.stage)

    @property
    def name(self) -> str:
        """The stage's id; of a file of your own its name."""
        return self.kernel.id

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.name} at VSplit {self.v_split}"

    @property
    def watched(self) -> Watched:
        """The launch as the profiler takes it."""
        options = {
            "path": str(self.kernel.path),
            "v_split": self.v_split,
            "config": self.config,
            "heads": self.heads,
        }
        return Watched(self.label, "kda_learn.kernel_a.device_data:to_profile", options)

    @property
    def work(self) -> Work:
        """How many tiles, and how many sequences times heads, the launch works through."""
        config = Config.parse(self.config)
        return Work(config.tokens // CHUNK * self.heads, config.sequences * self.heads)


@dataclass(frozen=True)
class Profile:
    """What was counted in one launch of a stage's kernel.

    counters: of the whole kernel, as `counters.COUNTERS` describes them. stalls: warps that wait per
    instruction issued, by reason, the largest first. comparisons: wavefronts measured and simulated. shared:
    lines that move shared memory; lines: all lines.
    """

    stage: str
    v_split: int
    config: str
    heads: int
    blocks_per_sm: int
    dynamic_smem_bytes: int
    counters: dict[str, float]
    stalls: dict[str, float]
    comparisons: list[Comparison]
    shared: list[SharedRow]
    lines: list[LineRow]
    provenance: Provenance
    recorded: bool = False
    reason: str = ""  # of a recorded one: why it was not measured now

    def banner(self) -> str:
        """Where the figures come from: nothing to add if measured now, else why not, and when and where."""
        if not self.recorded:
            return ""
        record = Record(KIND, self.provenance, {})
        return f"{self.reason} {record.banner()}".strip()

    def as_dict(self) -> dict[str, Any]:
        """For JSON; `from_dict` reads it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Profile:
        """Reads what `as_dict` wrote. Raises KeyError or TypeError for anything else."""
        rows = {
            "comparisons": [Comparison(**row) for row in values["comparisons"]],
            "shared": [SharedRow(**row | {"regions": tuple(row["regions"])}) for row in values["shared"]],
            "lines": [LineRow(**row | {"called_from": tuple(row["called_from"])}) for row in values["lines"]],
            "provenance": Provenance(**values["provenance"]),
        }
        known = {item.name: values[item.name] for item in fields(cls) if item.name in values}
        return cls(**known | rows)


def recorded(stage: str, v_split: int = 1, folder: Path | None = None) -> Profile | None:
    """The newest recorded profile of a stage (its id) at a VSplit; None if there is none.

    folder: of records (default: those that come with the package).
    """
    check_v_split(v_split)
    found = [
        one
        for path in sorted((folder or RECORDS).glob("*.json"))
        for one in load(path)
        if one.stage == stage and one.v_split == v_split
    ]
    return max(found, key=lambda one: one.provenance.date, default=None)


def load(path: Path) -> Iterator[Profile]:
    """The profiles of a record. Raises BadInput for a file that is none."""
    record = records.load(path)
    if record.kind != KIND:
        raise BadInput(f"{path} is a record of kind {record.kind!r}: give one of profiles.")
    for values in record.content["profiles"]:
        of_stage = {
            stage: digest for stage, digest in record.provenance.digest.items() if stage == values["stage"]
        }
        provenance = replace(record.provenance, digest=of_stage)
        yield Profile.from_dict(values | {"provenance": asdict(provenance), "recorded": True})


def save(profiles: list[Profile], path: Path) -> None:
    """Write profiles that were measured together as one record. Raises BadInput unless all were measured."""
    if not profiles:
        raise BadInput(f"No profile was given to write to {path}: measure one first.")
    for one in profiles:
        if one.recorded:
            raise BadInput(
                f"The profile of {one.stage} is a recorded one, nothing new for {path}: {one.reason}"
            )
    digest = {stage: text for one in profiles for stage, text in one.provenance.digest.items()}
    content = []
    for one in profiles:
        values = one.as_dict()
        for key in ("provenance", "recorded", "reason"):
            del values[key]
        content.append(values)
    provenance = replace(profiles[0].provenance, digest=digest)
    records.save(Record(KIND, provenance, {"profiles": content}), path)


SPLIT_CONFIG = "B1/T8192"
"""At VSplit 4 the article runs one long sequence: 128 blocks with 32 heads."""


def targets(stages: Sequence[str] | None = None, v_splits: Sequence[int] = PROFILED_V_SPLITS) -> list[Target]:
    """Every stage at VSplit 1, then at VSplit 4; `stages` (ids) and `v_splits` narrow the choice."""
    chosen = [stage.id for stage in STAGES if stages is None or stage.id in stages]
    whole = [Target(stage) for stage in chosen if 1 in v_splits]
    return whole + [Target(stage, 4, SPLIT_CONFIG) for stage in chosen if 4 in v_splits]
