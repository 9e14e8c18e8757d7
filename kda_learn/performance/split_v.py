"""How many blocks should share a state's columns: VSplit 1, 2, 4 and 8 timed over the size of the batch.

The work stays the same from point to point, as many tokens cut into more and more sequences; what changes is
how many (sequence, head) pairs there are to fill the GPU with.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ..ground.errors import BadInput, MachineUnavailable
from ..kernel_a.batch import Config
from ..kernel_a.tiling import CHUNK
from ..kernel_a.variants import V_SPLITS, article_v_split, compile_at_once
from ..machines.device import has_hopper, hopper
from ..records import store as records
from ..records.article import H20_SMS, whole_and_h20
from ..sources.stages import LADDER, LAST, stage
from ..timing.statistics import median_estimate
from .bench import Variant, check_request, measure
from .split_rule import Point, SplitRule, fit, losses

KIND = "split-v"

STAGE = LAST
"""The stage whose times make the rule."""

FIRST = LADDER[0].id
"""The stage that is timed at a few points, to see whether the rule depends on it."""

HEADS = 8
TOKENS = 65536
SEQUENCES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 17, 20, 24, 32, 40, 64, 128)

FEWER_SEQUENCES = (1, 4, 16, 64)
"""For stages that are slow and of which a few points are enough."""

SECONDS_PER_POINT = 0.4


def split_v(
    *, sms: Sequence[int | None] | None = None, live: bool | None = None, record: Path | None = None
) -> dict[str, Any]:
    """Time s12, and s00 at a few points, at VSplit 1, 2, 4 and 8, or show what is recorded.

    sms: numbers of SMs; None takes the whole GPU and, if it is larger, a part as large as an H20. live: True
    measures, False shows the newest record, None measures if there is a Hopper GPU. record: a file to keep
    the measurement in.

    Returns {machine, recorded, date, banner, heads, rows: [{stage, sms, sequences, pairs, v_split,
    ns_per_tile, ci_ns, blocks_per_sm}], points: [{stage, sms, pairs, best, article, article_loss_pct, rule,
    rule_loss_pct}], rule: {words, largest, factor, mean_loss_pct, worst_loss_pct, article_mean_loss_pct,
    article_worst_loss_pct, limits: {sms: {v_split: most pairs}}}}. Raises MachineUnavailable without GPU and
    without a record.
    """
    if sms is not None:
        check_request([STAGE], [configuration(1).name], sms, HEADS, None)
    if live is None:
        live = record is not None or has_hopper()
    found = sweep(sms=sms) if live else newest()
    if found is None:
        raise MachineUnavailable(
            "There is neither a Hopper GPU to time on nor a record of VSplit: run `kda-learn split-v "
            "--record FILE` on a machine with an H100, H200 or H20."
        )
    if record is not None:
        records.save(found, Path(record))
    rows = found.content["rows"]
    where = found.provenance
    words = f"Measured now on an {where.gpu}." if live else found.banner()
    return {
        "machine": where.gpu,
        "recorded": not live,
        "date": where.date,
        "banner": " ".join([words, f"Heads: {found.content['heads']}.", *found.content["notes"]]),
        **found.content,
        "points": describe_points(rows),
        "rule": describe_rule(rows),
    }


def sweep(*, sms: Sequence[int | None] | None = None) -> records.Record:
    """The measurement; sms as in `split_v`. Raises MachineUnavailable without a Hopper GPU."""
    sms = whole_and_h20(hopper()) if sms is None else sms
    compile_at_once((stage(name), split, False, "float32") for name in (STAGE, FIRST) for split in V_SPLITS)
    rows, notes, digest = [], [], {}
    for name, sequences in ((STAGE, SEQUENCES), (FIRST, FEWER_SEQUENCES)):
        measured = measure(
            [Variant(name, v_split=split).name for split in V_SPLITS],
            [configuration(number).name for number in sequences],
            sms,
            HEADS,
            seconds=SECONDS_PER_POINT,
            clock_samples=1,
        )
        rows += rows_of(name, measured)
        notes += [note for note in measured["notes"] if note not in notes]
        digest |= measured["provenance"]["digest"]
    where = records.Provenance(**measured["provenance"] | {"digest": digest})
    content = {"heads": measured["heads"], "tokens": TOKENS, "notes": notes, "rows": rows}
    return records.Record(KIND, where, content)


def configuration(sequences: int) -> Config:
    """TOKENS tokens cut into so many equal sequences of whole tiles; a remainder is left out."""
    return Config(sequences, TOKENS // sequences // CHUNK * CHUNK)


def rows_of(stage: str, measured: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for each number of SMs, config and VSplit; `measured` as `bench.measure` returns it."""
    rows = []
    runs = [(part["sms"], run) for part in measured["parts"] for run in part["runs"]]
    for sms, run in runs:
        config = Config.parse(run["config"])
        tiles = config.tokens // CHUNK * measured["heads"]
        for name, times in run["times_us"].items():
            time = median_estimate([1e3 * us / tiles for us in times])
            rows.append(
                {
                    "stage": stage,
                    "sms": sms,
                    "sequences": config.sequences,
                    "pairs": config.sequences * measured["heads"],
                    "v_split": Variant.parse(name).v_split,
                    "ns_per_tile": time.median,
                    "ci_ns": [time.low, time.high],
                    "blocks_per_sm": run["blocks_per_sm"][name],
                }
            )
    return rows


