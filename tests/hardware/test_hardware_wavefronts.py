"""The wavefront model, on its own and by way of a trace, gives what a GPU's counters said.

The counts come from tests/record_hardware.py, run on a Hopper GPU.
"""

import functools

import hardware_wavefront_cases as wavefronts
import numpy as np
import pytest
from ncu_counters import CONFLICTS, CYCLES, SHARED
from numpy.typing import NDArray

from kda_learn.hardware import banks
from kda_learn.machines import emulator
from kda_learn.sources.kernel_source import KernelSource
from kda_learn.tracing.rows import rows

PLAIN_CASES = {case.name: case for case in wavefronts.plain_cases()}
COPY_CASES = {case.name: case for case in wavefronts.copy_cases()}


@functools.cache
def counted() -> wavefronts.Counts:
    """The counters' values for every case."""
    return wavefronts.read_record()


def counter(case: wavefronts.Case, stem: str) -> str:
    """The counter that sees a load or a store."""
    return stem + ("_op_ld" if case.operation in ("load", "ldmatrix") else "_op_st")


def mask(case: wavefronts.Case) -> int:
    """Bit l is set if lane l takes part."""
    return mask_of(case.addresses != wavefronts.INACTIVE)


def mask_of(lanes: NDArray[np.bool_]) -> int:
    """Bit l is set if lanes[l]."""
    return sum(1 << lane for lane in range(32) if lanes[lane])


def test_constants_are_those_of_the_kernels():
    in_kernels = KernelSource.load(wavefronts.WAVEFRONTS).constants()
    for name in ("LANES", "REPEATS", "SAME_BANKS", "INACTIVE"):
        assert in_kernels[name] == getattr(wavefronts, name)
    for name, number in wavefronts.COPY_KINDS.items():
        assert in_kernels[name.upper()] == number


TRACED_AS = {"load": "lds", "store": "sts", "ldmatrix": "ldmatrix.x4", "stmatrix": "stmatrix.x4"}


@pytest.mark.parametrize("name", PLAIN_CASES)
def test_model_equals_the_counters(name):
    case = PLAIN_CASES[name]
    modelled = banks.cost(TRACED_AS[case.operation], [case.addresses], [mask(case)], case.bytes)
    assert modelled.wavefronts[0] == counted()["plain"][name][counter(case, SHARED)]
    if case.expected is not None:
        assert modelled.wavefronts[0] == case.expected
    excess = modelled.wavefronts[0] - modelled.least[0]
    assert excess == counted()["plain"][name][counter(case, CONFLICTS)]


# Copies. The counter of all of shared memory sees them, those of loads and stores do not.

PADDING = 3  # loads that load nothing, which ptxas puts in front of a straight piece of code with copies
PER_WARP = 1  # what the counter sees of every warp besides, whatever it runs
ROUNDING = 1e-3  # the record has 4 decimal places
# A copy of some lanes by .cg, where the others write zeros, takes up to this much more.
HALF_ZEROS = 1.1
# Sources that do not start at a multiple of 128 bytes, or lie in any order, cost 16-byte .ca up to this much.
UNALIGNED = 1.5
COPIES_OF_A_RUN = [
    name for name in COPY_CASES if "source" not in name.removesuffix(", the same source again")
]
COPIES_FROM_SPREAD_SOURCES = [name for name in COPY_CASES if name not in COPIES_OF_A_RUN]


def copies_counted(case: wavefronts.Case) -> float:
    """Wavefronts of one copy: what the counter saw, less what was not the copies'."""
    pieces = wavefronts.REPEATS // case.batch
    seen = counted()["copies"][case.name][SHARED]
    return seen - (PADDING * pieces + PER_WARP) / wavefronts.REPEATS


def operation(case: wavefronts.Case) -> str:
    """The name under which the emulator traces a copy."""
    return "cp.async.cg" if case.name.startswith("cg") else "cp.async.ca"


