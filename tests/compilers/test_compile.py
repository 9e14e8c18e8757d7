"""NVRTC without a GPU: its report, its errors, the caches, the machine code."""

import json
import os
import sys
from pathlib import Path

import pytest

from kda_learn.compilers.log import CompileError, first_error, parse_resources
from kda_learn.compilers.nvrtc import compile
from kda_learn.compilers.sass import parse, source_frames
from kda_learn.ground.errors import BadInput, MachineUnavailable
from kda_learn.ground.files import cache_folder
from kda_learn.lab import banks

KERNEL = """#include "scale.cuh"
template <int FACTOR>
__global__ void scale(float* x) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = times(FACTOR, s[63 - threadIdx.x]);
}
"""
HEADER = "__device__ inline float times(float a, float b) { return a * b; }\n"


@pytest.fixture(scope="module")
def nvrtc() -> str:
    """Skips where NVRTC is missing; its version."""
    try:
        return compile(banks.SOURCE, entry="copy_tile").nvrtc
    except MachineUnavailable as missing:
        pytest.skip(str(missing))


@pytest.fixture
def kernel(tmp_path, monkeypatch) -> Path:
    """A kernel that nobody has compiled."""
    monkeypatch.setenv("KDA_LEARN_CACHE", str(tmp_path / "cache"))
    (tmp_path / "scale.cuh").write_text(HEADER)
    path = tmp_path / "scale.cu"
    path.write_text(KERNEL)
    return path


def as_if_new(path: Path) -> None:
    """Forgets what was kept in memory: the file has another time of change, though not another text."""
    os.utime(path, ns=(1, 1))


def test_compiles_and_reports(nvrtc, kernel):
    compiled = compile(kernel, entry="scale<3>")
    assert compiled.cubin.startswith(b"\x7fELF")
    assert compiled.symbol in compiled.ptx
    assert 0 < compiled.registers <= 32
    assert (compiled.spill_bytes, compiled.stack_bytes) == (0, 0)
    assert compiled.static_smem == 256
    version = pytest.importorskip("cupy").cuda.nvrtc.getVersion()
    assert compiled.nvrtc == nvrtc == ".".join(map(str, version))


def test_defines_reach_the_source(nvrtc, kernel, tmp_path):
    path = tmp_path / "sized.cu"
    path.write_text(
        "__global__ void sized(float* x) { __shared__ float s[SIZE]; s[threadIdx.x] = 1; x[0] = s[3]; }"
    )
    assert compile(path, entry="sized", defines=["SIZE=512"]).static_smem == 2048
    assert compile(path, entry="sized", defines=["SIZE=1024"]).static_smem == 4096


def test_a_spill_is_counted():
    log = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'other' for 'sm_90a'
ptxas info    : Function properties for other
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 1 barriers
ptxas info    : Compiling entry function 'mine' for 'sm_90a'
ptxas info    : Function properties for mine
    24 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 356 bytes cmem[0]
