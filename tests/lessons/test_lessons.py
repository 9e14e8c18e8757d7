"""The words of a notebook that need no measurement: what they hold, and how they show it."""

import subprocess
import sys
from importlib import import_module

import pytest
from lesson_pages import fixed_colours, words

import kda_learn
from kda_learn import check, compile, diff, random_problem, run, trace
from kda_learn.checking.budget import load as budget
from kda_learn.checking.check import CheckRow
from kda_learn.ground.errors import BadInput, MachineUnavailable
from kda_learn.ground.files import PACKAGE
from kda_learn.kernel_a import builds
from kda_learn.kernel_a.tile import trace as plain_trace
from kda_learn.kernel_a.variants import compile_stage
from kda_learn.lessons import cards, compiling, running
from kda_learn.records import store as records
from kda_learn.sources.stages import LADDER, stage
from kda_learn.sources.stages import diff as difference


@pytest.fixture(autouse=True)
def cpu_machine(monkeypatch):
    """No GPU is used, as where the site is built."""
    monkeypatch.setenv("KDA_LEARN_MACHINE", "emulator")


@pytest.fixture(scope="module")
def compiler():
    """Skips where there is no NVRTC."""
    try:
        return compile_stage(stage("s02"))
    except MachineUnavailable as missing:
        pytest.skip(str(missing))


def shown(result) -> str:
    """What the HTML says, after a look at its form and colours."""
    html = result._repr_html_()
    assert fixed_colours(html) == []
    assert "\n\n" in repr(result) or len(list(result.parts())) == 1
    return words(html)


# ---- the words and the functions ----


def test_every_word_can_be_had():
    for name in kda_learn.__all__:
        assert callable(getattr(kda_learn, name)), name


@pytest.mark.parametrize(
    ("name", "home"),
    [
        ("check", "checking.check"),
        ("compile", "compilers.nvrtc"),
        ("dstate_scan", "kernel_a.scan"),
        ("profile", "performance.profile_measure"),
        ("run", "kernel_a.run"),
        ("trace", "kernel_a.tile"),
    ],
)
def test_the_functions_of_a_program_stay_as_they_are(name, home):
    """Importing their modules does not take a notebook's word away, nor the other way round."""
    function = getattr(import_module(f"kda_learn.{home}"), name)
    word = getattr(kda_learn, name)
    assert word.__name__ == name and callable(function)
    if name == "dstate_scan":
        assert word is function
    else:
        assert word.__module__.startswith("kda_learn.lessons") and word is not function


def test_no_room_is_named_as_a_word():
    """Else importing the room would take the word away."""
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    modules = {path.stem for path in PACKAGE.glob("*.py")}
    assert rooms and not (rooms | modules) & set(kda_learn.__all__)


def test_a_word_that_there_is_not():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        kda_learn.nothing  # noqa: B018
    assert set(kda_learn.__all__) <= set(dir(kda_learn))