def points_of(rows: Sequence[dict[str, Any]], stage: str = STAGE) -> list[Point]:
    """The points of a stage at which every VSplit was timed, in the order of the rows."""
    times: dict[tuple[int, int], dict[int, float]] = {}
    for row in rows:
        if row["stage"] == stage:
            times.setdefault((row["sms"], row["pairs"]), {})[row["v_split"]] = row["ns_per_tile"]
    return [
        Point(pairs, sms, of_split)
        for (sms, pairs), of_split in times.items()
        if set(of_split) == set(V_SPLITS)
    ]


def describe_points(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For every stage and point the fastest VSplit, beside what the article's and the measured rule take."""
    rule = rule_of(rows)
    found = []
    for name in dict.fromkeys(row["stage"] for row in rows):
        for point in points_of(rows, name):
            article = article_v_split(point.pairs, 1, point.sms)
            ours = rule.v_split(point.pairs, point.sms)
            found.append(
                {
                    "stage": name,
                    "sms": point.sms,
                    "pairs": point.pairs,
                    "best": point.best,
                    "article": article,
                    "article_loss_pct": point.loss_pct(article),
                    "rule": ours,
                    "rule_loss_pct": point.loss_pct(ours),
                }
            )
    return found


def describe_rule(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The rule that the rows make, what it loses and what the article's does, and its limits."""
    rule, points = rule_of(rows), points_of(rows)
    ours = losses(points, rule)
    article = [point.loss_pct(article_v_split(point.pairs, 1, point.sms)) for point in points]
    sizes = sorted({point.sms for point in points} | {H20_SMS}, reverse=True)
    return {
        "words": str(rule),
        "largest": rule.largest,
        "factor": rule.factor,
        "mean_loss_pct": sum(ours) / len(ours),
        "worst_loss_pct": max(ours),
        "article_mean_loss_pct": sum(article) / len(article),
        "article_worst_loss_pct": max(article),
        "limits": {str(sms): {str(split): most for split, most in rule.limits(sms).items()} for sms in sizes},
    }


def rule_of(rows: Sequence[dict[str, Any]]) -> SplitRule:
    """The rule that fits the times of s12. Raises BadInput if there are none."""
    points = points_of(rows)
    if not points:
        raise BadInput(f"No point has a time of {STAGE} at VSplit 1, 2, 4 and 8: measure these.")
    return fit(points)


def newest() -> records.Record | None:
    """The newest record; None if there is none."""
    return records.find(KIND)


@cache
def recorded_rule() -> SplitRule | None:
    """The rule that the newest record makes; None if there is none."""
    found = newest()
    return None if found is None else rule_of(found.content["rows"])
