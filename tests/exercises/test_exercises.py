"""Every exercise: its region is there, the stub does not pass, the solution does, wrong answers get help."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
from paths import NOTEBOOKS

from kda_learn.exercises import words as exercise_words
from kda_learn.exercises.cell import Cell
from kda_learn.exercises.definition import Exercise, exercise, keys
from kda_learn.exercises.words import grade, grade_text, hint, kernel
from kda_learn.ground.errors import BadInput
from kda_learn.lessons import progress

HAND_OVER = "s02.hand_over"
LAYOUT = "banks.layout"

every_exercise = pytest.mark.parametrize("key", keys())
every_wrong_answer = pytest.mark.parametrize(
    ("key", "name"), [(key, wrong.name) for key in keys() for wrong in exercise(key).wrong]
)


@cache
def kernel_cells(notebook: Path) -> dict[str, str]:
    """First line to the rest, for the cells of a notebook that hold a kernel's lines."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells]
    return dict(text.split("\n", 1) for text in texts if text.startswith("%%kernel"))


def solution(task: Exercise) -> str:
    """The cell of the worked solution."""
    return kernel_cells(NOTEBOOKS / task.solution)[task.magic]


def judged_stub(key: str) -> str:
    """The stub, changed so little that it is the same kernel, and enough that it is judged."""
    return exercise(key).stub + ";\n"


@pytest.fixture(scope="module")
def grades():
    """The grades of all solutions, wrong answers and stubs, by key and text; two compilers at a time."""
    texts = [(key, solution(exercise(key))) for key in keys()]
    texts += [(key, wrong.cell) for key in keys() for wrong in exercise(key).wrong]
    texts += [(key, judged_stub(key)) for key in keys()]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda pair: grade_text(*pair), texts)
        return dict(zip(texts, results, strict=True))


