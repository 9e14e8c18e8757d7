"""Reading what Nsight Compute prints."""

import ncu_counters as counters

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
    assert counters.parse_csv(PRINTED) == [{"reads.sum": 2048, "cycles.max": 812.5}, {"reads.sum": 64}]


def test_no_table_no_launches():
    assert counters.parse_csv("==ERROR== No kernels were profiled.\n") == []


def test_names_of_counters():
    text = "Device NVIDIA H200 (GH100)\n---- ---\nl1tex__data_bank_reads  Counter  #\n sm__cycles_active x\n"
    assert counters.parse_metric_names(text) == {"l1tex__data_bank_reads", "sm__cycles_active"}


def test_unknown_counters_are_not_asked_for():
    assert counters.choose(["a__b.sum", "a__c.sum"], {"a__c"}) == ["a__c.sum"]
    assert counters.choose(["a__b.sum"], set()) == ["a__b.sum"]


def test_counters_of_copies():
    available = [
        "smsp__inst_executed_op_ldgsts",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ldgsts",
        "smsp__sass_inst_executed_op_ldgsts",
        "l1tex__t_sectors_op_ldgsts_lookup_hit",
        "l1tex__data_bank_reads",
    ]
    assert counters.copy_counters(available, from_sass=False) == [
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum",
        "smsp__inst_executed_op_ldgsts.sum",
    ]
    assert counters.copy_counters(available, from_sass=True) == ["smsp__sass_inst_executed_op_ldgsts.sum"]
