"""What a ladder holds: a row for each stage and config, and how all of it was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

Interval = list[float]
"""The two ends of an interval."""


@dataclass(frozen=True)
class LadderRow:
    """A stage at a config, beside its base and the article. None: not measured, or no figure."""

    stage: str
    base: str | None  # the nearest stage on its path of bases that was timed too
    config: str
    v_split: int
    rounds: int
    blocks_per_sm: int | None
    median_us: float | None  # of one launch
    ci_us: Interval | None
    delta_pct: float | None  # against the base; negative: faster
    delta_ci_pct: Interval | None
    article_us: float | None
    article_delta_pct: float | None
    verdict: str | None
    reason: str | None
    outdated: bool = False  # of a recorded one: the stage or its base has changed since


@dataclass(frozen=True)
class Ladder:
    """Rows measured together, or recorded, on one GPU or a part of it."""

    machine: str
    sms: int
    recorded: bool
    date: str
    banner: str  # where the figures come from, in words
    heads: int
    notes: list[str]
    rows: list[LadderRow]
    controls: list[dict[str, Any]]  # of each config: the same stage timed twice in each round
    clocks: dict[str, list[dict[str, Any]]]  # of each config: what nvidia-smi said meanwhile
    reasons_from: str = ""  # whose counters explain the rows
    v_split_rule: dict[str, str | None] = field(default_factory=dict)
    roofline: str | None = None
    provenance: dict[str, Any] | None = None  # of one that was measured now

    @property
    def configs(self) -> list[str]:
        """Those of the rows, in their order."""
        return list(dict.fromkeys(row.config for row in self.rows))

    def as_dict(self) -> dict[str, Any]:
        """For JSON; `from_dict` reads it."""
        values = asdict(self)
        if self.provenance is None:
            del values["provenance"]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Ladder:
        """Reads what `as_dict` wrote, and leaves out other keys. Raises KeyError or TypeError otherwise."""
        known = {one.name for one in fields(cls)}
        rows = [LadderRow(**row) for row in values["rows"]]
        return cls(**{name: value for name, value in values.items() if name in known} | {"rows": rows})
