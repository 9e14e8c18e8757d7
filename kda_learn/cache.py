"""Where results that take long are kept from run to run, and how a file is written there.

The folder is the user's cache folder, or the one that the environment variable KDA_LEARN_CACHE names. It can
be deleted at any time.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path


def cache_folder(part: str) -> Path:
    """The folder for one kind of results, such as "nvrtc"; it may not exist yet."""
    named = os.environ.get("KDA_LEARN_CACHE")
    return (Path(named) if named else _user_cache_folder() / "kda-learn") / part


def _user_cache_folder() -> Path:
    """The system's folder for such files: a few lines here, so that the package needs nothing but NumPy."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that other processes see the old one or the new one, never a part. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
