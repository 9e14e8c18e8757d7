"""The oracle's rules, a small kernel each; and random kernels on which the CPU machine must agree with it."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oracle.__main__ import SHOWN, today
from oracle.compare import differences, minimal
from oracle.happens_before import Undefined, judge
from oracle.language import Program, Statement
from oracle.programs import from_seed, program

IN_CI = 200  # programs; 2,000 on demand: make oracle

S = Statement
FIRST, SECOND = (0,), (1,)
SYNC, WARP = S("syncthreads"), S("syncwarp")
INIT = S("init", FIRST, "one", number=1)
FENCE = S("fence", FIRST, "one")
EXPECT, BULK = S("expect", FIRST, "one", number=256), S("bulk", FIRST, "one", number=256)
COPY, COMMIT = S("cp_async"), S("commit")
STORE, LOAD, OTHERS = S("sts"), S("lds"), S("lds", of="next")
RING = (
    INIT,
    S("init", FIRST, "one", barrier=1, number=1),
    SYNC,
    S("wait", FIRST, barrier=1, number=1, turns=True),
    S("sts", FIRST),
    S("syncwarp", FIRST),
    S("arrive", FIRST, "one", barrier=0),
    S("wait", SECOND, barrier=0, turns=True),
    S("lds", SECOND, of="first"),
    S("syncwarp", SECOND),
    S("arrive", SECOND, "one", barrier=1),
)

RULES = {
    # name: program, what the oracle finds
    "a lane's own bytes": (Program(2, (STORE, LOAD)), []),
    "another lane's": (Program(1, (STORE, S("lds", order="(lane ^ 1)"))), ["within a warp 0 1"]),
    "a __syncwarp orders": (Program(1, (STORE, WARP, S("lds", order="(lane ^ 1)"))), []),
    "at two places, too": (
        Program(2, (STORE, S("split_syncwarp"), S("lds", order="(lane ^ 16)"))),
        [],
    ),
    "but not between warps": (Program(2, (STORE, WARP, OTHERS)), ["between warps 0 2"]),
    "__syncthreads does": (Program(2, (STORE, SYNC, OTHERS)), []),
    "reading, then writing": (
        Program(2, (STORE, SYNC, OTHERS, STORE)),
        ["between warps 2 3"],
    ),
    "nobody wrote": (Program(1, (LOAD,)), ["uninitialised 0"]),
    "two lanes store to one place": (Program(1, (S("sts", order="0"),)), ["within a warp 0"]),
    "two warps at two barriers": (
        Program(2, (S("syncthreads", FIRST), S("syncthreads", SECOND), SYNC)),
        ["stuck 0 1"],
    ),
    "a copy waited for": (Program(1, (COPY, COMMIT, S("wait_group"), LOAD)), []),
    "a commit is no wait": (
        Program(1, (COPY, COMMIT, LOAD, S("wait_group"))),
        ["own copy 0 2"],
    ),
    "a group too few": (
        Program(1, (COPY, COMMIT, S("wait_group", number=1), LOAD, S("wait_group"))),
        ["own copy 0 3"],
    ),
    "a wait without a commit": (
        Program(1, (COPY, S("wait_group"))),
        ["copy never waited for 0"],
    ),
    "a wait is no barrier": (
        Program(2, (COPY, COMMIT, S("wait_group"), OTHERS)),
        ["copy 0 3"],
    ),
    "a copy over what is read": (
        Program(2, (STORE, SYNC, OTHERS, COPY, COMMIT, S("wait_group"))),
        ["copy 2 3"],
    ),
    "a ring": (Program(2, RING, (3, 11), 3), []),
    "a ring without a wait for empty": (
        Program(2, (*RING[:3], *RING[4:8], RING[8]), (3, 8), 2),
        ["between warps 3 7", "missed phase 6"],
    ),
    "a ring without a wait for full": (
        Program(2, (*RING[:7], *RING[8:]), (3, 10), 1),
        ["between warps 4 7", "missed phase 3"],
    ),
    "a ring that arrives before all lanes have read": (
        Program(2, (*RING[:9], RING[10]), (3, 10), 2),
        ["between warps 4 8", "missed phase 7"],
    ),
    "a parity that never comes": (Program(2, (INIT, SYNC, S("wait"))), ["stuck 2"]),
    "an mbarrier not yet made": (Program(2, (INIT, S("wait", SECOND, number=1))), ["barrier object 0 1"]),
    "a bulk copy": (Program(2, (INIT, FENCE, SYNC, EXPECT, BULK, S("wait"), S("lds", of="first"))), []),
    "a bulk copy without a fence for init": (
        Program(1, (INIT, SYNC, EXPECT, BULK, S("wait"))),
        ["missing fence 0 3"],
    ),
    "a fence by whoever is on the way": (
        Program(2, (INIT, SYNC, S("fence", SECOND), SYNC, EXPECT, BULK, S("wait"))),
        [],
    ),
    "a fence beside the way": (
        Program(2, (INIT, SYNC, S("fence", SECOND), EXPECT, BULK, S("wait"))),
        ["missing fence 0 4"],
    ),
    "a bulk copy over what was read": (
        Program(1, (STORE, INIT, SYNC, FENCE, LOAD, SYNC, EXPECT, BULK, S("wait"))),
        ["missing fence 4 7"],
    ),
    "a bulk copy not waited for": (
        Program(1, (INIT, FENCE, SYNC, EXPECT, BULK)),
        ["copy never waited for 4"],
    ),
    "more bytes than expected": (
        Program(1, (INIT, FENCE, SYNC, S("expect", FIRST, "one", number=128), BULK)),
        ["barrier bytes 3 4", "copy never waited for 4"],
    ),
    "phases that a thread has ended itself": (
        Program(1, (INIT, SYNC, *[S("arrive", FIRST, "one")] * 3, S("wait", FIRST, "one"))),
        [],
    ),
    "phases that all threads know to be over": (
        Program(
            2,
            (
                S("init", FIRST, "one", number=64),
                *[SYNC, S("arrive")] * 2,
                SYNC,
                S("wait", number=1),
                S("arrive"),
            ),
        ),
        [],
    ),
    "what came before a bulk copy's start came before its landing": (
        Program(
            2,
            (
                *[INIT, S("init", FIRST, "one", barrier=1, number=1), FENCE, SYNC, EXPECT],
                *[S("wait", FIRST, "one", barrier=1, number=1), BULK],
                *[S("wait", SECOND), S("arrive", SECOND, "one", barrier=1)],
            ),
        ),
        [],
    ),
    "a wait that passes at once and could miss its phase": (
        Program(2, (INIT, SYNC, S("wait", FIRST, number=1), S("arrive", SECOND, "one"))),
        ["missed phase 2"],
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_the_oracle_knows_the_rule(name):
    made, expected = RULES[name]
    found = {f"{kind} {' '.join(map(str, sorted(places)))}" for kind, places in judge(made).findings}
    assert found == set(expected)


def test_the_cpu_machine_knows_the_rules():
    assert_agreement([made for made, _ in RULES.values()])


def test_both_agree_on_random_kernels():
    assert_agreement([from_seed(today() + number) for number in range(IN_CI)])


@st.composite
def programs(draw: st.DrawFn) -> Program:
    return program(lambda values: draw(st.sampled_from(list(values))))


@settings(
    max_examples=4, deadline=None, derandomize=False, database=None, suppress_health_check=list(HealthCheck)
)
@given(st.lists(programs(), min_size=1, max_size=12))
def test_both_agree_on_what_hypothesis_makes(made):
    assert_agreement(made)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.data())
def test_a_barrier_more_never_makes_a_sound_kernel_faulty(made, data):
    try:
        sound = not judge(made).faulty
    except Undefined:
        return
    if sound:
        place = data.draw(st.integers(0, len(made.statements)))
        assert not judge(made.with_one_more(place, SYNC)).faulty


def test_random_kernels_are_sound_and_faulty_in_every_way():
    seen = set()
    for seed in range(600):
        try:
            seen |= {finding.kind for finding in judge(from_seed(seed)).findings} or {"sound"}
        except Undefined:
            seen.add("undefined")
    assert seen >= {
        "sound", "between warps", "within a warp", "copy", "own copy", "copy never waited for",
        "uninitialised", "missing fence", "missed phase", "stuck", "barrier object", "barrier count",
    }  # fmt: skip


def assert_agreement(made: list[Program]) -> None:
    """Shows where the opinions differ, as small as can be."""
    found = list(differences(made))
    text = "\n\n".join(str(minimal(each)) for each in found[:SHOWN])
    assert not found, f"the CPU machine and the oracle differ on {len(found)} of {len(made)}\n\n{text}"
