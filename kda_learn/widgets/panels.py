"""Panels of the register-tiling explorer, as data: the script draws them and knows nothing of tensor cores.

A view is a tile whose elements are numbered. A panel says for every element where it is: a "grid" gives its
row and column, a "lanes" panel its lane, register and half of a register. A view has panels, and routes (ways
in which the elements travel), which add panels of their own. The script marks one element in all panels and
joins their sentences, where {name} stands for the panel's entry `name`, and the element's item of a list.
"""

from typing import Any

from ..hardware.fragments import Owner

Panel = dict[str, Any]
Route = dict[str, Any]
View = dict[str, Any]
CELL_WIDTH = 25  # pixels, where there is room
WIDE_CELL = 38


def places(rows: int, columns: int) -> list[tuple[int, int]]:
    """All (row, column) of a tile, row after row: the numbering of its elements."""
    return [(row, column) for row in range(rows) for column in range(columns)]


def grid(
    title: str,
    shape: tuple[int, int],
    at: list[tuple[int, int]],
    *,
    axes: tuple[str, str],
    label: list[str],
    colour: list[int],
    group: list[int],
    sentence: str,
    step: int = 1,
    cell_width: int = CELL_WIDTH,
    **rest: Any,
) -> Panel:
    """A panel of `shape` (rows, columns) with element e at (row, column) `at[e]`.

    axes: names of rows and columns, which headings number in steps of `step`. label, colour (0 to 7), group:
    for each element its text, its colour, and a number that it shares with those to be marked with it.
    rest: what else the script and the sentence use: row_names, column_names (in place of numbers), cuts (a
    gap after so many columns instead of 8), empty (the text of places without an element).
    """
    return {
        "kind": "grid",
        "title": title,
        "rows": shape[0],
        "columns": shape[1],
        "row": [row for row, _ in at],
        "column": [column for _, column in at],
        "axes": list(axes),
        "label": label,
        "colour": colour,
        "group": group,
        "sentence": sentence,
        "step": step,
        "cell_width": cell_width,
        **rest,
    }


def lanes(
    title: str,
    owners: list[Owner],
    *,
    prefix: str,
    registers: int,
    halves: int,
    down_first: bool = False,
    sentence: str = "",
) -> Panel:
    """A panel of the 32 lanes and their registers, named prefix0, prefix1, ..., of `halves` elements each.

    Four registers are drawn two and two, as their elements lie in the tile: 0 1 over 2 3, or, `down_first`,
    0 2 over 1 3.
    """
    which = "register {prefix}{register}" + (", {half_name} half" if halves == 2 else "")
    return {
        "kind": "lanes",
        "title": title,
        "prefix": prefix,
        "registers": registers,
        "halves": halves,
        "down_first": down_first,
        "lane": [held.lane for held in owners],
        "register": [held.register for held in owners],
        "half": [held.half for held in owners],
        "sentence": sentence or f"lane {{lane}}, {which}.",
    }


def route(name: str, note: str, *more: Panel) -> Route:
    """A way in which the elements travel: what it is called, what it does, and the panels it adds."""
    return {"name": name, "note": note, "panels": list(more)}


def view(
    name: str, title: str, shared: list[Panel], routes: list[Route], route_label: str = "Through"
) -> View:
    """A view: panels that stand on every route, and its routes under a label."""
    return {"name": name, "title": title, "panels": shared, "routes": routes, "route_label": route_label}
