"""`doctor` on this computer, and on computers that it can only imagine."""

import dataclasses
import subprocess
import sys

import pytest

from kda_learn.machines.computer import Facts, GpuFacts
from kda_learn.setup.doctor import diagnose, doctor
from kda_learn.setup.findings import why_not
from kda_learn.sources.stages import STAGES

KILOBYTE = 1024
H20 = GpuFacts("NVIDIA H20", (9, 0), 78, 227 * KILOBYTE, 96 * 10**9)
A100 = GpuFacts("NVIDIA A100", (8, 0), 108, 163 * KILOBYTE, 80 * 10**9)
RTX_4090 = GpuFacts("NVIDIA GeForce RTX 4090", (8, 9), 128, 99 * KILOBYTE, 24 * 10**9)

PACKAGES = {
    "cupy-cuda13x": "14.2.0",
    "nvidia-cuda-nvrtc": "13.0.88",
    "nvidia-cuda-nvdisasm": "13.5.37",
    "torch": "2.12.1",
    "jupyterlab": "4.6.6",
    "ipywidgets": "8.1.9",
    "anywidget": "0.11.0",
    "matplotlib": "3.11.2",
}

LAPTOP = Facts(
    python=(3, 12, 1),
    system="Linux",
    processor="x86_64",
    cores=8,
    memory=16 * 10**9,
    free_disk=50 * 10**9,
    compiler="/usr/bin/g++",
    packages=PACKAGES,
)
H20_SERVER = dataclasses.replace(
    LAPTOP, driver="580.65.06", gpus=(H20,), ncu="/usr/local/cuda/bin/ncu", counters_open=True
)


def with_gpu(gpu: GpuFacts) -> Facts:
    return dataclasses.replace(H20_SERVER, gpus=(gpu,))


def test_on_this_computer_every_item_has_a_sentence():
    report = doctor()
    assert {item.status for item in report.items} <= {"ok", "limited", "missing"}
    assert all(item.sentence.endswith(".") for item in report.items)
    assert report.item("Python").status == "ok"
    assert [stage.id for stage in report.stages] == [stage.id for stage in STAGES]


def test_as_dict_and_text_hold_all_items():
    report = diagnose(LAPTOP)
    assert [item["name"] for item in report.as_dict()["items"]] == [item.name for item in report.items]
    assert all(item.name in str(report) for item in report.items)


def test_a_laptop_runs_all_stages_on_the_cpu_machine():
    report = diagnose(LAPTOP)
    assert report.item("GPU").status == "missing"
    assert "CPU machine runs all of them" in report.item("stages").sentence
    assert not any(stage.launches for stage in report.stages)
    assert "runs, checks and traces every kernel on the CPU machine" in report.summary


def test_an_h20_server_runs_everything():
    report = diagnose(H20_SERVER)
    assert {item.name for item in report.items if item.status != "ok"} == set()
    assert all(stage.launches for stage in report.stages)
    assert report.summary.startswith("This computer runs everything")


def test_without_a_compiler_and_a_gpu_nothing_runs_and_the_fix_is_named():
    report = diagnose(dataclasses.replace(LAPTOP, compiler=None))
    assert report.item("C++ compiler").status == "missing"
    assert "apt-get install g++" in report.item("C++ compiler").advice
    assert "GPU or the CPU machine" in report.summary


def test_an_old_driver_asks_for_the_cuda_12_packages():
    report = diagnose(dataclasses.replace(H20_SERVER, driver="535.183.01"))
    assert report.item("CUDA").status == "limited"
    assert "SET=cuda12" in report.item("CUDA").advice
    assert "ladder --sms" in report.item("driver").advice


def test_both_cupy_packages_at_once_are_a_fault():
    packages = {**PACKAGES, "cupy-cuda12x": "14.2.0"}
    report = diagnose(dataclasses.replace(H20_SERVER, packages=packages))
    assert report.item("CUDA").status == "missing"


@pytest.mark.parametrize(
    ("ncu", "counters_open", "word"),
    [(None, None, "not installed"), ("/usr/bin/ncu", False, "only an administrator")],
)
def test_counters_that_cannot_be_read(ncu, counters_open, word):
    report = diagnose(dataclasses.replace(H20_SERVER, ncu=ncu, counters_open=counters_open))
    assert report.item("counters").status == "limited"
    assert word in report.item("counters").sentence
    assert report.item("counters").advice


def test_a_mac_says_that_nothing_is_compiled_for_a_gpu():
    packages = {"jupyterlab": "4.6.6"}
    report = diagnose(dataclasses.replace(LAPTOP, system="Darwin", packages=packages))
    assert "macOS" in report.item("NVRTC").sentence
    assert "make setup" not in report.item("NVRTC").advice
    assert "anywidget" in report.item("Jupyter").sentence
    assert "have not run it there yet" in report.item("C++ compiler").sentence


def test_other_systems_are_told_to_use_linux():
    report = diagnose(dataclasses.replace(LAPTOP, system="Windows"))
    assert report.item("C++ compiler").status == "missing"
    assert "runs on Linux and macOS" in report.item("C++ compiler").sentence
    assert "WSL" in report.item("C++ compiler").advice


def test_a_gpu_with_little_shared_memory_names_the_stages_that_need_more():
    stages = {stage.id: stage for stage in STAGES}
    for name in ("s00", "s01"):
        assert "more shared memory" in why_not(stages[name], RTX_4090)
        assert "more shared memory" not in why_not(stages[name], A100)
    assert "stmatrix needs compute capability 9.0" in why_not(stages["s12"], A100)
    assert "stmatrix" not in why_not(stages["s02"], A100)
    assert all(why_not(stage, H20) == "" for stage in STAGES)


def test_another_gpu_is_told_to_use_the_cpu_machine():
    report = diagnose(with_gpu(RTX_4090))
    assert report.item("GPU").status == "limited"
    assert "s00, s01" in report.item("stages").sentence
    assert "CPU machine runs all of them" in report.item("stages").sentence


def test_a_driver_that_shows_no_gpu():
    report = diagnose(dataclasses.replace(LAPTOP, driver="580.65.06"))
    assert report.item("driver").status == "limited"
    assert "nvidia-smi" in report.item("driver").advice


def test_looking_loads_neither_cupy_nor_torch():
    program = (
        "import sys, kda_learn.setup.doctor as d; d.doctor(); print({'cupy', 'torch'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
