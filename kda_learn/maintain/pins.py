"""Write constraints-*.txt anew: asks pip what it would install today.

Pins every package of every extra, so that two people who set up a month apart get the same versions.
Needs Python 3.11 on Linux x86-64, where all the extras can be installed.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from ..ground.files import PACKAGE

REPOSITORY = PACKAGE.parent

# PyTorch is chosen by hand: it decides which CUDA libraries can stand beside it.
TORCH = {
    "cpu": (
        "2.13.0",
        "cuda13",
        "No NVIDIA driver: the CPU machine runs the kernels, NVRTC still compiles them.",
    ),
    "cuda12": ("2.10.0", "cuda12", "A driver below 580. PyTorch 2.10 is the last CUDA 12 build."),
    "cuda13": ("2.12.1", "cuda13", "A driver from 580 on. This PyTorch is a CUDA 13.0 build."),
}


def resolve(set_name: str) -> list[str]:
    """The `name==version` lines that pip would install for one set, sorted."""
    torch, extra, _ = TORCH[set_name]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        command += ["--report", str(report), f"torch=={torch}"]
        command += ["-e", f"{REPOSITORY}[learn,test,mutate,site,torch,{extra}]"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        packages = [item["metadata"] for item in json.loads(report.read_text())["install"]]
    pins = {}
    for package in packages:
        name = re.sub(r"[-_.]+", "-", package["name"]).lower()
        # A local version such as +cpu names a build: `torch==2.13.0` accepts every build of that release.
        pins[name] = package["version"].split("+")[0]
    pins.pop("kda-learn")
    return [f"{name}=={version}" for name, version in sorted(pins.items())]


def write(folder: Path) -> list[Path]:
    """Write the three files. folder: of records; not used, the constraints lie beside the package."""
    written = []
    for set_name, (_, extra, reason) in TORCH.items():
        heading = [
            f"# {reason}",
            f"# pip install -e '.[learn,torch,{extra}]' -c constraints-{set_name}.txt",
            "# Written by `python -m kda_learn.maintain pins`.",
        ]
        path = REPOSITORY / f"constraints-{set_name}.txt"
        path.write_text("\n".join(heading + resolve(set_name)) + "\n")
        written.append(path)
    return written
