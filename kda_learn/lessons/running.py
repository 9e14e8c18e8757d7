"""The words `run` and `check`: a stage run once, and the verdict on it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from ..checking.check import Case, CheckRow, check_jobs, small_problem
from ..checking.standard_set import emulator_cases
from ..display.banners import machine_banner
from ..display.parts import Cell, Part, Sentence, Shown, Table, whole
from ..display.steps import Steps
from ..ground.say import heard_by
from ..kernel_a.problem import Problem
from ..kernel_a.run import Result
from ..kernel_a.run import run as run_once
from ..machines.device import choose_machine
from ..sources.stages import as_stage

if TYPE_CHECKING:
    from ..sources.stages import Stage


TERMS = {
    r"\d x \d": "N x T tokens: N sequences of T tokens each",
    r"varlen": "varlen: sequences of unequal lengths in one batch, such as 17+0 for 17 and for 0 tokens",
    r"\bheads?\b": "heads: the layer works several times side by side, each time with numbers of its own",
    r"strong gate": "strong gate: the state is nearly forgotten within a tile",
    r"gate [-\d]": "gate: how much of the state is kept from token to token, as a natural logarithm",
    r"\bdht\b": "dht: the gradient of the state at the end of a sequence; no dht: it is zero",
    r"\bseed\b": "seed: the number from which the random inputs are drawn",
}
"""What the words in a problem's name mean: a pattern of each, and a clause."""

COLUMNS = (
    "Columns. VSplit: how many blocks share the columns of one state. snapshots: the type of their numbers; "
    "bfloat16, bf16 for short, has 16 bits. error: how far the results are from a computation with 64 bits, "
    "in percent (root of the mean square). by rounding: the error that rounding to bf16 causes by itself."
)


@dataclass(frozen=True, repr=False)
class Run(Shown, Result):
    """One run: what `kernel_a.run.Result` holds, and which stage and problem it was."""

    stage: str
    problem: Problem

    @property
    def ok(self) -> bool:
        """Whether no fault was found. That does not make the numbers right: `check` compares them."""
        return not self.faults

    def parts(self) -> list[Part]:
        problem = self.problem
        rows = [
            ["problem", Cell(problem.name)],
            ["sequences, heads", Cell(f"{problem.sequences}, {problem.heads}")],
            ["tiles of 16 tokens", whole(problem.total_tiles * problem.heads)],
            ["snapshots written", Cell(_shape(self.snapshots.shape), right=True)],
            ["ds0 written", Cell(_shape(self.ds0.shape), right=True)],
            ["time", Cell(_seconds(self.seconds), right=True)],
        ]
        parts: list[Part] = [
            machine_banner(self.machine),
            Table(["", self.stage], [[name, Cell(value.value, right=True)] for name, value in rows]),
        ]
        return parts + _fault_parts(self.faults, f"{self.stage} ran without a fault.")


def run(
    stage: Stage | str | Path,
    problem: Problem | None = None,
    *,
    machine: str = "auto",
    v_split: int = 1,
    snapshot_dtype: str = "float32",
    seed: int = 0,
    extra_smem: int = 0,
) -> Run:
    """Run a stage once and show what it wrote.

    problem: None takes 48 tokens of one head; make others with `random_problem(lengths=[...])`. The rest, the
    arrays' shapes (`.snapshots` float32 [H * tiles, K, V], `.ds0` float32 [N, H, K, V]) and the errors: as
    `kernel_a.run.run`.
    """
    problem = small_problem() if problem is None else problem
    result = run_once(
        stage,
        problem,
        machine=machine,
        v_split=v_split,
        snapshot_dtype=snapshot_dtype,
        seed=seed,
        extra_smem=extra_smem,
    )
    values = {field.name: getattr(result, field.name) for field in fields(Result)}
    return Run(**values, stage=as_stage(stage).id, problem=problem)


