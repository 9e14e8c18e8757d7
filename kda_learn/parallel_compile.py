"""Compiling many kernels at once, so that whoever needs them finds them in the compiler's cache."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from .compile import compile_stage
from .errors import KdaError

if TYPE_CHECKING:
    from pathlib import Path

    from .stages import Stage

Job = tuple["Stage | Path | str", int, bool, str]
"""Stage, VSplit, whether sequences differ in length, type of the snapshots: as `compile_stage` takes them."""


def compile_at_once(jobs: Iterable[Job]) -> None:
    """Compile each job once. Errors are left to whoever needs the kernel."""

    def one(job: Job) -> None:
        with contextlib.suppress(KdaError):
            compile_stage(*job)

    with ThreadPoolExecutor() as pool:
        list(pool.map(one, dict.fromkeys(jobs)))
