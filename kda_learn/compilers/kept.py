"""Libraries kept on disk, each with a checksum beside it: one that is damaged is never loaded.

The system's loader maps a library without a look at its length, and a short one kills the process when the
missing part is touched. So what is on the disk is compared with its checksum first, and built anew if it does
not agree: a short or an empty file, a text, a folder, a file that may not be read.
"""

import hashlib
import os
from pathlib import Path

from ..ground.files import clear_place, write_atomically

_found_whole: dict[Path, tuple[int, ...]] = {}


def is_whole(path: Path) -> bool:
    """Whether a library is there, and is what was kept. Read once for each state that the file is in."""
    try:
        status = path.stat()
        state = (status.st_ino, status.st_size, status.st_mtime_ns)
        if _found_whole.get(path) != state:
            if _checksum(path.read_bytes()) != _beside(path).read_bytes():
                return False
            _found_whole[path] = state
    except OSError:
        return False
    return True


def keep(unfinished: Path, path: Path) -> None:
    """Move a library to its place, its checksum first: other processes see a whole one or none.

    Raises OSError.
    """
    checksum = _checksum(unfinished.read_bytes())
    for place in (path, _beside(path)):
        clear_place(place)
    write_atomically(_beside(path), checksum)
    os.replace(unfinished, path)


def _beside(path: Path) -> Path:
    return path.with_suffix(".sha256")


def _checksum(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
