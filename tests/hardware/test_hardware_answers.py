"""The CPU machine gives a GPU's recorded answers, bit for bit.

The answers come from tests/record_hardware.py, run on a Hopper GPU.
"""

import functools
import json

import hardware_cases as fragments
import numpy as np
import pytest
from numpy.typing import NDArray

from kda_learn.machines import emulator
from kda_learn.sources.kernel_source import KernelSource

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
MULTIPLY_KINDS = [kind for kind, blocks in vars(fragments.MultiplyCases).items() if isinstance(blocks, slice)]
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
    in_kernels = KernelSource.load(fragments.FRAGMENTS).constants()
    for name in ("LANES", "WINDOW_BYTES", "COPY_WINDOW_BYTES", "SOURCE_BYTES", "LOAD_REGISTERS"):
        assert in_kernels[name] == getattr(fragments, name)
    assert in_kernels["STORE_VARIANTS"] == fragments.STORE_VARIANTS
    assert in_kernels["COPY_VARIANTS"] == fragments.COPY_VARIANTS


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


@pytest.mark.parametrize("kind", MULTIPLY_KINDS)
def test_sums_of_products_have_the_same_bits(kind):
    blocks = getattr(fragments.MultiplyCases, kind)
    assert_same_bits(emulated("multiply.d")[blocks], recorded("multiply.d")[blocks])


@pytest.mark.parametrize("name", ["convert.exp2", "convert.rsqrt"])
def test_fast_functions_are_close_and_the_same_at_zero_infinity_and_nan(name):
    ours = emulated(name).astype(np.float64)
    theirs = recorded(name).astype(np.float64)
    ordinary = np.isfinite(theirs) & (theirs != 0)
    np.testing.assert_array_equal(ours[~ordinary], theirs[~ordinary])
    errors = np.abs(ours[ordinary] / theirs[ordinary] - 1)
    worst = np.argmax(errors)
    given = GROUPS["convert"].inputs["values"][ordinary][worst]
    assert errors[worst] <= FAST_FUNCTION_BOUND, f"of {given!r}"
    signs = np.signbit(ours) == np.signbit(theirs)
    assert signs[~np.isnan(theirs)].all()
