"""Which packages fit this computer, how large they are, and what must be there before they are installed."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..machines.computer import CPU_MACHINE_SYSTEMS, Facts

REPOSITORY = Path(__file__).resolve().parents[2]

SETS = ("cpu", "cuda12", "cuda13")
TORCH_CHOICES = ("auto", "cpu", "none")
EXTRAS = ("learn", "test", "mutate", "site")

OLDEST_PYTHON = (3, 11, 0)
PYTHON_ADVICE = "Install Python 3.11 or newer and name it: `make learn PYTHON=python3.12`."

CUDA13_DRIVER = 580
"""The first NVIDIA driver for CUDA 13 (NVIDIA's CUDA 13.0 release notes)."""

GIGABYTE = 10**9

# Rough megabytes (download, on disk), for Python 3.11 on Linux x86-64.
SIZES = {
    "numpy": (17, 80),
    "learn: JupyterLab, ipywidgets, anywidget, matplotlib": (75, 300),
    "test: pytest, hypothesis, nbclient, ruff, clang-format, Node and its packages": (100, 370),
    "mutate: mutmut": (10, 30),
    "site: MkDocs, Material for MkDocs": (45, 150),
    "CuPy, NVRTC, nvdisasm (compile for a GPU, with or without one)": (200, 550),
    "PyTorch, CPU build": (200, 900),
    "PyTorch, CUDA build, with NVIDIA's libraries": (2700, 4700),
}


class SetupError(Exception):
    """One sentence for the person at the keyboard: what is wrong and what to do."""


@dataclass(frozen=True)
class Plan:
    """What will be installed. `torch`: "cuda", "cpu" or "none"."""

    set_name: str
    reason: str
    torch: str
    extras: tuple[str, ...]

    @property
    def requirement(self) -> str:
        """What pip is asked for: the package in this checkout, with its extras."""
        extras = [*self.extras, "cuda12" if self.set_name == "cuda12" else "cuda13"]
        if self.torch != "none":
            extras.append("torch")
        return f".[{','.join(extras)}]"

    @property
    def downloads(self) -> list[tuple[str, int, int]]:
        """What comes, each with its rough megabytes to download and on disk."""
        wanted = ["numpy", "CuPy", *(f"{extra}:" for extra in self.extras)]
        if self.torch != "none":
            wanted.append(f"PyTorch, {'CUDA' if self.torch == 'cuda' else 'CPU'}")
        return [(name, *SIZES[name]) for name in SIZES if name.startswith(tuple(wanted))]

    @property
    def disk_bytes(self) -> int:
        """What must be free: the packages, their archives while they are unpacked, and half a gigabyte."""
        return sum(download + disk for _, download, disk in self.downloads) * 10**6 + GIGABYTE // 2

    def describe(self) -> str:
        """What will happen, for people."""
        lines = [f"Set of packages: {self.set_name} ({self.reason}). Roughly, in MB:", "  download  on disk"]
        lines += [f"  {download:>8}  {disk:>7}  {name}" for name, download, disk in self.downloads]
        download = sum(download for _, download, _ in self.downloads)
        disk = sum(disk for _, _, disk in self.downloads)
        lines.append(f"  {download:>8}  {disk:>7}  in all, less what pip has kept from before")
        command = ["pip", "install", "-e", self.requirement, "-c", f"constraints-{self.set_name}.txt"]
        return "\n".join([*lines, shlex.join(command)])

    def constraints(self) -> str:
        """The text of the set's constraints. A CPU build of PyTorch is always that of the cpu set."""
        text = (REPOSITORY / f"constraints-{self.set_name}.txt").read_text()
        if self.torch == "cpu":
            return re.sub(r"^torch==.*$", f"torch=={cpu_torch_version()}", text, flags=re.MULTILINE)
        return text


def make_plan(facts: Facts, set_name: str, torch: str, extras: Sequence[str]) -> Plan:
    """The plan for `make setup SET=... TORCH=... EXTRAS=...`. Raises SetupError for a wrong choice."""
    if set_name not in ("auto", *SETS):
        raise SetupError(f"SET={set_name} was given: give cpu, cuda12 or cuda13, or leave it out.")
    if torch not in TORCH_CHOICES:
        raise SetupError(f"TORCH={torch} was given: give cpu or none, or leave it out.")
    unknown = ",".join(sorted(set(extras) - set(EXTRAS)))
    if unknown:
        raise SetupError(
            f"EXTRAS={unknown} was given: give some of {', '.join(EXTRAS)}, with commas between."
        )
    if set_name == "auto":
        set_name = choose_set(facts)
        driver = f"NVIDIA driver {facts.driver}" if facts.driver else "no NVIDIA driver"
        reason = driver if facts.gpus or not facts.driver else f"{driver} shows no GPU"
    else:
        reason = "SET was given"
    if torch == "auto":
        torch = "cpu" if set_name == "cpu" else "cuda"
    return Plan(set_name, reason, torch, tuple(sorted(set(extras))))


def choose_set(facts: Facts) -> str:
    """The set of packages for this computer: by its NVIDIA driver, if a GPU can be seen through it."""
    if facts.driver is None or not facts.gpus:
        return "cpu"
    return "cuda13" if major(facts.driver) >= CUDA13_DRIVER else "cuda12"


def major(version: str) -> int:
    """The number before the first point."""
    return int(version.split(".")[0])


def cpu_torch_version() -> str:
    """The version of PyTorch's CPU build: without its ending it could be a CUDA build of several GB."""
    text = (REPOSITORY / "constraints-cpu.txt").read_text()
    return re.search(r"^torch==(\S+)$", text, re.MULTILINE)[1] + "+cpu"


def cpu_machine_advice(facts: Facts) -> str:
    """How to get what the CPU machine needs: Linux or macOS, and a C++ compiler."""
    if facts.system not in CPU_MACHINE_SYSTEMS:
        return "Use WSL, or Linux in a container."
    if facts.system == "Darwin":
        return "Install Apple's command line tools: `xcode-select --install`."
    return (
        "Install one: `sudo apt-get install g++` (Debian, Ubuntu), `sudo dnf install gcc-c++` (Fedora, RHEL)."
    )


def preflight(facts: Facts, plan: Plan, needed_bytes: int) -> list[str]:
    """Look for what would stop the installation half-way. Returns warnings; raises SetupError.

    needed_bytes: what must be free on the disk.
    """
    if facts.python < OLDEST_PYTHON:
        found = ".".join(map(str, facts.python))
        raise SetupError(f"Python {found} was found and 3.11 is needed: {_lower_first(PYTHON_ADVICE)}")
    if importlib.util.find_spec("ensurepip") is None:
        raise SetupError(
            "This Python cannot make virtual environments, its module ensurepip is missing: install it, "
            "`sudo apt-get install python3-venv` on Debian and Ubuntu."
        )
    if facts.system not in CPU_MACHINE_SYSTEMS:
        advice = _lower_first(cpu_machine_advice(facts))
        raise SetupError(f"The CPU machine needs Linux or macOS, and this is {facts.system}: {advice}")
    warnings = []
    if facts.compiler is None:
        sentence = "No C++20 compiler was found, and the CPU machine needs one"
        if not facts.gpus:
            raise SetupError(f"{sentence}: {_lower_first(cpu_machine_advice(facts))}")
        warnings.append(f"{sentence}; setting up for the GPU alone. {cpu_machine_advice(facts)}")
    if facts.free_disk < needed_bytes:
        free, needed = facts.free_disk / GIGABYTE, needed_bytes / GIGABYTE
        without_torch = ", or leave PyTorch out with TORCH=none" if plan.torch != "none" else ""
        raise SetupError(f"{free:.1f} GB are free and {needed:.1f} GB are needed: free some{without_torch}.")
    return warnings


def _lower_first(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]
