"""How much fewer blocks on an SM cost: a stage timed with shared memory that it asks for and does not use."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..ground.errors import BadInput, MachineUnavailable
from ..ground.given import several, whole
from ..hardware.limits import HOPPER
from ..hardware.occupancy import blocks_per_sm, room_for_blocks
from ..kernel_a.batch import Config
from ..kernel_a.variants import article_v_split, compile_stage, shared_memory_of, threads_of
from ..machines.device import has_hopper, hopper
from ..records import store as records
from ..records.article import H20_SMS
from ..sources.stages import Stage, stage
from ..timing.statistics import delta_estimate, median_estimate
from .bench import Variant, check_request, measure

KIND = "blocks"
CONFIG = "B32/T8192"
STAGE = "s02"
HEADS = 32


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


@dataclass(frozen=True)
class BlocksTimes:
    """What was found: rows, the most blocks first, and where they come from, in words."""

    rows: list[BlocksRow]
    words: str
    recorded: bool


def measure_blocks(
    name: str,
    blocks: Sequence[int] | None = None,
    *,
    config: str = CONFIG,
    sms: int | None = None,
    heads: int = HEADS,
    live: bool | None = None,
) -> BlocksTimes:
    """Time a stage (its id) with so many blocks on an SM: live on a Hopper GPU, else the newest record.

    blocks: numbers of blocks, from 1 to as many as fit (None: all of these). config: sequences and their
    tokens. sms: use only so many SMs. live: True measures or raises MachineUnavailable, False never measures,
    None measures where it can. Without a record the rows have no times. Raises BadInput for numbers of blocks
    that cannot be had.
    """
    check_request([name], [config], [sms], heads, None)
    if blocks is not None:
        blocks = [
            whole("a number of blocks", one, 1)
            for one in several("blocks", blocks, "numbers, such as [1, 2]")
        ]
    if not (has_hopper() if live is None else live):
        return _recorded(name, blocks, config, sms)
    variants = variants_for(stage(name), blocks, config, sms or hopper().sms, heads)
    measured = measure([one.name for one in variants], [config], [sms], heads)
    (part,) = measured["parts"]
    words = (
        f"Measured now on an {measured['provenance']['gpu']} with {part['sms']} SMs. {_more(measured | part)}"
    )
    return BlocksTimes(rows_of(part["runs"][0], variants), words, recorded=False)


def recordings(sms: Sequence[int | None] = (None, H20_SMS)) -> list[records.Record]:
    """STAGE at CONFIG, measured on each number of SMs. Raises MachineUnavailable without a Hopper GPU."""
    variants = variants_for(stage(STAGE), None, CONFIG, hopper().sms, HEADS)
    measured = measure([one.name for one in variants], [CONFIG], list(sms), HEADS)
    found = []
    for part in measured["parts"]:
        run = part["runs"][0]
        content = {
            "stage": STAGE,
            "config": CONFIG,
            "heads": measured["heads"],
            "v_split": run["v_split"],
            "notes": part["notes"] + list(run["rejected"].values()),
            "rows": [asdict(row) for row in rows_of(run, variants)],
            "clocks": run["clocks"],
        }
        where = records.Provenance(**measured["provenance"] | {"sms": part["sms"]})
        found.append(records.Record(KIND, where, content))
    return found


def variants_for(
    stage: Stage, blocks: Sequence[int] | None, config: str, sms: int, heads: int
) -> list[Variant]:
    """The stage with the shared memory that lets so many blocks fit an SM, the most blocks first.

    The most bytes that do so, so that an SM's shared memory is nearly full each time and the L1 cache beside
    it always has the same size. The greatest number of blocks gets none on top.
    """
    v_split = article_v_split(Config.parse(config).sequences, heads, sms)
    compiled = compile_stage(stage, v_split)
    smem = compiled.static_smem + shared_memory_of(stage, v_split)
    most = blocks_per_sm(compiled.registers, smem, threads_of(stage)).blocks
    wanted = sorted(set(range(1, most + 1) if blocks is None else blocks), reverse=True)
    if not wanted or not all(type(number) is int and 1 <= number <= most for number in wanted):
        raise BadInput(
            f"blocks is {blocks!r}: give numbers from 1 to {most}, which is how many blocks of {stage.id} "
            "fit an SM."
        )
    return [Variant(stage.id, 0 if number == most else room_for_blocks(number, smem)) for number in wanted]


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
                occupancy_pct=_occupancy_pct(one.stage, blocks),
                ms=time.median,
                interval_ms=(time.low, time.high),
                delta_pct=None if is_first else delta.median,
                delta_interval_pct=None if is_first else (delta.low, delta.high),
            )
        )
    return rows


def _recorded(name: str, blocks: Sequence[int] | None, config: str, sms: int | None) -> BlocksTimes:
    """The newest record that fits, or the rows without times."""
    record = records.find(KIND, sms=sms)
    if record is None or (record.content["stage"], record.content["config"]) != (name, config):
        words = (
            f"There is no Hopper GPU here to time on, and no record of {name} with fewer blocks at {config}."
        )
        return BlocksTimes(_untimed(name, blocks, config), words, recorded=False)
    rows = [_row_of(values) for values in record.content["rows"]]
    if blocks is not None:
        rows = [row for row in rows if row.blocks in blocks]
    if not rows:
        there = ", ".join(str(values["blocks"]) for values in record.content["rows"])
        raise BadInput(f"blocks is {blocks!r} and {there} were recorded: give some of these.")
    return BlocksTimes(rows, f"{record.banner()} {_more(record.content)}", recorded=True)


def _untimed(name: str, blocks: Sequence[int] | None, config: str) -> list[BlocksRow]:
    """The rows as far as the occupancy rule gives them; none without a compiler."""
    try:
        variants = variants_for(stage(name), blocks, config, H20_SMS, HEADS)
    except MachineUnavailable:
        return []
    most = len(variants) if blocks is None else max(blocks)
    numbers = range(most, 0, -1) if blocks is None else sorted(set(blocks), reverse=True)
    return [
        BlocksRow(number, one.extra_smem, _occupancy_pct(name, number))
        for number, one in zip(numbers, variants, strict=True)
    ]


def _row_of(values: dict[str, Any]) -> BlocksRow:
    """A row from a record, where intervals are lists."""
    pairs = {
        name: None if values[name] is None else tuple(values[name])
        for name in ("interval_ms", "delta_interval_pct")
    }
    return BlocksRow(**values | pairs)


def _occupancy_pct(name: str, blocks: int) -> float:
    return 100 * blocks * threads_of(stage(name)) / HOPPER.threads


def _more(measured: dict[str, Any]) -> str:
    return " ".join([f"Heads: {measured['heads']}.", *measured["notes"]])