"""
    assert parse_resources(log, "mine") == {
        "registers": 64,
        "spill_bytes": 20,
        "stack_bytes": 24,
        "static_smem": 0,
    }


def test_a_changed_header_is_seen(nvrtc, kernel):
    before = compile(kernel, entry="scale<3>")
    assert compile(kernel, entry="scale<3>") is before
    (kernel.parent / "scale.cuh").write_text(HEADER.replace("a * b", "a * b + 1.f"))
    after = compile(kernel, entry="scale<3>")
    assert after.cubin != before.cubin
    assert after.digest != before.digest


def test_another_process_finds_the_result_on_disk(nvrtc, kernel):
    before = compile(kernel, entry="scale<3>")
    as_if_new(kernel)
    again = compile(kernel, entry="scale<3>")
    assert again is not before
    assert again == before  # with the seconds that compiling took
    assert len(list(cache_folder("nvrtc").iterdir())) == 2


@pytest.mark.parametrize("damage", ["cut cubin", "no json", "other json"])
def test_a_damaged_cache_is_not_used(nvrtc, kernel, damage):
    before = compile(kernel, entry="scale<3>")
    (cubin,) = cache_folder("nvrtc").glob("*.cubin")
    report = cubin.with_suffix(".json")
    if damage == "cut cubin":
        cubin.write_bytes(before.cubin[:-100])
    elif damage == "no json":
        report.write_text("{")
    else:
        report.write_text(json.dumps({"registers": 3}))
    as_if_new(kernel)
    again = compile(kernel, entry="scale<3>")
    assert again.cubin == before.cubin
    assert again.seconds != before.seconds


def test_a_cache_that_cannot_be_written_does_no_harm(nvrtc, kernel, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("KDA_LEARN_CACHE", str(tmp_path / "file"))
    assert compile(kernel, entry="scale<3>").registers > 0


def test_an_error_names_file_and_line(nvrtc, kernel):
    kernel.write_text(KERNEL.replace("times(FACTOR", "thymes(FACTOR"))
    with pytest.raises(CompileError, match=r'scale\.cu:7: identifier "thymes" is undefined') as raised:
        compile(kernel, entry="scale<3>")
    assert "thymes" in raised.value.log


def test_an_error_in_a_header_names_the_header(nvrtc, kernel):
    (kernel.parent / "scale.cuh").write_text(HEADER.replace("return", "returns"))
    with pytest.raises(CompileError, match=r"scale\.cuh:1: "):
        compile(kernel, entry="scale<3>")


def test_an_entry_that_is_not_there(nvrtc, kernel):
    with pytest.raises(CompileError, match="sale"):
        compile(kernel, entry="sale<3>")


def test_an_error_without_a_line():
    log = "ptxas error   : Entry function 'k' uses too much shared data (0x10000 bytes, 0xc000 max)\n"
    message = first_error(log, Path("big.cu"), "k")
    assert "uses too much shared data" in message
    assert "big.cu" in message


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"no\.cu"):
        compile(tmp_path / "no.cu", entry="k")


def test_without_cupy_it_says_what_to_install(kernel, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setitem(sys.modules, "cupy.cuda", None)
    with pytest.raises(MachineUnavailable, match=r"NVRTC is missing.*pip install cupy-cuda13x"):
        compile(kernel, entry="scale<3>")


def test_sass_has_the_kernels_lines(nvrtc, kernel):
    try:
        instructions = compile(kernel, entry="scale<3>").sass()
    except MachineUnavailable as missing:
        pytest.skip(str(missing))
    by_opcode = {instruction.opcode.split(".")[0]: instruction for instruction in instructions}
    assert Path(by_opcode["STS"].file).name == "scale.cu"
    assert (by_opcode["STS"].line, by_opcode["BAR"].line) == (5, 6)
    assert [instruction.address for instruction in instructions] == sorted(i.address for i in instructions)


def test_sass_of_an_inlined_operation_counts_for_its_caller():
    ptx = """\
.visible .entry k() {
\t.loc\t1 150 9
\t.loc\t1 30 3, function_name $L__info_string1, inlined_at 1 150 9
\t.loc\t2 80 3, function_name $L__info_string2, inlined_at 1 30 3
\tldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];
\t.loc\t2 80 3, function_name $L__info_string2, inlined_at 1 31 3
\tldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r6, %r7, %r8, %r9}, [%r10];
\t.loc\t1 151 5
\tret;
}
\t.file\t1 "/x/kernels/kernel_a/s12.cu"
\t.file\t2 "/x/kernels/gpu.cuh", 1700000000, 9000
"""
    listing = """
.text.k:
        /*0000*/                   MOV R1, R2 ;
\t//## File ".nv_debug_ptx_txt", line 5
        /*0010*/                   LDSM.16.M88.4 R4, [R2+UR4] ;
\t//## File ".nv_debug_ptx_txt", line 7
        /*0020*/                   LDSM.16.M88.4 R8, [R2+UR4+0x100] ;
        /*0030*/              @!PT LDS RZ, [RZ] ;
\t//## File ".nv_debug_ptx_txt", line 9
        /*0040*/              @!P0 BRA `(.L_x_1) ;
//--------------------- .text.other --------------------------
.text.other:
        /*0000*/                   NOP;
"""
    start, first, second, padding, end = parse(listing, "k", source_frames(ptx))
    assert (start.file, start.line) == ("", 0)
    assert (first.opcode, first.line) == ("LDSM.16.M88.4", 30)
    assert [frame.line for frame in first.frames] == [80, 30, 150]
    assert [Path(frame.file).name for frame in first.frames] == ["gpu.cuh", "s12.cu", "s12.cu"]
    assert (second.address, second.line) == (0x20, 31)
    assert (padding.opcode, padding.never_runs, first.never_runs) == ("LDS", True, False)
    assert (end.opcode, end.line, end.never_runs) == ("BRA", 151, False)


def test_the_cache_lies_in_the_users_folder_if_none_is_named(monkeypatch, tmp_path):
    monkeypatch.delenv("KDA_LEARN_CACHE", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder("nvrtc") == tmp_path / "kda-learn" / "nvrtc"