@pytest.mark.parametrize("name", COPIES_OF_A_RUN)
def test_model_of_copies_equals_the_counter(name):
    case = COPY_CASES[name]
    active = case.addresses != wavefronts.INACTIVE
    zeros = active & (case.sources == wavefronts.INACTIVE)
    copied = banks.cost(operation(case), [case.addresses], [mask_of(active & ~zeros)], case.bytes)
    zeroed = banks.cost("sts", [case.addresses], [mask_of(zeros)], case.bytes).wavefronts[0]
    is_mixed = zeros.any() and (active & ~zeros).any() and operation(case) == "cp.async.cg"
    tolerance = HALF_ZEROS if is_mixed else ROUNDING
    assert copies_counted(case) == pytest.approx(copied.wavefronts[0] + zeroed, abs=tolerance)
    if not zeros.any():
        excess = copied.wavefronts[0] - copied.least[0]
        assert counted()["copies"][name][CONFLICTS] == pytest.approx(excess, abs=ROUNDING)


@pytest.mark.parametrize("name", COPIES_FROM_SPREAD_SOURCES)
def test_a_copy_through_l1_waits_for_the_banks_of_its_sources_too(name):
    """In every phase the worse of sources and destinations counts; a word that two lanes copy counts twice.

    A copy past L1 does not wait.
    """
    case = COPY_CASES[name]
    if operation(case) == "cp.async.cg":
        assert copies_counted(case) == pytest.approx(0, abs=ROUNDING)
        return
    served = banks.service(operation(case), case.bytes)
    words = case.sources.reshape(served.phases, served.lanes, 1) // 4 + np.arange(served.words)
    of_sources = [np.bincount(phase.reshape(-1) % 32).max() for phase in words]
    in_phases = banks.phases(case.addresses, mask(case), operation(case), case.bytes)
    of_destinations = [phase.wavefronts for phase in in_phases]
    expected = np.maximum(of_sources, of_destinations).sum()
    tolerance = UNALIGNED if case.bytes == 16 else ROUNDING
    assert copies_counted(case) == pytest.approx(expected, abs=tolerance)


def test_a_copy_past_l1_is_not_free():
    """The pipe's counter says 0 wherever it goes; the time of 8 warps, and ncu's patched code, do not."""
    busy = counted()["busy"]
    near, far = (
        busy[f"cg16, destination stride {stride} B, the same source again, 8 warps"] for stride in (16, 128)
    )
    assert near[SHARED] == far[SHARED]
    assert far[CYCLES] > 5 * near[CYCLES]
    patched = "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts"
    few = counted()["few_copies"]
    assert few["cg16, destination linear"][patched] == 4
    assert few["cg16, destination stride 256 B"][patched] == 32


def test_a_copy_through_l1_takes_a_cycle_a_wavefront():
    busy = counted()["busy"]
    copies = wavefronts.MAX_WARPS * wavefronts.REPEATS
    for kind, width in (("ca4", 4), ("ca8", 8), ("ca16", 16)):
        near, far = (
            busy[f"{kind}, destination stride {stride} B, the same source again, 8 warps"]
            for stride in (width, 128)
        )
        more_cycles = (far[CYCLES] - near[CYCLES]) / copies
        assert more_cycles == pytest.approx(far[SHARED] - near[SHARED], rel=0.1)


@pytest.mark.parametrize("entry", ["count_loads<u16>", "count_stores<uint4>", "count_ldmatrix<true>"])
def test_traced_wavefronts_equal_the_counters(entry):
    library = emulator.build(wavefronts.WAVEFRONTS, entry)
    source = KernelSource.load(wavefronts.WAVEFRONTS)
    for case in PLAIN_CASES.values():
        if case.entry != entry:
            continue
        arguments = [case.addresses.astype(np.uint32)]
        if case.operation != "store":
            arguments.append(np.zeros(32, np.uint32))
        block = (32 * case.warps, 1, 1)
        shared = wavefronts.SHARED_BYTES
        traced = library.launch(arguments, (1, 1, 1), block, shared, check=False, trace=True)
        total = sum(row.wavefronts for row in rows(traced, source))
        assert total == wavefronts.REPEATS * counted()["plain"][case.name][counter(case, SHARED)], case.name
