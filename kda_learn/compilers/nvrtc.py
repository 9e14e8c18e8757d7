"""From a CUDA source file to a binary for Hopper (sm_90a), with NVRTC: no GPU and no driver are needed.

The compiler's own report comes with the binary: registers, spill bytes, stack, static shared memory. Results
are kept on disk, keyed by the text of the source and of every file it includes, the options and the
compiler's version.
"""

import ctypes
import hashlib
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ..ground.errors import MachineUnavailable
from ..ground.files import KERNELS, cache_folder, clear_place, give_cupy_a_folder, write_atomically
from ..sources.includes import digest, kept_while_unchanged, read_text
from .log import CompileError, first_error, parse_resources
from .sass import SassInstruction, disassemble

ARCHITECTURE = "sm_90a"
FIRST_NVRTC_WITH_A_CACHE = (12, 9)


@dataclass(frozen=True)
class Compiled:
    """One kernel, compiled, and what the compiler reports about it (per thread, unless said)."""

    path: Path
    entry: str
    symbol: str
    cubin: bytes
    ptx: str
    registers: int
    spill_bytes: int
    stack_bytes: int
    static_smem: int
    seconds: float
    nvrtc: str
    digest: str
    log: str

    def sass(self) -> list[SassInstruction]:
        """The machine code, in address order.

        Raises MachineUnavailable if nvdisasm is not installed.
        """
        return disassemble(self.cubin, self.symbol, self.ptx)


def compile(path: Path, *, entry: str, defines: Sequence[str] = ()) -> Compiled:
    """Compile `entry` (a kernel's name, with its template arguments if it has any) of a .cu file.

    `defines` are macros, "NAME" or "NAME=VALUE". Raises CompileError (with file and line) for a source that
    does not compile, BadInput for a file that does not exist, MachineUnavailable without NVRTC.
    """
    return _compile_or_read(path, entry, tuple(defines))


@kept_while_unchanged
def _compile_or_read(path: Path, entry: str, defines: tuple[str, ...]) -> Compiled:
    """The result kept on disk or, if there is none, a fresh one."""
    nvrtc = _nvrtc()
    version = ".".join(map(str, nvrtc.getVersion()))
    options = _options(path, defines, nvrtc.getVersion())
    source_digest = digest(path)
    key = hashlib.sha256(
        json.dumps([source_digest, str(path), entry, options, version]).encode()
    ).hexdigest()[:32]
    found = _from_cache(key)
    if found is None:
        found = _compile(nvrtc, path, entry, options, version, source_digest)
        _to_cache(key, found)
    return found


def _compile(nvrtc, path: Path, entry: str, options: list[str], version: str, source_digest: str) -> Compiled:
    start = time.perf_counter()
    program = nvrtc.createProgram(read_text(path), str(path), [], [])
    try:
        nvrtc.addNameExpression(program, entry)
        try:
            nvrtc.compileProgram(program, options)
        except nvrtc.NVRTCError:
            log = nvrtc.getProgramLog(program)
            raise CompileError(first_error(log, path, entry), log) from None
        log = nvrtc.getProgramLog(program)
        symbol = nvrtc.getLoweredName(program, entry)
        cubin = (
            nvrtc.getCUBIN(program) + b"\0"
        )  # CuPy drops the last byte, and the driver then refuses the file
        ptx = nvrtc.getPTX(program).decode()
    finally:
        nvrtc.destroyProgram(program)
    return Compiled(
        path=path,
        entry=entry,
        symbol=symbol,
        cubin=cubin,
        ptx=ptx,
        seconds=time.perf_counter() - start,
        nvrtc=version,
        digest=source_digest,
        log=log,
        **parse_resources(log, symbol),
    )


def _options(path: Path, defines: Sequence[str], version: tuple[int, int]) -> list[str]:
    """The compiler's options.

    Where there is a driver, NVRTC 12.9 and later keeps binaries in the driver's cache, keyed by their PTX;
    when it finds one, ptxas does not run and reports nothing. So its cache is switched off.
    """
    folders = [f"-I{path.parent}", f"-I{KERNELS}"]  # the order in which source.included_files looks
    options = [f"-arch={ARCHITECTURE}", "-std=c++17", "-lineinfo", "--ptxas-options=-v", *folders]
    headers = _cudart_headers()
    if headers is not None:
        options.append(f"-I{headers}")
    if version >= FIRST_NVRTC_WITH_A_CACHE:
        options.append("--no-cache")
    return options + [f"-D{define}" for define in defines]


def _cudart_headers() -> str | None:
    """The folder of CUDA's own headers. Few sources need it, so None is no error here."""
    try:
        from cuda.pathfinder import find_nvidia_header_directory

        return find_nvidia_header_directory("cudart")
    except Exception:  # cuda-pathfinder is missing, or too old for this
        return None


def _nvrtc():
    """CuPy's binding of NVRTC, or MachineUnavailable in one sentence."""
    give_cupy_a_folder()
    try:
        from cupy.cuda import nvrtc

        try:
            nvrtc.getVersion()
        except Exception:
            _load_from_search_path()
            nvrtc.getVersion()
    except Exception as error:  # which one depends on what is missing: CuPy, the library or one of its parts
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise MachineUnavailable(
            f"CUDA sources cannot be compiled here, NVRTC is missing ({reason}): on Linux or Windows run "
            "`make setup`, or `pip install cupy-cuda13x 'cuda-toolkit[nvrtc,cudart]==13.*'` (no GPU is "
            "needed); for macOS there is none."
        ) from None
    return nvrtc


def _load_from_search_path() -> None:
    """Load the library from a package that lies on PYTHONPATH: CuPy looks only where Python installs them."""
    for folder in sys.path:
        for library in sorted(Path(folder).glob("nvidia/*/lib/libnvrtc.so.*")):
            ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


def _from_cache(key: str) -> Compiled | None:
    """A kept result, or None; a file that is damaged or in an older form counts as absent."""
    try:
        folder = cache_folder("nvrtc")
        values = json.loads((folder / f"{key}.json").read_text(encoding="utf-8"))
        cubin = (folder / f"{key}.cubin").read_bytes()
        if hashlib.sha256(cubin).hexdigest() != values.pop("cubin_sha256"):
            return None
        return Compiled(**values | {"cubin": cubin, "path": Path(values["path"])})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, MachineUnavailable):
        return None


def _to_cache(key: str, compiled: Compiled) -> None:
    """Keep a result. A cache that cannot be written (full disk, no home) only costs time."""
    values = asdict(compiled) | {
        "path": str(compiled.path),
        "cubin_sha256": hashlib.sha256(compiled.cubin).hexdigest(),
    }
    del values["cubin"]
    try:
        for ending, content in (("cubin", compiled.cubin), ("json", json.dumps(values).encode())):
            path = cache_folder("nvrtc") / f"{key}.{ending}"
            clear_place(path)
            write_atomically(path, content)
    except (OSError, MachineUnavailable):
        pass
