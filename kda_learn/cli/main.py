"""`kda-learn VERB`: the package on the command line.

Every verb prints text for people or, with --json, one object for programs. Exit codes: `ground.program`.

argparse and plain text, because a GPU server often has NumPy, CuPy and PyTorch and nothing else.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from ..ground.files import plain
from ..ground.program import Parser, run_program
from ..ground.say import heard_by, print_line
from . import own_kernel, verbs


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit code. arguments: None takes those of the shell."""
    return run_program(lambda: _answer(arguments))


def _answer(arguments: Sequence[str] | None) -> int:
    parser = _parser()
    request = parser.parse_args(arguments)
    if request.verb is None:
        print(parser.format_help())
        return 0
    with heard_by(print_line):
        answer = request.answer(request)
    print(json.dumps(plain(answer.data), indent=1) if request.json else answer.text, flush=True)
    return answer.exit_code


def _parser() -> Parser:
    parser = Parser(prog="kda-learn", description="Kernel A, stage by stage, on a Hopper GPU or on any CPU.")
    choices = parser.add_subparsers(dest="verb", metavar="VERB", parser_class=Parser)

    def verb(name: str, answer: Callable[[argparse.Namespace], verbs.Answer], what: str) -> Parser:
        made = choices.add_parser(name, help=what, description=what, allow_abbrev=False)
        made.add_argument("--json", action="store_true", help="print one JSON object")
        made.set_defaults(answer=answer)
        return made

    verb("doctor", verbs.doctor, "What this computer can run, what it cannot, and why.")
    verb("stages", verbs.stages, "The ladder: registers, spills, shared memory and occupancy of every stage.")
    made = verb("check", verbs.check, "Compare stages with float64, and look for faults and spoilt layouts.")
    made.add_argument("stages", nargs="*", metavar="STAGE", help="such as s12, or a .cu file of your own")
    made.add_argument("--all", action="store_true", help="every stage")
    made.add_argument("--machine", default="auto", help="auto, gpu or emulator (default: %(default)s)")
    made.add_argument(
        "--like", metavar="STAGE", help="whose budget of wavefronts a file of your own must keep"
    )
    made.add_argument("--random", type=_positive, metavar="N", help="N random problems, not the standard set")
    made.add_argument("--seed", type=_positive, help="of the first random problem (default: today's)")
    made.add_argument("--record", type=Path, metavar="FILE", help="keep what a GPU's check found in a file")
    made = verb(
        "trace", verbs.trace, "Each line's shared-memory traffic in one tile of a stage, in wavefronts."
    )
    made.add_argument("stage", metavar="STAGE", help="such as s12, or a .cu file of your own")
    made.add_argument("--v-split", type=int, default=1, help="1, 2, 4 or 8 (default: %(default)s)")
    made = verb("run", own_kernel.run, "Run a kernel of your own, of any signature, by its launch header.")
    made.add_argument(
        "file", metavar="FILE", type=Path, help="a .cu file; without header it says what to write"
    )
    made.add_argument("--machine", default="auto", help="auto, gpu or emulator (default: %(default)s)")
    made.add_argument("--seed", type=_whole, help="of the random inputs (default: the header's)")
    made.add_argument("--trace", action="store_true", help="what every line does, in wavefronts")
    made = verb("diff", verbs.diff, "What a stage changes in the stage it starts from.")
    made.add_argument("stage", metavar="STAGE", help="such as s12")
    made = verb(
        "ladder", verbs.ladder, "Time every stage on the GPU, beside its base and the article's figures."
    )
    made.add_argument("--stages", nargs="+", metavar="STAGE", help="such as s11 s12 (default: every stage)")
    made.add_argument("--config", action="append", help="such as B8/T32768; may be repeated")
    made.add_argument("--sms", type=_positive, help="use only so many SMs of the GPU")
    made.add_argument("--heads", type=_positive, default=32, help="heads of the batch (default: %(default)s)")
    made.add_argument("--record", type=Path, metavar="FILE", help="keep the measurement in a file")
    made.add_argument("--markdown", action="store_true", help="print Markdown")
    made.add_argument("--chart", type=Path, metavar="FILE", help="draw the first config, as .svg or .png")
    made = verb("split-v", verbs.split_v, "VSplit 1, 2, 4, 8 timed over the batch's size; the rule.")
    made.add_argument(
        "--sms", type=_positive, action="append", help="use only so many SMs of the GPU; may be repeated"
    )
    made.add_argument("--record", type=Path, metavar="FILE", help="keep the measurement in a file")
    made.add_argument("--chart", type=Path, metavar="FILE", help="draw the times, as .svg or .png")
    made = verb("reproduce", verbs.reproduce, "The ladder on this GPU: checks, times, counters, a report.")
    made.add_argument(
        "--out",
        type=Path,
        default=Path("reproduction"),
        metavar="DIR",
        help="folder for report.html and pack.json; what is there is kept, so that a run can go on "
        "(default: %(default)s)",
    )
    made.add_argument("--stages", nargs="+", metavar="STAGE", help="such as s11 s12 (default: every stage)")
    made.add_argument("--config", action="append", help="such as B8/T32768; may be repeated")
    made.add_argument("--sms", type=_positive, help="use only so many SMs of the GPU")
    made.add_argument("--heads", type=_positive, default=32, help="heads of the batch (default: %(default)s)")
    made.add_argument("--fresh", action="store_true", help="forget what earlier runs measured")
    made.add_argument(
        "--minutes", type=_positive, default=12, help="begin no profile after so many (default: %(default)s)"
    )
    made = verb(
        "profile", verbs.profile, "A stage's counters, stalls and wavefronts by source line, with ncu."
    )
    made.add_argument("stage", metavar="STAGE", help="such as s12, or a .cu file of your own")
    made.add_argument("--v-split", type=int, default=1, help="1, 2, 4 or 8 (default: %(default)s)")
    made.add_argument("--config", default="B32/T2048", help="sequences and tokens (default: %(default)s)")
    made.add_argument("--heads", type=_positive, default=32, help="heads of the batch (default: %(default)s)")
    made.add_argument("--record", type=Path, metavar="FILE", help="keep the measurement in a file")
    return parser


def _whole(text: str) -> int:
    """For argparse: a whole number of at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 0")
    return int(text)


def _positive(text: str) -> int:
    """For argparse: a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    return int(text)