@pytest.fixture(autouse=True)
def nothing_done_yet(monkeypatch, tmp_path):
    """No kept cell, and a progress file of this test's own."""
    monkeypatch.setenv("KDA_LEARN_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setattr(exercise_words, "_kept", {})


def run_cell(key: str, text: str):
    """What running a cell with %%kernel does."""
    task = exercise(key)
    return kernel(task.magic.removeprefix("%%kernel"), text)


# ---- all exercises ----
@every_exercise
def test_the_definition_is_whole(key):
    task = exercise(key)
    assert task.key == key
    assert len(task.hints) == 3
    assert len(task.wrong) >= 2
    assert 3 <= len(task.stub.strip().splitlines()) <= 15
    assert (NOTEBOOKS / task.solution).is_file()


@every_exercise
def test_the_region_holds_what_the_stub_stands_for(key):
    task = exercise(key)
    first, last = task.place
    assert 1 < first <= last < len(task.lines)
    Cell(task, task.original).check_braces()
    Cell(task, task.stub).check_braces()
    unchanged = Cell(task, task.original).kernel_text
    assert unchanged.split() == "\n".join(task.lines).split()


@every_exercise
def test_an_untouched_stub_is_not_attempted_and_not_passed(key):
    task = exercise(key)
    for text in (task.stub, task.stub.replace("  ", "    ") + "\n// thinking\n", "", "// nothing\n"):
        result = grade_text(key, text)
        assert not result.attempted
        assert not result.passed
        assert "not attempted" in repr(result)
        assert "not attempted" in result._repr_html_()


@every_exercise
def test_the_stub_would_not_pass_if_it_were_judged(key, grades):
    result = grades[key, judged_stub(key)]
    assert result.attempted
    assert result.demand("compiles").ok
    assert not result.passed


@every_exercise
def test_the_solution_passes(key, grades):
    result = grades[key, solution(exercise(key))]
    assert result.passed, repr(result)
    assert result.recognised is None
    assert "passed" in repr(result)
    assert exercise(key).solution in repr(result)


@every_wrong_answer
def test_a_wrong_answer_fails_and_gets_its_message(key, name, grades):
    wrong = next(wrong for wrong in exercise(key).wrong if wrong.name == name)
    result = grades[key, wrong.cell]
    assert not result.passed
    assert {demand.name for demand in result.demands if demand.ok is False} == set(wrong.fails)
    assert result.recognised is wrong
    assert " ".join(wrong.message.split()) in " ".join(repr(result).split())
    assert "not passed yet" in repr(result)


@every_exercise
def test_a_compile_error_is_told_in_lines_of_the_cell(key):
    run_cell(key, exercise(key).stub + "misspelt x;\n")
    result = grade()
    line = len((exercise(key).magic + "\n" + exercise(key).stub).splitlines()) + 1
    assert result.attempted and not result.passed
    assert [demand.name for demand in result.demands] == ["compiles"]
    assert f"Line {line} of your cell (misspelt x;):" in result.demand("compiles").found
    assert "misspelt" in result.demand("compiles").found
    assert "does not compile" in repr(result)


@pytest.mark.parametrize("notebook", sorted(NOTEBOOKS.glob("[0-9]*/*.ipynb")), ids=lambda path: path.stem)
def test_a_chapter_holds_the_stub_and_nothing_else(notebook):
    stubs = {exercise(key).magic: exercise(key).stub.strip() for key in keys()}
    for magic, text in kernel_cells(notebook).items():
        assert text.strip() == stubs[magic]


# ---- what helps ----
def test_a_missing_brace_is_told_before_the_compiler_blames_others():
    text = exercise(HAND_OVER).original.rstrip().removesuffix("}")
    found = grade_text(HAND_OVER, text).demand("compiles").found
    assert "the brace on line 6 is never closed" in found


def test_an_error_behind_the_cell_points_back_to_it():
    text = exercise(HAND_OVER).original.replace("minus_beta_dv", "result")
    found = grade_text(HAND_OVER, text).demand("compiles").found
    line = 1 + next(
        number for number, line in enumerate(exercise(HAND_OVER).lines) if "kd_i, minus_beta_dv[0]" in line
    )
    assert f"behind your cell, at line {line} of s02_no_t1.cu" in found
    assert "minus_beta_dv" in found


def test_an_error_in_a_header_names_the_line_that_calls_it():
    text = exercise(HAND_OVER).original.replace("-lds<float>", "-lds<char>", 1)
    found = grade_text(HAND_OVER, text).demand("compiles").found
    assert found.startswith("Line 2 of your cell")
    assert "2, 4, 8 or 16 bytes" in found


def test_a_wrong_answer_is_known_in_other_words_too():
    text = exercise(HAND_OVER).original
    for name in ("minus_beta_8;", "minus_beta;"):
        text = text.replace(f"*= {name}", "*= -1.f;")
    recognised = grade_text(HAND_OVER, text).recognised
    assert recognised is not None and recognised.name == "forgets beta"


def test_an_address_without_its_base_is_told_by_the_region_that_it_names():
    text = exercise(HAND_OVER).original.replace("smem + Smem::BETA", "Smem::BETA", 1)
    found = grade_text(HAND_OVER, text).demand("wavefronts").found
    assert found.startswith("Line 2 of your cell names Smem::BETA, but its address lies in INV.")
    assert "leave out `smem +`" in found


def layout(address: str) -> str:
    """A cell for the tile of banks.cu with another address."""
    return exercise(LAYOUT).stub.replace("(row * COLS + col) * 2", address)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("row*COLS*2 + (col/PIECE ^ row)*16", "XORs with the whole row number"),
        ("row * (COLS + 8) * 2 + col * 2", "pads by a piece"),
        ("col / PIECE * 256 + row * 16", "interleaves whole columns"),
    ],
)
def test_a_layout_is_known_by_its_addresses(address, name):
    recognised = grade_text(LAYOUT, layout(address)).recognised
    assert recognised is not None and recognised.name == name


@pytest.mark.parametrize("address", ["(row * (COLS + 3 * PIECE) + col) * 2", "(row * (COLS + 1) + col) * 2"])
def test_a_layout_with_other_addresses_is_not_taken_for_a_known_one(address):
    result = grade_text(LAYOUT, layout(address))
    assert not result.passed and result.recognised is None


THROUGH_SHARED_MEMORY = """
const FragA inv_transposed = load_a_transposed<SmallLayout>(small_lane + Smem::INV);
FragB minus_beta_dv[2] = {};
const float low = -lds<float>(smem + Smem::BETA + lane / 4 * 4);
const float high = -lds<float>(smem + Smem::BETA + (lane / 4 + 8) * 4);
for (u32 half = 0; half < 2; half++) {
  FragC dv = {};
  mma(dv, inv_transposed, accumulator_to_b(du[half]));
  const saddr at = smem + Smem::KR + warp * 512 + half * 256;
  sts<u32>(at + lane * 4, pack_bf16(low * dv.r[0], low * dv.r[1]));
  sts<u32>(at + 128 + lane * 4, pack_bf16(high * dv.r[2], high * dv.r[3]));
  // wait
  const u32 pair = lane % 4 * 2 * 16 + lane / 4 * 2;
  minus_beta_dv[half].r[0] = lds_pair(at + pair, at + pair + 16);
  minus_beta_dv[half].r[1] = lds_pair(at + 128 + pair, at + 128 + pair + 16);
}
"""


