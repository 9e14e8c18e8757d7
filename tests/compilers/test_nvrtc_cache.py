"""NVRTC's results on the disk: damaged ones are made anew; a cache that cannot be written costs time only."""

import json
import os
from pathlib import Path

import pytest

from kda_learn.compilers import nvrtc

pytest.importorskip("cupy")

SOURCE = 'extern "C" __global__ void k(unsigned* x) { *x = 42; }\n'


@pytest.fixture
def source(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("KDA_LEARN_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "k.cu"
    path.write_text(SOURCE)
    return path


def compiled(source: Path) -> nvrtc.Compiled:
    nvrtc._compile_or_read.forget()
    return nvrtc.compile(source, entry="k")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"7", b'"text"', b"\xff\xfe", b"{}"])
@pytest.mark.parametrize("ending", ["json", "cubin"])
def test_a_damaged_file_is_made_anew(source, content, ending):
    fresh = compiled(source)
    (path,) = (source.parent / "cache" / "nvrtc").glob(f"*.{ending}")
    path.write_bytes(content)
    assert compiled(source).cubin == fresh.cubin
    path.unlink()
    path.mkdir()
    assert compiled(source).cubin == fresh.cubin
    assert path.is_file()


def test_another_kernels_binary_is_not_taken(source):
    compiled(source)
    other = source.with_name("other.cu")
    other.write_text(SOURCE.replace("42", "43"))
    theirs = compiled(other)
    folder = source.parent / "cache" / "nvrtc"
    for record in folder.glob("*.json"):
        if json.loads(record.read_text())["path"] == str(source):
            record.with_suffix(".cubin").write_bytes(theirs.cubin)
    assert compiled(source).cubin != theirs.cubin


def test_without_a_home_it_compiles_all_the_same(source, monkeypatch):
    for name in ("KDA_LEARN_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    monkeypatch.setitem(os.environ, "CUPY_CACHE_DIR", str(source.parent))
    assert compiled(source).registers > 0
