"""Asks a Hopper GPU for the answers in tests/data/hardware_answers*; run it once, on a machine that has one.

    python3 tests/record_hardware.py --out FOLDER [--parts answers]

It writes hardware_answers.npz (what every kernel of kernels/lab/fragments.cu wrote), hardware_answers.json
(where that comes from), hardware_answers_wavefronts.json (what the counters say of kernels/lab/wavefronts.cu)
and ncu_logs.zip (what ncu printed, to look things up in). Copy the first three to tests/data. The first two
are the part `answers`, which needs no ncu; the others are the part `wavefronts`. A part that fails says why
and leaves the other alone.
"""

import argparse
import datetime
import json
import os
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import hardware_cases as fragments  # noqa: E402
import hardware_wavefront_cases as wavefronts  # noqa: E402
import ncu_counters as counters  # noqa: E402

from kda_learn.compilers.nvrtc import compile  # noqa: E402
from kda_learn.machines.cuda import synchronize  # noqa: E402
from kda_learn.machines.device import hopper  # noqa: E402
from kda_learn.machines.gpu import kernel_of  # noqa: E402
from kda_learn.machines.launching import launch  # noqa: E402
from kda_learn.machines.runnable import Runnable  # noqa: E402
from kda_learn.sources.includes import digest  # noqa: E402

PARTS = ["answers", "wavefronts"]
PROFILE_SECONDS = 60  # ncu is stopped after this long, for each suite


def provenance(source: Path) -> dict:
    """The GPU, the software and the source that the answers come from."""
    gpu = hopper()
    compiled = compile(source, entry=_any_entry(source))
    return {
        "gpu": gpu.name,
        "sms": gpu.sms,
        "driver": gpu.driver,
        "cuda": gpu.cuda,
        "nvrtc": compiled.nvrtc,
        "date": datetime.date.today().isoformat(),
        "source": f"kernels/lab/{source.name}",
        "digest": digest(source),
    }


def _any_entry(source: Path) -> str:
    return "convert" if source == fragments.FRAGMENTS else "count_loads<u32>"


def run_group(group: fragments.Group) -> dict[str, np.ndarray]:
    """One launch of fragments.cu: what it wrote, by output name. Outputs start as 0xFF bytes."""
    outputs = {name: np.empty(shape, dtype) for name, (shape, dtype) in group.outputs.items()}
    runnable = Runnable(
        source=fragments.FRAGMENTS,
        entry=group.entry,
        arguments=(*group.inputs.values(), *outputs.values()),
        grid=(group.blocks, 1, 1),
        threads=fragments.LANES,
        dynamic_smem_bytes=group.shared_bytes,
        outputs={name: len(group.inputs) + place for place, name in enumerate(outputs)},
    )
    launch(runnable, "gpu")
    return outputs


def record_answers(out: Path) -> str:
    """hardware_answers.npz and its provenance; two runs must agree."""
    answers = {}
    for group in fragments.groups():
        first = run_group(group)
        again = run_group(group)
        for name, array in first.items():
            if array.tobytes() != again[name].tobytes():
                raise RuntimeError(f"{group.entry}: {name} differs between two runs on the same inputs")
            answers[f"{group.entry}.{name}"] = array
    np.savez_compressed(out / fragments.ANSWERS.name, **answers)
    about = provenance(fragments.FRAGMENTS)
    about["inputs"] = {group.entry: group.digest() for group in fragments.groups()}
    (out / fragments.PROVENANCE.name).write_text(json.dumps(about, indent=1) + "\n")
    return f"{len(answers)} arrays, {(out / fragments.ANSWERS.name).stat().st_size} bytes"


