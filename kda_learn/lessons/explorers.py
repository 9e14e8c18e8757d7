"""The words `bank_map` and `tiles`: the explorers, fed with what a stage did."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadInput, MachineUnavailable
from .tracing import Trace, trace

if TYPE_CHECKING:
    from ..stages import Stage
    from ..widgets.bank_map import BankMap
    from ..widgets.tiles import Tiles

CHOICES = ("kind", "region", "section", "line")


def bank_map(
    what: Stage | Trace | str | Path | Sequence[dict[str, Any]] | None = None,
    words: str = "",
    *,
    v_split: int = 1,
    **options: Any,
) -> BankMap:
    """The bank map: what one warp instruction asks of the 32 banks, phase by phase.

    what: a stage such as "s02" (traced on the CPU machine), a trace, or what `trace(...).access(...)` gave.
    Which of its accesses: words and kind=, region=, section=, as in `trace(...).wavefronts`, and line=, a
    source line: bank_map("s02", "store kr"). Without `what`, a pattern that the reader builds: lanes=,
    width=, stride=, padding=, distance=, swizzle=, as in `kda_learn.widgets.bank_map`.

    Raises BadInput for what does not fit, MachineUnavailable if anywidget is not installed.
    """
    draw = _explorer("bank_map")
    if what is None:
        return draw(**options)
    if isinstance(what, (list, tuple, dict)):
        return draw([what] if isinstance(what, dict) else what, **options)
    unknown = set(options) - set(CHOICES)
    if unknown:
        raise BadInput(
            f"{', '.join(sorted(unknown))} was given beside a stage: choose its accesses by "
            f"{', '.join(CHOICES)}, or leave out the stage to build a pattern"
        )
    traced = what if isinstance(what, Trace) else trace(what, v_split=v_split)
    worst = traced.access(words, **options)
    others = [access for access in traced.accesses(words, **options) if access is not worst]
    return draw([worst, *others])


def tiles(view: str = "A", v_split: int = 1) -> Tiles:
    """The register tiling: which lane and which register hold an element of a tensor-core tile.

    view: "A", "B", "C", "dS" or "dual"; v_split: blocks that share dS, 1, 2, 4 or 8. See
    `kda_learn.widgets.tiles`. Raises BadInput for another view, MachineUnavailable without anywidget.
    """
    return _explorer("tiles")(view, v_split)


def _explorer(name: str) -> Any:
    """A function of kda_learn.widgets, or one sentence about what is missing."""
    try:
        from .. import widgets
    except ImportError as error:
        raise MachineUnavailable(
            f"The explorers need a package that is missing here ({error.name}): run `make setup`, or "
            "`pip install anywidget`."
        ) from None
    return getattr(widgets, name)
