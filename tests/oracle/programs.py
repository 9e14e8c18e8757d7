"""Random programs: mostly sound ones of five kinds, many of them then changed in one or two places.

Everything random comes from one function, `pick`, which takes one of a few values. So the same code makes
programs from a seed, many of them fast, and from hypothesis.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from .language import BUFFERS, LANE_GUARDS, LANES, ORDERS, Program, Statement

Pick = Callable[[Sequence[Any]], Any]
MOST_STATEMENTS = 14


def from_seed(seed: int) -> Program:
    return program(random.Random(seed).choice)


def program(pick: Pick) -> Program:
    """A program; about half of them are sound."""
    made = pick([_plain, _copies, _copies, _ring, _ring, _bulk, _bulk_ring])(pick)
    for _ in range(pick([0, 0, 1, 1, 1, 2])):
        made = _changed(made, pick)
    return made


# ---- sound programs ----
def _fill(buffer: int) -> Statement:
    """Every byte that the block's warps have in a buffer."""
    return Statement("sts", buffer=buffer, size=16)


def _access(pick: Pick, warps: int) -> Statement:
    """A load or a store, of any threads."""
    op = pick(["lds", "sts"])
    return Statement(
        op,
        warps=pick([None, None, *[(warp,) for warp in range(warps)]]),
        lanes=pick(["all", "all", "low", "high", "one"]),
        buffer=pick(range(BUFFERS)),
        size=pick([2, 4, 8, 16]),
        of=pick(["own", "own", "next", "first"]) if op == "lds" else pick(["own", "own", "own", "next"]),
        order=pick(list(ORDERS)[: len(ORDERS) - (op == "sts")]),
    )


def _sync(pick: Pick) -> list[Statement]:
    return pick(
        [[Statement("syncthreads")]] * 3 + [[Statement("syncwarp")]] * 2 + [[Statement("split_syncwarp")], []]
    )


def _plain(pick: Pick) -> Program:
    """Loads and stores, mostly with something between them."""
    warps = pick([1, 2, 3])
    statements = [_fill(buffer) for buffer in range(pick([1, 2, 3]))] + _sync(pick)
    first = len(statements)
    for _ in range(pick([1, 2, 3, 4])):
        statements += [_access(pick, warps), *_sync(pick)]
    loop = (first, len(statements)) if pick([False, False, False, True]) else (0, 0)
    return Program(warps, tuple(statements), loop, 2)


def _copies(pick: Pick) -> Program:
    """cp.async, one group or two, from the first use of a buffer to the next."""
    warps = pick([1, 2, 3])
    size = pick([4, 8, 16])
    copy = Statement("cp_async", size=size, order=pick(list(ORDERS)[:5]))
    read = Statement("lds", size=size, of=pick(["own", "own", "next", "first"]), order=pick(list(ORDERS)[:5]))
    barrier = Statement("syncthreads" if read.of != "own" else pick(["syncthreads", "syncwarp"]))
    commit = Statement("commit")
    if pick([False, True]):  # two buffers: the next copy is under way while one is read
        body = [
            replace(copy, buffer=1, turns=True),
            commit,
            Statement("wait_group", number=1),
            barrier,
            replace(read, turns=True),
            barrier,
        ]
        statements = [copy, commit, *body, Statement("wait_group", number=0)]
        return Program(warps, tuple(statements), (2, 2 + len(body)), pick([2, 3]))
    body = [copy, commit, Statement("wait_group", number=0), barrier, read, barrier]
    if pick([False, True]):
        body.insert(1, replace(copy, buffer=1))
        body.insert(pick([0, 6]), replace(read, buffer=1))
        if body[0].op == "lds":
            body.insert(0, barrier)
            body.insert(0, _fill(1))
    return Program(warps, tuple(body), (0, len(body)) if pick([False, True]) else (0, 0), 2)


def _ready(barriers: list[tuple[int, int]], fence: bool) -> list[Statement]:
    """mbarriers made ready by one thread: their numbers and counts."""
    made = [Statement("init", (0,), "one", barrier=number, number=count) for number, count in barriers]
    return [*made, *([Statement("fence", (0,), "one")] if fence else []), Statement("syncthreads")]


