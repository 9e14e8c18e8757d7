"""The launch header of a .cu file: what it may say; one sentence, with file and line, for what it may not."""

import re

import numpy as np
import pytest

from kda_learn.ground.errors import BadInput
from kda_learn.sources.launch_header import MOST_BYTES, read_header
from kda_learn.sources.signatures import signatures

KERNEL = """\
#include "gpu.cuh"
constexpr u32 ROWS = 4;
constexpr u32 COLS = 8 * ROWS;
template <u32 N>
__global__ void __launch_bounds__(64, 2) scale(const float* __restrict__ from, bf16* to, int *seen,
                                               uint4 *any, float by, u32 n /* how many */) {
  for (u32 i = threadIdx.x; i < n; i += N) stg(to + i, to_bf16(by * ldg(from + i)));
}
__global__ void nothing() {}
"""
LINES = {
    "launch": "launch scale<64> grid 2,ROWS block 64 shared 4 * COLS seed 7",
    "from": "in from float32[ROWS][COLS] arange",
    "to": "out to bf16[ROWS*COLS]",
    "seen": "inout seen int32[1] 0",
    "any": "in any uint32[4] ones",
    "by": "in by float32 -1.5e2",
    "n": "in n uint32 ROWS*COLS",
}


def written(folder, text=KERNEL, **changes):
    """A file with the header, some of whose lines are others; None leaves one out."""
    lines = LINES | changes
    header = "".join(f"// kda-learn: {line}\n" for line in lines.values() if line is not None)
    path = folder / "mine.cu"
    path.write_text(header + text)
    return path


def test_a_header_with_everything(tmp_path):
    header = read_header(written(tmp_path))
    assert (header.entry, header.grid, header.block) == ("scale<64>", (2, 4, 1), (64, 1, 1))
    assert (header.line, header.shared, header.seed) == (1, 128, 7)
    assert [one.name for one in header.arguments] == ["from", "to", "seen", "any", "by", "n"]
    assert [one.shape for one in header.arguments] == [(4, 32), (128,), (1,), (4,), None, None]
    assert [one.fill for one in header.arguments] == ["arange", "", 0, 1, -150.0, 128]
    assert [one.kind for one in header.arguments][:3] == ["in", "out", "inout"]
    assert [one.bytes for one in header.arguments] == [512, 256, 4, 16, 0, 0]


def test_the_order_of_the_lines_is_free_and_random_is_what_an_array_holds(tmp_path):
    path = written(tmp_path)
    lines = path.read_text().splitlines(keepends=True)
    shuffled = list(np.random.default_rng().permutation(lines[: len(LINES)]))
    path.write_text("".join(["// Scales.\n", *shuffled, *lines[len(LINES) :]]).replace(" arange", ""))
    header = read_header(path)
    assert [one.name for one in header.arguments] == ["from", "to", "seen", "any", "by", "n"]
    assert header.arguments[0].fill == "random"
    assert header.line == shuffled.index(lines[0]) + 2


