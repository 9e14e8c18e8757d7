#!/usr/bin/env python3
"""Stands in for Nsight Compute in tests: prints pages that a test has written, and "runs" no program.

The folder FAKE_NCU holds for each launch, by the name that its request gives it, a folder NAME with raw.csv,
source.csv and answer.json, what the profiled program would answer; a program that meets a launch without such
a folder has ended. error.txt, if there, is what it says instead; most.txt how many launches it takes at once;
lost.txt how many of several launches its pages hold.
"""

import json
import os
import sys
from pathlib import Path

folder = Path(os.environ["FAKE_NCU"])
arguments = sys.argv[1:]
with (folder / "calls.txt").open("a") as calls:
    print(*arguments, file=calls)
if "--query-metrics" in arguments:
    print("Device NVIDIA H200 (GH100)\n---\nMetric Name     Metric Description")
    print("gpu__time_duration     incremental duration\nl1tex__throughput     L1\nsm__warps_active    warps")
    print(
        "sm__pipe_tensor_op_hmma_cycles_active    # of cycles\nsmsp__inst_executed    # of warp instructions"
    )
    sys.exit(0)
if "--import" in arguments:
    report, page = (arguments[arguments.index(option) + 1] for option in ("--import", "--page"))
    names = json.loads(Path(report).read_text())
    if len(names) > 1 and (folder / "lost.txt").exists():
        names = names[: int((folder / "lost.txt").read_text())]
    for name in names:
        sys.stdout.write((folder / name / f"{page}.csv").read_text())
    sys.exit(0)
names = [one["name"] for one in json.loads(Path(arguments[-2]).read_text())["watched"]]
if (folder / "error.txt").exists():
    sys.exit((folder / "error.txt").read_text())
if (folder / "most.txt").exists() and len(names) > int((folder / "most.txt").read_text()):
    sys.exit("==ERROR== too many launches")
answers = {}
for name in names:
    if not (folder / name).is_dir():
        break
    answers[name] = json.loads((folder / name / "answer.json").read_text())
report = Path(arguments[arguments.index("--export") + 1])
report.write_text(json.dumps([name for name, answer in answers.items() if "error" not in answer]))
Path(arguments[-1]).write_text(json.dumps({"answer": list(answers.values())}))