def _ring(pick: Pick) -> Program:
    """Warp 0 fills a buffer, the others empty it; an mbarrier for each direction."""
    warps = pick([2, 2, 3])
    everyone = pick([False, True])  # each lane arrives, or one for its warp
    readers = tuple(range(1, warps))
    lanes, per_warp = ("all", LANES) if everyone else ("one", 1)
    size = pick([2, 4, 8, 16])
    order = pick(list(ORDERS)[:5])
    together = [] if everyone else [Statement("syncwarp", (0,))]
    apart = [] if everyone else [Statement("syncwarp", readers)]
    body = [
        Statement("wait", (0,), barrier=1, number=1, turns=True),  # the first turn passes at once
        Statement("sts", (0,), size=size),
        *together,
        Statement("arrive", (0,), lanes, barrier=0),
        Statement("wait", readers, barrier=0, number=0, turns=True),
        Statement("lds", readers, size=size, of="first", order=order),
        *apart,
        Statement("arrive", readers, lanes, barrier=1),
    ]
    if pick([False] * 4 + [True]):  # the commonest mistake: nobody waits until the buffer is empty
        body = body[1:]
    start = _ready([(0, per_warp), (1, per_warp * len(readers))], fence=False)
    return Program(warps, (*start, *body), (len(start), len(start) + len(body)), pick([1, 2, 2, 3]))


def _bulk(pick: Pick) -> Program:
    """Bulk copies, one after the other, to the same bytes or to others."""
    warps = pick([1, 2, 3])
    bytes_ = pick([256, 512])
    issuer = pick(range(warps))
    again = pick([None, 0, 1])
    statements = _ready([(0, 1)], fence=True)
    if pick([False, True]):
        statements = [_fill(0), *statements]
        statements.insert(len(statements) - 1, Statement("fence"))
    read = Statement("lds", size=pick([4, 8]), of="first", order=pick(list(ORDERS)[:5]))
    for turn, buffer in enumerate([0] if again is None else [0, again]):
        if turn:
            statements += pick(
                [
                    [Statement("fence"), Statement("syncthreads")],
                    [Statement("syncthreads"), Statement("fence", (issuer,), "one")],
                ]
            )
        statements += [
            Statement("expect", (issuer,), "one", number=bytes_),
            Statement("bulk", (issuer,), "one", buffer=buffer, number=bytes_),
            Statement("wait", number=turn),
            replace(read, buffer=buffer),
        ]
    return Program(warps, tuple(statements))


def _bulk_ring(pick: Pick) -> Program:
    """One thread of warp 0 has bulk copies made, others read what came."""
    warps = pick([1, 2, 3])
    readers = tuple(range(min(1, warps - 1), warps))
    bytes_ = pick([256, 512])
    whole = warps if pick([False, True]) else 0  # of the readers: each lane arrives, or one for its warp
    body = [
        Statement("wait", (0,), "one", barrier=1, number=1, turns=True),
        Statement("expect", (0,), "one", barrier=0, number=bytes_),
        Statement("bulk", (0,), "one", barrier=0, number=bytes_),
        Statement("wait", readers, barrier=0, number=0, turns=True),
        Statement("lds", readers, size=pick([2, 4, 8]), of="first"),
        Statement("fence", readers),
        *([] if whole else [Statement("syncwarp", readers)]),
        Statement("arrive", readers, "all" if whole else "one", barrier=1),
    ]
    start = _ready([(0, 1), (1, len(readers) * (LANES if whole else 1))], fence=True)
    return Program(warps, (*start, *body), (len(start), len(start) + len(body)), pick([1, 2, 2, 3]))


# ---- one change ----
_SYNCS = ("syncthreads", "syncwarp", "split_syncwarp", "commit", "wait_group", "fence", "wait")


def _wait_too_little(made: Program, pick: Pick) -> Program:
    """A wait for copies is left out, or lets one group more or fewer be under way."""
    places = [place for place, s in enumerate(made.statements) if s.op == "wait_group"]
    if not places:
        return _forget_sync(made, pick)
    place = pick(places)
    number = pick([None, 1 - made.statements[place].number])
    if number is None:
        return made.without(place)
    return made.with_other(place, replace(made.statements[place], number=number))


