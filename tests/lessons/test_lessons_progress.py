"""The progress file, and the word `progress`."""

import json
import os
import stat
import sys

import pytest
from lesson_pages import words

from kda_learn.ground.errors import BadInput
from kda_learn.lessons import progress


@pytest.fixture(autouse=True)
def file(monkeypatch, tmp_path):
    """A progress file of the test's own; it does not exist yet."""
    path = tmp_path / "folder" / "progress.json"
    monkeypatch.setenv("KDA_LEARN_PROGRESS", str(path))
    return path


def notebook(*cells: str) -> str:
    """A notebook's text; cells that begin with "# " are Markdown."""
    kinds = ["markdown" if cell.startswith("# ") else "code" for cell in cells]
    return json.dumps(
        {
            "cells": [
                {"cell_type": kind, "source": cell.splitlines(keepends=True)}
                for kind, cell in zip(kinds, cells, strict=True)
            ]
        }
    )


@pytest.fixture
def course(monkeypatch, tmp_path):
    """Two chapters: one with two predictions and an exercise, one with nothing to do."""
    chapter, plain = (
        tmp_path / "2-kernel-a" / "s02_no_t1.ipynb",
        tmp_path / "1-foundations" / "00_start.ipynb",
    )
    for path in (chapter, plain):
        path.parent.mkdir()
    plain.write_text(notebook("# 00 Start", "run('s12')"))
    chapter.write_text(
        notebook(
            "# s02 No T1\nText that says predict('x.y')",
            "from kda_learn import predict\npredict('s02.blocks', 'How many?', unit='blocks')",
            'stall = predict(\n    "s02.stall", "What binds?", choices=["a", "b"])',
            "predict.reveal('s02.blocks', 4)",
            "%%kernel s02 region=hand_over\n// your lines",
        )
    )
    monkeypatch.setattr(progress, "notebooks", lambda: [plain, chapter])


def test_guesses_are_kept_and_forgotten(file):
    assert progress.guess_of("s02.blocks") is None
    progress.keep_guess("s02.blocks", 3)
    progress.keep_guess("s02.stall", "barrier")
    assert (progress.guess_of("s02.blocks"), progress.guess_of("s02.stall")) == (3, "barrier")
    assert json.loads(file.read_text())["predictions"]["s02.blocks"]["date"].startswith("20")
    progress.keep_guess("s02.blocks", None)
    assert progress.guess_of("s02.blocks") is None
    progress.forget()
    assert not file.exists() and progress.guess_of("s02.stall") is None
    progress.forget()


def test_an_exercise_that_passed_stays_passed():
    assert progress.status_of("s02.hand_over") is None
    for status, kept in (("attempted", "attempted"), ("passed", "passed"), ("attempted", "passed")):
        progress.keep_status("s02.hand_over", status)
        assert progress.status_of("s02.hand_over") == kept


def test_the_file_is_in_the_users_data_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("KDA_LEARN_PROGRESS")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert progress.path() == tmp_path / "kda-learn" / "progress.json"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "Application Support" in str(progress.path())
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert progress.path() == tmp_path / "kda-learn" / "progress.json"


@pytest.mark.parametrize("text", ["{", "[]", '{"predictions": 3}'])
def test_a_damaged_file_is_not_overwritten(file, text):
    file.parent.mkdir()
    file.write_text(text)
    for ask in (progress.load, progress.progress, lambda: progress.keep_guess("s02.blocks", 3)):
        with pytest.raises(BadInput, match="is damaged: mend it or delete it"):
            ask()
    assert file.read_text() == text


@pytest.mark.parametrize("key", ["", "with blank", "s02/x", None, "x" * 81])
def test_keys_that_are_none(key):
    with pytest.raises(BadInput, match="give a short one of letters"):
        progress.keep_guess(key, 3)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="permissions do not bind this user")
def test_a_file_that_cannot_be_written(file):
    file.parent.mkdir()
    file.parent.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with pytest.raises(BadInput, match=r"cannot be written .*: set KDA_LEARN_PROGRESS to another"):
            progress.keep_guess("s02.blocks", 3)
    finally:
        file.parent.chmod(stat.S_IRWXU)


def test_a_file_that_is_a_folder(file):
    file.mkdir(parents=True)
    with pytest.raises(BadInput, match="cannot be read"):
        progress.load()


def test_the_chapters_and_what_is_kept_of_them(course):
    progress.keep_guess("s02.blocks", 3)
    progress.keep_guess("s05.other", 3)
    found = progress.progress()
    start, chapter = found.chapters
    assert (start.title, start.predictions, start.exercises, start.done) == (
        "00 Start",
        (0, 0),
        (0, 0),
        False,
    )
    assert (chapter.predictions, chapter.exercises) == ((1, 2), (0, 1))
    assert chapter.touched and not chapter.done and found.next is chapter
    text = words(found._repr_html_())
    assert "s02 No T1 1 of 2 0 of 1 begun Next: s02 No T1 (2-kernel-a/s02_no_t1.ipynb)." in text


def test_a_chapter_that_is_done(course):
    progress.keep_guess("s02.blocks", 3)
    progress.keep_guess("s02.stall", "a")
    progress.keep_status("s02.hand_over", "attempted")
    assert progress.progress().chapters[1].exercises == (0, 1)
    progress.keep_status("s02.hand_over", "passed")
    found = progress.progress()
    assert found.chapters[1].done and found.next is None
    assert "done" in repr(found) and "Next" not in repr(found)


def test_the_course_that_is_here():
    names = [path.stem for path in progress.notebooks()]
    assert names[0] == "00_start_here"
    assert len(progress.progress().chapters) == len(names)
