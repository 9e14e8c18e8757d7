"""The random kernels on a GPU: they compile for it, and what racecheck prints is read and compared."""

import pytest

from oracle.on_gpu import chosen, compared, compiled, hazards, main, source
from oracle.programs import from_seed

PRINTED = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at random_kernel_12+0x90
=========     and Read access at random_kernel_12+0x120 [64 hazards]
=========
========= Warning: Race reported between Read access at random_kernel_7+0x90
=========     and Write access at random_kernel_7+0x120 [2 hazards]
=========
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
"""


def test_every_kind_of_program_compiles_for_a_gpu():
    assert compiled(source({seed: from_seed(seed) for seed in range(60)})).startswith(b"\x7fELF")


def test_hazards_are_read_by_kernel():
    found = hazards(PRINTED)
    assert {seed: [line.split(":")[0] for line in lines] for seed, lines in found.items()} == {
        12: ["Error"],
        7: ["Warning"],
    }


def test_disagreements_are_named():
    programs = chosen(0, 40)
    assert len(programs) == 40
    silent = compared(programs, {})
    racy = {each["seed"] for each in silent["differences"]}
    assert 0 < len(racy) < 40 and silent["agree"] == 40 - len(racy)
    assert all(name.startswith("racecheck is silent: ") for name in silent["disagreements"])
    assert compared(programs, {seed: ["Error"] for seed in racy})["agree"] == 40
    every = compared(programs, {seed: ["Error"] for seed in programs})
    assert every["disagreements"] == {"only racecheck finds a race": 40 - len(racy)}


@pytest.mark.gpu
def test_racecheck_judges_them(capsys):
    assert main(["--count", "40"]) == 0
    assert '"agree"' in capsys.readouterr().out
