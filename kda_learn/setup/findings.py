"""What the facts of a computer mean for the course, one function each; `doctor` puts them together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..kernel_a.variants import shared_memory_of
from ..machines.computer import CPU_MACHINE_SYSTEMS, Facts, GpuFacts
from ..sources.stages import Stage
from . import plan

GIGABYTE = 10**9
NEEDED_MEMORY = 4 * GIGABYTE
NEEDED_DISK = 1 * GIGABYTE

KERNEL_CAPABILITY = (9, 0)
"""What the kernels are compiled for: Hopper."""

GREEN_CONTEXT_DRIVER = 550
"""The first driver for CUDA 12.4, which can give a kernel a part of the SMs (`ladder --sms`)."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: what was found in plain words, and what to do if that is too little."""

    name: str
    status: Literal["ok", "limited", "missing"]
    sentence: str
    advice: str = ""


@dataclass(frozen=True)
class StageFinding:
    """Whether a stage can run on this computer's GPU, and if not, why."""

    id: str
    title: str
    launches: bool
    reason: str = ""


def why_not(stage: Stage, gpu: GpuFacts, v_split: int = 1) -> str:
    """Why a stage cannot run on a GPU, in words; an empty string if it can.

    cp.async needs compute capability 8.0 and stmatrix 9.0 (PTX ISA, "Target ISA Notes"); how much shared
    memory a block needs is written in the stage's own file.
    """
    reasons = []
    allowed = gpu.shared_memory_per_block
    code = "\n".join(stage.source.code_lines)
    if shared_memory_of(stage, v_split) > allowed:
        reasons.append(f"a block needs more shared memory than the {allowed:,} bytes this GPU allows")
    if "stmatrix" in code and gpu.capability < (9, 0):
        reasons.append("stmatrix needs compute capability 9.0")
    if "cp_async" in code and gpu.capability < (8, 0):
        reasons.append("cp.async needs compute capability 8.0")
    if gpu.capability != KERNEL_CAPABILITY and not reasons:
        reasons.append(f"the kernels are built for compute capability {_dotted(KERNEL_CAPABILITY)}")
    return "; ".join(reasons)


def of_stage(stage: Stage, facts: Facts) -> StageFinding:
    reason = why_not(stage, facts.gpus[0]) if facts.gpus else "there is no GPU"
    return StageFinding(stage.id, stage.title, not reason, reason)


def of_python(facts: Facts) -> Finding:
    version = _dotted(facts.python)
    if facts.python < plan.OLDEST_PYTHON:
        return Finding("Python", "missing", f"Python {version} is too old.", plan.PYTHON_ADVICE)
    sentence = f"Python {version} on {facts.system} {facts.processor}, {facts.cores} cores."
    return Finding("Python", "ok", sentence)


def of_gpu(facts: Facts) -> Finding:
    if not facts.gpus:
        sentence = "No NVIDIA GPU is visible: the CPU machine runs the same kernels, times come from records."
        return Finding("GPU", "missing", sentence)
    gpu = facts.gpus[0]
    more = f" (and {len(facts.gpus) - 1} more)" if len(facts.gpus) > 1 else ""
    sentence = (
        f"{gpu.name}{more}: compute capability {_dotted(gpu.capability)}, {gpu.sms} SMs, "
        f"{gpu.memory / GIGABYTE:.0f} GB, {gpu.shared_memory_per_block:,} bytes of shared memory per block."
    )
    if gpu.capability != KERNEL_CAPABILITY:
        advice = "Kernel A is built for Hopper (H100, H200, H20): here the CPU machine runs it."
        return Finding("GPU", "limited", sentence, advice)
    return Finding("GPU", "ok", sentence)


def of_driver(facts: Facts) -> Finding:
    if facts.driver is None:
        sentence = "No NVIDIA driver: compiling for a GPU works without one, running does not."
        return Finding("driver", "missing", sentence)
    if not facts.gpus:
        advice = "Start the container with its GPUs, or see what `nvidia-smi` says."
        return Finding("driver", "limited", f"NVIDIA driver {facts.driver}, but it shows no GPU.", advice)
    sentence = f"NVIDIA driver {facts.driver}: the {plan.choose_set(facts)} set of packages fits."
    if plan.major(facts.driver) < GREEN_CONTEXT_DRIVER:
        advice = f"`ladder --sms` needs driver {GREEN_CONTEXT_DRIVER}; all else works."
        return Finding("driver", "limited", sentence, advice)
    return Finding("driver", "ok", sentence)


