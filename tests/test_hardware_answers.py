"""The CPU machine gives a GPU's recorded answers, bit for bit, and the bank model gives its counters.

The answers come from tests/record_hardware.py, run on a Hopper GPU.
"""

import functools
import json

import hardware_cases as fragments
import hardware_wavefront_cases as wavefronts
import numpy as np
import pytest
from ncu_counters import CONFLICTS, SHARED
from numpy.typing import NDArray

from kda_learn import banks, emulator
from kda_learn.source import StageSource
from kda_learn.trace import rows

GROUPS = {group.entry: group for group in fragments.groups()}
EXACT = [
    "load_matrices.registers",
    "store_matrices.windows",
    "transpose_registers.transposed",
    "copy_async.windows",
    "convert.packed",
    "convert.rounded",
    "convert.low",
    "convert.high",
    "convert.one",
]
# How far a sum of 16 products and c may be from the exact one, as a part of |c| + sum of |a||b|. The tensor
# core shifts the 17 terms to the largest one's exponent, cuts them off at 2^-23 of it or lower, then cuts off
# the result: 18 * 2^-23. A chain of float32 additions rounds 16 times: 16 * 2^-24. Together less than 2^-18.
MULTIPLY_BOUND = 2.0**-18
SUBNORMAL_BOUND = 32 * 2.0**-149  # and among subnormals, the same 26 roundings, each by one unit at the most
# PTX promises 2^-22 for ex2.approx.ftz and less for rsqrt.approx.ftz; the CPU's own functions do better.
FAST_FUNCTION_BOUND = 2.0**-21


@functools.cache
def recorded(name: str) -> NDArray:
    """What the GPU wrote, by group and output."""
    with np.load(fragments.ANSWERS) as answers:
        return answers[name]


def launch(group: fragments.Group, seed: int = 0) -> dict[str, NDArray]:
    """What the CPU machine writes for a group, by group and output; no fault may be found."""
    outputs = {}
    for name, (shape, dtype) in group.outputs.items():
        output = np.empty(shape, dtype)
        output.view(np.uint8).fill(0xFF)
        outputs[f"{group.entry}.{name}"] = output
    library = emulator.build(fragments.FRAGMENTS, group.entry)
    arguments = [*group.inputs.values(), *outputs.values()]
    grid = (group.blocks, 1, 1)
    result = library.launch(arguments, grid, (fragments.LANES, 1, 1), group.shared_bytes, seed=seed)
    assert result.faults == []
    return outputs


@functools.cache
def emulated(name: str) -> NDArray:
    """What the CPU machine wrote, by group and output."""
    return launch(GROUPS[name.split(".")[0]])[name]


def assert_same_bits(ours: NDArray, theirs: NDArray) -> None:
    """Equal to the last bit; the message names the first element that differs."""
    integer = f"uint{8 * ours.dtype.itemsize}"
    different = np.argwhere(ours.view(integer) != theirs.view(integer))
    if len(different):
        first = tuple(different[0].tolist())
        pytest.fail(
            f"{len(different)} of {ours.size} differ, first at {first}: "
            f"emulator {ours.view(integer)[first]:#x}, GPU {theirs.view(integer)[first]:#x}"
        )


def test_constants_are_those_of_the_kernels():
    in_kernels = StageSource.load(fragments.FRAGMENTS).constants()
    for name in ("LANES", "WINDOW_BYTES", "COPY_WINDOW_BYTES", "SOURCE_BYTES", "LOAD_REGISTERS"):
        assert in_kernels[name] == getattr(fragments, name)
    assert in_kernels["STORE_VARIANTS"] == fragments.STORE_VARIANTS
    assert in_kernels["COPY_VARIANTS"] == fragments.COPY_VARIANTS
    in_kernels = StageSource.load(wavefronts.WAVEFRONTS).constants()
    for name in ("LANES", "REPEATS", "SAME_BANKS", "INACTIVE"):
        assert in_kernels[name] == getattr(wavefronts, name)
    for name, number in wavefronts.COPY_KINDS.items():
        assert in_kernels[name.upper()] == number


