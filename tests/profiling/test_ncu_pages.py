"""Reading ncu's pages "raw" and "source"."""

import pytest

from kda_learn.ground.errors import KdaError
from kda_learn.profiling import ncu_pages


def test_the_raw_page_has_a_row_for_each_launch():
    text = (
        '==PROF== Connected to process 7\n==WARNING== something\n"ID","Kernel Name","gpu__time_duration.sum",'
        '"a__b.ratio","c__d"\n"","","ns","",""\n"0","kernel_a","1,234,567","0.5","n/a"\n'
        '"1","kernel_a(int, float)","89","nan","3"\n==PROF== Disconnected\n'
    )
    first, second = ncu_pages.parse_raw(text)
    assert (first["gpu__time_duration.sum"], first["a__b.ratio"]) == (1234567.0, 0.5)
    assert "c__d" not in first
    assert second["c__d"] == 3.0
    assert ncu_pages.parse_raw("==ERROR== nothing\n") == []


def test_the_source_page_has_a_part_for_each_launch():
    headings = '"#","Address","Source","# Samples","Instructions Executed","L1 Wavefronts Shared"'
    headings += ',"L1 Wavefronts Shared Ideal","Instructions Executed","stall_long_sb","stall_lg"'
    headings += ',"stall_lg (Not Issued)"'
    text = (
        f'"Kernel Name","a(int, int)",\n{headings}\n'
        '"0","0x7f1000","      LDS.U16 R1, [R2] ","12","1,024","2,048","1024","7","10","0","5"\n'
        '"1","0x7f1010","@!P0 EXIT","-","","-","-","7","0","0","0"\n\n'
        f'"Function Name","b",\n{headings}\n"0","0x9000","NOP","1","1","0","0","1","0","1","0"\n'
    )
    first, second = ncu_pages.parse_source(text)
    assert first[0] == ncu_pages.InstructionCounts(
        0, "LDS.U16 R1, [R2]", 1024, 2048, 1024, 12, {"long_scoreboard": 10}
    )
    assert (first[1].address, first[1].samples, first[1].executed) == (0x10, 0, 0)
    assert [counts.stalls for counts in second] == [{"lg_throttle": 1}]


def test_the_source_page_with_the_metrics_names():
    text = (
        '"Address","Source","# Samples","inst_executed","memory_l1_wavefronts_shared",'
        '"memory_l1_wavefronts_shared_ideal","smsp__pcsamp_warps_issue_stalled_math_pipe_throttle",'
        '"smsp__pcsamp_warps_issue_stalled_math_pipe_throttle_not_issued"\n'
        '"64","HMMA R0, R1, R2, R3","3","8","0","0","3","2"\n'
    )
    ((only,),) = ncu_pages.parse_source(text)
    assert (only.executed, only.stalls) == (8, {"math_pipe_throttle": 3})


WITHOUT_WAVEFRONTS = '"Address","Source","# Samples","inst_executed"\n"64","{}","3","8"\n'


def test_a_kernel_without_shared_memory_has_no_wavefronts():
    """ncu then leaves their columns out."""
    ((only,),) = ncu_pages.parse_source(WITHOUT_WAVEFRONTS.format("HMMA R0, R1, R2, R3"))
    assert (only.executed, only.wavefronts, only.least_wavefronts) == (8, 0, 0)


@pytest.mark.parametrize("text", ["LDS.128 R4, [R0]", "@P0 LDSM.16.M88.4 R4, [R0]", "LDGSTS.E [R1], [R2.64]"])
def test_a_source_page_without_wavefronts_of_shared_memory_is_refused(text):
    with pytest.raises(KdaError, match="no column 'L1 Wavefronts Shared'"):
        ncu_pages.parse_source(WITHOUT_WAVEFRONTS.format(text))
