"""A stage's time with fewer blocks on an SM, as `measure("s02", blocks=[1, 2, 3, 4])` shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..display.banners import INTERVAL, measured_banner, missing_banner
from ..display.parts import Banner, Part, Sentence, Shown, Table, decimal, interval, percent, whole
from ..display.steps import Steps
from ..ground.errors import BadInput
from ..ground.say import heard_by
from ..performance.blocks import CONFIG, BlocksRow
from ..performance.blocks import measure_blocks as blocks_of

if TYPE_CHECKING:
    from ..display.figure import Chart

NOTE = (
    "Each block asks for so much more shared memory that exactly this many blocks fit an SM; it does not use "
    f"it. ms: the median of one launch. {INTERVAL} change: against the row with the most blocks."
)


class Times(Shown):
    """Rows with a time each."""

    rows: Sequence[Any]

    @property
    def missing(self) -> bool:
        """Whether there are no times: no GPU here, and no record."""
        return all(row.ms is None for row in self.rows)


@dataclass(frozen=True, repr=False)
class Blocks(Times):
    """A stage's time with more and fewer blocks on an SM, the most blocks first."""

    stage: str
    config: str
    rows: list[BlocksRow]
    banner: Banner
    recorded: bool

    def row(self, blocks: int) -> BlocksRow:
        """The row with so many blocks. Raises BadInput if it was not measured."""
        for row in self.rows:
            if row.blocks == blocks:
                return row
        there = ", ".join(str(row.blocks) for row in self.rows)
        raise BadInput(
            f"{blocks} blocks were asked for and {self.stage} was timed with {there}: give one of them."
        )

    def chart(self) -> Chart:
        """The times as a figure."""
        from ..display.ladder_charts import extra_smem_chart

        return extra_smem_chart(self.rows, f"{self.stage}, {self.config}", self.banner.words)

    def parts(self) -> list[Part]:
        headers = [
            "blocks on an SM",
            "extra bytes a block",
            "of an SM's 64 warps",
            "ms",
            "interval",
            "change",
            "interval",
        ]
        rows = [
            [
                row.blocks,
                whole(row.extra_smem),
                decimal(row.occupancy_pct, unit=" %"),
                decimal(row.ms, 2),
                interval(row.interval_ms, 2),
                percent(row.delta_pct, 2),
                interval(row.delta_interval_pct, 2),
            ]
            for row in self.rows
        ]
        title = f"{self.stage}, {self.config}"
        table = Table(headers, rows, caption=title).without_blanks()
        return [self.banner, table, Sentence(NOTE, quiet=True)]


def measure_blocks(stage: str, blocks: Sequence[int] | None, **options: Any) -> Blocks:
    """Time a stage with so many blocks on an SM, or show the record; options: as in `performance.blocks`.

    Raises BadInput for numbers of blocks that cannot be had.
    """
    with Steps(4) as steps, heard_by(steps.step):
        found = blocks_of(stage, blocks, **options)
    is_timed = any(row.ms is not None for row in found.rows)
    banner = (
        measured_banner(found.words, recorded=found.recorded) if is_timed else missing_banner(found.words)
    )
    return Blocks(stage, options.get("config", CONFIG), found.rows, banner, found.recorded)