def test_importing_the_package_loads_nothing_of_jupyter():
    code = (
        "import sys; from kda_learn import card, check, compile, diff, measure, profile, progress, trace; "
        "print([name for name in ('anywidget', 'IPython', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---- run and check ----


def test_run_takes_a_small_problem_by_default():
    result = run("s12")
    assert (result.stage, result.machine, result.ok) == ("s12", "emulator", True)
    assert result.snapshots.shape == (3, 128, 128)
    assert result.problem.name == "48 tokens"
    text = shown(result)
    assert text.startswith("CPU machine. Run now on this computer's processor")
    assert "3 x 128 x 128" in text and "without a fault" in text


def test_check_of_one_problem():
    result = check("s12", random_problem(lengths=[20]))
    assert result.ok and result.faults == [] and len(result.rows) == 1
    assert [row.ok for row in result] == [True]
    assert "passed" in shown(result)


def row_of(problem, stage="s12", v_split=1, faults=()):
    """A verdict on a stage."""
    return CheckRow(
        stage, problem, "emulator", v_split, "float32", 0.0035, 0.0034, 0.01, list(faults), not faults
    )


def test_check_says_what_the_words_in_its_problems_mean():
    text = shown(running.Checked("s12", "emulator", [row_of("varlen 17+0+31+1, 2 heads, no dht")]))
    assert "Problems. varlen: sequences of unequal lengths" in text and "; heads: " in text
    assert "no dht: it is zero." in text and "strong gate:" not in text and "seed" not in text
    assert "Problems." not in shown(running.Checked("s12", "emulator", [row_of("48 tokens")]))
    assert "Checked: numbers, races, reads of unwritten memory, wavefronts." in text


def test_check_without_a_problem_takes_the_standard_set(monkeypatch):
    asked = []

    def pretend(jobs, machine, *, seeds, like):
        asked.extend(jobs)
        assert (machine, seeds, like) == ("emulator", (0, 1), None)
        faults = [["wavefronts: too many"] if number == 1 else [] for number in range(len(jobs))]
        return [
            row_of(case.problem.name, kernel.id, case.v_split, fault)
            for (kernel, case), fault in zip(jobs, faults, strict=True)
        ]

    monkeypatch.setattr(running, "check_jobs", pretend)
    result = check("s12")
    assert len(asked) == 5 and {case.v_split for _, case in asked} == {1, 2, 4, 8}
    assert {kernel.id for kernel, _ in asked} == {"s12"}
    assert not result.ok and result.faults == ["wavefronts: too many"]
    text = shown(result)
    assert "0.35%" in text and "failed" in text and "wavefronts: too many" in text


def test_a_checked_gpu_says_what_it_does_not_see():
    result = running.Checked("s12", "gpu", [])
    assert "found by the CPU machine" in words(result._repr_html_())


# ---- diff ----


def test_diff_has_the_counts_of_the_plain_one():
    plain = difference("s12")
    result = diff("s12")
    assert (result.stage, result.base, result.code_lines) == ("s12", "s11", plain.code_lines)
    assert (result.hunks, result.text) == (plain.hunks, plain.text)
    text = shown(result)
    assert f"{plain.code_lines} changed lines of code in {len(plain.hunks)} hunks" in text


def test_words_that_differ_are_marked_and_numbers_of_lines_are_right():
    html = diff("s12").only(1)._repr_html_()
    assert "QK_STRIDE = <b>136</b>;" in html and "QK_STRIDE = <b>130</b>;" in html
    source = stage("s12").source
    line = next(number for number, text in enumerate(source.lines, 1) if "QK_STRIDE = 130" in text)
    assert f'<span class="kda-add"><span class="kda-line">{line}</span>+' in html


def test_a_part_of_a_diff():
    whole_diff = diff("s02")
    part = whole_diff.only("combine")
    assert 0 < len(part.places) < len(whole_diff.places)
    assert all("combine" in place.sections for place in part.places)
    assert f"Shown: {len(part.places)} of {len(whole_diff.places)} hunks" in shown(part)
    with pytest.raises(BadInput, match=r"'nowhere' was given.*give a number up to \d+, .*'combine'"):
        whole_diff.only("nowhere")


@pytest.mark.parametrize("stage", [rung.id for rung in LADDER if rung.base])
def test_every_diff_is_well_formed(stage):
    assert shown(diff(stage)).startswith(f"{diff(stage).base} to {stage}:")


def test_a_diff_that_cannot_be():
    with pytest.raises(BadInput, match="has no base"):
        diff("s00")


# ---- compile ----


def test_compile_beside_another_stage(compiler):
    result = compile("s02", "s01")
    assert result.registers == compiler.registers and result.spill_bytes == 0
    assert result.shared_memory == 50_752
    assert (result.blocks_per_sm, result.base.blocks_per_sm) == (4, 1)
    assert "shared memory" in result.limited_by
    text = shown(result)
    assert "s01 s02" in text and "116,288 50,752" in text
    assert "that is, VSplit 1 (1 block for each state), sequences of equal length, fp32 snapshots" in text


def test_a_kernels_arguments_in_words():
    words_of = compiling.entry_words("kernel_a<4, true, bf16>")
    assert words_of == "VSplit 4 (4 blocks for each state), sequences of unequal length, bf16 snapshots"


def test_the_histogram_counts_opcodes(compiler):
    histogram = compile("s03a", "s02").sass_histogram()
    assert histogram["LDSM"] > 0 and histogram.counts[0].get("LDSM", 0) == 0
    assert histogram["HMMA"] >= 40 and histogram["nothing"] == 0
    assert "ldmatrix" in shown(histogram)


def test_opcodes_are_counted_without_their_modifiers():
    class One:
        def __init__(self, opcode):
            self.opcode = opcode

    assert builds.count_opcodes([One("LDS.U16"), One("LDS"), One("BAR.SYNC.DEFER_BLOCKING")]) == {
        "LDS": 2,
        "BAR": 1,
    }


def test_without_a_compiler_the_recorded_facts_are_shown(compiler, monkeypatch, tmp_path):
    records.save(builds.recording(), tmp_path / "builds.json")
    monkeypatch.setattr(records, "DATA", tmp_path)

    def missing(*arguments):
        raise MachineUnavailable("There is no NVRTC here.")

    here = compile("s12", "s11")
    monkeypatch.setattr(compiling, "compile_stage", missing)
    result = compile("s12", "s11")
    assert result.compiled is None and result.registers == here.registers
    assert result.sass_histogram().counts == here.sass_histogram().counts
    assert shown(result).startswith("Recorded. There is no NVRTC here. Compiled elsewhere on 20")
    assert "has changed since" not in shown(result)
    with pytest.raises(MachineUnavailable, match="no NVRTC"):
        compile("s12", v_split=4)


# ---- trace ----


def test_trace_agrees_with_the_budget():
    result = trace("s12")
    assert result.wavefronts() == sum(budget()["per_tile"]["s12"].values())
    assert result.wavefronts("r1 store") == sum(
        count for name, count in budget()["per_tile"]["s12"].items() if name.startswith("r1: store")
    )


def test_what_a_trace_counts_of_some_accesses():
    result = trace("s02")
    assert result.wavefronts("store kr") == 1024
    assert result.traffic("KR store").least == 64
    assert result.excess("store kr") == 960
    assert result.wavefronts(kind="store", region="kr", section="r1") == 1024
    assert (
        result.wavefronts("load") + result.wavefronts("store") + result.wavefronts("copy")
        == result.wavefronts()
    )
    assert len(result) == len(list(result)) == len(plain_trace(stage("s02")))
    assert result[0].line > 0


def test_a_trace_beside_another():
    text = shown(trace("s03b", "s03a"))
    assert "wavefronts s03a excess s03b excess" in text
    assert "load QD 2,048 1,792 256 0" in text


def test_a_trace_alone_and_by_line():
    assert "store KR 64 1,024 64 960" in shown(trace("s02"))
    lines = trace("s02").by_line("store", top=3)
    assert len(lines.rows) == 3 and all(row.kind == "store" for row in lines.rows)
    assert "sts" in shown(lines)


def test_one_access_of_a_trace():
    access = trace("s02").access("store kr")
    assert (access["op"], access["region"], access["section"]) == ("sts", "KR", "r1")
    assert len(access["addresses"]) == 32
    assert trace("s02").access(line=access["line"])["line"] == access["line"]


def test_accesses_around_the_loop_over_tiles_have_to_be_named():
    traced = trace("s02")
    sections = {access["section"] for access in traced.accesses("DS")}
    assert sections and not sections & {"start", "finish"}
    finish = traced.access("finish")
    assert finish["section"] == "finish"
    assert traced.access(line=finish["line"])["section"] == "finish"


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda one: one.wavefronts("store nothing"), "'nothing' was given.*give .*kr"),
        (lambda one: one.wavefronts(colour="red"), "colour= was given: choose"),
        (lambda one: one.access("copy", line=1), "has no access that is all of this"),
    ],
)
def test_accesses_that_are_not_there(ask, message):
    with pytest.raises(BadInput, match=message):
        ask(trace("s02"))


# ---- card ----


def test_a_card_says_what_cannot_be_had_here(monkeypatch):
    def missing(*arguments):
        raise MachineUnavailable("There is no compiler here.")

    monkeypatch.setattr(cards, "compile", missing)
    monkeypatch.setattr(cards, "trace", missing)
    card = cards.card("s02")
    assert (card.this.build, card.this.trace, card.gaps) == (None, None, ["There is no compiler here."])
    text = shown(card)
    assert "registers a thread not possible here not possible here" in text
    assert "Not possible here. There is no compiler here." in text
