"""The C++ compiler of this computer, and what it has built for the emulator, kept on disk."""

import errno
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

from ..ground.errors import MachineUnavailable
from ..ground.files import KERNELS, cache_folder
from ..sources.includes import Stamps, included_files, read_text, stamps_of
from .log import CompileError

_CANDIDATES = ("g++", "clang++", "c++")
_FLAGS = (
    "-std=c++20",
    "-O2",
    "-fPIC",
    "-shared",
    "-pthread",
    "-w",  # a kernel is written for another compiler: unknown pragmas and the like are no news
    "-fvisibility=hidden",  # two kernels in one process must not share each other's constants
    "-fno-strict-aliasing",  # kernels read one type's bytes as another's, as GPU compilers allow
    "-ffp-contract=off",  # the same results on every CPU
    "-fstack-clash-protection",  # a large local array must not jump over the guard page
)


# A library is found under its name alone beside the one that needs it, so that the cache can move.
if sys.platform == "darwin":
    _NAME, _BESIDE = "-Wl,-install_name,@rpath/", "-Wl,-rpath,@loader_path"
else:
    _NAME, _BESIDE = "-Wl,-soname,", "-Wl,-rpath,$ORIGIN"


_RUNTIME_DEFINES: tuple[str, ...] = ()  # tests put EMULATOR_UCONTEXT here
_HOST = """\
#include "{source}"

#include "emulator/entry.h"

#pragma GCC visibility push(default)
extern "C" emulator::LaunchResult* emulator_launch(void** arguments, const emulator::LaunchConfig* config) {{
  return emulator::launch_kernel(&{entry}, arguments, *config);
}}
extern "C" const emulator::ParameterType* emulator_parameters(u32* count) {{
  return emulator::describe_kernel(&{entry}, count);
}}
#pragma GCC visibility pop
"""


def compiler() -> str:
    """The command that compiles C++: $CXX if set, else the first of g++, clang++ and c++ there is.

    Raises MachineUnavailable if there is none, and on systems other than Linux and macOS.
    """
    if sys.platform not in ("linux", "darwin"):
        raise MachineUnavailable(
            f"the CPU machine runs on Linux and macOS, and this is {sys.platform}: use WSL or a Linux "
            "container."
        )
    wanted = os.environ.get("CXX")
    for command in [wanted] if wanted else _CANDIDATES:
        program = shlex.split(command)[0]
        found = shutil.which(program)
        if found:
            return shlex.join([found, *shlex.split(command)[1:]])
    given = f"$CXX is {wanted!r}, which is not here" if wanted else "there is no C++ compiler here"
    raise MachineUnavailable(
        f"{given}, and the CPU machine needs one: install g++ or clang (Debian, Ubuntu: apt install g++; "
        "macOS: xcode-select --install), or set CXX to one."
    )


_runtimes: dict[tuple, tuple[Stamps, Path]] = {}


def build_runtime() -> Path:
    """The library behind all kernels: kernels/emulator/*.cpp. Built once, in some seconds.

    Raises MachineUnavailable if this compiler cannot.
    """
    folder = KERNELS / "emulator"
    stamps = stamps_of(sorted([*folder.glob("*.cpp"), *folder.glob("*.h")]))
    request = (compiler(), _cache_folder(), _RUNTIME_DEFINES)
    known, path = _runtimes.get(request, ({}, Path()))
    if known != stamps or not path.exists():
        path = _build_runtime(list(stamps))
        _runtimes[request] = stamps, path
    return path


def _build_runtime(files: list[Path]) -> Path:
    """The runtime of these files, from the disk if it was built before."""
    flags = (*_FLAGS, *(f"-D{define}" for define in _RUNTIME_DEFINES))
    path = _cache_folder() / f"runtime-{_key(flags, [read_text(file) for file in files])}.so"
    if not path.exists():
        # One translation unit: half the time of one by one.
        together = "".join(f'#include "{file}"\n' for file in files if file.suffix == ".cpp")
        log = _compile(path, [*flags, "-x", "c++", "-"], together)
        if log is not None:
            raise MachineUnavailable(
                f"{compiler()} cannot build the CPU machine: {_first_error(log)}; install g++ 12 or clang "
                "14, or newer."
            )
    return path


def build_kernel(source: Path, entry: str, defines: tuple[str, ...], runtime: Path) -> Path:
    """A library with one kernel in it, on top of that runtime. Arguments and errors: `emulator.build`."""
    source = source.resolve()
    texts = [f"{file}\n{read_text(file)}" for file in included_files(source)]
    flags = (*_FLAGS, f"-I{KERNELS}", *(f"-D{define}" for define in defines))
    key = _key(flags, [entry, runtime.name, *texts])
    path = _cache_folder() / f"{source.stem}-{key}.so"
    if not path.exists():
        host = _HOST.format(source=source, entry=entry)
        link = ["-x", "none", str(runtime), _BESIDE]
        log = _compile(path, [*flags, "-x", "c++", "-", *link], host)
        if log is not None:
            raise CompileError(f"the C++ compiler refuses the kernel: {_first_error(log)}", log)
    return path


def _compile(path: Path, arguments: list[str], text: str) -> str | None:
    """Compiles `text` in a folder of its own; the library appears at `path` whole or not at all.

    Returns what the compiler says if it fails. Raises MachineUnavailable if the disk is the reason.
    """
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix="build-") as folder:
            unfinished = Path(folder) / path.name
            command = [*shlex.split(compiler()), "-o", str(unfinished), _NAME + path.name, *arguments]
            done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                os.replace(unfinished, path)
                return None
    except OSError as error:
        raise _unusable(path.parent, error.strerror) from error
    full = os.strerror(errno.ENOSPC)
    if full in done.stderr:
        raise _unusable(path.parent, full)
    return done.stderr


def _unusable(folder: Path, reason: str) -> MachineUnavailable:
    return MachineUnavailable(
        f"compiled kernels cannot be kept in {folder} ({reason}): set KDA_LEARN_CACHE to a folder that can "
        "be written, or make room."
    )


def _first_error(log: str) -> str:
    """The line of a compiler's output that says what is wrong."""
    lines = [line for line in log.splitlines() if "error" in line.lower() or "undefined reference" in line]
    return next(iter(lines or log.splitlines()), "it failed and did not say why").strip()


def _key(flags: tuple[str, ...], texts: list[str]) -> str:
    """Changes whenever the result of a build would."""
    result = hashlib.sha256()
    for text in (_compiler_version(compiler()), *flags, *texts):
        result.update(f"{len(text)}\n{text}".encode())
    return result.hexdigest()[:20]


@lru_cache(maxsize=4)
def _compiler_version(command: str) -> str:
    done = subprocess.run([*shlex.split(command), "--version"], capture_output=True, text=True, check=False)
    return command + done.stdout


def _cache_folder() -> Path:
    folder = cache_folder("emulator")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(folder, error.strerror) from error
    return folder
