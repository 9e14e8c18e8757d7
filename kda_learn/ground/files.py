"""Where things lie: what comes with the package, and the cache, where results that take long are kept.

The cache is in the user's cache folder, or in the one that the environment variable KDA_LEARN_CACHE names. It
can be deleted at any time.
"""

import math
import os
import secrets
import shutil
import sys
from pathlib import Path
from typing import Any

from .errors import MachineUnavailable

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
    """The folder for one kind of results, such as "nvrtc"; it may not exist yet.

    Raises MachineUnavailable where KDA_LEARN_CACHE is not set and there is no home folder to keep files in.
    """
    named = os.environ.get("KDA_LEARN_CACHE")
    return (Path(named) if named else _user_cache_folder() / "kda-learn") / part


def made_cache_folder(part: str) -> Path:
    """The same folder, made if it was not there. Raises MachineUnavailable if it cannot be made."""
    folder = cache_folder(part)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_be_kept(folder, error) from None
    return folder


def cannot_be_kept(folder: Path, error: OSError | str) -> MachineUnavailable:
    """What to raise when a cache folder cannot be written to."""
    reason = error if isinstance(error, str) else error.strerror
    return MachineUnavailable(
        f"compiled kernels cannot be kept in {folder} ({reason}): set KDA_LEARN_CACHE to a folder that can "
        "be written, or make room."
    )


def give_cupy_a_folder() -> None:
    """Call this before CuPy is imported: it makes a folder for its files then, and fails where it cannot.

    Where the home folder cannot be written, it gets a part of our cache instead. Raises MachineUnavailable if
    that cannot be written either, or the folder that CUPY_CACHE_DIR names.
    """
    named = os.environ.get("CUPY_CACHE_DIR")
    try:
        folder = Path(named) if named else home_folder() / ".cupy" / "kernel_cache"
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if named:
            raise MachineUnavailable(
                f"CuPy cannot keep its files in {named} ({error.strerror}): set CUPY_CACHE_DIR to a folder "
                "that can be written, or unset it."
            ) from None
        os.environ["CUPY_CACHE_DIR"] = str(made_cache_folder("cupy"))
    except MachineUnavailable:
        os.environ["CUPY_CACHE_DIR"] = str(made_cache_folder("cupy"))


def home_folder(instead: str = "KDA_LEARN_CACHE to a folder that can be written") -> Path:
    """The user's home folder. Raises MachineUnavailable where there is none, as in a container whose user is
    a number that no one has entered. instead: which variable is to be set then, and to what.
    """
    try:
        return Path.home()
    except RuntimeError:
        raise MachineUnavailable(
            f"Nothing can be kept, this user has no home folder (HOME is not set): set {instead}."
        ) from None


def _user_cache_folder() -> Path:
    """The system's folder for such files: a few lines here, so that the package needs nothing but NumPy."""
    if sys.platform == "darwin":
        return home_folder() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home_folder() / "AppData" / "Local")
    return Path(os.environ.get("XDG_CACHE_HOME") or home_folder() / ".cache")


def clear_place(path: Path) -> None:
    """Remove a folder that lies where a file of the cache belongs. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that other processes see the old one or the new one, never a part. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.parent / f".{secrets.token_hex(8)}"
    try:
        with unfinished.open("xb") as file:
            file.write(content)
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
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
