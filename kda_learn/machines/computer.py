"""What this computer has, as plain facts. Standard library only: set-up reads them before installing."""

import contextlib
import ctypes
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from ..ground.errors import MachineUnavailable
from ..ground.files import cannot_be_kept, made_cache_folder

CPP_COMPILERS = ("g++", "clang++", "c++")
CPU_MACHINE_SYSTEMS = ("Linux", "Darwin")  # as platform.system() names them; Darwin is macOS

# CUdevice_attribute numbers of the driver's cuda.h.
_MULTIPROCESSOR_COUNT = 16
_COMPUTE_CAPABILITY_MAJOR = 75
_COMPUTE_CAPABILITY_MINOR = 76
_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
_CAP_SYS_ADMIN = 21


@dataclass(frozen=True)
class GpuFacts:
    """One GPU as the driver describes it. Memory in bytes; `capability` is (9, 0) on Hopper."""

    name: str
    capability: tuple[int, int]
    sms: int
    shared_memory_per_block: int
    memory: int


@dataclass(frozen=True)
class Facts:
    """All that set-up and `doctor` need to know. Sizes in bytes; None: it is not there, or not known."""

    python: tuple[int, int, int]
    system: str
    processor: str
    cores: int
    memory: int | None
    free_disk: int
    driver: str | None = None
    gpus: tuple[GpuFacts, ...] = ()
    compiler: str | None = None
    ncu: str | None = None
    counters_open: bool | None = None
    packages: dict[str, str] = field(default_factory=dict)
    cache_trouble: str = ""  # why compiled kernels cannot be kept, and what to do; empty if they can

    @property
    def cpu_machine(self) -> bool:
        """Whether the CPU machine can run here."""
        return self.system in CPU_MACHINE_SYSTEMS and self.compiler is not None


def look(folder: Path | None = None) -> Facts:
    """The facts of this computer; `folder` names the disk whose free space counts (default: the current one).

    Takes about 0.1 s, does not load CuPy or PyTorch and takes no GPU memory.
    """
    return Facts(
        python=sys.version_info[:3],
        system=platform.system(),
        processor=platform.machine(),
        cores=os.cpu_count() or 1,
        memory=memory_bytes(),
        free_disk=free_disk_bytes(folder or Path.cwd()),
        driver=driver_version(),
        gpus=gpus(),
        compiler=cpp_compiler(),
        ncu=ncu_program(),
        counters_open=counters_open(),
        packages=installed_packages(),
        cache_trouble=cache_trouble(),
    )


def driver_version() -> str | None:
    """The NVIDIA driver's version such as "580.65.06", None without a driver that answers."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        text = ""
    match = re.search(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b", text)
    if match:
        return match[1]
    output = output_of(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"])
    match = re.search(r"^\d+\.\d+(?:\.\d+)?$", output or "", re.MULTILINE)
    return match[0] if match else None


def gpus() -> tuple[GpuFacts, ...]:
    """The GPUs that CUDA shows to this process, through the driver's own library; no context is made."""
    try:
        cuda = ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
        if cuda.cuInit(0) != 0:
            return ()
        count = ctypes.c_int()
        cuda.cuDeviceGetCount(ctypes.byref(count))
        return tuple(_gpu(cuda, index) for index in range(count.value))
    except (OSError, AttributeError):
        return ()


def _gpu(cuda: ctypes.CDLL, index: int) -> GpuFacts:
    name = ctypes.create_string_buffer(256)
    cuda.cuDeviceGetName(name, len(name), index)
    memory = ctypes.c_size_t()
    cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), index)

    def attribute(number: int) -> int:
        value = ctypes.c_int()
        cuda.cuDeviceGetAttribute(ctypes.byref(value), number, index)
        return value.value

    return GpuFacts(
        name=name.value.decode(),
        capability=(attribute(_COMPUTE_CAPABILITY_MAJOR), attribute(_COMPUTE_CAPABILITY_MINOR)),
        sms=attribute(_MULTIPROCESSOR_COUNT),
        shared_memory_per_block=attribute(_SHARED_MEMORY_PER_BLOCK_OPTIN),
        memory=memory.value,
    )


def cpp_compiler() -> str | None:
    """A C++ compiler that takes C++20 and finds its standard library: $CXX, else g++, clang++ or c++."""
    wanted = os.environ.get("CXX")
    for name in [wanted] if wanted else CPP_COMPILERS:
        command = [*shlex.split(name), "-std=c++20", "-fsyntax-only", "-x", "c++", "-"]
        if output_of(command, standard_input="#include <cstdint>\n#include <bit>\n") is not None:
            return shutil.which(name) or name
    return None


def ncu_program() -> str | None:
    """Nsight Compute's command line, from the search path or from where its installers put it."""
    found = shutil.which("ncu")
    if found:
        return found
    for pattern in ("cuda*/bin/ncu", "nsight-compute*/ncu", "nvidia/nsight-compute/*/ncu"):
        for root in (Path("/usr/local"), Path("/opt")):
            programs = sorted(root.glob(pattern))
            if programs:
                return str(programs[-1])
    return None


def counters_open() -> bool | None:
    """Whether this process may read the GPU's performance counters; None where that cannot be known."""
    try:
        parameters = Path("/proc/driver/nvidia/params").read_text()
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    restricted = re.search(r"^RmProfilingAdminOnly:\s*(\d+)", parameters, re.MULTILINE)
    capabilities = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    if restricted is None or capabilities is None:
        return None
    is_admin = bool(int(capabilities[1], 16) >> _CAP_SYS_ADMIN & 1)
    return restricted[1] == "0" or is_admin


def memory_bytes() -> int | None:
    """The computer's main memory."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def free_disk_bytes(folder: Path) -> int:
    """What is free on the disk of `folder`, or of its nearest parent that exists."""
    folder = folder.absolute()
    for place in (folder, *folder.parents):
        with contextlib.suppress(OSError):  # it is not there, or may not be looked into
            return shutil.disk_usage(place).free
    return 0


def cache_trouble() -> str:
    """Why files cannot be kept in the cache folder, with what to do; empty if they can. Makes the folder."""
    try:
        folder = made_cache_folder("emulator")
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except MachineUnavailable as error:
        return str(error)
    except OSError as error:
        return str(cannot_be_kept(folder, error))


def installed_packages() -> dict[str, str]:
    """Name (lower case, with dashes) and version of every package that this Python can import."""
    names = {}
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            names.setdefault(re.sub(r"[-_.]+", "-", name).lower(), distribution.version)
    return names


def output_of(command: list[str], standard_input: str = "") -> str | None:
    """What a short command prints; None when it is missing, fails or takes longer than 20 s."""
    try:
        run = subprocess.run(command, input=standard_input, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout if run.returncode == 0 else None
