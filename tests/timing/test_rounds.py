"""Rounds of timing, on a pretended GPU: turns, the control, what is rejected, clocks."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from pretended_gpu import H200, PretendedMachine

from kda_learn.ground.say import heard_by
from kda_learn.machines.cuda import SmPartition
from kda_learn.machines.device import ClockSample
from kda_learn.machines.runnable import Runnable
from kda_learn.timing.rounds import FEWEST_ROUNDS, MOST_ROUNDS, time_in_rounds

MILLISECONDS = {"slow": 80.0, "medium": 76.0, "fast": 15.0}
WHOLE, PART = SmPartition(132, 0), SmPartition(80, 77, asked=78)


def runnable(name):
    """Writes one number, and is right if it wrote it."""
    output = np.zeros(1, np.float32)
    return Runnable(
        source=Path("pretended.cu"),
        entry=name,
        arguments=(output,),
        grid=(1, 1, 1),
        threads=32,
        outputs={"number": 0},
        judge=lambda outputs: [] if outputs["number"][0] == 1 else [f"it wrote {outputs['number'][0]}"],
    )


@pytest.fixture
def machine(monkeypatch):
    def work(launched):
        if launched.entry not in made.idle:
            launched.arguments[0][0] = 2.0 if launched.entry in made.wrong else 1.0
        return MILLISECONDS[launched.entry]

    made = PretendedMachine(work).install(monkeypatch)
    made.wrong, made.idle = set(), set()
    return made


def rounds_of(part=WHOLE, names=MILLISECONDS, **options):
    wanted = {"seconds": 2.0} | options
    return time_in_rounds({name: runnable(name) for name in names}, H200, part, **wanted)


def test_every_runnable_is_timed_and_one_of_them_twice(machine):
    found = rounds_of(PART)
    assert found.rounds == int(2000 / (80 + 76 + 15))
    assert found.times_us == {
        name: pytest.approx([1e3 * ms] * found.rounds) for name, ms in MILLISECONDS.items()
    }
    assert (found.control, found.control_us) == ("fast", pytest.approx([15e3] * found.rounds))
    assert found.blocks_per_sm == dict.fromkeys(MILLISECONDS, 3)
    assert found.rejected == {}
    assert {start.stream for start in machine.starts} == {77}
    json.dumps(asdict(found))


def test_they_take_turns_in_changing_order(machine):
    found = rounds_of()
    warm_up, cover, rounds = machine.order[:3], machine.order[3], machine.order[4:]
    assert warm_up == ["slow", "medium", "fast"]
    assert cover == "fast"
    rounds = [tuple(rounds[4 * i : 4 * i + 4]) for i in range(found.rounds)]
    assert all(sorted(round_) == ["fast", "fast", "medium", "slow"] for round_ in rounds)
    assert len(set(rounds)) > 2
    assert len(machine.order) == 3 + 1 + 4 * found.rounds


@pytest.mark.parametrize(("seconds", "rounds"), [(0.001, FEWEST_ROUNDS), (1e6, MOST_ROUNDS)])
def test_the_number_of_rounds_has_limits(machine, seconds, rounds):
    assert (FEWEST_ROUNDS, MOST_ROUNDS) == (5, 25)
    assert rounds_of(seconds=seconds).rounds == rounds


def test_what_is_wrong_is_not_timed(machine):
    machine.wrong = {"fast"}
    found = rounds_of()
    assert found.rejected == {"fast": "it wrote 2.0"}
    assert set(found.times_us) == set(found.blocks_per_sm) == {"slow", "medium"}
    assert found.control == "medium"
    assert machine.order.count("fast") == 1


def test_what_an_earlier_kernel_left_does_not_count(machine):
    """All write into the same array, as the stages do: it is poisoned before each first launch."""
    machine.idle = {"fast"}
    shared = {name: runnable("slow") for name in ("slow", "fast")}
    shared["fast"] = Runnable(**vars(shared["slow"]) | {"entry": "fast"})
    found = time_in_rounds(shared, H200, WHOLE, seconds=2.0)
    assert found.rejected == {"fast": "it wrote nan"}
    assert set(found.times_us) == {"slow"}


def test_if_all_are_wrong_nothing_is_timed(machine):
    machine.wrong = set(MILLISECONDS)
    found = rounds_of()
    assert (found.rounds, found.times_us, found.control) == (0, {}, None)
    assert set(found.rejected) == set(MILLISECONDS)
    assert machine.order == list(MILLISECONDS)


def test_clocks_are_sampled_from_the_first_round_to_the_last_but_one(machine):
    machine.clocks = ClockSample(1980.0, 2619.0, 41.0, 350.0, ("power cap",))
    found = rounds_of()
    assert [clocks["sm_mhz"] for clocks in found.clocks] == [1980.0] * 3
    assert found.clocks[0]["limits"] == ("power cap",)
    assert machine.sampled_after == sorted(set(machine.sampled_after))
    assert machine.sampled_after[0] < machine.sampled_after[-1] < machine.now


def test_clocks_that_nobody_tells_are_left_out(machine):
    assert rounds_of(clock_samples=1).clocks == []
    assert len(machine.sampled_after) == 1


def test_it_says_what_it_times(machine):
    said = []
    with heard_by(said.append):
        found = rounds_of(PART)
    assert said == [f"{found.rounds} rounds of slow, medium, fast on 80 SMs"]
