"""Pipelines with one mistake each: named in every order of the warps, and silent once it is mended."""

import re
from pathlib import Path

import numpy as np
import pytest
from paths import TESTS

from kda_learn.machines import emulator

SOURCE = TESTS / "kernels" / "pipelines.cu"
LINES = SOURCE.read_text().splitlines()
SEEDS = range(8)

RACE, MISUSED, FENCE = "race", "mbarrier misused", "missing fence"
EARLY, NEVER = "copy not waited for", "copy never waited for"
# The kind, and words of the sentence that says what helps.
CASES = {
    "(ring<1, 0>)": (RACE, ""),
    "(ring<2, 0>)": (RACE, ""),
    "(ring<3, 0>)": (RACE, ""),
    "(ring<4, 0>)": (RACE, ""),
    "(ring<1, 1>)": ("deadlock", "is in phase 0, with 32 of 32 arrivals missing"),
    "(ring<3, 1>)": ("deadlock", "is in phase 0, with 32 of 32 arrivals missing"),
    "(ring<1, 2>)": (RACE, ""),
    "(ring<2, 2>)": (RACE, ""),
    "(ring<1, 3>)": (RACE, ""),
    "(ring<4, 3>)": (RACE, ""),
    "signal_without_answer": (MISUSED, "would then wait for ever: let it arrive at another mbarrier"),
    "reader_waits_for_the_wrong_phase": ("race|uninitialised read", ""),
    "made_twice": (MISUSED, "call mbar_inval between them"),
    "counts_nothing": (MISUSED, "counts 0 arrivals: give 1 to 1048575"),
    "counts_too_much": (MISUSED, "counts 1048576 arrivals: give 1 to 1048575"),
    "stored_over": (MISUSED, "leave it alone, or call mbar_inval first"),
    "loaded": (MISUSED, "leave it alone, or call mbar_inval first"),
    "loaded_as_a_matrix": (MISUSED, "leave it alone, or call mbar_inval first"),
    "used_again_as_memory": (MISUSED, "leave it alone, or call mbar_inval first"),
    "ended_while_used": ("race|race within a warp|mbarrier misused", ""),
    "parity_of_two": (MISUSED, "give 0 or 1"),
    "arrivals_missing": ("deadlock", "32 of 96 arrivals missing"),
    "arrivals_too_many": (MISUSED, ""),
    "expects_too_little": (MISUSED, "128 bytes expected, 256 copied"),
    "expects_too_much": (MISUSED, "512 bytes expected, 256 copied"),
    "expects_nothing": (MISUSED, "0 bytes expected, 256 copied"),
    "copy_never_waited_for": (NEVER, "call mbar_wait on its mbarrier"),
    "copy_landed_unnoticed": (NEVER, "call mbar_wait on its mbarrier"),
    "copied_to_twice": (EARLY, "wait on its mbarrier first"),
    "stored_before_it_landed": (EARLY, "wait on its mbarrier first"),
    "copied_over_a_store": (FENCE, "put fence_proxy_async() between them"),
    "copied_over_a_store_fenced_by_each": (FENCE, "put fence_proxy_async() between them"),
    "copied_over_a_load": (FENCE, "stricter than today's GPUs"),
    "copied_over_an_async_copy": (FENCE, "put fence_proxy_async() between them"),
    "fenced_by_one_before_the_barrier": (FENCE, "put fence_proxy_async() between them"),
    "fenced_before_the_last_store": (FENCE, "put fence_proxy_async() between them"),
    "lanes_of_one_store": ("race within a warp", "no barrier helps"),
    "lanes_meet_at_two_places": ("race within a warp", "__syncwarp() is missing after pipelines.cu:"),
}


@pytest.fixture(scope="module")
def planted():
    return emulator.build(SOURCE, "planted")


def launch(planted, case, *, broken, seed):
    number = next(i for i, line in enumerate(LINES, 1) if line.strip() == f"CASE({case})")
    words = np.arange(256, dtype=np.uint32)
    return planted.launch([words, np.zeros(64, np.uint32), number, int(broken)], 1, 64, 4096, seed=seed)


def test_every_case_is_listed():
    assert set(CASES) == set(re.findall(r"^  CASE\((.+)\)$", SOURCE.read_text(), flags=re.MULTILINE))


@pytest.mark.parametrize("case", CASES)
def test_its_mistake_is_named_in_every_order(planted, case):
    kind, words = CASES[case]
    for seed in SEEDS:
        faults = launch(planted, case, broken=True, seed=seed).faults
        assert faults, f"seed {seed}"
        assert {fault.kind for fault in faults} <= set(kind.split("|")), f"seed {seed}: {faults}"
        assert any(words in fault.message for fault in faults), faults
        for fault in faults:
            assert Path(fault.file).name == "pipelines.cu"
            assert LINES[fault.line - 1].endswith("// at fault"), fault


@pytest.mark.parametrize("case", CASES)
def test_once_mended_nothing_is_said(planted, case):
    for seed in SEEDS:
        assert launch(planted, case, broken=False, seed=seed).faults == []
