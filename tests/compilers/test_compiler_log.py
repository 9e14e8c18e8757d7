"""What ptxas -v reports, as NVRTC 12.4, 12.9, 13.0 and 13.5 print it.

The logs in data/compiler_logs come from one file with two kernels, compiled for sm_90a: `plain`, and
`crowded`, which keeps 72 numbers per thread where a block of 1024 threads leaves 64 registers for each.
"""

from pathlib import Path

import pytest
from paths import TESTS

from kda_learn.compilers import nvrtc
from kda_learn.compilers.log import CompileError, parse_resources
from kda_learn.ground.errors import MachineUnavailable

LOGS = sorted((TESTS / "data" / "compiler_logs").glob("nvrtc_*.txt"))


def test_there_is_a_log_of_every_compiler_in_use():
    assert [log.stem.removeprefix("nvrtc_") for log in LOGS] == ["12.4", "12.9", "13.0", "13.5"]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_every_compilers_report_is_read(path):
    log = path.read_text()
    crowded = {"registers": 64, "spill_bytes": 164, "stack_bytes": 104, "static_smem": 1024}
    plain = {"registers": 8, "spill_bytes": 0, "stack_bytes": 0, "static_smem": 0}
    assert parse_resources(log, "_Z7crowdedPf") == crowded
    assert parse_resources(log, "_Z5plainPf") == plain


@pytest.mark.parametrize("lost", ["Compiling entry function", "spill stores", "Used 8 registers"])
def test_a_report_that_is_missing_is_said(lost):
    lines = LOGS[0].read_text().splitlines()
    log = "\n".join(line for line in lines if lost not in line)
    with pytest.raises(CompileError, match=r"registers and spills of _Z5plainPf.*CUDA_CACHE_DISABLE=1"):
        parse_resources(log, "_Z5plainPf")


def test_an_empty_log_is_no_report():
    with pytest.raises(CompileError):
        parse_resources("", "_Z5plainPf")


@pytest.mark.parametrize(("version", "is_off"), [((12, 4), False), ((12, 9), True), ((13, 0), True)])
def test_the_compilers_own_cache_is_off_where_it_has_one(version, is_off):
    """A binary out of NVRTC's cache comes with no report."""
    options = nvrtc._options(Path("kernel.cu"), [], version)
    assert ("--no-cache" in options) == is_off


def test_every_kernel_of_a_file_is_reported_on(monkeypatch, tmp_path):
    """Kernels without template arguments share one PTX text: only the first was ever reported on a GPU."""
    monkeypatch.setenv("KDA_LEARN_CACHE", str(tmp_path))
    path = tmp_path / "two.cu"
    path.write_text("__global__ void one(int* x) { *x = 1; }\n__global__ void two(int* x) { *x = 2; }\n")
    try:
        compiled = [nvrtc.compile(path, entry=entry) for entry in ("one", "two")]
    except MachineUnavailable as missing:
        pytest.skip(str(missing))
    assert all(one.registers > 0 for one in compiled)
