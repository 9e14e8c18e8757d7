"""The README is true: its map, its verbs, its figures."""

import re
import subprocess
import sys
from dataclasses import replace

import pytest
from paths import REPOSITORY

from kda_learn.cli.main import main
from kda_learn.compilers.host import compiler
from kda_learn.ground.errors import MachineUnavailable
from kda_learn.maintain.readme import BEGIN, END, expected_readme
from kda_learn.performance.ladder_rows import Ladder, LadderRow
from kda_learn.performance.ladder_text import readme_table
from kda_learn.records.store import Provenance, Record

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def map_lines() -> list[str]:
    """The lines of the block under "Map"."""
    return re.search(r"## Map\n\n```\n(.*?)```", README, re.DOTALL)[1].splitlines()


def paths_of_the_map() -> list[str]:
    """Every path that the map names; what stands behind the first word that is no path is explanation."""
    paths = []
    folder = ""
    for line in map_lines():
        indent = "  " if line.startswith("  ") else ""
        for word in re.split(r"\s{2,}", line.strip()):
            if not re.fullmatch(r"[\w.,/-]*(?:/|\.\w+)[\w./-]*|[A-Z][\w.]+", word):
                break
            paths.append((folder if indent else "") + word)
        if not indent and line.split()[0].endswith("/"):
            folder = line.split()[0]
    return paths


def tracked_files() -> list[str]:
    run = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        pytest.skip("not a git checkout")
    return run.stdout.splitlines()


def test_every_path_of_the_map_exists():
    paths = paths_of_the_map()
    assert len(paths) > 40
    assert [path for path in paths if not (REPOSITORY / path).exists()] == []


def test_the_map_names_everything_at_the_top():
    named = {path.split("/")[0] for path in paths_of_the_map()}
    top = {file.split("/")[0] for file in tracked_files()}
    assert top - named == set()


def test_the_map_names_every_folder_of_kernels():
    named = paths_of_the_map()
    folders = {file.split("/")[1] for file in tracked_files() if re.match(r"kernels/\w+/", file)}
    assert [folder for folder in folders if f"kernels/{folder}/" not in named] == []


def test_the_readme_names_the_verbs_that_there_are():
    table = README.split("## Command line")[1].split("In Python")[0]
    named = {word.split()[0] for word in re.findall(r"`([^`]+)`", table) if not word.startswith((".", "-"))}
    command = [sys.executable, "-m", "kda_learn", "--help"]
    text = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    verbs = set(re.findall(r"^ {4}([\w-]+)(?: |$)", text, re.MULTILINE))
    assert named == verbs


def test_the_kernel_that_is_shown_is_the_file_and_does_what_is_said(capsys):
    shown = README.split("## A kernel of your own")[1].split("\n## ")[0]
    code, command = re.findall(r"```\n(.*?)```", shown, re.DOTALL)
    named = re.search(r"`(kernels/\S+\.cu)`", shown)[1]
    assert (REPOSITORY / named).read_text(encoding="utf-8") == code
    program, *words = command.split()
    assert program == "kda-learn" and named in words
    try:
        compiler()
    except MachineUnavailable as missing:
        pytest.skip(str(missing))
    assert main([str(REPOSITORY / named) if word == named else word for word in words]) == 0
    text = capsys.readouterr().out
    line, most, least = re.search(r"line (\d+) take ([\d,]+) wavefronts where (\d+) would do", shown).groups()
    assert re.search(rf"^ *{line} .* lds .* {most} +{least} ", text, re.MULTILINE)


def test_the_figures_are_those_of_the_record():
    assert BEGIN in README and END in README
    assert expected_readme(README) == README


def test_the_table_of_a_record():
    where = Provenance("NVIDIA H200", 132, "580.1", "13.0", "13.0", "2026-11-29T12:00:00+00:00", {})
    row = LadderRow(
        stage="s01",
        base="s00",
        config="B32/T8192",
        v_split=1,
        rounds=20,
        blocks_per_sm=2,
        median_us=78_800.0,
        ci_us=(78_700.0, 78_900.0),
        delta_pct=-4.4,
        delta_ci_pct=(-4.5, -4.3),
        article_us=None,
        article_delta_pct=-6.7,
        verdict="reproduced",
        reason=None,
    )
    other = replace(row, config="B1/T131072")
    ladder = Ladder("NVIDIA H200", 132, True, where.date, "", 32, [], [other, row], [], {})
    table = readme_table(Record("ladder", where, ladder.as_dict()))
    assert "NVIDIA H200 with 132 SMs" in table
    assert table.splitlines()[-1].startswith("| s01 | ")
    assert table.endswith("| s00 | 78.8 | -4.4 % | -6.7 % | reproduced |")


def test_no_host_of_a_registry_is_named():
    names = ["Makefile", ".ci/run", "README.md", "CONTRIBUTING.md", "pyproject.toml"]
    text = "\n".join((REPOSITORY / name).read_text(encoding="utf-8") for name in names)
    hosts = set(re.findall(r"https?://([\w.-]+)", text))
    assert hosts <= {"yuyanqi.com"}