def test_a_race_and_dearer_accesses_are_told_in_lines_of_the_cell():
    result = grade_text(HAND_OVER, THROUGH_SHARED_MEMORY)
    assert not result.passed and result.recognised is None
    assert result.demand("faults").ok is False
    assert "race" in result.demand("faults").found
    assert "of your cell" in result.demand("faults").found
    assert result.demand("wavefronts").ok is False
    assert "Line 10 of your cell" in result.demand("wavefronts").found
    assert "stores to KR" in result.demand("wavefronts").found


@pytest.mark.parametrize("key", [HAND_OVER, LAYOUT])
def test_an_endless_loop_ends_and_nothing_is_counted(key):
    task = exercise(key)
    if key == HAND_OVER:
        text = f"while (lane < 99) lds<float>(smem + Smem::BETA);\n{task.original}"
    else:
        text = task.stub.replace("{ sts", "{ while (tile < 4096) sts")
    result = grade_text(key, text)
    assert not result.passed
    assert "endless loop" in result.demand("faults").found
    assert "of your cell" in result.demand("faults").found
    assert result.demand("wavefronts").ok is None


def test_block_barriers_are_counted():
    text = THROUGH_SHARED_MEMORY.replace("// wait", "__syncthreads();")
    text = text.replace("  FragC dv = {};", "  FragC dv = {};\n  __syncthreads();")
    result = grade_text(HAND_OVER, text)
    assert result.demand("numbers").ok and result.demand("faults").ok
    assert result.demand("barriers").ok is False
    assert "4 more than s02" in result.demand("barriers").found


def test_the_reads_of_a_plain_tile_are_named_with_their_wavefronts(grades):
    found = grades[LAYOUT, judged_stub(LAYOUT)].demand("wavefronts").found
    assert "The reads, line 5 of your cell, take 128 wavefronts where 16 would do" in found


def test_a_reader_that_looks_elsewhere_is_told_where(grades):
    wrong = next(wrong for wrong in exercise(LAYOUT).wrong if "reader only" in wrong.name)
    found = grades[LAYOUT, wrong.cell].demand("right bytes").found
    assert "Row 1, column 0" in found and "row 1, column 8" in found


# ---- in a notebook ----
def test_grade_wants_a_cell_first():
    with pytest.raises(BadInput, match="has been run"):
        grade()
    with pytest.raises(BadInput, match="%%kernel s02 region=hand_over"):
        grade(HAND_OVER)


@pytest.mark.parametrize("line", ["", "s02", "s02 region=nowhere", "region=layout"])
def test_the_magic_names_the_exercises_there_are(line):
    with pytest.raises(BadInput, match=r"hand_over"):
        kernel(line, "")


def test_the_last_cell_is_graded_unless_another_is_named():
    run_cell(LAYOUT, exercise(LAYOUT).stub)
    run_cell(HAND_OVER, exercise(HAND_OVER).stub)
    assert grade().exercise.key == HAND_OVER
    assert grade(LAYOUT).exercise.key == LAYOUT


def test_progress_is_kept():
    run_cell(LAYOUT, exercise(LAYOUT).stub)
    grade()
    assert progress.status_of(LAYOUT) is None
    run_cell(LAYOUT, exercise(LAYOUT).wrong[1].cell)
    grade()
    assert progress.status_of(LAYOUT) == "attempted"
    run_cell(LAYOUT, solution(exercise(LAYOUT)))
    grade()
    assert progress.status_of(LAYOUT) == "passed"


def test_a_damaged_progress_file_does_not_hide_the_verdict():
    Path(os.environ["KDA_LEARN_PROGRESS"]).write_text("{")
    run_cell(LAYOUT, solution(exercise(LAYOUT)))
    result = grade()
    assert result.passed
    assert "damaged" in repr(result)


def test_hints_are_folded_below_the_cell_and_can_be_asked_for():
    kept = run_cell(HAND_OVER, exercise(HAND_OVER).stub)
    page = kept._repr_html_()
    assert page.count("<details") == page.count("<summary>Hint") == 3
    assert "<details open" not in page
    assert "place of lines" in repr(kept)
    assert "accumulator_to_b(dv)" not in repr(kept)
    assert "accumulator_to_b(dv)" in repr(hint(3))
    assert "<pre><code>" in hint(3)._repr_html_()
    with pytest.raises(BadInput, match="1 to 3"):
        hint(4)


def test_import_in_a_notebook_makes_the_magic_known(tmp_path):
    program = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "import kda_learn\n"
        "from kda_learn.exercises.definition import exercise\n"
        "stub = exercise('banks.layout').stub\n"
        "kept = shell.run_cell('%%kernel banks region=layout\\n' + stub).result\n"
        "assert 'numpy' not in __import__('sys').modules\n"
        "grade = shell.run_cell('from kda_learn import grade; grade()').result\n"
        "print(type(kept).__name__, grade.attempted)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(NOTEBOOKS.parent), "IPYTHONDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("Kept False")
