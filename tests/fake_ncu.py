#!/usr/bin/env python3
"""Stands in for Nsight Compute in tests: prints pages that a test has written, and "runs" no program.

The folder FAKE_NCU holds raw.csv and source.csv; error.txt, if there, is what it says instead; answer.json is
what the profiled program would answer.
"""

import os
import shutil
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
elif "--import" in arguments:
    sys.stdout.write((folder / f"{arguments[arguments.index('--page') + 1]}.csv").read_text())
elif (folder / "error.txt").exists():
    print((folder / "error.txt").read_text())
    sys.exit(1)
else:
    Path(arguments[arguments.index("--export") + 1]).write_text("a report")
    shutil.copy(folder / "answer.json", arguments[-1])
