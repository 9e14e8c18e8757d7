"""The variants of a stage's kernel: their names, how they are compiled, and a launch of one as a runnable."""

import contextlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral

from ..compilers.nvrtc import Compiled, compile
from ..ground.errors import BadInput, KdaError
from ..ground.given import one_of, yes_or_no
from ..machines.runnable import Judge, Runnable, satisfied
from ..sources.stages import Stage
from .arguments import OUTPUTS, Arguments

SNAPSHOT_TYPES = {"float32": "float", "bfloat16": "bf16"}
V_SPLITS = (1, 2, 4, 8)


def kernel_entry(v_split: int = 1, varlen: bool = False, snapshot_dtype: str = "float32") -> str:
    """The name of one variant of a stage's kernel, for example `kernel_a<4, true, bf16>`.

    Raises BadInput for a v_split or a snapshot_dtype ("float32", "bfloat16") that no stage has.
    """
    check_v_split(v_split)
    one_of("snapshot_dtype", snapshot_dtype, SNAPSHOT_TYPES)
    return (
        f"kernel_a<{v_split}, {str(yes_or_no('varlen', varlen)).lower()}, {SNAPSHOT_TYPES[snapshot_dtype]}>"
    )


def check_v_split(v_split: int) -> None:
    """Raise BadInput unless `v_split` is a number of blocks that can share a state's columns."""
    if isinstance(v_split, bool) or not isinstance(v_split, Integral) or v_split not in V_SPLITS:
        raise BadInput(f"v_split is {v_split!r}: give 1, 2, 4 or 8, the ways to split the state's columns.")


def compile_stage(
    stage: Stage, v_split: int = 1, varlen: bool = False, snapshot_dtype: str = "float32"
) -> Compiled:
    """One variant of one stage. Raises as `compile` does."""
    return compile(stage.path, entry=kernel_entry(v_split, varlen, snapshot_dtype))


def threads_of(stage: Stage) -> int:
    """Threads of a block, as the stage's file says."""
    return _constant(stage, "THREADS", "THREADS at file level")


def shared_memory_of(stage: Stage, v_split: int = 1) -> int:
    """Bytes of shared memory that a block needs, as the stage's file says."""
    return _constant(stage, "BYTES", "SharedMemory<VSPLIT>::BYTES", v_split)


def runnable_of(
    stage: Stage,
    arguments: Arguments,
    sequences: int,
    *,
    v_split: int = 1,
    snapshot_dtype: str = "float32",
    extra_smem: int = 0,
    judge: Judge = satisfied,
) -> Runnable:
    """A launch of a stage: one block for each sequence, head and part of the state's columns.

    extra_smem: bytes of shared memory that each block asks for and leaves alone.
    """
    return Runnable(
        source=stage.path,
        entry=kernel_entry(v_split, arguments.cu_seqlens is not None, snapshot_dtype),
        arguments=arguments.in_order(),
        grid=(sequences, arguments.heads, v_split),
        threads=threads_of(stage),
        dynamic_smem_bytes=shared_memory_of(stage, v_split) + extra_smem,
        outputs=OUTPUTS,
        judge=judge,
    )


def article_v_split(sequences: int, heads: int, sms: int) -> int:
    """The article's rule: share each state between 4 blocks when the batch has fewer (sequence, head) pairs
    than SMs.
    """
    return 4 if sequences * heads < sms else 1


Job = tuple[Stage, int, bool, str]
"""Stage, VSplit, whether sequences differ in length, type of the snapshots: as `compile_stage` takes them."""


def compile_at_once(jobs: Iterable[Job]) -> None:
    """Compile each job once, so that whoever needs it finds it done. Errors are left to them."""

    def one(job: Job) -> None:
        with contextlib.suppress(KdaError):
            compile_stage(*job)

    with ThreadPoolExecutor() as pool:
        list(pool.map(one, dict.fromkeys(jobs)))


def _constant(stage: Stage, name: str, what: str, v_split: int = 1) -> int:
    constants = stage.source.constants(VSPLIT=v_split)
    if name not in constants:
        raise BadInput(
            f"{stage.path.name} has no {what}: give a file made like a stage's; any other kernel "
            "takes `kda-learn run`."
        )
    return constants[name]