@dataclass(frozen=True, repr=False)
class Checked(Shown):
    """The verdict on a stage: one `checking.check.CheckRow` for each problem."""

    stage: str
    machine: str
    rows: list[CheckRow]
    own: bool = False  # whether it is a file of one's own, not a stage
    like: str | None = None  # the stage whose budget of wavefronts such a file was judged by

    @property
    def ok(self) -> bool:
        """Whether the stage passed on every problem."""
        return all(row.ok for row in self.rows)

    @property
    def faults(self) -> list[str]:
        """What was wrong, one sentence each."""
        return list(dict.fromkeys(fault for row in self.rows for fault in row.faults))

    def __iter__(self) -> Iterator[CheckRow]:
        return iter(self.rows)

    def parts(self) -> list[Part]:
        headers = ["problem", "VSplit", "snapshots", "error", "by rounding", "verdict"]
        rows = [
            [
                row.problem,
                row.v_split,
                row.snapshot_dtype,
                Cell(f"{row.rel_rms:.2%}", right=True),
                Cell(f"{row.simulated_rel_rms:.2%}", right=True),
                Cell("passed", "good") if row.ok else Cell("failed", "bad"),
            ]
            for row in self.rows
        ]
        looked_at = (
            ["numbers"] if self.machine == "gpu" else ["numbers", "races", "reads of unwritten memory"]
        )
        if self.like is not None:
            looked_at.append(f"wavefronts by the budget of {self.like}")
        elif self.machine == "emulator" and not self.own:
            looked_at.append("wavefronts")
        more = f"Checked: {', '.join(looked_at)}."
        if self.machine == "gpu":
            more += " Races and reads of unwritten memory are found by the CPU machine, machine='emulator'."
        if self.own and self.like is None:
            more += " A file of your own has no budget of wavefronts; like='s05' takes that of s05."
        passed = sum(row.ok for row in self.rows)
        summary = f"{self.stage}: {passed} of {len(self.rows)} passed."
        return [
            machine_banner(self.machine, more),
            Table(headers, rows),
            *_words_of([row.problem for row in self.rows]),
            Sentence(COLUMNS, quiet=True),
            *_fault_parts(self.faults, summary),
        ]


def check(
    stage: Stage | str | Path,
    problem: Problem | None = None,
    *,
    machine: str = "auto",
    v_split: int = 1,
    snapshot_dtype: str = "float32",
    seeds: Sequence[int] = (0, 1),
    like: str | None = None,
) -> Checked:
    """Whether a stage may be trusted: run it, compare with float64, look for faults.

    problem: one problem, at the given v_split and snapshot_dtype. None takes the standard set of small ones,
    full tiles, short tails and an empty sequence, each at a VSplit of its own. like: the stage whose budget
    of wavefronts a .cu file of your own must keep, such as "s05". Arguments, what passes, and errors: as
    `checking.check.check`.
    """
    machine = choose_machine(machine)
    kernel = as_stage(stage)
    cases = emulator_cases() if problem is None else [Case(problem, v_split, snapshot_dtype)]
    with Steps(len(cases)) as steps, heard_by(steps.step):
        rows = check_jobs([(kernel, case) for case in cases], machine, seeds=tuple(seeds), like=like)
    return Checked(kernel.id, machine, rows, kernel.is_own, like)


def _words_of(problems: Sequence[str]) -> list[Part]:
    """What the words in the problems' names mean; nothing for names without such words."""
    names = "\n".join(problems)
    found = [clause for pattern, clause in TERMS.items() if re.search(pattern, names)]
    return [Sentence(f"Problems. {'; '.join(found)}.", quiet=True)] if found else []


def _fault_parts(faults: Sequence[str], otherwise: str) -> list[Part]:
    """The faults as a list, or a sentence if there are none."""
    if not faults:
        return [Sentence(otherwise)]
    return [Table(["", "fault"], list(enumerate(faults, start=1)), wrap="fault")]


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{1000 * seconds:.2f} ms"
