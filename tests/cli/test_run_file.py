"""`kda-learn run FILE`, and files of one's own on the command line."""

import json

import pytest
from own_kernels import AXPY, written

from kda_learn.cli.main import main
from kda_learn.compilers.host import compiler
from kda_learn.ground.errors import MachineUnavailable
from kda_learn.sources.stages import stage


@pytest.fixture(autouse=True)
def emulator():
    """Skips where there is no C++ compiler."""
    try:
        compiler()
    except MachineUnavailable as missing:
        pytest.skip(str(missing))


def said(capsys, *words, exit_code=0):
    """What a command prints; stderr for one that is refused."""
    assert main([str(word) for word in words]) == exit_code
    out, err = capsys.readouterr()
    return err if exit_code == 2 else out


def test_a_run_for_people_and_for_programs(tmp_path, capsys):
    path = written(tmp_path, AXPY)
    text = said(capsys, "run", path, "--machine", "emulator")
    assert "axpy<64> ran without a fault" in text and "-1  0  1  2  3  4  ..." in text
    assert all(len(line) <= 120 for line in text.splitlines())
    found = json.loads(said(capsys, "run", path, "--machine", "emulator", "--seed", "9", "--json"))
    assert (found["ok"], found["machine"], found["seed"], found["entry"]) == (True, "emulator", 9, "axpy<64>")
    assert found["outputs"][2] == {
        "name": "index",
        "type": "int32",
        "shape": [192],
        "digest": found["outputs"][2]["digest"],
        "values": list(range(-1, 191)),
    }
    assert found["rows"] == found["instructions"] == []
    found = json.loads(said(capsys, "run", path, "--trace", "--json"))
    assert {one["op"]: one["instructions"] for one in found["instructions"]} == {"ldg": 12, "stg": 6}


def test_a_fault_exits_with_1(tmp_path, capsys):
    path = written(tmp_path, AXPY, ("  stg(half + i,", "  if (i > 1) stg(half + i,"))
    text = said(capsys, "run", path, "--machine", "emulator", exit_code=1)
    assert "2 of 192 elements of half were never written" in text


def test_what_cannot_be_run_is_refused_in_a_sentence(tmp_path, capsys):
    path = written(tmp_path, AXPY.partition("#include")[2], ("template", '#include "gpu.cuh"\ntemplate'))
    assert said(capsys, "run", path, exit_code=2).startswith("kda-learn: mine.cu has no launch header: put")
    assert "no CUDA source file" in said(capsys, "run", tmp_path / "absent.cu", exit_code=2)
    assert "no whole number" in said(capsys, "run", path, "--seed", "-1", exit_code=2)
    path = written(tmp_path, AXPY, ("a float32 -0.5", "a float32 much"))
    assert said(capsys, "run", path, exit_code=2).startswith("kda-learn: mine.cu:2: a holds much: give")


def test_a_file_named_like_a_stage_is_checked_as_ones_own_and_by_a_budget_if_asked(tmp_path, capsys):
    path = tmp_path / "s12.cu"
    text = stage("s12").source.text
    path.write_text(text.replace("using KrLayout = Interleaved<C>;", "using KrLayout = Rows<bf16, D>;"))
    told = said(capsys, "check", path, "--machine", "emulator")
    assert "--like s05" in told and "\ns12.cu " in told and "\ns12 " not in told
    told = said(capsys, "check", path, "--machine", "emulator", "--like", "s12", exit_code=1)
    assert "r1: store KR takes 256 wavefronts a tile, the budget of s12 is 32" in told
    assert "--like s05" not in told
    assert "choose one of s00" in said(capsys, "check", path, "--like", "s99", exit_code=2)
    assert json.loads(said(capsys, "trace", path, "--json"))["stage"] == "s12.cu"
