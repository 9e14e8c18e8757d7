"""How every program of this package ends: its exit code, and a sentence on standard error that says why.

0: done. 1: a check found a fault, and nothing else. 2: it could not be done: the request does not fit, this
computer lacks something, the disk is full. 130: Ctrl-C. 141: the reader left, as in `| head`.

Output fits every terminal: where it cannot show a character, such as an arrow, plain ones take its place.
"""

import argparse
import codecs
import contextlib
import os
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn, TextIO

from .errors import BadInput, KdaError
from .say import print_line

IMPOSSIBLE = 2
INTERRUPTED = 130
READER_LEFT = 141

_PLAIN = {
    "\N{RIGHTWARDS ARROW}": "->",
    "\N{LEFTWARDS ARROW}": "<-",
    "\N{MINUS SIGN}": "-",
    "\N{EN DASH}": "-",
    "\N{EM DASH}": "-",
    "\N{MULTIPLICATION SIGN}": "x",
    "\N{MICRO SIGN}": "u",
    "\N{HORIZONTAL ELLIPSIS}": "...",
    "\N{LEFT SINGLE QUOTATION MARK}": "'",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{LEFT DOUBLE QUOTATION MARK}": '"',
    "\N{RIGHT DOUBLE QUOTATION MARK}": '"',
}


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence instead of printing the usage."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message} (`{self.prog} --help` shows what it takes)")

    def print_help(self, file: TextIO | None = None) -> None:
        """As argparse's, which ignores a full disk."""
        print(self.format_help(), end="", file=file or sys.stdout)


def run_program(work: Callable[[], int]) -> int:
    """Do the work of a program, whose answer goes to standard output; the exit code. See above."""
    if sys.stderr is None:  # it was closed: what would be said there is lost
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):  # one that a test or a notebook has put there
            stream.reconfigure(errors="plain")
    try:
        return _exit_code(work)
    finally:
        # Python writes out what is left once more at its end, and would complain: to nowhere, then.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, ValueError):
                _let_go(stream)


def _exit_code(work: Callable[[], int]) -> int:
    try:
        if sys.stdout is None:
            raise KdaError("Nothing can be printed, standard output is closed: give it a file or a pipe.")
        try:
            return work()
        finally:  # argparse ends by SystemExit once it has printed its help
            sys.stdout.flush()
    except KdaError as error:
        print_line(str(error))
    except KeyboardInterrupt:
        print_line("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        return READER_LEFT
    except OSError as error:
        where = error.filename if isinstance(error.filename, str) else "standard output"
        print_line(f"{where} cannot be used ({error.strerror or error}): name another place, or make room.")
    except MemoryError:
        print_line("There is too little memory: free some, or give a smaller problem (fewer tokens).")
    except Exception:
        traceback.print_exc()
        print_line("This is a mistake in kda-learn itself: please report the lines above.")
    return IMPOSSIBLE


def _let_go(stream: TextIO | None) -> None:
    try:
        if stream is not None:
            stream.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _plainly(error: UnicodeError) -> tuple[str | bytes, int]:
    """The error handler "plain": a character that the output cannot show, in those that it can."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    if "\udc80" <= character <= "\udcff":  # a byte of a file's name that Python could not read: as it was
        return bytes([ord(character) - 0xDC00]), error.start + 1
    return _PLAIN.get(character, "?"), error.start + 1


codecs.register_error("plain", _plainly)