def launch_suite(name: str) -> None:
    """Launch the suite's cases in order: what ncu runs."""
    import cupy

    words = np.random.RandomState(40).randint(0, 1 << 32, wavefronts.SOURCE_BYTES // 4, dtype=np.uint32)
    source = cupy.asarray(words)
    sink = cupy.asarray(np.zeros(wavefronts.LANES, np.uint32))
    for case in wavefronts.suites()[name]:
        arguments = [cupy.asarray(case.addresses.astype(np.uint32))]
        if case.operation in ("load", "ldmatrix"):
            arguments.append(sink)
        if case.operation == "copy":
            sources = cupy.asarray(case.sources.astype(np.uint32))
            arguments += [sources, source, np.uint32(case.step)]
        runnable = Runnable(
            source=wavefronts.WAVEFRONTS,
            entry=case.entry,
            arguments=tuple(arguments),
            grid=(1, 1, 1),
            threads=case.warps * wavefronts.LANES,
            dynamic_smem_bytes=wavefronts.SHARED_BYTES,
        )
        kernel = kernel_of(runnable)
        kernel.start(runnable)
        synchronize(kernel.gpu)


def count_suite(name: str, metrics: list[str], logs: Path) -> dict:
    """Profile a suite: its counters' names, and for each case the counts per instruction, in that order.

    The counter of cycles is not divided: it is the time of the whole launch.
    """
    cases = wavefronts.suites()[name]
    for entry in sorted({case.entry for case in cases}):
        compile(wavefronts.WAVEFRONTS, entry=entry)
    command = [sys.executable, str(HERE / "record_hardware.py"), "--launch", name]
    launches = counters.profile(command, metrics, logs / f"{name}.csv", PROFILE_SECONDS)
    if len(launches) != len(cases):
        raise RuntimeError(f"ncu saw {len(launches)} launches of {len(cases)}")
    rows = []
    for case, counted in zip(cases, launches, strict=True):
        instructions = wavefronts.REPEATS * case.warps
        values = [
            _divided(counted.get(metric), 1 if metric == counters.CYCLES else instructions)
            for metric in metrics
        ]
        rows.append([case.name, values])
    return {"counters": [metric.removesuffix(".sum") for metric in metrics], "cases": rows}


def _divided(count: float | None, instructions: int) -> float | int | None:
    """To 4 places; a whole number without them."""
    if count is None:
        return None
    quotient = round(count / instructions, 4)
    return int(quotient) if quotient == int(quotient) else quotient


def metric_choices(logs: Path) -> dict[str, list[list[str]]]:
    """For each suite the lists of counters to try, the longest first."""
    try:
        available = counters.available_metrics()
    except Exception as error:
        print(f"  the list of counters could not be read ({error}): the usual names are tried")
        available = set()
    names = sorted(name for name in available if "ldgsts" in name)
    (logs / "ldgsts_counters.txt").write_text("\n".join(names) + "\n")
    plain = counters.choose(counters.PLAIN_METRICS, available)
    usual = counters.choose(counters.COPY_METRICS, available)
    all_copies = list(dict.fromkeys([*usual, *counters.copy_counters(available, from_sass=False)]))
    return {
        "plain": [plain],
        "copies": [all_copies, usual, plain],
        "busy": [counters.choose(counters.BUSY_METRICS, available)],
        "few_copies": [counters.copy_counters(available, from_sass=True)],
    }


def record_wavefronts(out: Path, logs: Path) -> str:
    """hardware_answers_wavefronts.json; a suite that fails is left out, and said."""
    suites = {}
    for name, choices in metric_choices(logs).items():
        for metrics in choices:
            start = time.perf_counter()
            try:
                suites[name] = count_suite(name, metrics, logs)
            except Exception as error:
                print(f"  {name}: FAILED after {time.perf_counter() - start:.1f} s with {metrics}: {error}")
                continue
            print(
                f"  {name}: {len(suites[name]['cases'])} launches, {time.perf_counter() - start:.1f} s",
                flush=True,
            )
            break
    record = {"provenance": provenance(wavefronts.WAVEFRONTS), "per": "warp instruction", "suites": suites}
    text = json.dumps(record).replace("], [", "],\n[")  # a line for each case
    (out / wavefronts.WAVEFRONT_RECORD.name).write_text(text + "\n")
    counted = wavefronts.read_record(out / wavefronts.WAVEFRONT_RECORD.name)
    summarise_copies(counted)
    return f"{sum(map(len, counted.values()))} cases; {plain_surprises(counted)}"


def record_counts(out: Path) -> str:
    """The counters' answers, and ncu_logs.zip beside them, whether or not all went well."""
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder)
        try:
            return record_wavefronts(out, logs)
        finally:
            with zipfile.ZipFile(out / "ncu_logs.zip", "w", zipfile.ZIP_DEFLATED) as archive:
                for log in sorted(logs.iterdir()):
                    archive.write(log, log.name)


def summarise_copies(counted: wavefronts.Counts) -> None:
    """Print what a few copies cost."""
    for name, counts in counted.get("copies", {}).items():
        if name.endswith(("destination linear", "destination stride 256 B", "in flight")):
            print(f"  {name}: {counts.get(counters.SHARED)} wavefronts")


def plain_surprises(counted: wavefronts.Counts) -> str:
    """How often loads and stores differ from what was measured before."""
    different = []
    for case in wavefronts.plain_cases():
        suffix = "_op_ld" if case.operation in ("load", "ldmatrix") else "_op_st"
        value = counted.get("plain", {}).get(case.name, {}).get(counters.SHARED + suffix)
        if case.expected is not None and value != case.expected:
            different.append(f"{case.name}: {value}, not {case.expected}")
    return f"{len(different)} differ from the table {different[:5]}"


def part(name: str, work: Callable[[], str]) -> bool:
    """Run one part, say how it went, go on."""
    start = time.perf_counter()
    try:
        print(f"{name}: {work()} ({time.perf_counter() - start:.1f} s)", flush=True)
        return True
    except Exception:
        traceback.print_exc()
        print(f"{name}: FAILED ({time.perf_counter() - start:.1f} s)", flush=True)
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")))
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=PARTS, help="what to record; default: all"
    )
    parser.add_argument(
        "--launch", choices=list(wavefronts.suites()), help="only launch this suite (ncu does)"
    )
    options = parser.parse_args()
    if options.launch:
        launch_suite(options.launch)
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    print(json.dumps(asdict(hopper())))
    done = []
    if "answers" in options.parts:
        done.append(part("answers", lambda: record_answers(options.out)))
    if "wavefronts" in options.parts:
        done.append(part("wavefronts", lambda: record_counts(options.out)))
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
