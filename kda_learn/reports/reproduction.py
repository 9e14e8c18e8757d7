"""What a reproduction found, and how it is told: as text, as a dictionary."""

import textwrap
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..ground.text_table import WIDTH
from ..performance.ceilings import Ceilings
from ..performance.ladder_rows import Ladder, LadderRow
from ..performance.profile import Profile
from ..performance.roofline import RooflineRow


@dataclass(frozen=True)
class LeftOut:
    """A part that was not measured, and why, in a sentence."""

    part: str
    reason: str


@dataclass
class Reproduction:
    """What was found. Ladders are those of `ladder.ladder`, one for each config if they were measured."""

    machine: str | None  # the GPU's name; None if nothing was measured on one
    sms: int | None
    date: str
    sentence: str  # what was done, and what could not be
    doctor: dict[str, Any]
    checks: list[dict[str, Any]] = field(default_factory=list)
    ladders: list[Ladder] = field(default_factory=list)
    recorded: bool = True  # whether the ladders are recorded ones
    own_profiles: list[Profile] = field(default_factory=list)
    profiles: list[Profile] = field(default_factory=list)  # whose counters explain the ladders
    limits: Ceilings | None = None
    ceilings_record: dict[str, Any] | None = None
    roofline: list[RooflineRow] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    @property
    def rows(self) -> list[LadderRow]:
        """The rows of all ladders."""
        return [row for one in self.ladders for row in one.rows]

    @property
    def verdicts(self) -> dict[str, int]:
        """How many rows got each verdict, the most frequent first."""
        return dict(Counter(row.verdict for row in self.rows if row.verdict).most_common())

    @property
    def faults(self) -> int:
        """Checks that failed."""
        return sum(not row["ok"] for row in self.checks)

    def as_text(self, out: Path) -> str:
        """For the terminal; out: where the files are."""
        lines = [self.sentence]
        if self.checks:
            lines.append(f"{len(self.checks) - self.faults} of {len(self.checks)} checks passed.")
        if self.ladders:
            counts = ", ".join(f"{count} {verdict}" for verdict, count in self.verdicts.items())
            lines.append(f"{'Recorded verdicts' if self.recorded else 'Verdicts'}: {counts or 'none'}.")
        lines += [f"Left out: {line}" for line in self.what_is_missing()]
        lines.append(f"To read: {out / 'report.html'}. To share: {out / 'pack.json'}.")
        return "\n".join(textwrap.fill(line, WIDTH, subsequent_indent="  ") for line in lines)

    def what_is_missing(self) -> list[str]:
        """What was left out, by reason; a reason that `sentence` has given is not repeated."""
        parts: dict[str, list[str]] = {}
        for one in self.left_out:
            parts.setdefault(one.reason, []).append(one.part)
        return [
            ", ".join(names) + ("." if self.sentence.startswith(reason) else f": {reason}")
            for reason, names in parts.items()
        ]

    def as_dict(self) -> dict[str, Any]:
        """The pack: everything that was measured here, for JSON."""
        return {
            "kind": "reproduction",
            "machine": self.machine,
            "sms": self.sms,
            "date": self.date,
            "sentence": self.sentence,
            "verdicts": {} if self.recorded else self.verdicts,
            "doctor": self.doctor,
            "check": {"ok": self.faults == 0, "rows": self.checks},
            "ladders": [] if self.recorded else [one.as_dict() for one in self.ladders],
            "ceilings": self.ceilings_record,
            "profiles": [one.as_dict() for one in self.own_profiles],
            "roofline": [] if self.recorded else [asdict(row) for row in self.roofline],
            "left_out": [asdict(one) for one in self.left_out],
        }
