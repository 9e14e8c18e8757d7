"""The channel of progress: who listens, and what threads say."""

import time
from concurrent.futures import ThreadPoolExecutor

from kda_learn.ground.say import heard_by, is_heard, say


def test_the_innermost_listener_hears():
    outer, inner = [], []
    say("nobody")
    with heard_by(outer.append):
        say("one")
        with heard_by(inner.append):
            assert is_heard()
            say("two")
        say("three")
    assert (outer, inner, is_heard()) == (["one", "three"], ["two"], False)


def test_what_threads_say_is_heard_one_after_the_other():
    """A listener that draws a bar at the first text would else draw several."""
    inside, most = [], []

    def listen(text: str) -> None:
        inside.append(text)
        time.sleep(0.002)
        most.append(len(inside))
        inside.remove(text)

    with heard_by(listen), ThreadPoolExecutor(4) as pool:
        list(pool.map(say, map(str, range(20))))
    assert most == [1] * 20
