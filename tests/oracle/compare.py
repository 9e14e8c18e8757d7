"""Many programs judged by the CPU machine and by the oracle; where the two differ.

The CPU machine may name the pairs of one cause in one fault, and it may say nothing of what follows from a
fault that it has named. So they agree on a program if

- the CPU machine is silent, for every seed of its schedule, exactly if the oracle is;
- every fault of the CPU machine is a finding of the oracle: of its kind, at its pair of lines;
- every finding of the oracle shares a line with a fault, and a lone finding is met exactly. (Two copies of
  one thread that nobody waits for lack one wait, and are one fault.)

Behind a point where a program is stuck, or misuses an mbarrier, only the first and the fault at that point
count.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from kda_learn.machines import emulator

from .conflicts import Finding, Opinion
from .happens_before import Undefined, judge
from .language import GLOBAL_WORDS, LANES, SHARED_BYTES, Program, Statement, kernel, one_kernel

SEEDS = range(8)
BATCH = 50  # programs in one translation unit

_RACES = {"race", "race within a warp"}
SAID_AS: dict[str, set[str]] = {
    "between warps": {"race"},
    "within a warp": {"race within a warp"},
    "copy": {"copy not waited for", *_RACES},
    "own copy": {"copy not waited for"},
    "copy never waited for": {"copy never waited for"},
    "missing fence": {"missing fence"},
    "uninitialised": {"uninitialised read"},
    "barrier object": {"mbarrier misused", "uninitialised read", "deadlock", *_RACES},
    "barrier count": {"mbarrier misused", "deadlock"},
    "barrier bytes": {"mbarrier misused", "deadlock", "copy never waited for", "copy not waited for"},
    "missed phase": {"mbarrier misused", "deadlock"},
    "stuck": {"deadlock", "different barriers", "divergent warp", "mbarrier misused"},
}
"""The oracle's kinds, and which kinds of fault of the CPU machine mean the same."""
_ENDS = {"barrier object", "barrier count", "barrier bytes", "stuck"}


@dataclass(frozen=True)
class Difference:
    program: Program
    oracle: Opinion
    said: list[tuple[int, frozenset[Finding], str]]  # seed, findings by kind of fault, the sentences
    why: str

    def __str__(self) -> str:
        _, places = self.program.text()
        line_of = {place: line + 6 for line, place in reversed(list(enumerate(places)))}

        def shown(findings: set[Finding] | frozenset[Finding]) -> str:
            each = [
                f"{kind} at {' and '.join(str(line_of[p]) for p in sorted(at))}"
                for kind, at in sorted(findings, key=lambda f: (f.kind, sorted(f.places)))
            ]
            return "; ".join(each) or "nothing"

        text = [f"{number + 1:3} {line}" for number, line in enumerate(kernel(self.program, "k"))]
        said = [f"CPU machine, seed {seed}: {shown(findings)}" for seed, findings, _ in self.said]
        return "\n".join([self.why, *text, f"oracle: {shown(self.oracle.findings)}", *dict.fromkeys(said)])


def differences(programs: Sequence[Program], seeds: Sequence[int] = SEEDS) -> Iterator[Difference]:
    """Where the opinions differ. A program that the oracle calls undefined is passed over."""
    judged = []
    for program in programs:
        try:
            judged.append((program, judge(program)))
        except Undefined:
            continue
    for start in range(0, len(judged), BATCH):
        batch = judged[start : start + BATCH]
        said = ask_emulator([program for program, _ in batch], seeds)
        for (program, opinion), answers in zip(batch, said, strict=True):
            if why := _why_not(opinion, [faults for _, faults, _ in answers]):
                yield Difference(program, opinion, answers, why)


def ask_emulator(
    programs: Sequence[Program], seeds: Sequence[int]
) -> list[list[tuple[int, frozenset[Finding], str]]]:
    """What the CPU machine says of each program with each seed, in numbers of statements."""
    text, origin = one_kernel(programs)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "random_kernels.cu"
        source.write_text(text, encoding="utf-8")
        library = emulator.build(source, "k")
        return [
            [(seed, *_launch(library, number, program, seed, origin)) for seed in seeds]
            for number, program in enumerate(programs)
        ]


