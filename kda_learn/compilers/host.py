"""The C++ compiler of this computer, and what it has built for the emulator, kept on disk."""

import errno
import hashlib
import inspect
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from ..ground.errors import BadInput, MachineUnavailable
from ..ground.files import KERNELS, cannot_be_kept, made_cache_folder
from ..sources.includes import Stamps, include_elsewhere, included_files, read_text, stamps_of
from . import call_sites
from .call_sites import with_call_sites
from .kept import is_whole, keep
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


_BY_LINE = ("-O0", "-g1")


# A library is found under its name alone beside the one that needs it, so that the cache can move.
if sys.platform == "darwin":
    _NAME, _BESIDE = "-Wl,-install_name,@rpath/", "-Wl,-rpath,@loader_path"
    _NOTHING_MISSING: tuple[str, ...] = ()
else:
    _NAME, _BESIDE = "-Wl,-soname,", "-Wl,-rpath,$ORIGIN"
    _NOTHING_MISSING = (
        "-Wl,-z,defs",
    )  # what a kernel calls and nobody has is an error now, not when it is loaded


GPU = KERNELS / "gpu.cuh"
_REWRITES = inspect.getsource(call_sites)  # another way to rewrite makes another library
_MISSING = re.compile(
    r"undefined reference to .?(\w+)|.(\w+).? was not declared|undeclared identifier .(\w+)"
)
_INSTEAD = {
    name: f"gpu.cuh has {operation} instead"
    for names, operation in {
        "__expf expf exp2f __exp2f ex2": "fast_exp2(x * 1.4426950f), which is e^x,",
        "__frsqrt_rn rsqrtf __rsqrtf": "fast_rsqrt",
        "__ldg __ldcg __ldcs __ldca": "ldg",
        "__stcg __stcs __stwt": "stg",
        "__floats2bfloat162_rn __float22bfloat162_rn": "pack_bf16",
        "__float2bfloat16 __float2bfloat16_rn": "to_bf16",
        "__bfloat162float": "to_float",
        "__cvta_generic_to_shared": "smem_base, which is an address already,",
        "__pipeline_memcpy_async": "cp_async_cg16 and cp_async_ca",
        "__pipeline_commit": "cp_async_commit",
        "__pipeline_wait_prior": "cp_async_wait",
    }.items()
    for name in names.split()
}
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
    request = (compiler(), made_cache_folder("emulator"), _RUNTIME_DEFINES)
    known, path = _runtimes.get(request, ({}, Path()))
    if known != stamps or not is_whole(path):
        path = _build_runtime(list(stamps))
        _runtimes[request] = stamps, path
    return path


def _build_runtime(files: list[Path]) -> Path:
    """The runtime of these files, from the disk if it was built before."""
    flags = (*_FLAGS, *(f"-D{define}" for define in _RUNTIME_DEFINES))
    path = made_cache_folder("emulator") / f"runtime-{_key(flags, [read_text(file) for file in files])}.so"
    if not is_whole(path):
        # One translation unit: half the time of one by one.
        together = "".join(f'#include "{file}"\n' for file in files if file.suffix == ".cpp")
        log = _compile(path, [*flags, "-x", "c++", "-"], together)
        if log is not None:
            raise MachineUnavailable(
                f"{compiler()} cannot build the CPU machine: {_first_error(log)}; install g++ 12 or clang "
                "14, or newer."
            )
    return path


