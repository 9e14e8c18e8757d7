"""What the GPU gives at most: how fast it moves a tile's bytes, and how fast its tensor cores multiply.

Both are measured, by two kernels in kernels/lab that do nothing else. `kda_learn.roofline` sets the stages
beside them. `python -m kda_learn.ceilings FILE` measures on this computer's GPU and keeps a record.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from . import records
from .bench import run_in_child
from .device import hopper
from .errors import MachineUnavailable
from .ladder import whole_and_h20
from .source import KERNELS, StageSource
from .tiling import CHUNK, HEAD_DIM

KIND = "ceilings"
TWIN = KERNELS / "lab" / "traffic_twin.cu"
MMA = KERNELS / "lab" / "mma_ceiling.cu"
ELEMENT_BYTES = {"float32": 4, "bfloat16": 2}
"""Of a snapshot's element, by snapshot type."""

FLOPS_PER_MMA = 2 * 16 * 8 * 16
"""Multiplications and additions of one mma.sync m16n8k16."""


@dataclass(frozen=True)
class Ceilings:
    """The ceilings of one GPU, or of a part of it with `sms` SMs.

    twin_ns: how long the bytes of one tile and head take, in nanoseconds, by snapshot type ("float32",
    "bfloat16"). mma_tflops: 10^12 operations per second of mma.sync m16n8k16 on bf16.
    """

    gpu: str
    sms: int
    twin_ns: dict[str, float]
    mma_tflops: float

    @property
    def mma_ns(self) -> float:
        """How long the products of one tile and head take at the ceiling, in nanoseconds."""
        return tile_flops() / self.mma_tflops / 1e3


def tile_bytes(snapshot_dtype: str = "float32") -> tuple[int, int]:
    """Bytes of one tile and head: what Kernel A must read, and what it must write."""
    constants = StageSource.load(TWIN).constants()
    return constants["BYTES_IN"], HEAD_DIM**2 * ELEMENT_BYTES[snapshot_dtype]


def tile_flops() -> int:
    """Multiplications and additions in one tile and head.

    G2, G4 and G5 multiply 16 x 128 x 128, G1 and G3 16 x 16 x 128.
    """
    return 2 * (3 * CHUNK * HEAD_DIM * HEAD_DIM + 2 * CHUNK * CHUNK * HEAD_DIM)


def moved(tile: NDArray[np.uint32], snapshot_dtype: str = "float32") -> NDArray[np.uint32]:
    """What the twin writes for one tile, uint32 [pieces written, 4], from what it reads, uint32 [pieces, 4].

    Each thread adds up its pieces bit by bit (xor) and writes the sum several times, with a count on it.
    """
    threads = StageSource.load(TWIN).constants()["THREADS"]
    padded = np.zeros((-(-len(tile) // threads) * threads, 4), np.uint32)
    padded[: len(tile)] = tile
    seen = np.bitwise_xor.reduce(padded.reshape(-1, threads, 4), axis=0)
    times = tile_bytes(snapshot_dtype)[1] // 16 // threads
    written = np.broadcast_to(seen, (times, threads, 4)).copy()
    written[:, :, 0] += np.arange(times, dtype=np.uint32)[:, None]
    return written.reshape(-1, 4)


def measure(sms: Sequence[int | None] | None = None) -> records.Record:
    """Measure on this computer's GPU, in a child process, for each number of SMs.

    sms: None takes the whole GPU and, if it is larger, a part as large as an H20.

    The record's content is {notes, parts: [{sms, twins: {type: {ns_per_tile, ci_ns, blocks, bytes_in,
    bytes_out, tb_per_s}}, mma: {tflops, ci_tflops, blocks}, clocks}]}. Raises MachineUnavailable without a
    Hopper GPU, KdaError if a kernel writes something else than it must.
    """
    sizes = whole_and_h20(hopper()) if sms is None else sms
    measured = run_in_child("kda_learn.ceilings_child", {"sms": list(sizes)})
    where = records.Provenance(**measured.pop("provenance"))
    return records.Record(KIND, where, measured)


@cache
def recorded(sms: int | None = None, gpu: str | None = None) -> Ceilings | None:
    """The ceilings of a record: of as many SMs (None: of a whole GPU), else of the nearest number.

    gpu: its full name (None: of any). None if there is no record.
    """
    found = [one for record in records.all_of(KIND) for one in of_record(record) if gpu in (None, one.gpu)]
    if sms is None:
        return max(found, key=lambda one: one.sms, default=None)
    return min(found, key=lambda one: abs(one.sms - sms), default=None)


def of_record(record: records.Record) -> list[Ceilings]:
    """The ceilings that a record holds, one for each number of SMs."""
    return [
        Ceilings(
            gpu=record.provenance.gpu,
            sms=part["sms"],
            twin_ns={name: twin["ns_per_tile"] for name, twin in part["twins"].items()},
            mma_tflops=part["mma"]["tflops"],
        )
        for part in record.content["parts"]
    ]


def main() -> int:
    """The command line of this module. Exit code 2 if nothing can be measured here."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "ceilings.json")
    try:
        record = measure()
    except MachineUnavailable as missing:
        print(f"kda-learn: {missing}", file=sys.stderr)
        return 2
    records.save(record, path)
    for part in record.content["parts"]:
        twins = ", ".join(
            f"{name} {twin['ns_per_tile']:.1f} ns ({twin['tb_per_s']:.2f} TB/s)"
            for name, twin in part["twins"].items()
        )
        print(f"{part['sms']} SMs: a tile's bytes {twins}; mma.sync {part['mma']['tflops']:.0f} TFLOP/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
