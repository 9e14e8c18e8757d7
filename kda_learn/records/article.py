"""The figures of the article whose ladder this course follows, measured there on an H20 (78 SMs).

data/article_figures.json holds them, with their source. An article states a stage's gain in one of several
ways; here they become one: the change of the time per launch against a given base, in percent.
"""

import json
from functools import cache

from ..ground.files import DATA
from ..machines.device import Gpu

FIGURES = DATA / "article_figures.json"


@cache
def figures() -> dict:
    """The whole file, as it is."""
    return json.loads(FIGURES.read_text(encoding="utf-8"))


def article_us(stage: str, config: str) -> float | None:
    """The article's time of one launch in microseconds; None if it gives no figure for this stage and config.

    Where it gives a range this is the middle; where it gives only a change (s01, s07, s10), the time of the
    stage it compares with, changed by that much.
    """
    entry = _entries().get(stage)
    if entry is None:
        return None
    given = (entry.get("us") or {}).get(config)
    if given is not None:
        return sum(given) / len(given) if isinstance(given, list) else float(given)
    stated = _stated(stage, config)
    if stated is None:
        return None
    base, delta_pct = stated
    base_us = article_us(base, config)
    return None if base_us is None else base_us * (1 + delta_pct / 100)


def article_delta(stage: str, base: str | None, config: str) -> float | None:
    """The article's change of the time from `base` to `stage`, in percent (negative: faster); None if
    unknown.

    It is the article's own figure where it states one against this base, else it comes from the two times. So
    s02 against s01: the article compares s02 with s00 (-38 %), and s01 with s00 (-7 %), which leaves -34 %
    for s02.
    """
    if base is None:
        return None
    stated = _stated(stage, config)
    if stated is not None and stated[0] == base:
        return stated[1]
    stage_us, base_us = article_us(stage, config), article_us(base, config)
    if stage_us is None or base_us is None:
        return None
    return (stage_us / base_us - 1) * 100


def _entries() -> dict[str, dict]:
    return {entry["id"]: entry for entry in figures()["stages"]}


def _stated(stage: str, config: str) -> tuple[str, float] | None:
    """What a stage is compared with in the article, and the change in percent; None if nothing is stated.

    The figures use three forms. "previous" is the last stage before it that was kept and has a time: not a
    regression that was taken back (s07, s10), not an idea rejected on paper (s12x).
    """
    entry = _entries().get(stage, {})
    if "delta_pct_vs" in entry:
        base, deltas = entry["delta_pct_vs"], entry["delta_pct"]
    elif "delta_pct_vs_previous" in entry:
        base, deltas = _previous(stage), entry["delta_pct_vs_previous"]
    elif "delta_pct_vs_baseline" in entry:
        base, deltas = "s00", entry["delta_pct_vs_baseline"]
    else:
        return None
    return (base, deltas[config]) if config in deltas else None


def _previous(stage: str) -> str:
    ids = list(_entries())
    before = (_entries()[name] for name in reversed(ids[: ids.index(stage)]))
    return next(
        entry["id"] for entry in before if not entry.get("reverted") and entry.get("us", {}) is not None
    )


H20_SMS = 78
"""The SMs of the article's GPU."""


def whole_and_h20(gpu: Gpu) -> tuple[int | None, ...]:
    """The numbers of SMs worth measuring: all (None) and, on a larger GPU, as many as the article's."""
    return (None, H20_SMS) if gpu.sms > H20_SMS else (None,)
