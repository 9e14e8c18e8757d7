"""A few words of the CUDA runtime, through CuPy: events, waiting, and errors that people can read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .errors import KdaError

if TYPE_CHECKING:
    from .device import Gpu


def record_event(stream: int = 0):
    """A CUDA event in the stream with handle `stream`: the moment when the work before it is done."""
    import cupy

    with cuda_errors("A kernel failed"):
        event = cupy.cuda.Event()
        cupy.cuda.runtime.eventRecord(event.ptr, stream)
    return event


def elapsed_ms(start, end) -> float:
    """Milliseconds between two events; waits for the second."""
    import cupy

    wait(end)
    return cupy.cuda.get_elapsed_time(start, end)


def wait(event) -> None:
    """Wait until the work before an event is done."""
    with cuda_errors("A kernel failed"):
        event.synchronize()


def synchronize(gpu: Gpu) -> None:
    """Wait until all work on the GPU is done."""
    import cupy

    with cupy.cuda.Device(gpu.index), cuda_errors("A kernel failed"):
        cupy.cuda.runtime.deviceSynchronize()


@contextlib.contextmanager
def cuda_errors(what: str) -> Iterator[None]:
    """Turn an error of the CUDA driver or runtime into one KdaError that begins with `what`."""
    import cupy

    try:
        yield
    except (cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError) as error:
        raise KdaError(
            f"{what} ({error}): see `kda-learn doctor`; after a fault inside a kernel start a new Python "
            "process, and let `kda-learn check STAGE --machine emulator` name the line."
        ) from None
