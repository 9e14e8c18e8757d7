"""Reading kernel files: C++ in small, headers, sections, constants, regions, digests, differences."""

import pytest

from kda_learn.ground.errors import BadInput
from kda_learn.ground.files import KERNELS
from kda_learn.sources.cpp import blocks, evaluate, functions, strip_comments
from kda_learn.sources.includes import digest, included_files
from kda_learn.sources.kernel_source import Header, KernelSource, Region, diff

NAMES = {"VSPLIT": 4, "C": 16, "D": 128}

# C++ in small.


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("16", 16),
        ("0x10u + 1", 17),
        ("D / VSPLIT", 32),
        ("C * D * 2 - (D - C) / 3", 4059),
        ("7 / 2 * 2", 6),
        ("D % 12", 8),
        ("VSPLIT == 1 ? 3 : 2", 2),
        ("(VSPLIT >= 4 ? C : D) + 1", 17),
        ("VSPLIT == 1 ? 1 : VSPLIT == 4 ? 2 : 3", 2),
        ("VSPLIT != 4 ? 1 / 0 : 5", 5),
        ("-C + D", 112),
    ],
)
def test_expressions(expression, value):
    assert evaluate(expression, NAMES.__getitem__) == value


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "1.5f",
        "sizeof(float)",
        "a->b",
        "C +",
        "(C",
        "C)",
        "C ? 1",
        "C : 1",
        "1 < 2 < 3",
        "C / 0",
        "f(1)",
        "~C",
        "C == D ==",
    ],
)
def test_other_expressions_are_refused(expression):
    with pytest.raises(BadInput, match="expression"):
        evaluate(expression, lambda name: NAMES.get(name, 1))


def test_strip_comments_keeps_every_place():
    text = "int a;  // one { two\nchar b = '/'; /* {\n} */ int c = 1'000; // it's\nauto d = \"// no\";\n"
    stripped = strip_comments(text)
    assert len(stripped) == len(text)
    assert [line.rstrip() for line in stripped.splitlines()] == [
        "int a;",
        "char b = '/';",
        "     int c = 1'000;",
        'auto d = "// no";',
    ]


CPP = """\
#define BRACE {
template <class T> struct Outer {
  static GPU_FN constexpr u32 at(u32 row) { return row; }
  u32 r[4];
};
constexpr u32 TABLE[] = {1, 2};
namespace inner {
template <u32 N = 3>
GPU_FN void helper(float (*f)(int)) {
  auto nested = [=](u32 x) { return x; };  // }
}
}
template <u32 A, bool B>
__global__ void __launch_bounds__(THREADS, A == 1 ? max(2, 3) : 2)
    kernel(const int* x) {
  for (int i = 0; i < 3; i++) { x += '}'; }
}
"""


def test_functions_are_found_by_name():
    found = functions(CPP)
    assert [function.function for function in found] == ["at", "helper", "kernel"]
    assert [len(function.parents) for function in found] == [1, 1, 0]
    assert next(block for block in blocks(CPP) if block.container == "Outer").parents == ()


@pytest.mark.parametrize(
    ("text", "words"), [("int f() {\n", "never closed"), ("int f() {\n}\n}\n", "line 3")]
)
def test_unmatched_braces_are_named(text, words):
    with pytest.raises(BadInput, match=words):
        blocks(text)


# A stage file.

STAGE = """\
// Stage s98: a title that
//   goes on
// Was slow: this
// Now: that,
// and more
// Remains: nothing.
#include "sizes.cuh"

constexpr u32 C = 16;  // tokens
constexpr float EPSILON = 1e-6f;
constexpr u32 MIN_BLOCKS =
    D / C * C;

template <u32 VSPLIT> struct SharedMemory {
  static constexpr u32 DV = D / VSPLIT;  // columns of a block
  static constexpr u32 DS = 0;  // [DV][D] bf16: start, combine .. snapshot,
                                // g1 g2
  static constexpr u32 NORMS = DS;  // overlay [bytes 128] [2][C] fp32, in r1, load_a: early
  static constexpr u32 GT = DS + DV * D * 2;  // [D] fp32: r1 .. combine
  // constexpr u32 OLD = 7;
  static constexpr u32 BYTES = GT + D * 4 + 8;
};

GPU_FN void load_a(u32 x) {
  // ---- not a section ----
  lds<float>(x);
}

__global__ void kernel_a(int T) {
  constexpr u32 DV = Smem::DV;
  // ---- start ----
  work();
  {
    // ---- g4 g5 ----
    work(1,
         2);
  }
}
"""


@pytest.fixture
def stage(tmp_path) -> KernelSource:
    """STAGE in a file, beside the header that it includes."""
    path = tmp_path / "s98_example.cu"
    path.write_text(STAGE)
    (tmp_path / "sizes.cuh").write_text('#pragma once\n#include "more.cuh"\nconstexpr u32 D = 128;\n')
    (tmp_path / "more.cuh").write_text('#pragma once\n#include "sizes.cuh"\n')
    return KernelSource.load(path)


def test_header(stage):
    assert stage.header == Header(
        stage="s98", title="a title that goes on", was_slow="this", now="that, and more", remains="nothing."
    )
    assert stage.header_length == 6


def test_a_file_without_header_says_what_is_wanted(tmp_path):
    path = tmp_path / "bare.cu"
    path.write_text("int x;\n")
    with pytest.raises(BadInput, match=r"no stage header: let its first line be '// Stage sNN"):
        _ = KernelSource.load(path).header


