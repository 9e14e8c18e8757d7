"""Counters: those that a profile shows, and those that record_hardware.py reads."""

import ncu_counters

from kda_learn.profiling import counters

# ---- of a profile ----


def test_counters_by_the_names_that_this_ncu_has():
    hmma = "sm__pipe_tensor_op_hmma_cycles_active"
    wanted = counters.wanted({hmma, "gpu__time_duration"})
    assert wanted[:2] == ["gpu__time_duration.sum", f"{hmma}.avg.pct_of_peak_sustained_active"]
    assert "memory_l1_wavefronts_shared" in wanted
    everything = counters.wanted([])
    assert len(everything) == len(counters.COUNTERS) + 1  # one comes with a section, two are added
    assert not any(name.startswith("launch__") for name in everything)
    metrics = {wanted[0]: 2500.0, wanted[1]: 12.0}
    assert counters.values(metrics) == {"time_us": 2.5, "tensor_pct": 12.0}


def test_stalls_the_largest_first():
    form = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    metrics = {form.format("wait"): 1.5, form.format("barrier"): 4.0, form.format("drain"): 0.0, "other": 9.0}
    assert list(counters.stalls(metrics).items()) == [("barrier", 4.0), ("wait", 1.5)]


# ---- of the hardware's recorder ----

PRINTED = """==PROF== Connected to process 77 (/usr/bin/python3.12)
==PROF== Profiling "count_loads" - 0: 0%....50%....100% - 2 passes
==PROF== Disconnected from process 77
"ID","Process ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"
"0","77","void count_loads<unsigned int>(const unsigned int *)","Command","reads.sum","","2,048"
"0","77","void count_loads<unsigned int>(const unsigned int *)","Command","cycles.max","cycle","812.5"
"1","77","void count_loads<uint4>(const unsigned int *)","Command","reads.sum","","64"
"1","77","void count_loads<uint4>(const unsigned int *)","Command","cycles.max","cycle","n/a"
"""


def test_a_launch_for_each_identifier():
    assert ncu_counters.parse_csv(PRINTED) == [{"reads.sum": 2048, "cycles.max": 812.5}, {"reads.sum": 64}]


def test_no_table_no_launches():
    assert ncu_counters.parse_csv("==ERROR== No kernels were profiled.\n") == []


def test_names_of_counters():
    text = "Device NVIDIA H200 (GH100)\n---- ---\nl1tex__data_bank_reads  Counter  #\n sm__cycles_active x\n"
    assert ncu_counters.parse_metric_names(text) == {"l1tex__data_bank_reads", "sm__cycles_active"}


def test_unknown_counters_are_not_asked_for():
    assert ncu_counters.choose(["a__b.sum", "a__c.sum"], {"a__c"}) == ["a__c.sum"]
    assert ncu_counters.choose(["a__b.sum"], set()) == ["a__b.sum"]


def test_counters_of_copies():
    available = [
        "smsp__inst_executed_op_ldgsts",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ldgsts",
        "smsp__sass_inst_executed_op_ldgsts",
        "l1tex__t_sectors_op_ldgsts_lookup_hit",
        "l1tex__data_bank_reads",
    ]
    assert ncu_counters.copy_counters(available, from_sass=False) == [
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum",
        "smsp__inst_executed_op_ldgsts.sum",
    ]
    assert ncu_counters.copy_counters(available, from_sass=True) == ["smsp__sass_inst_executed_op_ldgsts.sum"]