def of_cupy(facts: Facts) -> Finding:
    twelve, thirteen = (facts.packages.get(f"cupy-cuda{number}x") for number in (12, 13))
    if twelve is None and thirteen is None:
        if facts.system == "Darwin":
            return Finding(
                "CUDA", "missing", "There is no CuPy for macOS: nothing is compiled for a GPU here."
            )
        return Finding(
            "CUDA", "missing", "CuPy is not installed: no kernel can be compiled.", "Run `make setup`."
        )
    if twelve and thirteen:
        sentence = "CuPy for CUDA 12 and CuPy for CUDA 13 are both installed and break each other."
        return Finding("CUDA", "missing", sentence, "Delete .venv and run `make setup`.")
    sentence = f"CuPy {thirteen} for CUDA 13." if thirteen else f"CuPy {twelve} for CUDA 12."
    if thirteen and plan.choose_set(facts) == "cuda12":
        sentence += f" CUDA 13 needs driver {plan.CUDA13_DRIVER}: kernels are compiled but cannot run."
        return Finding("CUDA", "limited", sentence, "Run `make setup SET=cuda12`.")
    return Finding("CUDA", "ok", sentence)


def of_nvrtc(facts: Facts) -> Finding:
    version = facts.packages.get("nvidia-cuda-nvrtc") or facts.packages.get("nvidia-cuda-nvrtc-cu12")
    if version is None:
        lost = "Registers, spills, occupancy and SASS cannot be shown; check and trace work."
        if facts.system == "Darwin":
            return Finding("NVRTC", "missing", f"There is no NVRTC for macOS. {lost}")
        return Finding("NVRTC", "missing", f"NVRTC is not installed. {lost}", "Run `make setup`.")
    if "nvidia-cuda-nvdisasm" not in facts.packages:
        sentence = f"NVRTC {version} compiles for Hopper, but nvdisasm is missing: SASS cannot be shown."
        return Finding("NVRTC", "limited", sentence, "Run `make setup`.")
    return Finding("NVRTC", "ok", f"NVRTC {version} compiles for Hopper (sm_90a), with or without a GPU.")


def of_compiler(facts: Facts) -> Finding:
    if facts.cpu_machine:
        sentence = f"{facts.compiler} builds the kernels for the CPU machine."
        if facts.system == "Darwin":
            sentence += " It is written for macOS, too, but we have not run it there yet."
            return Finding("C++ compiler", "limited", sentence, "If it fails, use Linux in a container.")
        return Finding("C++ compiler", "ok", sentence)
    if facts.system not in CPU_MACHINE_SYSTEMS:
        sentence = f"The CPU machine runs on Linux and macOS, and this is {facts.system}."
    else:
        sentence = "No C++20 compiler: the CPU machine cannot run, so no trace and no check without a GPU."
    return Finding("C++ compiler", "missing", sentence, plan.cpu_machine_advice(facts))


def of_counters(facts: Facts) -> Finding:
    if not facts.gpus:
        return Finding("counters", "missing", "No GPU, so no performance counters: recorded ones are shown.")
    if facts.ncu is None:
        sentence = "ncu is not installed: `profile` cannot read this GPU's counters."
        return Finding(
            "counters", "limited", sentence, "Install Nsight Compute, a part of NVIDIA's CUDA toolkit."
        )
    if facts.counters_open is False:
        sentence = f"{facts.ncu} is there, but only an administrator may read the counters."
        advice = (
            "As root, load the driver with NVreg_RestrictProfilingToAdminUsers=0; start a container with "
            "--cap-add=SYS_ADMIN."
        )
        return Finding("counters", "limited", sentence, advice)
    if facts.counters_open is None:
        sentence = f"{facts.ncu} is there; whether it may read the counters shows when it runs."
        return Finding("counters", "ok", sentence)
    return Finding("counters", "ok", f"{facts.ncu} may read this GPU's counters.")


