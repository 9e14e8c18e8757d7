"""Random kernels judged by the CPU machine and the oracle; disagreements are printed, as small as can be.

make oracle ARGS='--count 2000 --first 0'
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from datetime import date

from .compare import differences, minimal
from .happens_before import Undefined, judge
from .language import Program
from .programs import from_seed

SHOWN = 5  # disagreements that are printed


def today() -> int:
    """A first seed that differs from day to day."""
    return date.today().toordinal() * 10_000


def overview(programs: list[Program]) -> str:
    """How many of the programs are sound, and how many have which fault, by the oracle."""
    found: Counter[str] = Counter()
    for program in programs:
        try:
            opinion = judge(program)
        except Undefined:
            found["undefined"] += 1
            continue
        found.update({finding.kind for finding in opinion.findings} or {"sound"})
    return ", ".join(f"{count} {kind}" for kind, count in found.most_common())


def main() -> int:
    parser = argparse.ArgumentParser(prog="make oracle", description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first", type=int, default=today(), help="the first program's seed")
    wanted = parser.parse_args()
    programs = [from_seed(wanted.first + number) for number in range(wanted.count)]
    print(f"programs {wanted.first} to {wanted.first + wanted.count - 1}: {overview(programs)}")
    found = list(differences(programs))
    for difference in found[:SHOWN]:
        print("", minimal(difference), sep="\n")
    print(f"the two opinions differ on {len(found)} of {wanted.count} programs")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
