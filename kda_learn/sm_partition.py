"""A part of the GPU: a stream whose kernels may use some of the SMs only (a CUDA green context)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from .device import hopper
from .errors import BadInput, MachineUnavailable


@dataclass(frozen=True)
class SmPartition:
    """`sms`: SMs that the driver granted. `stream`: handle of a CUDA stream that runs on those."""

    sms: int
    stream: int


@contextlib.contextmanager
def sm_partition(sms: int, device: int = 0) -> Iterator[SmPartition]:
    """A part of the GPU with `sms` SMs, for the time of a `with` block.

    The driver rounds the number up to one it can cut off (78 becomes 80 on an H200): see `SmPartition.sms`.
    Memory and loaded kernels are those of the whole GPU. Raises BadInput for a number the GPU does not have,
    MachineUnavailable where the driver or the package cuda-bindings is missing or too old.
    """
    gpu = hopper(device)
    if not 1 <= sms <= gpu.sms:
        raise BadInput(
            f"{sms} SMs were asked for and the {gpu.name} has {gpu.sms}: give a number from 1 to {gpu.sms}."
        )
    try:
        from cuda.bindings import driver
    except ImportError:
        raise MachineUnavailable(
            "A part of the GPU can only be used through the package cuda-bindings, which is missing: `pip "
            "install cuda-bindings`, or leave out the number of SMs."
        ) from None

    def call(function, *arguments):
        """The values a driver function returns beside its status."""
        try:
            status, *values = function(*arguments)
        except RuntimeError as missing:  # an older driver does not have the function
            status, values = missing, []
        if status != driver.CUresult.CUDA_SUCCESS:
            raise MachineUnavailable(
                f"The driver {gpu.driver} does not cut off {sms} SMs ({status}): this takes a driver for "
                "CUDA 12.4 or newer; leave out the number of SMs."
            )
        return values

    _make_primary_context(device)
    (handle,) = call(driver.cuDeviceGet, device)
    (whole,) = call(driver.cuDeviceGetDevResource, handle, driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM)
    groups, *_ = call(driver.cuDevSmResourceSplitByCount, 1, whole, 0, sms)
    (description,) = call(driver.cuDevResourceGenerateDesc, [groups[0]], 1)
    needed_flag = driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM
    (context,) = call(driver.cuGreenCtxCreate, description, handle, needed_flag)
    try:
        (stream,) = call(
            driver.cuGreenCtxStreamCreate, context, driver.CUstream_flags.CU_STREAM_NON_BLOCKING, 0
        )
        try:
            yield SmPartition(groups[0].sm.smCount, int(stream))
        finally:
            driver.cuStreamSynchronize(
                stream
            )  # no check: an error of the kernels was raised where they were awaited
            driver.cuStreamDestroy(stream)
    finally:
        driver.cuGreenCtxDestroy(context)


def _make_primary_context(device: int) -> None:
    """The context that CuPy and PyTorch share; the part of the GPU is made beside it."""
    import cupy

    with cupy.cuda.Device(device):
        cupy.cuda.runtime.free(0)
