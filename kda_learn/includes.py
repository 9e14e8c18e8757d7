"""Where the kernels lie, which files a kernel includes, and a fingerprint of their text."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from .cpp import strip_comments
from .errors import BadInput

_PACKAGE = Path(__file__).resolve().parent
_IN_A_WHEEL = _PACKAGE / "_kernels"
KERNELS = _IN_A_WHEEL if _IN_A_WHEEL.is_dir() else _PACKAGE.parent / "kernels"

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"(?P<name>[^"]+)"', re.MULTILINE)


def included_files(path: Path) -> list[Path]:
    """A file and every file that it includes by `#include "..."`, directly or not, each once, itself first.

    Names are looked up beside the including file, then in `kernels/`. Raises BadInput when one is missing.
    """
    found: list[Path] = []
    waiting = [Path(path).resolve()]
    while waiting:
        current = waiting.pop(0)
        if current in found:
            continue
        found.append(current)
        for match in _INCLUDE.finditer(strip_comments(read_text(current))):
            candidates = [folder / match["name"] for folder in (current.parent, KERNELS)]
            existing = [candidate.resolve() for candidate in candidates if candidate.is_file()]
            if not existing:
                raise BadInput(
                    f"{current} includes {match['name']!r}, which lies neither beside it nor in {KERNELS}"
                )
            waiting.append(existing[0])
    return found


def digest(path: Path) -> str:
    """A fingerprint (SHA-256, hexadecimal) of the text of a kernel file and of all it includes.

    Files of the emulator are left out: a GPU never sees them, and its figures do not change with them.
    """
    result = hashlib.sha256()
    for file in included_files(path):
        if file.parent == KERNELS / "emulator":
            continue
        text = file.read_bytes()
        result.update(f"{file.name} {len(text)}\n".encode())
        result.update(text)
    return result.hexdigest()


def read_text(path: Path) -> str:
    """A file's text. Raises BadInput when there is no such file."""
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError):
        raise BadInput(f"{path} was given, which is no file: give the path of a .cu or .cuh file") from None
