"""An instruction is a call site, with the way to it: through functions of every kind."""

import re

import numpy as np
import pytest
from paths import TESTS

from kda_learn.compilers.call_sites import OPERATION, with_call_sites
from kda_learn.ground.files import KERNELS
from kda_learn.hardware import banks
from kda_learn.machines import emulator
from kda_learn.sources.stages import STAGES

SOURCE = TESTS / "kernels" / "call_sites.cu"
LINES = SOURCE.read_text().splitlines()
KINDS = re.findall(r"KIND == (\d+)", SOURCE.read_text())


def launch(entry: str, trace: bool = True) -> tuple[emulator.Launch, np.ndarray]:
    out = np.zeros(32, np.uint32)
    return emulator.build(SOURCE, entry).launch([out], 1, 32, 1024, trace=trace), out


@pytest.mark.parametrize("kind", KINDS)
def test_two_ways_are_two_instructions(kind):
    done, out = launch(f"two_calls<{kind}>")
    assert done.faults == []
    np.testing.assert_array_equal(out, np.arange(32))
    loads = done.accesses[done.accesses["op"] == done.operations.index("lds")]
    assert len(loads) == 2
    assert set(loads["mask"].tolist()) == {0x0000FFFF, 0xFFFF0000}
    assert banks.cost("lds", loads["address"], loads["mask"], 4).wavefronts.tolist() == [1, 1]
    assert len({done.sites[site] for site in loads["site"]}) == 2
    assert sum(count for (_, _, name), count in done.counts.items() if name == "lds") == 2


def test_the_way_is_told():
    done, _ = launch("two_calls<3>")
    ways = [site for site in done.sites if site.operation == "lds"]
    assert len(ways) == 2
    for site in ways:
        called_at = [LINES[line - 1].strip() for _, line, _ in site.callers]
        assert called_at[0].endswith("// the way: nested")
        assert called_at[1].endswith("// the way: nested_twice")
        assert called_at[2] == "x = nested_twice(here);"
        assert site.instructions == 1


def test_visits_in_a_loop_are_told_apart():
    done, out = launch("in_a_loop")
    loads = done.accesses[done.accesses["op"] == done.operations.index("lds")]
    lanes = np.arange(32)
    np.testing.assert_array_equal(out, lanes * (1 + lanes % 4))
    assert [bin(mask).count("1") for mask in loads["mask"].tolist()] == [32, 24, 16, 8]
    assert len({*loads["site"].tolist()}) == 1


def test_a_divergent_collective_in_a_function_is_named_with_both_ways():
    done, _ = launch("divergent", trace=False)
    (fault,) = done.faults
    assert fault.kind == "divergent warp"
    assert LINES[fault.line - 1].endswith("// at fault")
    ways = [LINES[int(line) - 1] for line in re.findall(r"called at call_sites\.cu:(\d+)", fault.message)]
    assert {way.rsplit("// ")[-1] for way in ways} == {"one way", "the other way"}


def test_a_function_handed_on_by_name_still_compiles():
    done, out = launch("by_pointer")
    assert done.faults == []
    np.testing.assert_array_equal(out, np.arange(32))


def test_no_line_moves():
    for path in [*(stage.path for stage in STAGES), SOURCE, *(TESTS / "kernels").glob("*.cu")]:
        text = path.read_text()
        (rewritten,) = with_call_sites([text])
        assert rewritten.count("\n") == text.count("\n")
        for before, after in zip(text.splitlines(), rewritten.splitlines(), strict=True):
            assert (
                re.sub(r",? ?(const )?emulator::[^;{})]*(\(\))?(\([^()]*\);)?", "", after)[:8] == before[:8]
            )


def test_every_operation_that_is_told_its_place_is_known():
    """A new operation of device.h must be one that the rewriting looks for."""
    text = (KERNELS / "emulator" / "device.h").read_text()
    named = set(re.findall(r"(\w+)\((?:[^()]|\n)*emulator::Site site = emulator::Site::current\(\)\)", text))
    named |= set(re.findall(r"^EMULATOR_(?:LDMATRIX|STMATRIX|SHUFFLE)\((\w+),", text, flags=re.MULTILINE))
    named -= {"NAME"}
    assert len(named) > 25
    assert {name for name in named if not OPERATION.fullmatch(name)} == set()


def test_errors_are_those_of_the_text_as_it_was_written(tmp_path):
    from kda_learn.compilers.log import CompileError

    source = tmp_path / "mine.cu"
    source.write_text(
        '#include "gpu.cuh"\nGPU_FN u32 f(saddr at) { return lds<u32>(at); }\n'
        "__global__ void k(u32* out) {\n  stg(out, g(0));\n}\n"
    )
    with pytest.raises(CompileError, match=r"mine\.cu:4:\d+: error: .g. was not declared"):
        emulator.build(source, "k")
