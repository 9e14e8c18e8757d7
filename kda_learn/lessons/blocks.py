"""How much fewer blocks on an SM cost: a stage timed with shared memory that it asks for and does not use.

`measure("s02", blocks=[1, 2, 3, 4])` shows it. `python -m kda_learn.lessons.blocks [FOLDER]` measures it on a
GPU and writes the records that computers without one show.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import records
from ..bench import Config, Variant
from ..bench import measure as measure_in_child
from ..compile import compile_stage
from ..device import hopper
from ..errors import BadInput, MachineUnavailable
from ..kernel_a import article_v_split
from ..ladder import H20_SMS
from ..occupancy import ARCHITECTURES, blocks_per_sm, room_for_blocks
from ..run import THREADS, choose_machine
from ..stages import stage as stage_named
from ..timing_statistics import delta_estimate, median_estimate
from .display import Banner, Part, Sentence, Shown, Table, decimal, interval, percent, whole
from .machines import INTERVAL, measured_banner, missing_banner
from .steps import Steps

if TYPE_CHECKING:
    from .charts import Chart

KIND = "blocks"
CONFIG = "B32/T8192"
STAGE = "s02"
HEADS = 32
NOTE = (
    "Each block asks for so much more shared memory that exactly this many blocks fit an SM; it does not use "
    f"it. ms: the median of one launch. {INTERVAL} change: against the row with the most blocks."
)


@dataclass(frozen=True)
class BlocksRow:
    """A stage with so many blocks on an SM; the times are None where nothing was measured."""

    blocks: int  # on an SM at a time, as the driver counts them
    extra_smem: int  # bytes that a block asks for and does not use
    occupancy_pct: float  # resident warps, as a share of the 64 that an SM can hold
    ms: float | None = None
    interval_ms: tuple[float, float] | None = None
    delta_pct: float | None = None  # against the row with the most blocks
    delta_interval_pct: tuple[float, float] | None = None


@dataclass(frozen=True, repr=False)
class Blocks(Shown):
    """A stage's time with more and fewer blocks on an SM, the most blocks first."""

    stage: str
    config: str
    rows: list[BlocksRow]
    banner: Banner
    recorded: bool

    @property
    def missing(self) -> bool:
        """Whether there are no times: no GPU here, and no record."""
        return all(row.ms is None for row in self.rows)

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
        from .charts import extra_smem_chart

        return extra_smem_chart(self)

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


def measure_blocks(
    stage: str = STAGE,
    blocks: Sequence[int] | None = None,
    *,
    config: str = CONFIG,
    sms: int | None = None,
    heads: int = HEADS,
    live: bool | None = None,
) -> Blocks:
    """Time a stage with so many blocks on an SM: live on a Hopper GPU, else the newest record.

    blocks: numbers of blocks, from 1 to as many as fit (None: all of these). config: sequences and their
    tokens. sms: use only so many SMs. live: True measures or raises MachineUnavailable, False never measures,
    None measures where it can. Raises BadInput for numbers of blocks that cannot be had.
    """
    name = stage_named(stage).id
    Config.parse(config)
    if live is None:
        live = choose_machine("auto") == "gpu"
    if not live:
        return _recorded(name, blocks, config, sms)
    variants = variants_for(name, blocks, config, sms or hopper().sms, heads)
    with Steps(4) as steps, steps.from_standard_error():
        measured = measure_in_child([one.name for one in variants], [config], [sms], heads)
    (part,) = measured["parts"]
    where = measured["provenance"]
    words = f"Measured now on an {where['gpu']} with {part['sms']} SMs. {_more(measured | part)}"
    rows = rows_of(part["runs"][0], variants)
    return Blocks(name, config, rows, measured_banner(words, recorded=False), recorded=False)


def variants_for(
    stage: str, blocks: Sequence[int] | None, config: str, sms: int, heads: int
) -> list[Variant]:
    """The stage with the shared memory that lets so many blocks fit an SM, the most blocks first.

    The most bytes that do so, so that an SM's shared memory is nearly full each time and the L1 cache beside
    it always has the same size. The greatest number of blocks gets none on top.
    """
    v_split = article_v_split(Config.parse(config).sequences, heads, sms)
    compiled = compile_stage(stage, v_split)
    smem = compiled.static_smem + compiled.dynamic_smem_bytes
    most = blocks_per_sm(compiled.registers, smem, THREADS).blocks
    wanted = sorted(set(range(1, most + 1) if blocks is None else blocks), reverse=True)
    if not wanted or not all(type(number) is int and 1 <= number <= most for number in wanted):
        raise BadInput(
            f"blocks is {blocks!r}: give numbers from 1 to {most}, which is how many blocks of {stage} fit "
            "an SM."
        )
    return [Variant(stage, 0 if number == most else room_for_blocks(number, smem)) for number in wanted]