def of_memory(facts: Facts) -> Finding:
    if facts.memory is None:
        return Finding("memory", "ok", "This system does not tell how much memory it has.")
    sentence = f"{facts.memory / GIGABYTE:.0f} GB of main memory."
    if facts.memory < NEEDED_MEMORY:
        return Finding("memory", "limited", sentence, "Close other programs before checking all stages.")
    return Finding("memory", "ok", sentence)


def of_disk(facts: Facts) -> Finding:
    sentence = f"{facts.free_disk / GIGABYTE:.1f} GB free on this disk."
    if facts.free_disk < NEEDED_DISK:
        return Finding("disk", "limited", sentence, "Free 1 GB: compiled kernels are kept on disk.")
    return Finding("disk", "ok", sentence)


def of_cache(facts: Facts) -> Finding:
    if facts.cache_trouble:
        reason, _, cure = facts.cache_trouble.partition(": ")
        return Finding("cache", "missing", _capital(f"{reason}."), _capital(cure))
    return Finding("cache", "ok", "Compiled kernels can be kept, and are compiled once.")


def of_torch(facts: Facts) -> Finding:
    version = facts.packages.get("torch")
    if version is None:
        sentence = "PyTorch is not installed: check and trace work without it, dstate_scan does not."
        return Finding(
            "PyTorch", "limited", sentence, "Run `make setup TORCH=cpu`; with a GPU, `make setup`."
        )
    return Finding("PyTorch", "ok", f"PyTorch {version}.")


def of_jupyter(facts: Facts) -> Finding:
    wanted = ("jupyterlab", "ipywidgets", "anywidget", "matplotlib")
    lacking = [name for name in wanted if name not in facts.packages]
    if lacking:
        sentence = f"Not installed: {', '.join(lacking)}. Notebooks need them, the command line does not."
        return Finding("Jupyter", "missing", sentence, "Run `make learn`.")
    return Finding("Jupyter", "ok", f"JupyterLab {facts.packages['jupyterlab']}.")


def of_stages(facts: Facts, on_gpu: Sequence[StageFinding]) -> Finding:
    machine = (
        "The CPU machine runs all of them." if facts.cpu_machine else "None can run without the CPU machine."
    )
    if not facts.gpus:
        sentence = f"{len(on_gpu)} stages, and no GPU to time them on. {machine}"
        return Finding("stages", "limited" if facts.cpu_machine else "missing", sentence)
    able = [stage.id for stage in on_gpu if stage.launches]
    if len(able) == len(on_gpu):
        return Finding("stages", "ok", f"All {len(on_gpu)} stages run on this GPU.")
    unable: dict[str, list[str]] = {}
    for stage in on_gpu:
        if not stage.launches:
            unable.setdefault(stage.reason, []).append(stage.id)
    sentences = [f"On this GPU {', '.join(able) or 'no stage'} can run."]
    sentences += [f"Not {', '.join(names)}: {reason}." for reason, names in unable.items()]
    if facts.cpu_machine:
        sentences.append(machine)
    return Finding("stages", "limited", " ".join(sentences))


def of_chapters(facts: Facts, on_gpu: Sequence[StageFinding]) -> Finding:
    if _all_launch(facts, on_gpu):
        return Finding("chapters", "ok", "All chapters run, with times and counters from this GPU.")
    if not facts.cpu_machine:
        sentence = "The chapters open, but their kernels do not run."
        return Finding("chapters", "missing", sentence, plan.cpu_machine_advice(facts))
    sentence = "All chapters run on the CPU machine; times and counters are recorded ones."
    return Finding("chapters", "limited", sentence)


def summary(facts: Facts, on_gpu: Sequence[StageFinding]) -> str:
    """All of it in one sentence."""
    if _all_launch(facts, on_gpu):
        if facts.cpu_machine:
            return "This computer runs everything: kernels, checks, traces and times."
        return "This computer runs, checks and times the kernels on its GPU; traces need the CPU machine."
    if facts.cpu_machine:
        return (
            "This computer runs, checks and traces every kernel on the CPU machine; times come from records."
        )
    return "This computer can show the course but not run its kernels: they need a GPU or the CPU machine."


def _all_launch(facts: Facts, on_gpu: Sequence[StageFinding]) -> bool:
    return bool(facts.gpus) and all(stage.launches for stage in on_gpu)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
