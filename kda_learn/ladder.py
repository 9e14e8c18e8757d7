"""The ladder in time: what each stage gains over the one it starts from, beside the article's figures.

Measured on this machine's GPU or, without one, shown from a record and said to be one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import records
from .article import article_delta, article_us
from .bench import CONFIGS, Config, measure
from .device import Gpu, has_hopper
from .errors import MachineUnavailable
from .ladder_reasons import explained
from .stages import LADDER, STAGES, stage
from .timing_statistics import delta_estimate, median_estimate
from .verdicts import verdict

H20_SMS = 78
"""The SMs of the article's GPU."""


def ladder(
    *,
    stages: Sequence[str] | None = None,
    configs: Sequence[str] = CONFIGS,
    sms: int | None = None,
    heads: int = 32,
    live: bool | None = None,
    record: Path | None = None,
) -> dict[str, Any]:
    """Time the stages (None: all) and set each beside its base and beside the article.

    configs: "B32/T8192" means 32 sequences of 8192 tokens. sms: use only so many SMs of the GPU (None: all).
    live: True measures, False shows the newest record, None measures if there is a Hopper GPU. record: a file
    to keep the measurement in.

    Returns {machine, sms, recorded, date, banner, reasons_from, v_split_rule, roofline, rows: [{stage, base,
    config, v_split, median_us, ci_us, delta_pct, delta_ci_pct, article_us, article_delta_pct, verdict,
    reason}]} and more about how it was measured. A stage that does not pass its check is not timed: its
    median_us is None and `reason` says why. Raises BadInput for a stage or config that is unknown,
    MachineUnavailable without GPU and without a record.
    """
    names = _ids(stages)
    for config in configs:
        Config.parse(config)
    if live is None:
        live = record is not None or has_hopper()
    if not live:
        return recorded_ladder(names, configs, sms)
    (result,) = measured_ladders(names, configs, [sms], heads)
    if record is not None:
        _save(result, record)
    return result["ladder"]


def whole_and_h20(gpu: Gpu) -> tuple[int | None, ...]:
    """The numbers of SMs worth measuring: all (None) and, on a larger GPU, as many as the article's."""
    return (None, H20_SMS) if gpu.sms > H20_SMS else (None,)


def record_ladders(
    folder: Path | None = None,
    *,
    stages: Sequence[str] | None = None,
    configs: Sequence[str] = CONFIGS,
    sms: Sequence[int | None] = (None, H20_SMS),
    heads: int = 32,
) -> list[Path]:
    """Measure the ladder on the whole GPU and on a part as large as the article's, on the same data; keep
    both.

    folder: where (None: into the package). Returns the files, named after the GPU and its SMs.
    """
    paths = []
    for result in measured_ladders(_ids(stages), configs, sms, heads):
        gpu = result["provenance"].gpu.lower().replace(" ", "-")
        path = Path(folder or records.DATA) / f"ladder-{gpu}-{result['provenance'].sms}sms.json"
        _save(result, path)
        paths.append(path)
    return paths


def measured_ladders(
    stages: Sequence[str], configs: Sequence[str], sms: Sequence[int | None], heads: int
) -> list[dict[str, Any]]:
    """One {"provenance", "ladder"} per entry of `sms`, measured in one child process."""
    measured = measure(stages, configs, sms, heads)
    results = []
    for part in measured["parts"]:
        where = records.Provenance(**measured["provenance"] | {"sms": part["sms"]})
        runs = part["runs"]
        notes = part.get("notes", measured["notes"])
        results.append(
            {
                "provenance": where,
                "ladder": explained(
                    {
                        "machine": where.gpu,
                        "sms": where.sms,
                        "recorded": False,
                        "date": where.date,
                        "banner": _banner(
                            f"Measured now on an {where.gpu} with {where.sms} SMs.",
                            measured | {"notes": notes},
                        ),
                        "heads": measured["heads"],
                        "notes": notes,
                        "rows": rows(runs, stages),
                        "controls": [control(run) for run in runs],
                        "clocks": {run["config"]: run["clocks"] for run in runs},
                    }
                ),
            }
        )
    return results


def recorded_ladder(stages: Sequence[str], configs: Sequence[str], sms: int | None) -> dict[str, Any]:
    """The newest record of as many SMs, or of the nearest number, cut down to these stages and configs.

    Raises MachineUnavailable if there is none.
    """
    record = records.find("ladder", sms=sms)
    if record is None:
        raise MachineUnavailable(
            "There is neither a Hopper GPU to time on nor a record of the ladder: run `kda-learn ladder "
            "--record FILE` on a machine with an H100, H200 or H20."
        )
    shown = [row for row in record.content["rows"] if row["stage"] in stages and row["config"] in configs]
    outdated = set(record.outdated())
    for row in shown:
        row["outdated"] = row["stage"] in outdated or row["base"] in outdated
    found = record.content | {
        "recorded": True,
        "banner": _banner(record.banner(stages), record.content),
        "rows": shown,
    }
    return explained(found)


def rows(runs: Sequence[dict], stages: Sequence[str]) -> list[dict[str, Any]]:
    """One row per config and stage, from the raw times of `bench.measure` (microseconds, one per round).

    A stage is compared with the nearest stage on its path of bases that was timed too.
    """
    return [_row(run, name) for run in runs for name in stages]


def _row(run: dict, name: str) -> dict[str, Any]:
    times = run["times_us"]
    base = nearest_base(name, times)
    row = {
        "stage": name,
        "base": base,
        "config": run["config"],
        "v_split": run["v_split"],
        "rounds": run["rounds"],
        "blocks_per_sm": run["blocks_per_sm"].get(name),
        "median_us": None,
        "ci_us": None,
        "delta_pct": None,
        "delta_ci_pct": None,
        "article_us": article_us(name, run["config"]),
        "article_delta_pct": article_delta(name, base, run["config"]),
        "verdict": None,
        "reason": run["rejected"].get(name),
        "outdated": False,
    }
    if name not in times:
        return row
    time = median_estimate(times[name])
    row |= {"median_us": time.median, "ci_us": [time.low, time.high]}
    if base is None:
        return row | {"reason": "no base to compare with"}
    delta = delta_estimate(times[name], times[base])
    row["verdict"], row["reason"] = verdict(delta, row["article_delta_pct"])
    return row | {"delta_pct": delta.median, "delta_ci_pct": [delta.low, delta.high]}


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


def _ids(stages: Sequence[str] | None) -> list[str]:
    """The ids of these stages (None: of all), each once."""
    if stages is None:
        return [known.id for known in STAGES]
    return list(dict.fromkeys(stage(name).id for name in stages))


def _banner(text: str, measured: dict[str, Any]) -> str:
    """`text`, and what else must be known to read the figures."""
    return " ".join([text, f"Heads: {measured['heads']}.", *measured["notes"]])


def _save(result: dict[str, Any], path: Path) -> None:
    records.save(records.Record("ladder", result["provenance"], result["ladder"]), Path(path))
