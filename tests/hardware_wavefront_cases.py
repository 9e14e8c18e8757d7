"""The accesses that kernels/lab/wavefronts.cu repeats, one case per launch.

A case is the addresses of one warp instruction: where each lane reads or writes in shared memory, in bytes.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from paths import TESTS

from kda_learn.ground.files import KERNELS

WAVEFRONTS = KERNELS / "lab" / "wavefronts.cu"
WAVEFRONT_RECORD = TESTS / "data" / "hardware_answers_wavefronts.json"

LANES = 32
# Constants of wavefronts.cu; test_hardware_wavefronts.py compares them with the source.
REPEATS = 64
SAME_BANKS = 128
INACTIVE = 0xFFFFFFFF
COPY_KINDS = {"cg16": 0, "ca4": 1, "ca8": 2, "ca16": 3, "cg16_or_zero": 4, "ca4_or_zero": 5}

TABLE_BYTES = 16384  # addresses in the tables lie below
SHARED_BYTES = TABLE_BYTES + REPEATS * SAME_BANKS
COLD_STEP = 16384  # every repeat reads lines no repeat read before
MAX_WARPS = 8
SOURCE_BYTES = MAX_WARPS * REPEATS * COLD_STEP + 65536

TYPES = {2: "u16", 4: "u32", 8: "uint2", 16: "uint4"}
LANE = np.arange(LANES)


@dataclass(frozen=True)
class Case:
    """One launch of one kernel. `expected`: wavefronts per instruction by an earlier measurement, or None."""

    name: str
    operation: str  # load, store, ldmatrix, stmatrix, copy
    variant: str  # the kernel's template argument
    bytes: int  # a lane's share: 2, 4, 8 or 16
    addresses: np.ndarray
    expected: int | None = None
    sources: np.ndarray | None = None
    step: int = 0
    warps: int = 1
    batch: int = REPEATS  # copies that are in flight together

    @property
    def entry(self) -> str:
        kernels = {"load": "count_loads", "store": "count_stores", "copy": "count_copies"}
        return f"{kernels.get(self.operation, f'count_{self.operation}')}<{self.variant}>"


def _accesses(name: str, width: int, addresses: np.ndarray, expected: int | None = None) -> Iterable[Case]:
    """The same addresses once loaded and once stored."""
    for operation in ("load", "store"):
        yield Case(f"{operation} {width} B, {name}", operation, TYPES[width], width, addresses, expected)


def _lane_maps() -> Iterable[Case]:
    """Scalar accesses to tokens x features tiles whose row stride, in elements, is varied."""
    maps = {
        "16 tokens x 2 features 32 apart": (LANE % 16, LANE // 16 * 32, {128: 16, 132: 2, 136: 4, 130: 1}),
        "16 tokens x 2 adjacent features": (LANE % 16, LANE // 16, {128: 16, 132: 1, 136: 2, 130: 1}),
        "accumulator map": (LANE // 4, LANE % 4 * 2, {128: 8, 132: 2, 136: 1, 130: 4}),
        "transposed accumulator map": (LANE % 4 * 2, LANE // 4, {128: 4, 132: 1, 136: 1, 130: 2}),
    }
    for name, (token, feature, table) in maps.items():
        for stride, expected in table.items():
            addresses = (token * stride + feature) * 2
            yield from _accesses(f"{name}, row stride {stride}", 2, addresses, expected)
    for stride, expected in {128: 32, 132: 4}.items():
        addresses = (LANE % 16 * stride + LANE // 16 * 32) * 4
        yield from _accesses(f"16 tokens x 2 features 32 apart, row stride {stride}", 4, addresses, expected)


def _matrices() -> Iterable[Case]:
    for operation in ("ldmatrix", "stmatrix"):
        for trans in ("false", "true"):
            kind = f"{operation}.x4{'.trans' if trans == 'true' else ''}"
            for stride, expected in {16: 4, 32: 8, 64: 16, 128: 32, 144: 4, 256: 32, 272: 4}.items():
                yield Case(f"{kind}, row stride {stride} B", operation, trans, 16, LANE * stride, expected)
        generator = np.random.RandomState(11)
        for draw in range(4):
            rows = generator.permutation(TABLE_BYTES // 16)[:LANES] * 16
            yield Case(f"{operation}.x4, random rows {draw}", operation, "false", 16, rows)
        if operation == "ldmatrix":
            yield Case("ldmatrix.x4, one row for all", operation, "false", 16, LANE * 0)
            yield Case("ldmatrix.x4, one row for each matrix", operation, "false", 16, LANE // 8 * 256)


def _sharing_lanes() -> Iterable[Case]:
    """Which lanes must name the same address for a wide access to be served in fewer phases?"""
    generator = np.random.RandomState(22)
    for width in (8, 16):
        for bit in (1, 2, 4, 8, 16):
            below = LANE & bit - 1
            place = below | LANE >> 1 & ~(bit - 1)
            yield from _accesses(f"lanes n and n^{bit} share an address", width, place * width)
            idle = np.where(LANE == 5, INACTIVE, place * width)
            yield from _accesses(f"lanes n and n^{bit} share an address, lane 5 idle", width, idle)
        fours = {"n^1 and n^2": LANE // 4, "n^2 and n^4": LANE & 1 | LANE >> 3 << 1, "n^8 and n^16": LANE % 8}
        for name, place in fours.items():
            yield from _accesses(f"lanes n, {name} share an address", width, place * width)
        pairs = generator.permutation(LANES) // 2
        yield from _accesses("lanes of random pairs share an address", width, pairs * width)
        broken = np.where(LANE == 5, 20, LANE // 2)
        yield from _accesses("neighbours share an address but for lane 5", width, broken * width)
        mixed = np.where(LANE < 16, LANE // 2, 8 + (LANE & 1 | LANE >> 2 << 1))
        yield from _accesses("lower lanes share with n^1, upper with n^2", width, mixed * width)


def plain_cases() -> list[Case]:
    """Loads, stores, ldmatrix, stmatrix: what was measured before, then what tests the model beyond it."""
    cases: list[Case] = []
    for width, expected in {2: 1, 4: 1, 8: 2, 16: 4}.items():
        cases += _accesses("linear", width, LANE * width, expected)
    cases += _accesses("stride 128 B", 4, LANE * 128, 32)
    cases += _accesses("stride 32 B", 16, LANE * 32, 8)
    cases += _accesses("stride 256 B", 16, LANE * 256, 32)
    cases += _accesses("lane pairs sharing 16 B at stride 256 B", 16, LANE // 2 * 256, 16)
    cases += _lane_maps()
    cases += _matrices()

    cases += _sharing_lanes()
    some_lanes = {"lanes below 16": LANE < 16, "even lanes": LANE % 2 == 0, "lane 3": LANE == 3}
    for stride in (16, 64, 136, 264):
        cases += _accesses(f"stride {stride} B", 8, LANE * stride)
    for width in TYPES:
        cases += _accesses("one address for all", width, LANE * 0)
        cases += _accesses("neighbours share an address", width, LANE // 2 * width)
        cases += _accesses("both half warps alike", width, LANE % 16 * width)
        for name, active in some_lanes.items():
            cases += _accesses(f"linear, {name}", width, np.where(active, LANE * width, INACTIVE))
        generator = np.random.RandomState(width)
        for draw in range(4):
            addresses = generator.permutation(TABLE_BYTES // width)[:LANES] * width
            cases += _accesses(f"random addresses {draw}", width, addresses)
    return cases


def _copy(
    name: str,
    kind: str,
    addresses: np.ndarray,
    sources: np.ndarray | None = None,
    step: int = COLD_STEP,
    batch: int = REPEATS,
    warps: int = 1,
) -> Case:
    width = int(kind[2:].removesuffix("_or_zero"))
    variant = f"{COPY_KINDS[kind]}, {batch}"
    sources = LANE * width if sources is None else sources
    return Case(
        f"{kind}, {name}",
        "copy",
        variant,
        width,
        addresses,
        sources=sources,
        step=step,
        warps=warps,
        batch=batch,
    )


def _destinations(width: int) -> dict[str, np.ndarray]:
    """Destinations for copies of `width` bytes: strides, shifted lines, rows of 256 bytes, shuffles."""
    strides = (8, 16, 32, 64, 128, 132, 136, 144, 256, 260, 264, 272)
    found = {"linear": LANE * width}
    for stride in strides:
        if stride > width and stride % width == 0:
            found[f"stride {stride} B"] = LANE * stride
    for shift in (4, 16, 64):
        if shift % width == 0:
            found[f"linear from byte {shift}"] = LANE * width + shift
    generator = np.random.RandomState(20 + width)
    found["linear shuffled"] = generator.permutation(LANES) * width
    found["random"] = generator.permutation(TABLE_BYTES // width)[:LANES] * width
    if width == 16:
        found["2 rows of 256 B, pitch 272 B"] = LANE // 16 * 272 + LANE % 16 * 16
        found["16-byte pieces of 2 rows, pitch 256 B"] = LANE % 16 * 256 + LANE // 16 * 16
    return found


def _sources(width: int) -> dict[str, np.ndarray]:
    """Sources that are not one aligned run of bytes."""
    generator = np.random.RandomState(30 + width)
    shifts = [shift for shift in (4, 16, 32, 64) if shift % width == 0]
    found = {f"source from byte {shift}": LANE * width + shift for shift in shifts}
    found["source stride 32 B"] = LANE * 32
    found["source stride 256 B"] = LANE * 256
    found["source shuffled"] = generator.permutation(LANES) * width
    found["source one address for all"] = LANE * 0
    return found


def copy_cases() -> list[Case]:
    """cp.async: destinations, sources, hits and misses in L1, few lanes, zeros."""
    cases: list[Case] = []
    for kind in ("cg16", "ca4", "ca8", "ca16"):
        width = int(kind[2:])
        destinations = _destinations(width)
        strided = {"linear": LANE * width, "destination stride 256 B": LANE * 256}
        for name, addresses in destinations.items():
            cases.append(_copy(f"destination {name}", kind, addresses))
        for source, offsets in _sources(width).items():
            for name, addresses in strided.items():
                cases.append(_copy(f"{name}, {source}", kind, addresses, offsets))
        for name, addresses in strided.items():
            cases.append(_copy(f"{name}, the same source again", kind, addresses, step=0))
            for batch in (1, 8):
                cases.append(_copy(f"{name}, {batch} in flight", kind, addresses, batch=batch))
            for lanes in (16, 8, 4, 1):
                some = np.where(lanes > LANE, addresses, INACTIVE)
                cases.append(_copy(f"{name}, {lanes} lanes", kind, some))
    for kind in ("cg16_or_zero", "ca4_or_zero"):
        width = int(kind[2:].removesuffix("_or_zero"))
        for name, addresses in {"linear": LANE * width, "destination stride 256 B": LANE * 256}.items():
            for lanes in (32, 16, 0):
                offsets = np.where(lanes > LANE, LANE * width, INACTIVE)
                cases.append(_copy(f"{name}, {lanes} lanes valid", kind, addresses, offsets))
    return cases


def busy_cases() -> list[Case]:
    """8 warps at once, so that cycles per instruction show a cost that latency would hide with one warp."""
    cases: list[Case] = []
    for width, stride in ((4, 4), (4, 128), (16, 16), (16, 256)):
        for case in _accesses(f"stride {stride} B, {MAX_WARPS} warps", width, LANE * stride):
            cases.append(Case(**{**vars(case), "warps": MAX_WARPS}))
    for kind in ("cg16", "ca4", "ca8", "ca16"):
        width = int(kind[2:])
        for stride in (width, 32, 64, 128, 144, 256, 272):
            for name, step in (("the same source again", 0), ("a stream", LANES * width)):
                title = f"destination stride {stride} B, {name}, {MAX_WARPS} warps"
                cases.append(_copy(title, kind, LANE * stride, step=step, warps=MAX_WARPS))
    return cases


def few_copy_cases() -> list[Case]:
    """The least of copy_cases, for counters that are slow to read."""
    return [
        case
        for case in copy_cases()
        if case.name.endswith(("destination linear", "destination stride 256 B"))
    ]


def suites() -> dict[str, list[Case]]:
    """Cases by suite; each suite is profiled in one process, in this order."""
    return {
        "plain": plain_cases(),
        "copies": copy_cases(),
        "busy": busy_cases(),
        "few_copies": few_copy_cases(),
    }


Counts = dict[str, dict[str, dict[str, float]]]  # suite, case, counter


def read_record(path: Path = WAVEFRONT_RECORD) -> Counts:
    """What the counters said, per warp instruction; counters that gave no number are left out."""
    found: Counts = {}
    for suite, table in json.loads(path.read_text())["suites"].items():
        found[suite] = {
            case: {name: x for name, x in zip(table["counters"], values, strict=True) if x is not None}
            for case, values in table["cases"]
        }
    return found
