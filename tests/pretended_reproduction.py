"""A GPU whose every part takes no time, for the tests of reproduce."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from functools import cache

from kda_learn.checking.check import CheckRow
from kda_learn.checking.standard_set import emulator_cases
from kda_learn.ground.errors import KdaError
from kda_learn.machines.device import Gpu
from kda_learn.performance import ceilings
from kda_learn.performance import evidence as counter_evidence
from kda_learn.performance.explained import ladder as shown_ladder
from kda_learn.records import store as records
from kda_learn.reports import parts as reproduce_parts

H20 = Gpu(0, "NVIDIA H20-3e", 78, (9, 0), "570.1", "12.8", 141 * 10**9, 232448, "0000:00:00.0")
WHERE = records.Provenance(H20.name, H20.sms, H20.driver, H20.cuda, "12.9", "2026-12-01", {})
B32 = "B32/T8192"
TWO = {"stages": ["s11", "s12"], "configs": [B32]}
NO_NCU = "Counters cannot be read, ncu is missing: install Nsight Compute."


@cache
def cases_of(machine):
    """Three instead of the GPU's long ones."""
    return emulator_cases()[:3] if machine == "gpu" else emulator_cases()


class Pretended:
    """What ran, how often, and what is to fail."""

    def __init__(self):
        self.ran = Counter()
        self.failing = {}  # part -> error
        self.bad_stage = None
        self.stop_after = None  # parts, then Ctrl-C

    def stand_in(self, patch):
        """Takes the places of all that needs a GPU or takes long."""
        patch.setattr(reproduce_parts, "check_jobs", self.check_jobs)
        patch.setattr(reproduce_parts, "cases_of", cases_of)
        patch.setattr(reproduce_parts, "compile_at_once", list)
        patch.setattr(ceilings, "measure", self.ceilings)
        patch.setattr(reproduce_parts, "measured_ladders", self.ladders)
        patch.setattr(reproduce_parts, "measure_profiles", self.profiles)

    def run(self, part):
        self.ran[part] += 1
        if self.stop_after is not None and sum(self.ran.values()) > self.stop_after:
            raise KeyboardInterrupt
        if part in self.failing:
            raise self.failing[part]

    def check_jobs(self, jobs, machine):
        return [self.check(stage.id, case, machine) for stage, case in jobs]

    def check(self, stage, case, machine):
        self.run("check")
        faults = ["snapshot 3 is off by 0.2 <too far>"] if stage == self.bad_stage else []
        variant = (case.problem.name, machine, case.v_split, case.snapshot_dtype)
        return CheckRow(stage, *variant, 1e-3, 1e-3, 2e-3, faults, not faults)

    def ceilings(self, sms):
        self.run("ceilings")
        twins = {"float32": {"ns_per_tile": 26.0}, "bfloat16": {"ns_per_tile": 15.5}}
        part = {"sms": 78, "twins": twins, "mma": {"tflops": 130.0}, "clocks": []}
        return records.Record("ceilings", WHERE, {"notes": [], "sources": {}, "parts": [part]})

    def ladders(self, stages, configs, sms, heads):
        self.run("ladder")
        found = shown_ladder(stages=stages, configs=configs, sms=80, live=False)
        return [
            replace(
                found,
                machine=WHERE.gpu,
                sms=WHERE.sms,
                recorded=False,
                banner="Measured now on an NVIDIA H20-3e with 78 SMs.",
                provenance=asdict(WHERE),
            )
        ]

    def profiles(self, batch):
        self.run("profile")
        return [self.profile(target) for target in batch]

    def profile(self, target):
        """A recorded profile; that of VSplit 1 if there is none of the target's."""
        known = {(one.stage, one.v_split): one for one in counter_evidence.recorded_profiles()}
        one = known.get((target.name, target.v_split)) or known.get((target.name, 1))
        if one is None:
            return KdaError("this one fails")
        where = replace(one.provenance, gpu="NVIDIA H20-3e", sms=78)
        return replace(one, v_split=target.v_split, provenance=where, recorded=False)