def test_null_and_a_kernel_that_takes_nothing(tmp_path):
    header = read_header(written(tmp_path, **{"any": "in any uint32 null"}))
    assert (header.arguments[3].shape, header.arguments[3].fill) == (None, "null")
    nothing = dict.fromkeys(LINES) | {"launch": "launch nothing grid 1 block 32"}
    header = read_header(written(tmp_path, **nothing))
    assert (header.arguments, header.shared, header.seed) == ((), 0, 0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"launch": "launch grid 1 block 32"}, "mine.cu:1: launch without a kernel"),
        ({"launch": "launch scale<64> block 32"}, "mine.cu:1: grid is missing: give it, such as `launch"),
        ({"launch": "launch scale<64> grid 1"}, "mine.cu:1: block is missing"),
        (
            {"launch": "launch scale<64> grid 1,2,3,4 block 32"},
            "mine.cu:1: grid is 1,2,3,4: give one to three",
        ),
        ({"launch": "launch scale<64> grid 0 block 32"}, "mine.cu:1: grid is 0"),
        ({"launch": "launch scale<64> grid 1 block LANES"}, "mine.cu:1: block is LANES: give a whole number"),
        ({"launch": "launch scale<64> grid 1 block 1.5"}, "mine.cu:1: block is 1.5"),
        ({"launch": "launch scale<64> grid 1 block"}, "mine.cu:1: block is empty"),
        ({"launch": "launch scale<64> grid 1 block 32 grid 2"}, "mine.cu:1: a setting is given twice"),
        (
            {"launch": "launch scale<64> grid 1 block 32 shared 1,2"},
            "mine.cu:1: shared is 1,2: give one whole",
        ),
        ({"launch": "launch scale grid 1 block 32"}, "scale is a template <u32 N>: give values .*scale<1>"),
        (
            {"launch": "launch scales grid 1 block 32"},
            "mine.cu:1: launch scales, and the file has scale, nothing",
        ),
        ({"launch": "lunch scale<64> grid 1 block 32"}, "mine.cu:1: no line says launch"),
        ({"more": LINES["launch"]}, "mine.cu:8: a second launch, beside that of line 1"),
        (
            {"to": None},
            r"mine.cu:1: scale takes bf16\* to, which no line .* `// kda-learn: out to bf16\[32\]`",
        ),
        (
            {"n": None},
            "mine.cu:1: scale takes u32 n, which no line gives: give it .* `// kda-learn: in n uint32 1`",
        ),
        (
            {"more": "in z float32 1"},
            "mine.cu:8: z is no parameter of scale: give one of those .* from, to, seen",
        ),
        ({"more": "in n uint32 1"}, "mine.cu:8: n is given in line 7 already"),
        (
            {"from": "out from float32[4]"},
            r"mine.cu:2: from is written \(out\), and scale takes const float\*",
        ),
        ({"from": "in from float32 4"}, r"mine.cu:2: from is a number, and scale takes const float\*"),
        ({"from": "in from int32[4]"}, "mine.cu:2: from is of type int32, .*: give float32"),
        ({"by": "in by float32[4]"}, "mine.cu:6: by is an array, and scale takes float by: give a number"),
        ({"by": "in by float32 null"}, "mine.cu:6: by is an array"),
        ({"by": "in by float32"}, "mine.cu:6: by holds nothing: give a number"),
        ({"by": "in by float32 half"}, "mine.cu:6: by holds half"),
        ({"by": "in by half 1"}, "mine.cu:6: by is of type half: give one of float32, float64, bf16"),
        (
            {"n": "in n uint32 -1"},
            "mine.cu:7: -1 was given for a number of type uint32: give .* from 0 to 4294967295",
        ),
        ({"n": "in n uint32 1.5"}, "mine.cu:7: 1.5 was given"),
        ({"n": "in n uint32 99999999999"}, "mine.cu:7: 99999999999 was given"),
        ({"to": "out to bf16"}, "mine.cu:3: the output to has no size"),
        (
            {"to": "out to bf16[4] zeros"},
            "mine.cu:3: the output to holds zeros: give nothing there, or inout",
        ),
        ({"to": "out to bf16[]"}, "mine.cu:3: a size of to is empty"),
        ({"to": "out to bf16[-4]"}, "mine.cu:3: a size of to is -4"),
        ({"to": "out to"}, "mine.cu:3: `out to`: give in, out or inout, a name, a type"),
        ({"to": "output to bf16[4]"}, "mine.cu:3: `output to bf16"),
        ({"to": ""}, "mine.cu:3: ``: give"),
        ({"to": f"out to bf16[{MOST_BYTES}]"}, "mine.cu:1: the arrays take .* bytes together: give at most"),
    ],
)
def test_what_does_not_fit_is_one_sentence_with_the_line(tmp_path, changes, said):
    with pytest.raises(BadInput, match=said) as error:
        read_header(written(tmp_path, **changes))
    assert len(str(error.value).split(":\n")[0].splitlines()) == 1


def test_a_file_without_header_is_told_what_to_write_and_that_is_right(tmp_path):
    path = tmp_path / "mine.cu"
    path.write_text(KERNEL)
    with pytest.raises(BadInput) as error:
        read_header(path)
    first, *lines = str(error.value).splitlines()
    assert first == "mine.cu has no launch header: put such lines at its top, with your own sizes and values:"
    assert lines[:2] == [
        "// kda-learn: launch scale<1> grid 1 block 32",
        "// kda-learn: in from float32[32] random",
    ]
    path.write_text("\n".join([*lines, KERNEL]))
    assert [one.name for one in read_header(path).arguments] == ["from", "to", "seen", "any", "by", "n"]


def test_a_file_without_kernel(tmp_path):
    path = tmp_path / "mine.cu"
    path.write_text("int main() { return 0; }\n")
    with pytest.raises(BadInput, match="has no kernel"):
        read_header(path)
    path.write_text("// kda-learn: launch k grid 1 block 32\nint main() { return 0; }\n")
    with pytest.raises(BadInput, match=":1: launch k, and the file has no __global__ function"):
        read_header(path)


def test_signatures_of_every_style(tmp_path):
    path = tmp_path / "mine.cu"
    path.write_text(KERNEL.replace("int *seen", "unsigned  long\nlong const seen[]"))
    scale, nothing = signatures(path)
    assert (nothing.kernel, nothing.parameters, nothing.template) == ("nothing", (), "")
    assert scale.template == "u32 N"
    found = {one.name: (one.is_pointer, one.is_const, one.type) for one in scale.parameters}
    assert found == {
        "from": (True, True, "float32"),
        "to": (True, False, "bf16"),
        "seen": (True, True, "uint64"),
        "any": (True, False, None),
        "by": (False, False, "float32"),
        "n": (False, False, "uint32"),
    }
    assert not any(re.search(r"\s{2}", one.declared) for one in scale.parameters)
