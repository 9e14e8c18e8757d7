"""What a random kernel is made of, and the CUDA text of it.

A program is a row of statements that every thread walks through, one line each; a guard says which threads
take part. One stretch of it may be a loop. Three buffers of shared memory, three mbarriers behind them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

LANES = 32
BUFFER = 1536  # bytes: 16 for each of at most 96 threads
BUFFERS = 3
BARRIERS = BUFFERS * BUFFER  # where the mbarriers lie
SHARED_BYTES = BARRIERS + 64
GLOBAL_WORDS = 1024  # of the array that copies read

LANE_GUARDS = {"all": "", "low": "lane < 16", "high": "lane >= 16", "one": "lane == 0"}
_LANE_SETS = {"all": range(32), "low": range(16), "high": range(16, 32), "one": range(1)}
ORDERS = {
    "lane": lambda lane: lane,
    "(lane ^ 1)": lambda lane: lane ^ 1,
    "(lane ^ 16)": lambda lane: lane ^ 16,
    "(31 - lane)": lambda lane: 31 - lane,
    "((lane + 1) % 32)": lambda lane: (lane + 1) % 32,
    "0": lambda lane: 0,
}
"""Which element of a warp's 32 a lane takes."""
TYPES = {2: "u16", 4: "u32", 8: "uint2", 16: "uint4"}

PREAMBLE = """\
#include "gpu.cuh"
template <class T> GPU_FN T made(u32 x) {
  if constexpr (sizeof(T) == 16) return make_uint4(x, x, x, x);
  else if constexpr (sizeof(T) == 8) return make_uint2(x, x);
  else return static_cast<T>(x);
}
GPU_FN u32 sum(u16 x) { return x; }
GPU_FN u32 sum(u32 x) { return x; }
GPU_FN u32 sum(uint2 x) { return x.x + x.y; }
GPU_FN u32 sum(uint4 x) { return x.x + x.y + x.z + x.w; }
""".splitlines()


@dataclass(frozen=True)
class Statement:
    """One line. Fields that an operation has no use for keep their defaults.

    op: "lds", "sts", "cp_async", "bulk"; "commit", "wait_group"; "syncthreads", "syncwarp", "split_syncwarp"
    (one barrier, reached at two lines); "init", "arrive", "expect" (an arrival that expects bytes), "wait";
    "fence".
    number: groups still under way, arrivals of an init, bytes, a parity.
    turns: in a loop, buffers take turns and the parity changes, so that turn 1 differs from turn 0.
    """

    op: str
    warps: tuple[int, ...] | None = None  # None: all
    lanes: str = "all"  # a key of LANE_GUARDS
    buffer: int = 0
    size: int = 4  # bytes of one lane
    of: str = "own"  # which warp's part of the buffer: "own", "next", "first"
    order: str = "lane"  # a key of ORDERS
    barrier: int = 0
    number: int = 0
    turns: bool = False

    def takes_part(self, warp: int, lane: int) -> bool:
        return (self.warps is None or warp in self.warps) and lane in _LANE_SETS[self.lanes]

    def buffer_in(self, turn: int) -> int:
        return (self.buffer + turn) % 2 if self.turns else self.buffer

    def parity_in(self, turn: int) -> int:
        return (self.number + turn) % 2 if self.turns else self.number

    def first_byte(self, warp: int, lane: int, warps: int, turn: int) -> int:
        """Where a lane's bytes begin in shared memory."""
        whose = {"own": warp, "next": (warp + 1) % warps, "first": 0}[self.of]
        return self.buffer_in(turn) * BUFFER + (whose * LANES + ORDERS[self.order](lane)) * self.size


class Step(NamedTuple):
    """A statement when it is executed."""

    place: int  # its number in the program
    statement: Statement
    turn: int  # of the loop; 0 outside


