"""The register-tiling explorer: which lane and register hold an element of a tensor-core tile."""

from typing import Literal

import traitlets

from ..ground.errors import BadInput
from .ds_views import V_SPLITS, ds_view, dual_view
from .explorer import Explorer, bundle
from .fragment_views import a_view, b_view, c_view

ViewName = Literal["A", "B", "C", "dS", "dual"]


class Tiles(Explorer):
    """See `tiles`. The reader's choices come back in `view`, `routes` (one for each view) and `chosen`."""

    script = "tiles"
    state_names = ("views", "view", "routes", "chosen")
    _esm = bundle("tiles")
    views = traitlets.List(traitlets.Dict()).tag(sync=True)
    view = traitlets.Unicode("A").tag(sync=True)
    routes = traitlets.Dict().tag(sync=True)
    chosen = traitlets.Int(0).tag(sync=True)


def tiles(view: ViewName = "A", v_split: int = 1) -> Tiles:
    """An explorer of who holds what: point at an element and see its lane and register, or the reverse.

    view: "A", "B" and "C" are the operands and the accumulator of mma.m16n8k16, through ldmatrix, stmatrix
    and movmatrix; "dS" shows the columns of dS that each warp owns; "dual" one tile of dS read in two ways.
    v_split: blocks that share dS in view "dS", 1, 2, 4 or 8.
    """
    shown = [a_view(), b_view(), c_view(), ds_view(), dual_view()]
    names = [one["name"] for one in shown]
    if view not in names:
        raise BadInput(f"view={view!r} was given: choose one of {', '.join(map(repr, names))}")
    if v_split not in V_SPLITS:
        raise BadInput(f"v_split={v_split!r} was given: choose 1, 2, 4 or 8")
    routes = {one["name"]: one["routes"][0]["name"] for one in shown} | {"dS": str(v_split)}
    return Tiles(views=shown, view=view, routes=routes)
