"""Which GPU this computer has, and what state it is in: name, SMs, driver, memory, clocks, temperature."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache

from ..ground.errors import BadInput, MachineUnavailable
from ..ground.files import give_cupy_a_folder

MACHINE_VARIABLE = "KDA_LEARN_MACHINE"
"""The environment variable that forbids the GPU: to build or test as on a computer without one."""

WITHOUT_GPU = "the CPU machine, machine 'emulator', runs and checks every stage without a GPU"
"""The end of a sentence about a GPU that cannot be used: true of whatever was asked for."""

# Bits of nvidia-smi's clocks_event_reasons.active (NVML's nvmlClocksEventReasons).
CLOCK_LIMITS = {
    0x1: "idle",
    0x2: "application clock setting",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "synchronised boost",
    0x20: "temperature (software)",
    0x40: "temperature (hardware)",
    0x80: "power brake",
    0x100: "display clock setting",
}


@dataclass(frozen=True)
class Gpu:
    """One GPU. Memory in bytes; `compute_capability` is (9, 0) on Hopper; `cuda` is the CUDA runtime's
    version.
    """

    index: int
    name: str
    sms: int
    compute_capability: tuple[int, int]
    driver: str
    cuda: str
    memory_bytes: int
    smem_per_block_bytes: int
    pci_bus_id: str


@dataclass(frozen=True)
class ClockSample:
    """What nvidia-smi reads at one moment; `limits` says what holds the clock down, if anything does."""

    sm_mhz: float | None
    memory_mhz: float | None
    temperature_c: float | None
    power_w: float | None
    limits: tuple[str, ...]


def describe(index: int = 0) -> Gpu:
    """The GPU number `index`, as CUDA counts them. Takes no GPU memory: no CUDA context is made for it.

    Raises MachineUnavailable, with the reason, if there is none, no driver or no CuPy.
    """
    give_cupy_a_folder()
    try:
        import cupy
    except Exception as error:  # CuPy raises several kinds when a library of its own is missing
        raise MachineUnavailable(
            f"No GPU can be used, CuPy does not load ({type(error).__name__}): run `make setup`, or `pip "
            f"install cupy-cuda13x` (cupy-cuda12x for a driver older than 580); {WITHOUT_GPU}."
        ) from None
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        raise MachineUnavailable(
            f"No GPU can be used, no NVIDIA driver answers ({str(error).split(':')[0]}): `kda-learn doctor` "
            f"says what is missing; {WITHOUT_GPU}."
        ) from None
    if index >= count:
        raise MachineUnavailable(
            f"GPU number {index} was asked for and this computer shows {count}: give a smaller number; "
            f"{WITHOUT_GPU}."
        )
    properties = runtime.getDeviceProperties(index)
    pci_bus_id = runtime.deviceGetPCIBusId(index)
    return Gpu(
        index=index,
        name=properties["name"].decode(),
        sms=properties["multiProcessorCount"],
        compute_capability=(properties["major"], properties["minor"]),
        driver=_driver_version(pci_bus_id) or f"for CUDA {_dotted(runtime.driverGetVersion())}",
        cuda=_dotted(runtime.runtimeGetVersion()),
        memory_bytes=properties["totalGlobalMem"],
        smem_per_block_bytes=properties["sharedMemPerBlockOptin"],
        pci_bus_id=pci_bus_id,
    )


def hopper(index: int = 0) -> Gpu:
    """As `describe`, for a GPU that can run the kernels: compute capability 9.0. MachineUnavailable for any
    other, and where the environment says that none is to be used (KDA_LEARN_MACHINE=emulator).
    """
    if os.environ.get(MACHINE_VARIABLE) == "emulator":
        raise MachineUnavailable(
            f"The environment variable {MACHINE_VARIABLE} is 'emulator', so no GPU is used: unset it to use "
            "this computer's."
        )
    gpu = describe(index)
    if gpu.compute_capability != (9, 0):
        major, minor = gpu.compute_capability
        raise MachineUnavailable(
            f"The GPU {gpu.name} has compute capability {major}.{minor} and the kernels are built for "
            f"Hopper, 9.0 (H100, H200, H20): {WITHOUT_GPU}."
        )
    return gpu


def has_hopper() -> bool:
    """Whether `hopper` gives a GPU."""
    try:
        hopper()
    except MachineUnavailable:
        return False
    return True


def free_memory(gpu: Gpu) -> int:
    """Bytes of GPU memory that are free now. Makes this process's CUDA context, which takes some itself."""
    import cupy

    with cupy.cuda.Device(gpu.index):
        return cupy.cuda.runtime.memGetInfo()[0]


def sample_clocks(gpu: Gpu) -> ClockSample | None:
    """Clocks, temperature, power and clock limits now; None where nvidia-smi is missing or does not tell."""
    for reasons in (
        "clocks_event_reasons.active",
        "clocks_throttle_reasons.active",
    ):  # the second: before driver 535
        fields = ("clocks.sm", "clocks.mem", "temperature.gpu", "power.draw", reasons)
        values = _nvidia_smi(gpu.pci_bus_id, fields)
        if values is not None:
            return parse_clocks(values)
    return None


def parse_clocks(values: list[str]) -> ClockSample:
    """The five values that `sample_clocks` asks for; a number the card does not give is None."""
    numbers = [_number(value) for value in values[:4]]
    try:
        mask = int(values[4], 16)
    except ValueError:
        mask = 0
    return ClockSample(*numbers, limits=tuple(name for bit, name in CLOCK_LIMITS.items() if mask & bit))


def _number(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


@lru_cache
def _driver_version(pci_bus_id: str) -> str | None:
    values = _nvidia_smi(pci_bus_id, ("driver_version",))
    return values[0] if values else None


def _nvidia_smi(pci_bus_id: str, fields: tuple[str, ...]) -> list[str] | None:
    """Read-only query of one card, named by its bus id since CUDA and nvidia-smi may number cards
    differently.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [
        program,
        f"--id={pci_bus_id}",
        f"--query-gpu={','.join(fields)}",
        "--format=csv,noheader,nounits",
    ]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    values = [value.strip() for value in run.stdout.strip().split(",")]
    return values if run.returncode == 0 and len(values) == len(fields) else None


def _dotted(version: int) -> str:
    """CUDA's integer version, 13000 for 13.0."""
    return f"{version // 1000}.{version % 1000 // 10}"


MACHINES = ("auto", "gpu", "emulator")
CALLED = {"gpu": "GPU", "emulator": "CPU machine"}
"""What people read instead of the words of the code."""


def choose_machine(machine: str) -> str:
    """ "gpu" or "emulator"; for "auto" the GPU if there is a Hopper one. Raises BadInput for other words."""
    if machine not in MACHINES:
        raise BadInput(f"machine is {machine!r}: give one of {', '.join(MACHINES)}.")
    if machine != "auto":
        return machine
    return "gpu" if has_hopper() else "emulator"
