"""The launches that CUDA accepts: one sentence for all others, the same on both machines."""

import re
from pathlib import Path

from ..ground.errors import BadInput
from ..ground.given import several, shown, whole
from ..hardware.limits import HOPPER, MOST_THREADS
from ..sources.cpp import functions, strip_comments
from ..sources.includes import kept_while_unchanged
from ..sources.kernel_source import KernelSource

MOST_BLOCKS = (2**31 - 1, 65535, 65535)
MOST_THREADS_ALONG = (1024, 1024, 64)


def three_sizes(name: str, sizes: int | tuple[int, ...]) -> tuple[int, int, int]:
    """One to three sizes as three. Raises BadInput for anything else."""
    wanted = "one to three sizes of at least 1, such as (2, 1, 4)"
    given = (sizes,) if hasattr(sizes, "__index__") else several(name, sizes, wanted)
    if len(given) > 3:
        raise BadInput(f"{name} is {shown(sizes)}: give {wanted}.")
    given = [whole(f"a size of {name}", size, 1) for size in given]
    return (*given, 1, 1)[:3]


def check_launch(
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared_bytes: int,
    launch_bound: int | None = None,
) -> None:
    """Raise BadInput for a launch that a Hopper GPU refuses.

    shared_bytes: dynamic shared memory of a block. launch_bound: the threads that the kernel's
    __launch_bounds__ allows, None without one.
    """
    for name, sizes, most in (("grid", grid, MOST_BLOCKS), ("block", block, MOST_THREADS_ALONG)):
        for axis, size, largest in zip("xyz", sizes, most, strict=True):
            if size > largest:
                raise BadInput(f"{name}.{axis} is {size}: CUDA takes at most {largest}.")
    threads = block[0] * block[1] * block[2]
    if threads > MOST_THREADS:
        raise BadInput(f"block is {block}, {threads} threads: CUDA takes at most {MOST_THREADS}.")
    if launch_bound is not None and threads > launch_bound:
        raise BadInput(
            f"block is {block}, {threads} threads, and the kernel's __launch_bounds__ allows {launch_bound}: "
            "give fewer threads or another bound (CUDA says: too many resources requested for launch)."
        )
    whole("shared_bytes", shared_bytes, 0, HOPPER.shared_memory_per_block)


@kept_while_unchanged
def launch_bound_of(source: Path, entry: str) -> int | None:
    """The most threads of a block by a kernel's __launch_bounds__; None if it has none that can be read."""
    name = entry.partition("<")[0].strip()
    kernel = KernelSource.load(source)
    for function in functions(kernel.text):
        bound = re.search(r"__launch_bounds__\s*\(([^,()]+)", strip_comments(function.head))
        if function.function == name and bound:
            try:
                return kernel.value(bound[1])
            except BadInput:
                return None
    return None
