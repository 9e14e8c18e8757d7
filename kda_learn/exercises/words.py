"""Exercises: a reader's lines in place of a kernel's, kept by `%%kernel` and judged by `grade`.

In a notebook:

    %%kernel s02 region=hand_over
    ... lines of CUDA C++ ...

and in the next cell `grade()`. In a program: `grade_text("s02.hand_over", text)`. Everything runs on the
emulator, so a C++ compiler is all that is needed.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..display.steps import Steps
from ..ground.errors import BadInput, KdaError
from ..ground.given import whole
from ..lessons import progress
from .cell import Cell
from .definition import Exercise, WrongAnswer, exercise, keys
from .grading import Demand, Grade, Hint, Kept, Observation

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


ALIKE = 0.02
"""Two results are the same mistake if they differ by so little (relative RMS); rounding makes less of it."""

_WORDS = re.compile(r"(\w+)\s+region=(\w+)")
_kept: dict[str, Cell] = {}  # in the order in which the cells were last run


def grade(key: str | None = None) -> Grade:
    """Build and judge the cell that was kept last, or the last one of an exercise such as "s02.hand_over".

    What comes of it is kept in the progress file. Raises BadInput if no such cell has run, MachineUnavailable
    without a C++ compiler.
    """
    cell = _kept_cell(key)
    result = _grade(cell)
    if result.attempted:
        try:
            progress.keep_status(cell.exercise.key, "passed" if result.passed else "attempted")
        except KdaError as error:
            result = replace(result, note=str(error))
    return result


def grade_text(key: str, text: str) -> Grade:
    """Judge a text for an exercise such as "s02.hand_over"; its lines count from 1, nothing is kept.

    Raises BadInput for an exercise that does not exist, MachineUnavailable without a C++ compiler.
    """
    return _grade(Cell(exercise(key), text))


def hint(number: int, key: str | None = None) -> Hint:
    """A hint, 1 to 3, for the exercise whose cell ran last, or for another. Raises BadInput for others."""
    wanted = _kept_cell(None).exercise if key is None else exercise(key)
    whole(f"the number of a hint of {wanted.key}", number, 1, len(wanted.hints))
    return Hint(number, wanted.hints[number - 1])


def kernel(line: str, cell: str) -> Kept:
    """The magic `%%kernel s02 region=hand_over`: keeps the cell's text for `grade`. Raises BadInput."""
    words = _WORDS.fullmatch(line.strip())
    if words is None:
        known = "; ".join(exercise(key).magic for key in keys())
        raise BadInput(f"%%kernel {line.strip()} was given: write one of {known}.")
    wanted = exercise(f"{words[1]}.{words[2]}")
    _kept.pop(wanted.key, None)
    _kept[wanted.key] = Cell(wanted, cell, first_line=2)
    return Kept(wanted, len(cell.strip("\n").splitlines()))


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Make `%%kernel` known to IPython; `import kda_learn` in a notebook does it, too."""
    shell.register_magic_function(kernel, "cell", "kernel")


def register_magic() -> None:
    """`load_ipython_extension` for the shell that this runs in, if it runs in one."""
    from IPython import get_ipython

    shell = get_ipython()
    if shell is not None:
        load_ipython_extension(shell)


def _kept_cell(key: str | None) -> Cell:
    if key is not None and key not in _kept:
        raise BadInput(f"No cell of {key} has been run: run the one that begins with {exercise(key).magic}.")
    if not _kept:
        raise BadInput("No cell with %%kernel has been run: run the one above, then this one.")
    return _kept[key] if key is not None else list(_kept.values())[-1]


def _grade(cell: Cell) -> Grade:
    task = cell.exercise
    if task.is_untouched(cell.text):
        return Grade(task, attempted=False)
    judging = _judging(task)
    with Steps(2 + len(task.wrong)) as steps:
        steps.step("building your kernel and running it")
        try:
            cell.check_braces()
            observation = judging.observe(cell)
        except BadInput as error:
            found = cell.compile_error(getattr(error, "log", str(error)))
            return Grade(task, attempted=True, demands=[Demand("compiles", False, found)])
        steps.step("judging what it did")
        demands = [
            Demand("compiles", True, "The kernel compiles with your lines in it."),
            *judging.judge(cell, observation),
        ]
        recognised = _recognise(task, demands, observation, judging, steps)
    return Grade(task, True, demands, recognised, observation)


def _recognise(
    task: Exercise, demands: list[Demand], mine: Observation, judging: Any, steps: Steps
) -> WrongAnswer | None:
    """The known wrong answer that did what this cell did: the same kinds of faults, results and addresses."""
    missed = {demand.name for demand in demands if demand.ok is False}
    for wrong in task.wrong:
        if set(wrong.fails) != missed:
            continue
        steps.step("comparing it with a wrong answer that many arrive at")
        theirs = judging.observe(Cell(task, wrong.cell))
        if theirs.fault_kinds == mine.fault_kinds and _alike(mine, theirs):
            return wrong
    return None


def _alike(mine: Observation, theirs: Observation) -> bool:
    """The same results and, of a traced launch, addresses: two layouts that work give the same results."""
    import numpy as np

    if not np.array_equal(mine.launch.accesses["address"], theirs.launch.accesses["address"]):
        return False
    for one, other in zip(mine.outputs, theirs.outputs, strict=True):
        difference = np.linalg.norm(one.astype(np.float64) - other)
        if not difference <= ALIKE * np.linalg.norm(other.astype(np.float64)):
            return False
    return True


def _judging(task: Exercise) -> Any:
    """The module with `observe` and `judge` for an exercise's kernel."""
    if task.subject == "banks":
        from . import banks as exercise_banks

        return exercise_banks
    from . import stage_cell as exercise_stage

    return exercise_stage
