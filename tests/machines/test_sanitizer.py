"""compute-sanitizer over a child process: its verdict, and one sentence where there is none."""

import os

import pytest

from kda_learn.ground.errors import MachineUnavailable
from kda_learn.machines import sanitizer
from kda_learn.machines.sanitizer import findings, watch

CLEAN = "========= COMPUTE-SANITIZER\n75 launches\n========= ERROR SUMMARY: 0 errors\n"
ONE_ERROR = "========= Invalid __shared__ write\n========= ERROR SUMMARY: 1 error\n"
NO_HAZARDS = "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"
HAZARDS = "========= RACECHECK SUMMARY: 3 hazards displayed (3 errors, 0 warnings)\n"
NO_VERDICT = "========= Error: process didn't terminate successfully\n"


@pytest.mark.parametrize(
    ("output", "found"), [(CLEAN, 0), (ONE_ERROR, 1), (NO_HAZARDS, 0), (HAZARDS, 3), (NO_VERDICT, None)]
)
def test_the_verdict_is_read(output, found):
    assert findings(output) == found


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Makes a compute-sanitizer that runs the program it is given and says `output` of it."""

    def make(output: str, before: str = "") -> None:
        (tmp_path / "output.txt").write_text(output)
        program = tmp_path / "compute-sanitizer"
        program.write_text(
            f'#!/bin/sh\necho "$2" > "{tmp_path}/tool.txt"\nshift 2\n{before}\n'
            f'"$@"\ncat "{tmp_path}/output.txt"\n'
        )
        program.chmod(0o755)

    (tmp_path / "watched_work.py").write_text(
        "from kda_learn.ground.errors import BadInput\n"
        "def work(request):\n"
        "    if request is None:\n        raise BadInput('nothing to do')\n"
        "    return {'launches': len(request)}\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return make


def test_a_tool_watches_the_work(tool, tmp_path):
    tool(NO_HAZARDS)
    verdict = watch("racecheck", "watched_work:work", ["s00", "s12"], seconds=60)
    assert verdict == sanitizer.Verdict(findings=0, answer={"launches": 2}, report="")
    assert (tmp_path / "tool.txt").read_text() == "racecheck\n"


def test_findings_are_reported_in_the_tools_own_words(tool):
    tool(ONE_ERROR)
    verdict = watch("memcheck", "watched_work:work", ["s12"], seconds=60)
    assert verdict.findings == 1
    assert "Invalid __shared__ write" in verdict.report


@pytest.mark.parametrize(
    ("output", "before", "said"),
    [
        (NO_VERDICT, "", "memcheck ended without a verdict .*didn't terminate successfully"),
        (CLEAN, "exit 3", r"memcheck ended without a verdict \(exit code 3\)"),
        (CLEAN, "exec sleep 60", "memcheck took more than 1 s"),
    ],
)
def test_without_a_verdict_one_sentence_says_so(tool, output, before, said):
    tool(output, before)
    with pytest.raises(MachineUnavailable, match=said):
        watch("memcheck", "watched_work:work", ["s12"], seconds=1 if "sleep" in before else 60)


def test_a_clean_verdict_on_work_that_failed_does_not_count(tool):
    tool(CLEAN)
    with pytest.raises(MachineUnavailable, match="memcheck watched work that failed: nothing to do"):
        watch("memcheck", "watched_work:work", None, seconds=60)


def test_without_the_tool(monkeypatch):
    monkeypatch.setattr(sanitizer.shutil, "which", lambda name, path=None: None)
    with pytest.raises(MachineUnavailable, match="install the CUDA toolkit"):
        sanitizer.program()
