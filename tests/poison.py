"""One bad element in each input of Kernel A, and what of the outputs it may reach."""

from dataclasses import dataclass, replace

import numpy as np

from kda_learn.kernel_a.problem import Problem
from kda_learn.kernel_a.run import Result

HEADS = 3


@dataclass(frozen=True)
class Poison:
    """Where one bad element of one input goes: into this sequence and head, and there into this tile."""

    array: str
    sequence: int
    head: int
    tile: int  # of the sequence
    column: int | None = None  # of dS that it may reach; None: all

    @property
    def columns(self) -> slice:
        """The same as a slice."""
        return slice(None) if self.column is None else slice(self.column, self.column + 1)


SPOTS = [
    Poison("q", 0, 0, 0),
    Poison("k", 0, 1, 1),
    Poison("gc", 0, 2, 0),
    Poison("beta", 1, 0, 1),
    Poison("inv", 1, 1, 1),
    Poison("mqk", 1, 2, 2),
    Poison("do", 3, 0, 1, 77),
    Poison("dht", 3, 1, 2, 100),
]
"""Every input once, each in a sequence and head of its own; four of 4 x HEADS stay clean."""


def poisoned(problem: Problem, value: float) -> Problem:
    """The problem with one bad element per spot."""
    arrays = {spot.array: getattr(problem, spot.array).copy() for spot in SPOTS}
    bf16 = int(np.float32(value).view(np.uint32) >> 16)
    for spot in SPOTS:
        array = arrays[spot.array]
        tile = min(spot.tile, int(problem.tiling.tile_counts[spot.sequence]) - 1)
        token = int(problem.tiling.token_base[spot.sequence]) + 16 * tile + 2
        workspace = spot.head * problem.total_tiles + int(problem.tiling.tile_base[spot.sequence]) + tile
        index = {
            "q": (token, spot.head, 5),
            "k": (token, spot.head, 127),
            "do": (token, spot.head, 77),
            "gc": (workspace, 2, 64),
            "beta": (spot.head, token),
            "inv": (workspace, 2, 1),
            "mqk": (workspace, 2, 1),
            "dht": (spot.sequence, spot.head, 50, 100),
        }[spot.array]
        array[index] = bf16 if array.dtype == np.uint16 else value
    return replace(problem, **arrays)


def reach(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Which elements of the snapshots and of ds0 the poison may reach, as bool arrays of their shapes.

    The scan goes from the last tile to the first: a snapshot is taken before its tile is worked on, so poison
    in a tile shows from the tile before on. dht shows in all. do and dht stay in their column v of dS.
    """
    snapshots = np.zeros((problem.heads, problem.total_tiles, 128, 128), bool)
    ds0 = np.zeros((problem.sequences, problem.heads, 128, 128), bool)
    for spot in SPOTS:
        tiles = problem.tiling.tiles_of(spot.sequence)
        tile = min(spot.tile, len(tiles) - 1)
        shown = tiles if spot.array == "dht" else tiles[:tile]
        snapshots[spot.head, list(shown), :, spot.columns] = True
        ds0[spot.sequence, spot.head, :, spot.columns] = True
    return snapshots.reshape(-1, 128, 128), ds0


def spread(problem: Problem, clean: Result, bad: Result) -> list[str]:
    """What is wrong with a run on the poisoned problem, beside one on the problem itself.

    Poison must arrive where it goes, and nowhere else may a single bit change.
    """
    result = [*clean.faults, *bad.faults]
    outputs = (("snapshots", clean.snapshots, bad.snapshots), ("ds0", clean.ds0, bad.ds0))
    for (name, before, after), may in zip(outputs, reach(problem), strict=True):
        changed = (before.view(np.uint32) != after.view(np.uint32)) & ~may
        if changed.any():
            result.append(f"{changed.sum()} elements of {name} changed that no poison may reach")
    for spot in SPOTS:
        if np.isfinite(bad.ds0[spot.sequence, spot.head][:, spot.columns]).all():
            result.append(f"the poison in {spot.array} does not show")
    return result