def _launch(
    library: emulator.Library, number: int, program: Program, seed: int, origin: dict[int, tuple[int, int]]
) -> tuple[frozenset[Finding], str]:
    block = program.warps * LANES
    args = [np.arange(GLOBAL_WORDS, dtype=np.uint32), np.zeros(block, np.uint32), number]
    faults = library.launch(args, 1, block, SHARED_BYTES, seed=seed, threads=1).faults
    found = set()
    for fault in faults:
        for pair in fault.all_pairs:  # what one cause explains is told once, and kept
            lines = [line for line in (pair.line, pair.other_line) if line]
            found.add(Finding(pair.kind, frozenset(origin[line][1] for line in lines if line in origin)))
    return frozenset(found), "\n".join(map(str, faults))


def _means(fault: Finding, finding: Finding) -> bool:
    """May a fault of the CPU machine be this finding of the oracle?"""
    if fault.kind not in SAID_AS[finding.kind]:
        return False
    if finding.kind in _ENDS or fault.kind == "deadlock":
        return True
    if finding.kind == "missed phase":  # the fault names what ends the phase too early as well
        return finding.places <= fault.places
    return fault.places <= finding.places if fault.kind.startswith("copy") else fault.places == finding.places


def _covers(fault: Finding, finding: Finding) -> bool:
    """May a fault be the cause of a finding, if it does not mean the finding itself?"""
    if finding.kind == "missed phase":
        return True  # the CPU machine says it of one, and only if nothing else is wrong
    return bool(fault.places & finding.places) or fault.kind == finding.kind == "copy never waited for"


def minimal(difference: Difference, seeds: Sequence[int] = SEEDS) -> Difference:
    """The same difference in a program from which no statement, turn of the loop or warp can be left out.

    All candidates of a round are compiled together; hypothesis would compile them one by one.
    """
    while True:
        made = difference.program
        candidates = [made.without(place) for place in range(len(made.statements))]
        candidates += [replace(made, times=made.times - 1)] * (made.times > 1)
        candidates += [replace(made, loop=(0, 0))] * (made.loop[1] > made.loop[0])
        candidates += [
            made.with_other(place, simpler)
            for place, s in enumerate(made.statements)
            for simpler in _simpler(s)
        ]
        found = next((d for d in differences(candidates, seeds) if d.why == difference.why), None)
        if found is None:
            return difference
        difference = found


def _simpler(s: Statement) -> list[Statement]:
    if s.op not in ("lds", "sts", "cp_async"):
        return []
    plain = [replace(s, order="lane"), replace(s, of="own"), replace(s, size=4), replace(s, lanes="all")]
    return [other for other in plain if other != s]


def _why_not(opinion: Opinion, answers: Sequence[frozenset[Finding]]) -> str:
    """Why the opinions differ; empty if they do not."""
    if len({bool(faults) for faults in answers}) > 1:
        return "the CPU machine's verdict depends on the seed"
    for faults in answers:
        if bool(faults) != opinion.faulty:
            return "only the oracle finds a fault" if opinion.faulty else "only the CPU machine finds a fault"
    return next(filter(None, (_why_not_one(opinion, faults) for faults in answers)), "")


def _why_not_one(opinion: Opinion, faults: frozenset[Finding]) -> str:
    may_miss = any(finding.kind == "missed phase" for finding in opinion.findings)
    has_missed = may_miss and any(fault.kind == "deadlock" for fault in faults)
    if has_missed or any(finding.kind in _ENDS for finding in opinion.findings):
        met = any(_means(fault, finding) for fault in faults for finding in opinion.findings)
        return "" if met else f"none of {_kinds(opinion.findings)} is said"
    for fault in faults:
        if not any(_means(fault, finding) for finding in opinion.findings | opinion.allowed):
            return f"the CPU machine's {fault.kind!r} is no finding of the oracle"
    for finding in opinion.findings:
        if not any(_covers(fault, finding) for fault in faults):
            return f"the oracle's {finding.kind!r} is not said"
    if len(opinion.findings) == 1 and not any(
        _means(fault, next(iter(opinion.findings))) for fault in faults
    ):
        return f"the oracle's only finding, {finding.kind!r}, is not said as it is"
    return ""


def _kinds(findings: set[Finding]) -> str:
    return ", ".join(sorted(repr(finding.kind) for finding in findings))
