"""Runs the notebooks on the CPU machine and keeps what came out, for as long as nothing has changed.

A result is found again by a fingerprint of the notebook, of our own code and of every installed package, so
that it is never stale.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import distributions
from pathlib import Path

import nbformat
from mkdocs.exceptions import PluginError
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

REPOSITORY = Path(__file__).resolve().parents[2]
EXECUTED = REPOSITORY / "build" / "executed"
SECONDS = 300  # that one cell may take
AT_ONCE = 2  # notebooks; each of them uses all cores while the CPU machine works


def run_all(paths: Sequence[Path]) -> dict[Path, nbformat.NotebookNode]:
    """Each notebook with its outputs. Raises PluginError if a cell fails."""
    code = _fingerprint_of_code()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        notebooks = dict(zip(paths, pool.map(lambda path: _run(path, code), paths), strict=True))
    used = {_kept(path, code) for path in paths}
    for left_over in set(EXECUTED.glob("*.ipynb")) - used:
        left_over.unlink(missing_ok=True)
    return notebooks


def run(path: Path) -> nbformat.NotebookNode:
    """One notebook with its outputs. Raises PluginError if a cell fails."""
    return _run(path, _fingerprint_of_code())


def _run(path: Path, code: str) -> nbformat.NotebookNode:
    """One notebook with its outputs: from an earlier run of the same notebook and code, or from a run now."""
    kept = _kept(path, code)
    if kept.is_file():
        return nbformat.read(kept, as_version=4)
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory(prefix="kda-learn-site-") as folder:
        client = NotebookClient(
            notebook,
            timeout=SECONDS,
            startup_timeout=SECONDS,
            coalesce_streams=True,
            extra_arguments=["--log-level=ERROR"],  # or the kernel warns that others may listen
            resources={"metadata": {"path": folder}},
        )
        try:
            client.execute(env=_environment(folder))
        except CellExecutionError as error:
            raise PluginError(f"{path.relative_to(REPOSITORY)} fails. {error}") from None
    EXECUTED.mkdir(parents=True, exist_ok=True)
    unfinished = kept.with_suffix(f".{os.getpid()}.part")
    nbformat.write(notebook, unfinished)
    unfinished.replace(kept)
    return notebook


def _environment(folder: str) -> dict[str, str]:
    """The environment of a notebook's Python: no GPU, no settings or progress of whoever builds the site."""
    paths = [str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {
        "CUDA_VISIBLE_DEVICES": "",
        "IPYTHONDIR": folder,
        "KDA_LEARN_MACHINE": "emulator",
        "KDA_LEARN_PROGRESS": "progress.json",  # in that folder, and pages show the name
        "PYTHONPATH": os.pathsep.join(paths),
    }


def _kept(path: Path, code: str) -> Path:
    """Where the result of a notebook is kept."""
    digest = hashlib.sha256(code.encode() + path.read_bytes()).hexdigest()
    return EXECUTED / f"{path.stem}-{digest[:16]}.ipynb"


def _fingerprint_of_code() -> str:
    """Changes when a file of the package or a kernel changes, or the version of any installed package."""
    result = hashlib.sha256(Path(__file__).read_bytes())
    for folder in ("kda_learn", "kernels"):
        for path in sorted((REPOSITORY / folder).rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                result.update(f"{path.relative_to(REPOSITORY)} ".encode())
                result.update(path.read_bytes())
    packages = sorted(f"{package.name} {package.version}" for package in distributions())
    result.update("\n".join(packages).encode())
    return result.hexdigest()
