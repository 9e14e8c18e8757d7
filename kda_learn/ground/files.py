"""Where things lie: what comes with the package, and the cache, where results that take long are kept.

The cache is in the user's cache folder, or in the one that the environment variable KDA_LEARN_CACHE names. It
can be deleted at any time.
"""

import math
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
DATA = PACKAGE / "data"
"""Records and other data that come with the package."""


def _beside_or_in_the_package(name: str) -> Path:
    """A folder of the checkout; a wheel carries it in the package."""
    carried = PACKAGE / f"_{name}"
    return carried if carried.is_dir() else PACKAGE.parent / name


KERNELS = _beside_or_in_the_package("kernels")
NOTEBOOKS = _beside_or_in_the_package("notebooks")


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


def plain(value: Any) -> Any:
    """The same without numbers that JSON does not have: NaN and infinities become null."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