@dataclass(frozen=True)
class Program:
    """Statements; those from loop[0] to loop[1] (not included) are executed `times` times."""

    warps: int
    statements: tuple[Statement, ...]
    loop: tuple[int, int] = (0, 0)
    times: int = 1

    def steps(self) -> Iterator[Step]:
        """What a thread walks through, guards not yet looked at."""
        start, stop = self.loop
        for place in range(start):
            yield Step(place, self.statements[place], 0)
        for turn in range(self.times if stop > start else 0):
            for place in range(start, stop):
                yield Step(place, self.statements[place], turn)
        for place in range(stop, len(self.statements)):
            yield Step(place, self.statements[place], 0)

    def without(self, place: int) -> Program:
        start, stop = self.loop
        return replace(
            self,
            statements=self.statements[:place] + self.statements[place + 1 :],
            loop=(start - (place < start), stop - (place < stop)),
        )

    def with_one_more(self, place: int, statement: Statement) -> Program:
        """The new statement is the one of that number; at the loop's start it is in the loop."""
        start, stop = self.loop
        return replace(
            self,
            statements=(*self.statements[:place], statement, *self.statements[place:]),
            loop=(start + (place < start), stop + (place < stop)),
        )

    def with_other(self, place: int, statement: Statement) -> Program:
        return replace(self, statements=(*self.statements[:place], statement, *self.statements[place + 1 :]))

    def text(self) -> tuple[list[str], list[int]]:
        """The body's lines, and for each of them the number of its statement (-1: of none)."""
        lines, places = [], []
        start, stop = self.loop
        for place, statement in enumerate(self.statements):
            inside = start <= place < stop
            if inside and place == start:
                lines.append(f"for (u32 i = 0; i < {self.times}; i++) {{")
                places.append(-1)
            for line in _text(statement, self.warps, place, inside):
                lines.append("  " * inside + line)
                places.append(place)
            if inside and place == stop - 1:
                lines.append("}")
                places.append(-1)
        return lines, places

    def __str__(self) -> str:
        return "\n".join(kernel(self, "k"))


def _condition(statement: Statement, warps: int) -> str:
    parts = []
    if statement.warps is not None:
        absent = [warp for warp in range(warps) if warp not in statement.warps]
        if len(statement.warps) == 1:
            parts.append(f"warp == {statement.warps[0]}")
        elif len(absent) == 1:
            parts.append(f"warp != {absent[0]}")
    if LANE_GUARDS[statement.lanes]:
        parts.append(LANE_GUARDS[statement.lanes])
    return f"if ({' && '.join(parts)}) " if parts else ""


def _text(statement: Statement, warps: int, place: int, inside: bool) -> list[str]:
    """A statement's lines, all of which belong to it."""
    s, guard = statement, _condition(statement, warps)
    turning = s.turns and inside
    buffer = f"S + ({s.buffer} + i) % 2 * {BUFFER}" if turning else f"S + {s.buffer * BUFFER}"
    whose = {"own": "warp", "next": f"(warp + 1) % {warps}", "first": "0"}[s.of]
    address = f"{buffer} + ({whose} * 32 + {s.order}) * {s.size}"
    barrier = f"S + {BARRIERS + 8 * s.barrier}"
    parity = f"({s.number} + i) % 2" if turning else f"{s.number}"
    if s.op == "split_syncwarp":
        where = f"if (warp == {s.warps[0]}) " if s.warps else ""
        return [where + "{", "  if (lane < 16) __syncwarp();", "  else", "    __syncwarp();", "}"]
    return [
        guard
        + {
            "lds": f"x += sum(lds<{TYPES[s.size]}>({address}));",
            "sts": f"sts({address}, made<{TYPES[s.size]}>(t + {97 * place + 1}));",
            "cp_async": f"cp_async_ca<{s.size}>({address}, in + t * 4);",
            "bulk": f"bulk_load({buffer}, in, {s.number}, {barrier});",
            "commit": "cp_async_commit();",
            "wait_group": f"cp_async_wait<{s.number}>();",
            "syncthreads": "__syncthreads();",
            "syncwarp": "__syncwarp();",
            "init": f"mbar_init({barrier}, {s.number});",
            "arrive": f"mbar_arrive({barrier});",
            "expect": f"mbar_arrive_expect_tx({barrier}, {s.number});",
            "wait": f"mbar_wait({barrier}, {parity});",
            "fence": "fence_proxy_async();",
        }[s.op]
    ]


_SETTING = [
    "  const u32 t = threadIdx.x, warp = t / 32, lane = t % 32;",
    "  const saddr S = smem_base();",
    "  u32 x = 0;",
]


def kernel(program: Program, name: str) -> list[str]:
    """One program as a kernel of its own."""
    return [
        f"// {program.warps} warps",
        f"__global__ void {name}(const u32* in, u32* out) {{",
        *_SETTING,
        *("  " + line for line in program.text()[0]),
        "  stg(out + t, x);",
        "}",
    ]


def one_kernel(programs: Sequence[Program]) -> tuple[str, dict[int, tuple[int, int]]]:
    """All programs in one kernel, `which` chooses; and of each line which program's which statement it is."""
    lines = [
        *PREAMBLE,
        "__global__ void k(const u32* in, u32* out, u32 which) {",
        *_SETTING,
        "  switch (which) {",
    ]
    origin = {}
    for number, program in enumerate(programs):
        lines.append(f"    case {number}: {{  // {program.warps} warps")
        for line, place in zip(*program.text(), strict=True):
            lines.append("      " + line)
            if place >= 0:
                origin[len(lines)] = (number, place)
        lines.append("    } break;")
    return "\n".join([*lines, "  }", "  stg(out + t, x);", "}", ""]), origin
