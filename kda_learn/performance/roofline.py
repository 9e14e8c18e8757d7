"""Where a stage stands between its time and what no kernel can beat: three floors, and what binds it.

By traffic: a kernel that only moves a tile's bytes, the traffic twin (`kda_learn.lab.traffic_twin`). By
products: the tensor cores, when nothing stands in their way. By shared memory: its wavefronts, one a cycle on
every SM.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..kernel_a.batch import CONFIGS, Config
from ..kernel_a.tiling import CHUNK
from ..records import store as records
from . import ceilings
from . import evidence as counter_evidence
from .ceilings import Ceilings
from .evidence import Evidence, EvidenceMap
from .ladder_rows import Ladder

FLOORS = ("traffic", "products", "shared memory")


@dataclass(frozen=True)
class RooflineRow:
    """A stage beside its floors, all in nanoseconds for one tile and head."""

    stage: str
    config: str
    v_split: int
    sms: int
    time_ns: float
    traffic_ns: float
    products_ns: float
    shared_ns: float | None  # None: its wavefronts or the clock are not known

    @property
    def floor(self) -> str:
        """Which of FLOORS is the highest."""
        return max(self.floors, key=lambda name: self.floors[name])

    @property
    def floor_ns(self) -> float:
        """The highest floor."""
        return self.floors[self.floor]

    @property
    def times_traffic(self) -> float:
        """The stage's time in units of its traffic floor."""
        return self.time_ns / self.traffic_ns

    @property
    def floors(self) -> dict[str, float]:
        """The floors that are known, by name."""
        values = zip(FLOORS, (self.traffic_ns, self.products_ns, self.shared_ns), strict=True)
        return {name: value for name, value in values if value is not None}


def place(
    ladder: Ladder, limits: Ceilings, evidence: EvidenceMap, snapshot_dtype: str = "float32"
) -> list[RooflineRow]:
    """Every timed row of a ladder beside its floors.

    limits: of as many SMs. evidence: for the wavefronts, of the row's
    VSplit. The clock is what was sampled while the ladder was timed.
    """
    rows = []
    for row in ladder.rows:
        if row.median_us is None:
            continue
        known = evidence.get((row.stage, row.v_split))
        clock = _clock_ghz(ladder.clocks.get(row.config, []))
        rows.append(
            RooflineRow(
                stage=row.stage,
                config=row.config,
                v_split=row.v_split,
                sms=ladder.sms,
                time_ns=ns_per_tile(row.median_us, row.config, ladder.heads),
                traffic_ns=limits.twin_ns[snapshot_dtype],
                products_ns=limits.mma_ns,
                shared_ns=shared_ns(known, ladder.sms, clock),
            )
        )
    return rows


def ns_per_tile(us: float, config: str, heads: int) -> float:
    """Nanoseconds for one tile and head, of a launch that took so many microseconds."""
    return 1e3 * us / (Config.parse(config).tokens // CHUNK * heads)


def shared_ns(known: Evidence | None, sms: int, clock_ghz: float | None) -> float | None:
    """What a tile's wavefronts of shared memory take, copies too, if every SM serves one in each cycle."""
    if known is None or known.shared_cycles is None or clock_ghz is None:
        return None
    return known.shared_cycles / sms / clock_ghz


def recorded(
    sms: int | None = None, stages: Sequence[str] | None = None, configs: Sequence[str] = CONFIGS
) -> list[RooflineRow]:
    """The recorded ladder of as many SMs (None: of a whole GPU) beside the recorded ceilings.

    stages, configs: which (None: all). Empty if one of the two was not recorded.
    """
    limits = ceilings.recorded(sms)
    if limits is None:
        return []
    measured = [
        record
        for record in records.all_of("ladder")
        if (record.provenance.gpu, record.provenance.sms) == (limits.gpu, limits.sms)
    ]
    if not measured:
        return []
    newest = max(measured, key=lambda record: record.provenance.date)
    rows = place(Ladder.from_dict(newest.content), limits, counter_evidence.recorded())
    return [row for row in rows if row.config in configs and (stages is None or row.stage in stages)]


def sentence(row: RooflineRow, known: Evidence | None) -> str:
    """Where the stage stands, and what binds it: from its row and its counters (None: they are left out)."""
    text = (
        f"{row.stage} at {row.config} takes {row.time_ns:.1f} ns for a tile and head, "
        f"{row.times_traffic:.2f} times what its bytes take ({row.traffic_ns:.1f} ns); its products would "
        f"take {row.products_ns:.1f} ns"
    )
    if row.shared_ns is not None:
        text += f", its wavefronts of shared memory {row.shared_ns:.1f} ns"
    return f"{text}.{binding(known, row.sms)}"


def binding(known: Evidence | None, sms: int) -> str:
    """What binds, by the counters: the busiest units, device memory, and what warps wait for.

    sms: of the row that is spoken of; where the counters are of another number, that is said.
    """
    if known is None or not known.busiest():
        return ""
    busy = known.busiest()
    units = " and ".join(f"{name} ({percent:.0f} % of the time)" for name, percent in busy)
    verb = "is" if len(busy) == 1 else "are"
    where = "Busiest" if known.sms == sms else f"Counted on {known.sms} SMs, busiest"
    text = f" {where} {verb} {units}"
    if known.dram_pct is not None and "DRAM" not in dict(busy):
        text += f", device memory {known.dram_pct:.0f} %"
    if known.longest_wait is not None:
        share = 100 * known.stalls[known.longest_wait] / sum(known.stalls.values())
        text += f"; warps wait most for {known.longest_wait}, {share:.0f} % of their time"
    return f"{text}."


def _clock_ghz(clocks: Sequence[Mapping[str, Any]]) -> float | None:
    """The middle of the SM clocks that were sampled; None if there are none."""
    known = sorted(one["sm_mhz"] for one in clocks if one["sm_mhz"])
    return known[len(known) // 2] / 1e3 if known else None
