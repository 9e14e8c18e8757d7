"""The one channel by which long work says how far it is: `say` speaks, and whoever called listens.

Without a listener nothing is heard but what a child process says, which goes to standard error. So a function
need not pass on a callback that its own work has no use for.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

PREFIX = "kda-learn: "
"""How a line on standard error begins that is meant for people."""

Listener = Callable[[str], None]
_listeners: list[Listener] = []
_one_at_a_time = threading.RLock()


def say(text: str) -> None:
    """Tell the innermost listener, one text after the other; without one nobody hears it."""
    with _one_at_a_time:
        if _listeners:
            _listeners[-1](text)


def is_heard() -> bool:
    """Whether anybody listens."""
    return bool(_listeners)


def print_line(text: str) -> None:
    """A listener that writes each text to standard error, as a line of its own, if that can be written to."""
    with suppress(OSError):
        print(f"{PREFIX}{text}", file=sys.stderr, flush=True)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """While this lasts, `listener` gets every text; work in threads of this process counts."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
