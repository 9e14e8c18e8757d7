"""A stage differs from its base by one idea: what a diff may hold, what all stages share word for word."""

import re

import pytest

from kda_learn.ground.files import KERNELS
from kda_learn.sources.cpp import blocks, functions, strip_comments
from kda_learn.sources.kernel_source import KernelSource, diff
from kda_learn.sources.stages import STAGES, Stage, stage

MOST_CODE_LINES = 40
MOST_HUNKS = 10
BIG_STEPS = {
    "s01": "a new algorithm: three products lose their buffers, barriers and elementwise passes at once",
    "s02": "a new algorithm: the chain goes over to one warp per column block, and T1's code goes with T1",
    "s03a": "one knob turned in six places: every operand's address and load, and the snapshot, by ldmatrix",
}

FIRST_LINES = ['#include "gpu.cuh"', '#include "kernel_a/problem.cuh"', '#include "layouts.cuh"']
BANNERS = ["start", "load", "snapshot", "r1", "g1 g2", "g3", "g4 g5", "combine", "publish", "finish"]
SIGNATURE = """
    template <u32 VSPLIT, bool VARLEN, class Snapshot> __global__ void kernel_a(
        const bf16* q, const bf16* k, const float* gc, const float* beta, const bf16* inv, const bf16* mqk,
        const bf16* dout, const float* dht, Snapshot* snapshots, float* ds0, const long long* cu_seqlens,
        float scale, int T, int T_total, int total_tiles, int H)
"""

SHARED = [KERNELS / "layouts.cuh", KERNELS / "kernel_a" / "problem.cuh"]
CHOSEN_BY_SOME = {
    "Interleaved": "a layout, which stages choose from s03b on",
    "Swizzled": "a layout, which s12x chooses",
    "Swizzled32": "a layout, which s10 chooses",
}

SPEED = re.compile(
    r"""\d\s*(?:%(?!\s*\d)|percent|[mun]s\b|µs|(?:milli|micro|nano)?seconds?\b)  # 12 %, 3.5 ms
    |\d\s*(?:[GT]B/s|[GT]?FLOP)                                                # 3.7 TB/s
    |(?:\d|\btwice\b|\bhalf\b|\btimes\b).{0,12}\b(?:fast|slow|quick|speed)    # 2 times as fast
    |\bspeed-?ups?\b
    |\b(?:faster|slower|quicker)\s+by\b""",
    re.VERBOSE | re.IGNORECASE,
)

every_stage = pytest.mark.parametrize("rung", STAGES, ids=lambda rung: rung.id)
every_step = pytest.mark.parametrize("rung", [rung for rung in STAGES if rung.base], ids=lambda rung: rung.id)


def complaints(new: KernelSource, base: KernelSource, *, big_step: bool = False) -> list[str]:
    """What is wrong with a stage's difference to its base."""
    found = diff(new, base)
    result = [f"nothing but comments, blanks or line breaks:\n{h.text}" for h in found.hunks if h.cosmetic]
    if not found.code_lines:
        result.append("no changed code at all")
    if not big_step and (found.code_lines > MOST_CODE_LINES or len(found.hunks) > MOST_HUNKS):
        result.append(f"{found.code_lines} changed code lines in {len(found.hunks)} hunks")
    return result


def kernel_head(rung: Stage) -> str:
    """What stands in front of the kernel's body, without its launch bounds, in single spaces."""
    head = next(found.head for found in functions(rung.source.text) if "__global__" in found.head)
    return without_blanks(re.sub(r"__launch_bounds__\(.*?\)(?=\s+kernel_a)", "", head))


def without_blanks(code: str) -> str:
    """C++ with no blanks but those that part two words."""
    return re.sub(r"\s*(\W)\s*", r"\1", " ".join(code.split()))


def defined_names(text: str) -> list[str]:
    """The functions, structs and constants that a file defines at its top level."""
    outermost = [block for block in blocks(text) if not block.parents]
    named = [block.container or block.function for block in outermost]
    lines = strip_comments(text).splitlines()
    constants = [re.match(r"(?:static |inline )*constexpr [\w: ]+ (\w+) =", line) for line in lines]
    return list(dict.fromkeys([*filter(None, named), *(match[1] for match in constants if match)]))


# ---- a stage and its base ----


@every_step
def test_a_step_is_one_small_diff(rung: Stage):
    assert complaints(rung.source, stage(rung.base).source, big_step=rung.id in BIG_STEPS) == []


