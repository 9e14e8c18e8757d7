"""The random kernels that racecheck can judge, on a GPU: does it agree with the oracle?

cd tests && python -m oracle.on_gpu --count 200 --json found.json

racecheck (compute-sanitizer) watches one process that launches them all. It knows neither mbarriers nor bulk
copies, so kernels without them are taken, and only races are compared: it does not look for bytes that nobody
wrote, nor for copies at the end. It is no judge over PTX: each disagreement is named, with what either says.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kda_learn.compilers import nvrtc
from kda_learn.ground.files import KERNELS
from kda_learn.machines import child, sanitizer

from .__main__ import today
from .happens_before import Undefined, judge
from .language import GLOBAL_WORDS, LANES, PREAMBLE, SHARED_BYTES, Program, kernel
from .programs import from_seed

NAME = "random_kernel_"
SECONDS = 240
_NOT_JUDGED = {"init", "arrive", "expect", "wait", "bulk", "fence"}
_RACES = {"between warps", "within a warp", "copy", "own copy"}
_HAZARD = re.compile(r"^========= (Error|Warning|Info|WARNING|ERROR|INFO)\b", re.MULTILINE)


def chosen(first: int, count: int) -> dict[int, Program]:
    """So many programs that racecheck can judge and that come to their end, by seed."""
    programs: dict[int, Program] = {}
    seed = first
    while len(programs) < count:
        program = from_seed(seed)
        if not any(statement.op in _NOT_JUDGED for statement in program.statements):
            try:
                if all(finding.kind != "stuck" for finding in judge(program).findings):
                    programs[seed] = program
            except Undefined:
                pass
        seed += 1
    return programs


def source(programs: dict[int, Program]) -> str:
    """One translation unit with a kernel for each program."""
    lines = list(PREAMBLE)
    for seed, program in programs.items():
        lines += [
            "",
            *(
                line.replace("__global__", 'extern "C" __global__')
                for line in kernel(program, f"{NAME}{seed}")
            ),
        ]
    return "\n".join([*lines, ""])


def compiled(text: str) -> bytes:
    """A binary for Hopper, without line numbers: racecheck would name functions of gpu.cuh by them."""
    compiler = nvrtc._nvrtc()
    program = compiler.createProgram(text, "random_kernels.cu", [], [])
    try:
        try:
            compiler.compileProgram(program, [f"-arch={nvrtc.ARCHITECTURE}", "-std=c++17", f"-I{KERNELS}"])
        except compiler.NVRTCError:
            raise AssertionError(compiler.getProgramLog(program)) from None
        return compiler.getCUBIN(program) + b"\0"  # CuPy drops the last byte
    finally:
        compiler.destroyProgram(program)


def launch_all(request: dict[str, int]) -> int:
    """What racecheck watches. Returns the number of launches."""
    import cupy
    import numpy as np

    programs = chosen(**request)
    module = cupy.cuda.Module()
    module.load(compiled(source(programs)))
    words, out = cupy.arange(GLOBAL_WORDS, dtype=np.uint32), cupy.zeros(3 * LANES, np.uint32)
    for seed, program in programs.items():
        function = module.get_function(f"{NAME}{seed}")
        function((1, 1, 1), (program.warps * LANES, 1, 1), (words, out), shared_mem=SHARED_BYTES)
        cupy.cuda.runtime.deviceSynchronize()
    return len(programs)


def racecheck(request: dict[str, int]) -> str:
    """All that racecheck prints."""
    program = sanitizer.program()
    options = ["--tool", "racecheck", "--racecheck-report", "analysis", "--print-limit", "100000"]
    offered = subprocess.run([program, "--help"], capture_output=True, text=True, check=False).stdout
    if "racecheck-memcpy-async" in offered:
        options += ["--racecheck-memcpy-async", "yes"]
    with tempfile.TemporaryDirectory() as folder:
        asked, answer = Path(folder) / "request.json", Path(folder) / "answer.json"
        asked.write_text(json.dumps(request), encoding="utf-8")
        here = str(Path(__file__).resolve().parents[1])
        environment = child.environment()
        environment["PYTHONPATH"] = os.pathsep.join([environment["PYTHONPATH"], here])
        call = [program, *options, *child.command(f"{__package__}.on_gpu:launch_all", asked, answer)]
        done = subprocess.run(
            call, capture_output=True, text=True, timeout=SECONDS, env=environment, check=False
        )
        if not answer.exists():
            raise SystemExit(f"racecheck ended without an answer:\n{(done.stdout + done.stderr)[-3000:]}")
        child.answer_in(answer)
    return done.stdout + done.stderr


def hazards(printed: str) -> dict[int, list[str]]:
    """By seed, the first line of each thing that racecheck reports of the kernel."""
    starts = [match.start() for match in _HAZARD.finditer(printed)]
    found: dict[int, list[str]] = {}
    for start, end in zip(starts, [*starts[1:], len(printed)], strict=True):
        report = printed[start:end]
        for seed in {int(number) for number in re.findall(rf"{NAME}(\d+)", report)}:
            found.setdefault(seed, []).append(report.splitlines()[0].removeprefix("========= "))
    return found


def compared(programs: dict[int, Program], said: dict[int, list[str]]) -> dict[str, Any]:
    """How many agree, and each disagreement."""
    differences: list[dict[str, Any]] = []
    for seed, program in programs.items():
        kinds = sorted({finding.kind for finding in judge(program).findings} & _RACES)
        if bool(kinds) != (seed in said):
            name = "racecheck is silent: " + ", ".join(kinds) if kinds else "only racecheck finds a race"
            differences.append(
                {"name": name, "seed": seed, "racecheck": said.get(seed, []), "kernel": str(program)}
            )
    return {
        "programs": len(programs),
        "with races, by racecheck": len(said),
        "agree": len(programs) - len(differences),
        "disagreements": dict(Counter(each["name"] for each in differences)),
        "differences": differences,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m oracle.on_gpu", description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=today())
    parser.add_argument("--json", type=Path, help="a file for what was found and printed")
    wanted = parser.parse_args(arguments)
    programs = chosen(wanted.first, wanted.count)
    printed = racecheck({"first": wanted.first, "count": wanted.count})
    found = compared(programs, hazards(printed))
    print(json.dumps({key: value for key, value in found.items() if key != "differences"}, indent=1))
    if wanted.json:
        wanted.json.write_text(json.dumps(found | {"printed": printed}, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