def _wait_again(made: Program, pick: Pick) -> Program:
    """A wait is made a second time, further on: its phase may be over and the next one, too."""
    places = [place for place, s in enumerate(made.statements) if s.op == "wait"]
    if not places or len(made.statements) >= MOST_STATEMENTS:
        return _forget_sync(made, pick)
    place = pick(places)
    later = [at for at in range(place + 1, len(made.statements)) if made.statements[at].op == "arrive"]
    return made.with_one_more(pick(later or [place]), made.statements[place])


def _slip(made: Program, pick: Pick) -> Program:
    """Something that orders slips one place to the front or to the back."""
    places = [place for place, s in enumerate(made.statements) if s.op in (*_SYNCS, "arrive", "expect")]
    if not places or len(made.statements) < 2:
        return made
    place = min(max(pick(places) - pick([0, 1]), 0), len(made.statements) - 2)
    first, second = made.statements[place : place + 2]
    return made.with_other(place, second).with_other(place + 1, first)


def _changed(made: Program, pick: Pick) -> Program:
    change = pick(_CHANGES)
    return change(made, pick)


def _forget(made: Program, pick: Pick) -> Program:
    return made.without(pick(range(len(made.statements)))) if len(made.statements) > 1 else made


def _forget_sync(made: Program, pick: Pick) -> Program:
    places = [place for place, s in enumerate(made.statements) if s.op in _SYNCS]
    return made.without(pick(places)) if places and len(made.statements) > 1 else made


def _swap(made: Program, pick: Pick) -> Program:
    if len(made.statements) < 2:
        return made
    place = pick(range(len(made.statements) - 1))
    first, second = made.statements[place : place + 2]
    return made.with_other(place, second).with_other(place + 1, first)


def _repeat(made: Program, pick: Pick) -> Program:
    place = pick(range(len(made.statements)))
    if len(made.statements) >= MOST_STATEMENTS or made.statements[place].op == "init":
        return made
    return made.with_one_more(pick(range(place, len(made.statements))), made.statements[place])


def _other_threads(made: Program, pick: Pick) -> Program:
    """Other warps or lanes take part. Barriers whose lanes are counted stay whole."""
    place = pick(range(len(made.statements)))
    s = made.statements[place]
    if s.op in ("lds", "sts", "cp_async", "fence", "wait", "commit", "wait_group", "syncwarp", "syncthreads"):
        warps = pick([None, *[(warp,) for warp in range(made.warps)]])
        lanes = "all" if s.op.startswith("sync") else pick(list(LANE_GUARDS))
        return made.with_other(place, replace(s, warps=warps, lanes=lanes))
    return made


def _other_number(made: Program, pick: Pick) -> Program:
    """Another parity, number of bytes or of groups, another buffer, width or order."""
    place = pick(range(len(made.statements)))
    s = made.statements[place]
    if s.op in ("lds", "sts", "cp_async"):
        return made.with_other(
            place,
            pick(
                [
                    replace(s, buffer=(s.buffer + 1) % BUFFERS),
                    replace(s, size=pick([4, 8, 16])),
                    replace(s, order=pick(list(ORDERS))),
                    replace(s, of=pick(["own", "next", "first"])),
                ]
            ),
        )
    if s.op in ("wait", "wait_group"):
        return made.with_other(place, replace(s, number=1 - s.number))
    if s.op in ("expect", "bulk"):
        return made.with_other(place, replace(s, number=768 - s.number))
    return made


def _add(made: Program, pick: Pick) -> Program:
    if len(made.statements) >= MOST_STATEMENTS:
        return made
    place = pick(range(len(made.statements) + 1))
    return made.with_one_more(place, _access(pick, made.warps))


_CHANGES = (
    *[
        _forget,
        _forget_sync,
        _forget_sync,
        _wait_too_little,
        _wait_too_little,
        _wait_again,
        _slip,
        _slip,
        _slip,
    ],
    *[_swap, _repeat, _other_threads, _other_number, _add],
)
