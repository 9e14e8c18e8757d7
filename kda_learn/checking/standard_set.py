"""The standard set of problems: what a stage must get right before anybody times it.

The gates matter most. Under a strong gate a tile forgets nearly all of the state, and a kernel without its
recurrence would pass; so most problems have a weak one. Every template parameter takes each of its values.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..ground.errors import BadInput
from ..ground.given import several
from ..kernel_a.problem import STRONG_GATE, Problem, random_problem
from ..kernel_a.variants import compile_stage
from ..machines.device import CALLED, choose_machine, hopper
from ..records import store as records
from ..sources.stages import Stage, as_stage
from .check import Case, CheckRow, check_jobs, small_problem


def emulator_cases() -> list[Case]:
    """Seconds of work: full tiles, short tails, an empty sequence, a single token, two heads."""
    tails = {"lengths": [17, 0, 31, 1], "varlen": True}
    strong = random_problem(lengths=[40, 40], gate=STRONG_GATE, seed=1, name="2 x 40 tokens, strong gate")
    no_dht = random_problem(
        **tails, heads=2, final_gradient=False, seed=2, name="varlen 17+0+31+1, 2 heads, no dht"
    )
    two_heads = random_problem(**tails, heads=2, seed=3, name="varlen 17+0+31+1, 2 heads")
    one_token = random_problem(lengths=[1], final_gradient=False, seed=4, name="1 token, no dht")
    return [
        Case(small_problem(), 1, "float32"),
        Case(strong, 4, "bfloat16"),
        Case(no_dht, 2, "bfloat16"),
        Case(two_heads, 8, "float32"),
        Case(one_token, 1, "float32"),
    ]


def gpu_cases() -> list[Case]:
    """Long sequences, in which an error of the recurrence has time to grow, and the small ones."""

    def fixed(tokens: int, sequences: int, name: str, **options: Any) -> Problem:
        return random_problem(lengths=[tokens] * sequences, heads=2, name=f"{tokens} tokens{name}", **options)

    def batch(name: str, **options: Any) -> Problem:
        lengths = [1300, 547, 2048, 963, 271, 3063]
        shape = "varlen " + "+".join(map(str, lengths))
        return random_problem(lengths=lengths, varlen=True, heads=2, name=f"{shape}{name}", **options)

    return [
        *emulator_cases(),
        Case(fixed(4096, 1, ""), 1, "float32"),
        Case(fixed(4096, 1, ", no dht", final_gradient=False, seed=1), 4, "float32"),
        Case(fixed(4096, 1, ", strong gate", gate=STRONG_GATE, seed=2), 2, "bfloat16"),
        Case(fixed(1000, 3, ", 3 sequences", seed=3), 8, "bfloat16"),
        Case(batch("", seed=4), 1, "float32"),
        Case(batch(", no dht", final_gradient=False, seed=5), 4, "bfloat16"),
        Case(batch(", strong gate", gate=STRONG_GATE, seed=6), 8, "float32"),
    ]


def cases_of(machine: str) -> list[Case]:
    """The standard set of a machine, "gpu" or "emulator"."""
    return gpu_cases() if machine == "gpu" else emulator_cases()


def check_stages(
    stages: Sequence[Stage | str | Path], *, machine: str = "auto", like: str | None = None
) -> list[CheckRow]:
    """Check each stage on the standard set of the machine; the rows come stage by stage.

    like, and errors: as `check.check`.
    """
    machine = choose_machine(machine)
    known = [as_stage(stage) for stage in several("stages", stages, "stages, such as ['s11', 's12']")]
    # Case by case, so that the stages share the float64 truth and no more than two lie in memory.
    rows = check_jobs([(stage, case) for case in cases_of(machine) for stage in known], machine, like=like)
    names = [stage.id for stage in known]
    return sorted(rows, key=lambda row: names.index(row.stage))


def record_check(checked: Sequence[CheckRow], path: Path) -> None:
    """Keep what a check on a GPU found, in a file. Raises BadInput if the rows come from the emulator."""
    if checked[0].machine != "gpu":
        raise BadInput(
            f"The check ran on the {CALLED[checked[0].machine]} and was to be recorded: records say what a "
            "GPU did, so leave out --record or give --machine gpu."
        )
    stages = list(dict.fromkeys(row.stage for row in checked))
    where = records.provenance(hopper(), stages, nvrtc=compile_stage(as_stage(stages[0])).nvrtc)
    records.save(records.Record("check", where, {"rows": [asdict(row) for row in checked]}), path)