def rows_of(run: dict[str, Any], variants: Sequence[Variant]) -> list[BlocksRow]:
    """The rows of one timed config; `run` as in `bench.measure`. A variant that was rejected is left out."""
    timed = [one for one in variants if one.name in run["times_us"]]
    rows = []
    for one in timed:
        times = run["times_us"][one.name]
        blocks = run["blocks_per_sm"][one.name]
        time = median_estimate([us / 1000 for us in times])
        delta = delta_estimate(times, run["times_us"][timed[0].name])
        is_first = one is timed[0]
        rows.append(
            BlocksRow(
                blocks=blocks,
                extra_smem=one.extra_smem,
                occupancy_pct=_occupancy_pct(blocks),
                ms=time.median,
                interval_ms=(time.low, time.high),
                delta_pct=None if is_first else delta.median,
                delta_interval_pct=None if is_first else (delta.low, delta.high),
            )
        )
    return rows


def record_blocks(
    folder: Path | None = None,
    *,
    stage: str = STAGE,
    config: str = CONFIG,
    sms: Sequence[int | None] = (None, H20_SMS),
    heads: int = HEADS,
) -> list[Path]:
    """Measure on this computer's GPU, on all SMs and on a part as large as the article's GPU; keep both.

    folder: where (None: into the package). Returns the files. Raises MachineUnavailable without a Hopper GPU.
    """
    variants = variants_for(stage, None, config, hopper().sms, heads)
    measured = measure_in_child([one.name for one in variants], [config], list(sms), heads)
    paths = []
    for part in measured["parts"]:
        where = records.Provenance(**measured["provenance"] | {"sms": part["sms"]})
        run = part["runs"][0]
        content = {
            "stage": stage,
            "config": config,
            "heads": measured["heads"],
            "v_split": run["v_split"],
            "notes": part["notes"] + list(run["rejected"].values()),
            "rows": [asdict(row) for row in rows_of(run, variants)],
            "clocks": run["clocks"],
        }
        gpu = where.gpu.lower().replace(" ", "-")
        path = Path(folder or records.DATA) / f"blocks-{stage}-{gpu}-{part['sms']}sms.json"
        records.save(records.Record(KIND, where, content), path)
        paths.append(path)
    return paths


def _recorded(stage: str, blocks: Sequence[int] | None, config: str, sms: int | None) -> Blocks:
    """The newest record that fits, or the rows without times."""
    record = records.find(KIND, sms=sms)
    if record is None or (record.content["stage"], record.content["config"]) != (stage, config):
        words = (
            f"There is no Hopper GPU here to time on, and no record of {stage} with fewer blocks at {config}."
        )
        return Blocks(stage, config, _untimed(stage, blocks, config), missing_banner(words), recorded=False)
    rows = [_row_of(values) for values in record.content["rows"]]
    if blocks is not None:
        rows = [row for row in rows if row.blocks in blocks]
    if not rows:
        there = ", ".join(str(values["blocks"]) for values in record.content["rows"])
        raise BadInput(f"blocks is {blocks!r} and {there} were recorded: give some of these.")
    banner = measured_banner(f"{record.banner()} {_more(record.content)}", recorded=True)
    return Blocks(stage, config, rows, banner, recorded=True)


def _untimed(stage: str, blocks: Sequence[int] | None, config: str) -> list[BlocksRow]:
    """The rows as far as the occupancy rule gives them; none without a compiler."""
    try:
        variants = variants_for(stage, blocks, config, H20_SMS, HEADS)
    except MachineUnavailable:
        return []
    most = len(variants) if blocks is None else max(blocks)
    numbers = range(most, 0, -1) if blocks is None else sorted(set(blocks), reverse=True)
    return [
        BlocksRow(number, one.extra_smem, _occupancy_pct(number))
        for number, one in zip(numbers, variants, strict=True)
    ]


def _row_of(values: dict[str, Any]) -> BlocksRow:
    """A row from a record, where intervals are lists."""
    pairs = {
        name: None if values[name] is None else tuple(values[name])
        for name in ("interval_ms", "delta_interval_pct")
    }
    return BlocksRow(**values | pairs)


def _occupancy_pct(blocks: int) -> float:
    return 100 * blocks * THREADS / ARCHITECTURES["sm_90"].threads


def _more(measured: dict[str, Any]) -> str:
    return " ".join([f"Heads: {measured['heads']}.", *measured["notes"]])


if __name__ == "__main__":
    for written in record_blocks(Path(sys.argv[1]) if len(sys.argv) > 1 else None):
        print(written)
