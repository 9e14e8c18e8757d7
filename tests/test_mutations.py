"""Every barrier, every wait and every layout is needed: without any one of them a check must fail.

A stage's file is changed in one place at a time. What survives its check is either redundant in the kernel,
or a fault that the emulator cannot see; both want to be known.
"""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from kda_learn.cache import cache_folder, write_atomically
from kda_learn.check import check
from kda_learn.problem import Problem, random_problem
from kda_learn.stages import STAGES, Stage

SYNCHRONISATION = re.compile(
    r"__syncthreads\(\);|__syncwarp\(\);|cp_async_wait<\d>\(\);|cp_async_commit\(\);"
)
LAYOUT = re.compile(r"using (\w+)Layout = (Interleaved|Swizzled\d*|Rows)<[^;]*>;")
PLAIN = {  # what a tile's layout would be if nobody had thought about banks
    "Qk": "Rows<bf16, D>",
    "Gc": "Rows<float, D>",
    "QdKd": "Rows<bf16, D>",
    "Kr": "Rows<bf16, D>",
    "Small": "Rows<bf16, C>",
    "Do": "Rows<bf16, DV>",
    "Ds": "Rows<bf16, D>",
}


@dataclass(frozen=True)
class Mutant:
    """A stage's text with one change."""

    line: int
    change: str
    text: str


def mutants(stage: Stage) -> list[Mutant]:
    """All changes of one stage: each synchronisation left out, each layout made plain."""
    text = stage.source.text
    code = "\n".join(stage.source.code_lines)
    spans = [(match.start(), match.end(), "") for match in SYNCHRONISATION.finditer(code)]
    for match in LAYOUT.finditer(code):
        plain = PLAIN.get(match[1])
        if plain is not None and _constants_in(match[0], stage) != _constants_in(plain, stage):
            spans.append((match.start(), match.end(), f"using {match[1]}Layout = {plain};"))
    found = []
    for start, end, replacement in spans:
        line = text.count("\n", 0, start) + 1
        change = f"{text[start:end]} -> {replacement or 'nothing'}"
        found.append(Mutant(line, change, text[:start] + replacement + text[end:]))
    return found


def _constants_in(layout: str, stage: Stage) -> str:
    """A layout's description with strides as numbers: Rows<bf16, QK_STRIDE> may be plain already."""
    constants = stage.source.constants()
    described = layout.partition("=")[2] or layout
    return re.sub(r"\w+", lambda name: str(constants.get(name[0], name[0])), described.strip(" ;"))


def survives(stage: Stage, mutant: Mutant, problem: Problem) -> bool:
    """Whether a check finds nothing wrong with a mutant."""
    # A fixed place lets the emulator find what it has built in an earlier test run.
    path = cache_folder("mutants") / f"{stage.id}_line{mutant.line}.cu"
    write_atomically(path, mutant.text.encode())
    return check(path, problem, machine="emulator", like=stage.id).ok


@pytest.fixture(scope="module")
def problem() -> Problem:
    """Two full tiles and a short one."""
    return random_problem(lengths=[40])


@pytest.mark.parametrize(
    "stage",
    STAGES,
    ids=lambda stage: stage.id,
)
def test_every_synchronisation_and_every_layout_is_needed(stage: Stage, problem: Problem):
    changed = mutants(stage)
    assert len(changed) >= 7
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        alive = list(pool.map(lambda mutant: survives(stage, mutant, problem), changed))
    survivors = [
        f"{stage.path.name}:{mutant.line} {mutant.change}"
        for mutant, lives in zip(changed, alive, strict=True)
        if lives
    ]
    assert not survivors


def test_the_unchanged_stage_passes_the_same_check(problem: Problem):
    assert check("s12", problem, machine="emulator").ok


def test_a_padded_stride_is_a_layout_and_a_plain_one_is_not():
    changes = {stage.id: "".join(mutant.change for mutant in mutants(stage)) for stage in STAGES}
    assert "QkLayout" in changes["s12"]
    assert "QkLayout" not in changes["s09"]