def build_kernel(
    source: Path, entry: str, defines: tuple[str, ...], runtime: Path, by_line: bool = False
) -> Path:
    """A library with one kernel in it, on top of that runtime. Arguments and errors: `emulator.build`.

    by_line: compiled line by line, so that every instruction belongs to one: slow to run.
    """
    source = source.resolve()
    if any(character in str(source) for character in '"\n'):
        raise BadInput(
            f"{str(source)!r} was given, and no #include can name a path with a quote or a line break: "
            "rename it."
        )
    texts = [f"{file}\n{read_text(file)}" for file in included_files(source)]
    flags = (*_FLAGS, *(_BY_LINE if by_line else ()), f"-I{KERNELS}", *(f"-D{define}" for define in defines))
    key = _key(flags, [entry, runtime.name, _REWRITES, *texts])
    stem = re.sub(r"[^\w.-]", "_", source.stem, flags=re.ASCII)[:80]  # the linker splits names at commas
    path = made_cache_folder("emulator") / f"{stem}-{key}.so"
    if not is_whole(path):
        arguments = [*flags, "-x", "c++", "-", "-x", "none", str(runtime), _BESIDE, *_NOTHING_MISSING]
        with _folder_beside(path) as folder:
            host = _HOST.format(source=_copy_with_call_sites(source, folder), entry=entry)
            log = _compile(path, arguments, host)
        if log is not None:
            # The text as it was written: its errors are the reader's. Should it compile, the rewriting was at
            # fault, and operations inside functions are told apart by their own places alone.
            plain = _HOST.format(source=source, entry=entry)
            log = _compile(path, arguments, plain)
            if log is not None and "undefined reference" in log:
                log = _compile(
                    path, [*_BY_LINE, *arguments], plain
                )  # the linker knows lines of such code only
        if log is not None:
            said = _first_error(log)
            if said.startswith("<stdin>:"):  # in our lines, which name the kernel
                what = said.partition("error: ")[2]
                raise CompileError(f"{source.name} has no kernel {entry} ({what}): name one of its own", log)
            raise CompileError(f"the C++ compiler refuses the kernel: {said}", log)
    return path


def _copy_with_call_sites(source: Path, folder: Path) -> Path:
    """A copy of a kernel file, and of what it includes, as `call_sites` rewrites them."""
    files = [file for file in included_files(source) if file.parent != KERNELS / "emulator" and file != GPU]
    copies = {file: folder / f"{number}-{file.name}" for number, file in enumerate(files)}
    rewritten = with_call_sites([read_text(file) for file in files])
    for file, text in zip(files, rewritten, strict=True):
        body = f'#line 1 "{file}"\n{include_elsewhere(text, file, copies)}'
        copies[file].write_bytes(body.encode(errors="surrogateescape"))  # a path may hold any bytes
    return copies[source]


@contextmanager
def _folder_beside(path: Path) -> Iterator[Path]:
    """A folder for the time of a build. Raises MachineUnavailable if there can be none."""
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix="build-") as folder:
            yield Path(folder)
    except OSError as error:
        raise cannot_be_kept(path.parent, error) from None


def _compile(path: Path, arguments: list[str], text: str) -> str | None:
    """Compiles `text` in a folder of its own; the library appears at `path` whole or not at all.

    Returns what the compiler says if it fails. Raises MachineUnavailable if the disk is the reason.
    """
    with _folder_beside(path) as folder:
        unfinished = folder / path.name
        command = [*shlex.split(compiler()), "-o", str(unfinished), _NAME + path.name, *arguments]
        english = os.environ | {"LC_ALL": "C"}  # what it says is read below
        done = subprocess.run(command, input=os.fsencode(text), capture_output=True, env=english, check=False)
        if done.returncode == 0:
            keep(unfinished, path)
            return None
    said = done.stderr.decode(errors="replace")
    full = os.strerror(errno.ENOSPC)
    if full in said:
        raise cannot_be_kept(path.parent, full)
    return said


def _first_error(log: str) -> str:
    """The line of a compiler's output that says what is wrong, and what to use for a name that is missing."""
    lines = [line for line in log.splitlines() if re.search(r"\berror: |undefined reference", line)]
    said = next(iter(lines or log.splitlines()), "it failed and did not say why").strip()
    missing = _MISSING.search(said)
    if missing is None:
        return said
    instead = "the CPU machine has the operations of gpu.cuh, and the C++ library"
    return f"{said}; {_INSTEAD.get(next(filter(None, missing.groups())), instead)}"


def _key(flags: tuple[str, ...], texts: list[str]) -> str:
    """Changes whenever the result of a build would."""
    result = hashlib.sha256()
    computer = " ".join((platform.machine(), *platform.libc_ver()))  # some share one home folder
    for text in (computer, _compiler_version(compiler()), *flags, *texts):
        result.update(f"{len(text)}\n{text}".encode(errors="surrogateescape"))
    return result.hexdigest()[:20]


@lru_cache(maxsize=4)
def _compiler_version(command: str) -> str:
    done = subprocess.run([*shlex.split(command), "--version"], capture_output=True, check=False)
    return command + done.stdout.decode(errors="replace")