def test_sections(stage):
    found = {stage.lines[line - 1].strip(): section for line, section in stage.sections.items()}
    assert found["lds<float>(x);"] == "load_a"
    assert found["__global__ void kernel_a(int T) {"] == "kernel_a"
    assert found["constexpr u32 DV = Smem::DV;"] == "kernel_a"
    assert found["work();"] == "start"
    assert found["2);"] == "g4 g5"
    assert 9 not in stage.sections


def test_constants(stage):
    expected = {"C": 16, "MIN_BLOCKS": 128, "DV": 128, "DS": 0, "NORMS": 0, "GT": 32768, "BYTES": 33288}
    assert stage.constants() == expected
    assert stage.constants(VSPLIT=4)["BYTES"] == 32 * 256 + 520


def test_a_parameter_that_the_template_lacks_is_refused(stage):
    with pytest.raises(
        BadInput, match=r"V_SPLIT was given .* template parameters VSPLIT: give one of these\."
    ):
        stage.constants(V_SPLIT=4)


def test_regions(stage):
    ds, norms, gt = stage.regions(VSPLIT=2)
    assert ds == Region(
        name="DS",
        offset=0,
        size=16384,
        contents="[DV][D] bf16",
        contents_bytes=16384,
        lifetime="start, combine .. snapshot, g1 g2",
    )
    assert norms == Region(
        name="NORMS",
        offset=0,
        size=128,
        contents="[2][C] fp32",
        contents_bytes=128,
        lifetime="early",
        overlay=True,
        sections=("r1", "load_a"),
    )
    assert (gt.name, gt.offset, gt.size, gt.contents_bytes, gt.end) == ("GT", 16384, 520, 512, 16904)
    assert ds.description == "[DV][D] bf16: start, combine .. snapshot, g1 g2"


def test_a_name_that_is_no_constant_is_named(tmp_path):
    path = tmp_path / "broken.cu"
    path.write_text("constexpr u32 A = UNKNOWN + 1;\n")
    with pytest.raises(BadInput, match=r"broken.cu uses UNKNOWN"):
        KernelSource.load(path).constants()


def test_statement_joins_its_lines(stage):
    line = stage.lines.index("         2);") + 1
    assert stage.statement(line) == stage.statement(line - 1) == "work(1, 2);"


# Digests.


def test_includes_are_followed_once(stage):
    assert [path.name for path in included_files(stage.path)] == ["s98_example.cu", "sizes.cuh", "more.cuh"]


def test_digest_sees_every_included_file(stage):
    before = digest(stage.path)
    assert digest(stage.path) == before
    (stage.path.parent / "more.cuh").write_text("#pragma once\n")
    assert digest(stage.path) != before


def test_digest_leaves_the_emulator_out():
    stage_file = next((KERNELS / "kernel_a").glob("s12_*.cu"))
    assert any(path.parent.name == "emulator" for path in included_files(stage_file))
    assert len(digest(stage_file)) == 64


@pytest.mark.parametrize("read", [KernelSource.load, digest])
def test_missing_files_are_named(tmp_path, read):
    with pytest.raises(BadInput, match=r"nowhere.cu was given, which is no file"):
        read(tmp_path / "nowhere.cu")


def test_missing_includes_are_named(tmp_path):
    path = tmp_path / "a.cu"
    path.write_text('#include "nowhere.cuh"\n')
    with pytest.raises(BadInput, match=r"includes .nowhere\.cuh."):
        included_files(path)


# Differences.

BASE_CODE = [f"step({number});" for number in range(40)]


def source_of(tmp_path, name: str, code: list[str], title: str) -> KernelSource:
    """A file with a header and some lines of code."""
    path = tmp_path / name
    path.write_text("\n".join([f"// Stage s97: {title}", "// Now: words", *code]) + "\n")
    return KernelSource.load(path)


def changed(tmp_path, code: list[str]):
    """The difference from BASE_CODE to other lines of code."""
    base = source_of(tmp_path, "base.cu", BASE_CODE, "one")
    return diff(source_of(tmp_path, "new.cu", code, "another"), base)


def test_headers_do_not_count(tmp_path):
    found = changed(tmp_path, BASE_CODE)
    assert (found.hunks, found.code_lines, found.text) == ([], 0, "")


def test_code_lines_and_hunks_are_counted(tmp_path):
    code = list(BASE_CODE)
    code[2:3] = ["// why", "", "other(2);", "other(3);"]
    code[30:33] = ["other(30);"]
    found = changed(tmp_path, code)
    assert [hunk.code_lines for hunk in found.hunks] == [2, 3]
    assert found.code_lines == 5
    assert not any(hunk.cosmetic for hunk in found.hunks)
    first = found.hunks[0]
    assert (first.base_line, first.line) == (3, 3)
    assert first.text.splitlines() == [
        "@@ -3,6 +3,9 @@",
        " step(0);",
        " step(1);",
        "-step(2);",
        "+// why",
        "+",
        "+other(2);",
        "+other(3);",
        " step(3);",
        " step(4);",
        " step(5);",
    ]
    assert found.text.startswith("--- base.cu\n+++ new.cu\n@@ -3,6 +3,9 @@\n")


def test_near_changes_share_a_hunk(tmp_path):
    code = list(BASE_CODE)
    code[10] = "other(10);"
    code[16] = "other(16);"
    assert [hunk.code_lines for hunk in changed(tmp_path, code).hunks] == [2]


@pytest.mark.parametrize(
    "replacement",
    [["step(8);  // a remark"], ["  step(8);"], ["// a remark", "step(8);"], ["step(", "    8);"]],
)
def test_hunks_without_change_of_code_are_cosmetic(tmp_path, replacement):
    code = list(BASE_CODE)
    code[8:9] = replacement
    (hunk,) = changed(tmp_path, code).hunks
    assert hunk.cosmetic
    assert hunk.code_lines == 0
