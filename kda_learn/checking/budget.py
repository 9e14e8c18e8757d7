"""How many wavefronts each stage may spend per tile, class by class, and whether it keeps to that.

A wrong layout still computes the right numbers, since reader and writer share it. Only the wavefronts tell.
`python -m kda_learn.maintain budget` writes it anew after a stage was changed on purpose.
"""

import json
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any

from ..ground.files import DATA
from ..kernel_a.tile import trace
from ..sources.stages import Stage
from ..sources.stages import stage as stage_named
from ..tracing.rows import Row, per_tile

FILE = DATA / "wavefront_budget.json"


@cache
def load() -> dict[str, Any]:
    """The file. `per_tile` is the budget: stage id -> class (see `spent`) -> wavefronts.

    `predicted` says what some of these had to come out as, worked out from the lane maps before any stage
    ran: {what, classes, wavefronts: stage id -> their sum}.
    """
    return json.loads(FILE.read_text(encoding="utf-8"))


def spent(rows: Iterable[Row]) -> dict[str, int]:
    """Wavefronts of one tile by class: "section: kind region", such as "r1: store QD"."""
    classes: Counter[str] = Counter()
    for row in per_tile(rows, 1):
        classes[f"{row.section}: {row.kind} {row.region}"] += int(row.wavefronts)
    return dict(classes)


def faults(stage: Stage, *, like: str) -> list[str]:
    """Trace one tile of a stage at VSplit 1 and say where it departs from the budget of the stage `like`.

    Whoever is judged by another's budget may take less; a stage must take what its own budget says. One
    sentence for each class of accesses; empty if all keep to it. Raises BadInput if `like` is no stage.
    """
    like = stage_named(like).id
    allowed = load()["per_tile"][like]
    found = spent(trace(stage))
    result = []
    for name in sorted(found.keys() | allowed.keys()):
        taken, budget = found.get(name, 0), allowed.get(name, 0)
        if taken > budget or (taken < budget and stage.id == like):
            result.append(f"{name} takes {taken} wavefronts a tile, the budget of {like} is {budget}")
    return result
