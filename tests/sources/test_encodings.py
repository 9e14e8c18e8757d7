"""A source is read as a C++ compiler reads it: whatever its bytes are, or one sentence."""

import os
import shutil
import subprocess
import sys

import pytest

from kda_learn.checking.check import check
from kda_learn.ground.errors import BadInput
from kda_learn.sources.includes import read_text
from kda_learn.sources.stages import as_stage, stage

TEXT = stage("s12").path.read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        lambda text: b"// 20 \xb5s, \x85 and \x0c\n" + text,
        lambda text: "// 20 \u00b5s \u2192\u2028 \u0441\u043a\u0430\u043d\n".encode() + text,
        lambda text: b"\xef\xbb\xbf" + text,
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: text.replace(b"// ---- g1", b"// \0 ---- g1\n// ---- g1", 1) + b"\n// \0\n",
    ],
    ids=["latin-1", "utf-8", "byte order mark", "crlf", "nul"],
)
def test_odd_bytes_are_read_as_a_compiler_does(tmp_path, change):
    path = tmp_path / "own.cu"
    path.write_bytes(change(TEXT))
    assert check(path).faults == []
    source = as_stage(path).source
    lines = change(TEXT).count(b"\n")
    assert len(source.lines) == len(source.code_lines) == lines
    ours, theirs = source.sections, stage("s12").source.sections
    assert list(dict.fromkeys(ours.values())) == list(dict.fromkeys(theirs.values()))


@pytest.mark.parametrize(
    "name", ["with blanks.cu", "it's.cu", "\u00fcbung.cu", "a,b.cu", "-x.cu", "$HOME;.cu", "n" * 240 + ".cu"]
)
def test_odd_names(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(TEXT)
    assert check(path).faults == []


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_in_an_ascii_locale(tmp_path, encoding):
    path = tmp_path / "\u00fcber.cu"
    path.write_bytes("// 20 \u00b5s\n".encode(encoding) + TEXT)
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "kda_learn", "check", os.fsencode(path)]
    run = subprocess.run(command, capture_output=True, env=os.environ | ascii_only, check=False)
    assert (run.returncode, run.stderr) == (0, b"")
    assert os.fsencode(path.name) in run.stdout


def nothing(path) -> None:
    pass


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (nothing, "There is no CUDA source file"),
        (lambda path: path.mkdir(), "There is no CUDA source file"),
        (lambda path: path.symlink_to("nowhere.cu"), "There is no CUDA source file"),
        (lambda path: path.symlink_to(path.name), "There is no CUDA source file"),
        (lambda path: path.touch(), "has no"),
        (lambda path: path.write_text("// a text\n"), "has no"),
        (lambda path: path.write_text(TEXT.decode(), encoding="utf-16"), "is UTF-16: save it as UTF-8"),
        (lambda path: path.write_bytes(TEXT.replace(b"kernel_a(", b"kernel_b(")), "kernel_a"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path, make, said):
    path = tmp_path / "own.cu"
    make(path)
    with pytest.raises(BadInput, match=said) as error:
        check(path)
    assert "\n" not in str(error.value) and "own.cu" in str(error.value)


@pytest.mark.parametrize("given", ["a\0b.cu", "n" * 5000 + ".cu", 'quote".cu', "two\nlines.cu"])
def test_a_path_that_cannot_be(tmp_path, given):
    if "\0" not in given and len(given) < 255:
        (tmp_path / given).write_bytes(TEXT)
    with pytest.raises(BadInput):
        check(f"{tmp_path}/{given}")


def test_a_file_that_may_not_be_read_is_one_sentence(tmp_path, monkeypatch):
    path = tmp_path / "own.cu"
    shutil.copy(stage("s12").path, path)

    def refuses(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(type(path), "read_bytes", refuses)
    with pytest.raises(BadInput, match=r"own.cu was given, which cannot be read \(Permission denied\)"):
        read_text(path)