def test_recorded_answers_belong_to_these_inputs():
    asked = json.loads(fragments.PROVENANCE.read_text())["inputs"]
    now = {entry: group.digest() for entry, group in GROUPS.items()}
    assert asked == now, "hardware_cases.py changed: run tests/record_hardware.py on a Hopper GPU again"


@pytest.mark.parametrize("name", EXACT)
def test_same_bits_as_the_gpu(name):
    assert_same_bits(emulated(name), recorded(name))


@pytest.mark.parametrize("entry", ["load_matrices", "store_matrices", "copy_async"])
def test_answers_do_not_depend_on_the_order_of_lanes(entry):
    first = launch(GROUPS[entry], seed=1)
    for name, array in launch(GROUPS[entry], seed=2).items():
        assert_same_bits(array, first[name])


def test_products_of_integers_have_the_same_bits():
    integers = fragments.MultiplyCases.integers
    assert_same_bits(emulated("multiply.d")[integers], recorded("multiply.d")[integers])


def test_products_of_random_numbers_are_as_close_as_rounding_allows():
    group = GROUPS["multiply"]
    magnitudes = {name: array & 0x7FFF7FFF for name, array in group.inputs.items() if name != "c"}
    magnitudes["c"] = np.abs(group.inputs["c"])
    sums = launch(fragments.Group("multiply", magnitudes, group.outputs, group.blocks))["multiply.d"]
    allowed = MULTIPLY_BOUND * sums.astype(np.float64) + SUBNORMAL_BOUND
    ours = emulated("multiply.d").astype(np.float64)
    theirs = recorded("multiply.d").astype(np.float64)
    finite = np.isfinite(theirs)
    assert finite[fragments.MultiplyCases.random].all()
    assert (np.abs(ours[finite] - theirs[finite]) <= allowed[finite]).all()
    np.testing.assert_array_equal(ours[~finite], theirs[~finite])


@pytest.mark.parametrize("name", ["convert.exp2", "convert.rsqrt"])
def test_fast_functions_are_close_and_the_same_at_zero_infinity_and_nan(name):
    ours = emulated(name).astype(np.float64)
    theirs = recorded(name).astype(np.float64)
    ordinary = np.isfinite(theirs) & (theirs != 0)
    np.testing.assert_array_equal(ours[~ordinary], theirs[~ordinary])
    errors = np.abs(ours[ordinary] - theirs[ordinary])
    assert (errors <= FAST_FUNCTION_BOUND * np.abs(theirs[ordinary])).all()
    signs = np.signbit(ours) == np.signbit(theirs)
    assert signs[~np.isnan(theirs)].all()


# Wavefronts: the model, the trace, the counters.

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
    return sum(1 << lane for lane in range(32) if case.addresses[lane] != wavefronts.INACTIVE)


@pytest.mark.parametrize("name", PLAIN_CASES)
def test_model_equals_the_counters(name):
    case = PLAIN_CASES[name]
    matrices = 4 if case.operation in ("ldmatrix", "stmatrix") else 0
    modelled = banks.wavefronts([case.addresses], [mask(case)], case.bytes, matrices)[0]
    assert modelled == counted()["plain"][name][counter(case, SHARED)]
    if case.expected is not None:
        assert modelled == case.expected
    excess = modelled - banks.least([mask(case)], case.bytes, matrices)[0]
    assert excess == counted()["plain"][name][counter(case, CONFLICTS)]


@pytest.mark.parametrize("name", COPY_CASES)
def test_model_of_copies_equals_the_counters(name):
    case = COPY_CASES[name]
    op = "cp.async.cg" if case.name.startswith("cg") else "cp.async.ca"
    modelled = banks.copy_wavefronts([case.addresses], [mask(case)], case.bytes, op)[0]
    assert modelled == counted()["copies"][name][SHARED]


@pytest.mark.parametrize("entry", ["count_loads<u16>", "count_stores<uint4>", "count_ldmatrix<true>"])
def test_traced_wavefronts_equal_the_counters(entry):
    library = emulator.build(wavefronts.WAVEFRONTS, entry)
    source = StageSource.load(wavefronts.WAVEFRONTS)
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
