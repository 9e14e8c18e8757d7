"""Which files a kernel includes, and a fingerprint of their text.

A file is read once for each state it is in: its time of change and its size tell whether it is as it was.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, wraps
from pathlib import Path
from typing import TypeVar

from ..ground.errors import BadInput
from ..ground.files import KERNELS
from .cpp import strip_comments

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"(?P<name>[^"]+)"', re.MULTILINE)

Stamps = dict[Path, tuple[int, int] | None]
Result = TypeVar("Result")


def stamps_of(files: Iterable[Path]) -> Stamps:
    """Each file's time of change and size (None: it is not there): while they stand, so does its text."""
    found: Stamps = {}
    for file in files:
        try:
            status = file.stat()
            found[file] = status.st_mtime_ns, status.st_size
        except OSError:
            found[file] = None
    return found


def kept_while_unchanged(make: Callable[..., Result]) -> Callable[..., Result]:
    """A function of a kernel file (and of more, which must be hashable) that works anew only once the file,
    or one that it includes, has changed.
    """
    kept: dict[tuple, tuple[Stamps, Result]] = {}

    @wraps(make)
    def keeping(path: Path, *more: object) -> Result:
        stamps, result = kept.get((path, *more), ({}, None))
        if not stamps or stamps != stamps_of(stamps):
            stamps = stamps_of(included_files(path))  # before the text is read: a change in between is seen
            result = make(path, *more)
            kept[path, *more] = stamps, result
        return result

    keeping.forget = kept.clear
    return keeping


@lru_cache(maxsize=256)
def _included_names(text: str) -> list[str]:
    """The names in a file's `#include "..."`, in its order."""
    return [match["name"] for match in _INCLUDE.finditer(strip_comments(text))]


_included: dict[Path, Stamps] = {}


def included_files(path: Path) -> list[Path]:
    """A file and every file that it includes by `#include "..."`, directly or not, each once, itself first.

    Names are looked up beside the including file, then in `kernels/`. Raises BadInput when one is missing.
    """
    stamps = _included.get(path, {})
    if stamps and stamps == stamps_of(stamps):
        return list(stamps)
    found: list[Path] = []
    waiting = [Path(path).resolve()]
    while waiting:
        current = waiting.pop(0)
        if current in found:
            continue
        found.append(current)
        for name in _included_names(read_text(current)):
            waiting.append(_found(name, current))
    _included[path] = stamps_of(found)
    return found


def _found(name: str, including: Path) -> Path:
    """The file that `#include "name"` means."""
    candidates = [folder / name for folder in (including.parent, KERNELS)]
    existing = [candidate for candidate in candidates if candidate.is_file()]
    if not existing:
        raise BadInput(f"{including} includes {name!r}, which lies neither beside it nor in {KERNELS}")
    return existing[0].resolve()


def include_elsewhere(text: str, including: Path, moved: Mapping[Path, Path]) -> str:
    """A file's text, to be compiled from another folder: files that it includes by their full paths, those of
    `moved` by their new ones.
    """

    def full(match: re.Match[str]) -> str:
        found = _found(match["name"], including)
        return f'#include "{moved.get(found, found)}"'

    return _INCLUDE.sub(full, text)


@kept_while_unchanged
def digest(path: Path) -> str:
    """A fingerprint (SHA-256, hexadecimal) of the text of a kernel file and of all it includes.

    Files of the emulator are left out: a GPU never sees them, and its figures do not change with them.
    """
    result = hashlib.sha256()
    for file in included_files(path):
        if file.parent == KERNELS / "emulator":
            continue
        text = read_text(file).encode()
        result.update(os.fsencode(f"{file.name} {len(text)}\n"))
        result.update(text)
    return result.hexdigest()


_texts: dict[Path, tuple[Stamps, str]] = {}
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_BLANKS = dict.fromkeys(map(ord, "\0\v\f\x1c\x1d\x1e\x85\u2028\u2029"), " ")
"""Python would end a line, and NVRTC the text, where a C++ compiler sees a blank or a part of a comment."""


def read_text(path: Path) -> str:
    """A file's text, read as a C++ compiler reads it: bytes that are not UTF-8 are taken for Latin-1.

    Every line ends in one "\\n", and nothing else ends a line. Raises BadInput for what cannot be read.
    """
    stamps = stamps_of([path])
    known, text = _texts.get(path, ({}, ""))
    if known != stamps or stamps[path] is None:
        text = _decoded(path, _bytes_of(path)).replace("\r\n", "\n").replace("\r", "\n").translate(_BLANKS)
        _texts[path] = stamps, text
    return text


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, ValueError):
        raise BadInput(f"{path} was given, which is no file: give the path of a .cu or .cuh file") from None
    except OSError as error:
        raise BadInput(
            f"{path} was given, which cannot be read ({error.strerror}): give the path of a .cu or .cuh file "
            "that you may read"
        ) from None


def _decoded(path: Path, content: bytes) -> str:
    if content.startswith(_UTF_16):
        raise BadInput(f"{path} was given, which is UTF-16: save it as UTF-8, C++ compilers read no other")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")