def test_only_steps_that_must_be_are_big():
    for name in BIG_STEPS:
        assert complaints(stage(name).source, stage(stage(name).base).source), name


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("// ---- publish ----", "// ---- publish ----  // all warps", "nothing but comments"),
        ("      float q_squares = 0", "        float q_squares  =  0", "no changed code"),
        ("    float q_squares = 0,", "\n    float q_squares =\n        0,", "nothing but comments"),
        (
            "    float q_squares = 0,",
            "    f();\n" * 41 + "    float q_squares = 0,",
            "41 changed code lines in 1",
        ),
    ],
)
def test_a_bad_diff_is_told(before: str, after: str, complaint: str):
    base = stage("s12").source
    changed = KernelSource(base.path, base.text.replace(before, after))
    assert complaint in "".join(complaints(changed, base))


# ---- what all stages share ----


@every_stage
def test_entry_and_signature_are_the_same(rung: Stage):
    assert kernel_head(rung) == without_blanks(SIGNATURE)


@every_stage
def test_banners_come_in_the_same_order_each_once(rung: Stage):
    banners = re.findall(r"// ---- (.+?) ----$", rung.source.text, re.MULTILINE)
    assert banners == ["operands: fragments of 16 x 16 elements", *BANNERS]


@every_stage
def test_all_include_the_same_headers(rung: Stage):
    included = [line for line in rung.source.lines if line.startswith("#include")]
    assert included == FIRST_LINES


@every_stage
def test_a_stage_defines_nothing_that_a_shared_header_defines(rung: Stage):
    shared = {name for path in [*SHARED, KERNELS / "gpu.cuh"] for name in defined_names(path.read_text())}
    assert not shared & set(defined_names(rung.source.text))


def test_a_shared_header_holds_what_every_stage_uses():
    """What only some stages use stands in their files, unless it is a choice that all of them have."""
    for path in SHARED:
        names = defined_names(path.read_text())
        assert names
        for name in names:
            users = [
                rung.id for rung in STAGES if re.search(rf"\b{name}\b", "\n".join(rung.source.code_lines))
            ]
            assert users, name
            assert (len(users) == len(STAGES)) != (name in CHOSEN_BY_SOME), (name, users)


@pytest.mark.parametrize("path", SHARED, ids=lambda path: path.name)
def test_a_shared_header_knows_no_stage(path):
    text = path.read_text()
    assert not re.search(r"\bs\d\d[abx]?\b", text)
    directives = set(re.findall(r"^#\s*(\w+)", text, re.MULTILINE))
    assert directives <= {"pragma", "include"}
    assert not [name for name in defined_names(text) if name.isupper()], "numbers stand in every stage file"


def test_what_a_file_defines_is_found():
    code = (
        "constexpr u32 C = 16;\nstruct A { static constexpr u32 B = 1; };\nGPU_FN int f(int x) { return x; }"
    )
    assert defined_names(code) == ["A", "f", "C"]


# ---- the header of a file ----


@every_stage
def test_header_fields_are_there(rung: Stage):
    header = rung.source.header
    assert header.stage == rung.id
    for field in (header.title, header.was_slow, header.now, header.remains):
        assert len(field) > 10, header
    text = rung.source.text
    labels = re.findall(r"^// (Stage s\w+|Was slow|Now|Remains): ", text, re.MULTILINE)
    assert labels == [f"Stage {rung.id}", "Was slow", "Now", "Remains"]


@pytest.mark.parametrize("path", [*(rung.path for rung in STAGES), *SHARED], ids=lambda path: path.name)
def test_no_speed_figures_in_kernel_files(path):
    """They hold for one GPU on one day: they stand in the records."""
    comments = [line.partition("//")[2] for line in path.read_text().splitlines()]
    assert [comment for comment in comments if SPEED.search(comment)] == []


@pytest.mark.parametrize(
    ("comment", "is_speed"),
    [
        ("// 12 % less", True),
        ("// takes 3.5 ms", True),
        ("// 40 us a launch", True),
        ("// 1.2 TB/s", True),
        ("// twice as fast", True),
        ("// 3 times slower", True),
        ("// a speed-up", True),
        ("// 8 wavefronts instead of one, in 64 KB", False),
        ("// rows 8 % 4", False),
    ],
)
def test_what_a_speed_figure_is(comment: str, is_speed: bool):
    assert bool(SPEED.search(comment)) == is_speed
