"""What the GPU gives at most: how fast it moves a tile's bytes, and how fast its tensor cores multiply.

Both are measured, by two lab kernels that do nothing else. `roofline` sets the stages beside them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from ..kernel_a.tiling import CHUNK, HEAD_DIM
from ..machines.child import run_in_child
from ..machines.device import hopper
from ..records import store as records
from ..records.article import whole_and_h20

KIND = "ceilings"


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


def tile_flops() -> int:
    """Multiplications and additions in one tile and head.

    G2, G4 and G5 multiply 16 x 128 x 128, G1 and G3 16 x 16 x 128.
    """
    return 2 * (3 * CHUNK * HEAD_DIM * HEAD_DIM + 2 * CHUNK * CHUNK * HEAD_DIM)


def measure(sms: Sequence[int | None] | None = None) -> records.Record:
    """Measure on this computer's GPU, in a child process, for each number of SMs.

    sms: None takes the whole GPU and, if it is larger, a part as large as an H20.

    The record's content is {notes, parts: [{sms, twins: {type: {ns_per_tile, ci_ns, blocks, bytes_in,
    bytes_out, tb_per_s}}, mma: {tflops, ci_tflops, blocks}, clocks}]}. Raises MachineUnavailable without a
    Hopper GPU, KdaError if a kernel writes something else than it must.
    """
    sizes = whole_and_h20(hopper()) if sms is None else sms
    measured = run_in_child("kda_learn.performance.ceilings_child:run", {"sms": list(sizes)})
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
