"""The ladder in time: what each stage gains over the one it starts from, beside the article's figures.

Measured on this machine's GPU or taken from a record; `explained` adds the sentences that say why.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..ground.errors import MachineUnavailable
from ..ground.given import several
from ..records import store as records
from ..records.article import article_delta, article_us
from ..sources.stages import LADDER, STAGES, stage
from ..timing.statistics import delta_estimate, median_estimate
from .bench import measure
from .ladder_rows import Ladder, LadderRow
from .verdicts import verdict

KIND = "ladder"


def measured_ladders(
    stages: Sequence[str], configs: Sequence[str], sms: Sequence[int | None], heads: int
) -> list[Ladder]:
    """One ladder per entry of `sms`, measured in one child process."""
    measured = measure(stages, configs, sms, heads)
    found = []
    for part in measured["parts"]:
        where = measured["provenance"] | {"sms": part["sms"]}
        words = f"Measured now on an {where['gpu']} with {part['sms']} SMs."
        found.append(
            Ladder(
                machine=where["gpu"],
                sms=part["sms"],
                recorded=False,
                date=where["date"],
                banner=_banner(words, measured["heads"], part["notes"]),
                heads=measured["heads"],
                notes=part["notes"],
                rows=rows(part["runs"], stages),
                controls=[control(run) for run in part["runs"]],
                clocks={run["config"]: run["clocks"] for run in part["runs"]},
                provenance=where,
            )
        )
    return found


def recorded_ladder(stages: Sequence[str], configs: Sequence[str], sms: int | None) -> Ladder:
    """The newest record of as many SMs, or of the nearest number, cut down to these stages and configs.

    Raises MachineUnavailable if there is none.
    """
    record = records.find(KIND, sms=sms)
    if record is None:
        raise MachineUnavailable(
            "There is neither a Hopper GPU to time on nor a record of the ladder: run `kda-learn ladder "
            "--record FILE` on a machine with an H100, H200 or H20."
        )
    found = Ladder.from_dict(record.content)
    shown = [row for row in found.rows if row.stage in stages and row.config in configs]
    outdated = record.outdated({name for row in shown for name in (row.stage, row.base)})
    return replace(
        found,
        recorded=True,
        banner=_banner(record.banner(stages), found.heads, found.notes),
        rows=[replace(row, outdated=row.stage in outdated or row.base in outdated) for row in shown],
    )


def record_of(ladder: Ladder) -> records.Record:
    """A measured ladder as a record."""
    content = ladder.as_dict()
    return records.Record(KIND, records.Provenance(**content.pop("provenance")), content)


def rows(runs: Sequence[dict], stages: Sequence[str]) -> list[LadderRow]:
    """One row per config and stage, from the raw times of `bench.measure` (microseconds, one per round).

    A stage is compared with the nearest stage on its path of bases that was timed too.
    """
    return [_row(run, name) for run in runs for name in stages]


def _row(run: dict, name: str) -> LadderRow:
    times = run["times_us"]
    base = nearest_base(name, times)
    row = LadderRow(
        stage=name,
        base=base,
        config=run["config"],
        v_split=run["v_split"],
        rounds=run["rounds"],
        blocks_per_sm=run["blocks_per_sm"].get(name),
        median_us=None,
        ci_us=None,
        delta_pct=None,
        delta_ci_pct=None,
        article_us=article_us(name, run["config"]),
        article_delta_pct=article_delta(name, base, run["config"]),
        verdict=None,
        reason=run["rejected"].get(name),
    )
    if name not in times:
        return row
    time = median_estimate(times[name])
    row = replace(row, median_us=time.median, ci_us=[time.low, time.high])
    if base is None:
        return replace(row, reason="no base to compare with")
    delta = delta_estimate(times[name], times[base])
    found, reason = verdict(delta, row.article_delta_pct)
    return replace(
        row, delta_pct=delta.median, delta_ci_pct=[delta.low, delta.high], verdict=found, reason=reason
    )


def control(run: dict) -> dict[str, Any]:
    """The same stage timed twice in each round: how much two equal things seem to differ."""
    name = run["control"]
    if name is None:
        return {"config": run["config"], "stage": None, "delta_pct": None, "delta_ci_pct": None}
    delta = delta_estimate(run["control_us"], run["times_us"][name])
    return {
        "config": run["config"],
        "stage": name,
        "delta_pct": delta.median,
        "delta_ci_pct": [delta.low, delta.high],
    }


def nearest_base(name: str, timed: Sequence[str] | dict) -> str | None:
    """The first stage on the path of bases of `name` that is among `timed`; None if there is none."""
    base_of = {known.id: known.base for known in LADDER}
    base = base_of[name]
    while base is not None and base not in timed:
        base = base_of[base]
    return base


def ids_of(stages: Sequence[str] | None) -> list[str]:
    """The ids of these stages (None: of all), each once."""
    if stages is None:
        return [known.id for known in STAGES]
    names = several("stages", stages, "stages, such as ['s11', 's12']")
    return list(dict.fromkeys(stage(name).id for name in names))


def _banner(text: str, heads: int, notes: Sequence[str]) -> str:
    """`text`, and what else must be known to read the figures."""
    return " ".join([text, f"Heads: {heads}.", *notes])
