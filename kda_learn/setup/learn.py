"""`make learn`: what this computer can do, a first check of Kernel A, and JupyterLab on a working copy."""

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..ground.files import NOTEBOOKS, write_atomically
from ..ground.program import Parser, run_program
from ..sources.stages import LAST

START = "1-foundations/00_start_here.ipynb"
ORIGINALS = ".originals.json"


@dataclass
class Changes:
    """What `update_working_copy` did: paths relative to the working copy."""

    added: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    outdated: list[str] = field(default_factory=list)

    def sentences(self, work: Path) -> list[str]:
        """What a person should know about it; nothing about files that stayed as they were."""
        lines = []
        if self.added:
            lines.append(f"{work}: added {', '.join(self.added)}.")
        if self.updated:
            lines.append(
                f"{work}: brought up to date, since you had not changed them: {', '.join(self.updated)}."
            )
        if self.kept:
            lines.append(f"{work}: kept as you left them: {', '.join(self.kept)}.")
        if self.outdated:
            lines.append(
                f"Newer versions of {', '.join(self.outdated)} are in {NOTEBOOKS}: to get them, rename or "
                f"delete yours in {work} and run `make learn` again."
            )
        return lines


def update_working_copy(originals: Path, work: Path) -> Changes:
    """Copy the notebooks to `work` so that a reader's own changes are never lost.

    A file that is not there is added; one that the reader has not touched follows its original; one that
    differs from what was copied stays as it is, also when its original has changed (`outdated`).
    """
    changes = Changes()
    record_path = work / ORIGINALS
    copied = _copied_before(record_path)
    for original in sorted(path for path in originals.rglob("*") if path.is_file()):
        name = original.relative_to(originals).as_posix()
        if any(part.startswith((".", "__")) for part in Path(name).parts):
            continue
        target = work / name
        digest = _digest(original)
        if not target.exists():
            changes.added.append(name)
        elif _digest(target) != copied.get(name):
            if _digest(target) != digest:
                (changes.kept if copied.get(name) == digest else changes.outdated).append(name)
                continue
        elif copied[name] != digest:
            changes.updated.append(name)
        write_atomically(target, original.read_bytes())
        copied[name] = digest
    write_atomically(record_path, (json.dumps(copied, indent=1, sort_keys=True) + "\n").encode())
    return changes


def _copied_before(record: Path) -> dict[str, str]:
    """What was copied, by name; a record that is not there, or damaged, counts as empty."""
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def lab_command(work: Path, arguments: Sequence[str]) -> list[str]:
    """The command that opens JupyterLab on the working copy; `arguments` go to JupyterLab as they are."""
    command = [sys.executable, "-m", "jupyter", "lab", f"--ServerApp.root_dir={work}", "--log-level=WARN"]
    if (work / START).exists():
        command.append(f"--LabApp.default_url=/lab/tree/{START}")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # JupyterLab refuses root otherwise, and containers know no other user
    return [*command, *arguments]


def first_check() -> str:
    """Run Kernel A's last stage once, on this computer's GPU or on the CPU machine, and say how it went."""
    from ..checking.check import check
    from ..ground.errors import KdaError
    from ..machines.device import CALLED

    try:
        verdict = check(LAST)
    except KdaError as error:
        return f"Kernel A could not be checked: {error}"
    text = (
        f"Stage {LAST} on the {CALLED[verdict.machine]}: {verdict.rel_rms:.2%} from the float64 result, of "
        f"which rounding to bf16 explains {verdict.simulated_rel_rms:.2%}."
    )
    if verdict.ok:
        return f"{text} Passed."
    return f"{text} Failed, do not trust this set-up: {'; '.join(verdict.faults)}."


def main(arguments: Sequence[str] | None = None) -> int:
    """All of it; the exit code, as `ground.program` says."""
    return run_program(lambda: _learn(arguments))


def _learn(arguments: Sequence[str] | None) -> int:
    from .doctor import doctor

    parser = Parser(description=__doc__, epilog="All other arguments are given to JupyterLab.")
    parser.add_argument("--work", type=Path, default=Path("work"), help="folder of the working copy")
    parser.add_argument("--no-lab", action="store_true", help="do all but start JupyterLab")
    options, for_lab = parser.parse_known_args(arguments)
    print("\nWhat this computer can do\n")
    print(doctor())
    print("\nA first check of Kernel A: compiling it and the CPU machine takes some seconds.", flush=True)
    print(first_check(), end="\n\n")
    work = options.work.resolve()
    for sentence in update_working_copy(NOTEBOOKS, work).sentences(work):
        print(sentence)
    if options.no_lab:
        return 0
    print("\nJupyterLab starts; it prints its address below. Ctrl-C twice ends it.", flush=True)
    command = lab_command(work, for_lab)
    os.execv(command[0], command)  # in place of this program, so that Ctrl-C reaches JupyterLab alone


if __name__ == "__main__":
    sys.exit(main())
