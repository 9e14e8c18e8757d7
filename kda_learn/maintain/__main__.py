"""What only the maintainers run: records, budgets, README's table, pins.

What measures needs a Hopper GPU that nothing else uses; its clocks are sampled, never set. A file is written
into the package (or, with --folder, elsewhere), and its path printed.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ..ground.files import DATA
from ..ground.program import Parser, run_program
from ..ground.say import heard_by, print_line
from . import pins, profiles, readme, recordings

WHAT: dict[str, tuple[str, Callable[[Path], list[Path]]]] = {
    "ladder": ("every stage timed on this GPU, and on a part as large as the article's", recordings.ladder),
    "blocks": ("a stage with fewer blocks on an SM (GPU)", recordings.blocks),
    "ceilings": ("what this GPU gives at most", recordings.ceilings),
    "split-v": ("when several blocks should share a head (GPU)", recordings.split_v),
    "check": ("the standard set of checks (GPU)", recordings.check),
    "sanitizers": ("NVIDIA's compute-sanitizer over every stage (GPU)", recordings.sanitizers),
    "profiles": ("ncu's counters of every stage (GPU); keeps ncu's pages beside them", profiles.record),
    "profiles-again": ("the profiles from the pages that were kept, without a GPU", profiles.rebuild),
    "builds": ("what the compiler says of every stage", recordings.builds),
    "budget": ("the wavefronts that every stage may spend, as they are now", recordings.budget),
    "fingerprints": ("which texts of the stages give the same kernel", recordings.fingerprints),
    "readme": ("the ladder in README.md, from the newest record", readme.write),
    "pins": ("the exact versions in constraints-*.txt, as pip would choose them today", pins.write),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of them and return the exit code, as `ground.program` says."""
    return run_program(lambda: _write(arguments))


def _write(arguments: Sequence[str] | None) -> int:
    described = "\n".join(f"  {name:<15} {words}" for name, (words, _) in WHAT.items())
    parser = Parser(
        prog="python -m kda_learn.maintain",
        description=f"{__doc__.splitlines()[0]}\n\n{described}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=WHAT, metavar="WHAT")
    parser.add_argument("--folder", type=Path, default=DATA, help="where records go (default: the package)")
    request = parser.parse_args(arguments)
    with heard_by(print_line):
        written = WHAT[request.what][1](request.folder)
    print("\n".join(map(str, written)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
