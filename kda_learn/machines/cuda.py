"""A few words of the CUDA runtime, through CuPy: events, waiting, and errors that people can read."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from ..ground.errors import BadInput, KdaError, MachineUnavailable
from .device import Gpu, hopper


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
        raise cuda_error(what, error) from None


def cuda_error(what: str, error: Exception) -> KdaError:
    """What to raise for an error of the CUDA driver or runtime; the sentence begins with `what`."""
    return KdaError(
        f"{what} ({error}): see `kda-learn doctor`; after a fault inside a kernel start a new Python "
        "process, and let the CPU machine (--machine emulator) name the line."
    )


@dataclass(frozen=True)
class SmPartition:
    """`sms`: SMs that the driver granted. `stream`: handle of a CUDA stream that runs on those."""

    sms: int
    stream: int
    asked: int | None = None  # SMs that were asked for; None: all

    @property
    def notes(self) -> list[str]:
        """What must be said if the driver granted another number."""
        if self.asked in (None, self.sms):
            return []
        return [f"{self.sms} SMs instead of {self.asked}: the driver cuts the GPU into such parts."]


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
            yield SmPartition(groups[0].sm.smCount, int(stream), asked=sms)
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


@contextlib.contextmanager
def part_of_gpu(sms: int | None, device: Gpu) -> Iterator[SmPartition]:
    """The whole GPU (on the default stream) or a part of it."""
    if sms is None or sms == device.sms:
        yield SmPartition(device.sms, 0)
        return
    with sm_partition(sms, device.index) as part:
        yield part
