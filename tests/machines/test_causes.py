"""One cause is one fault: the pairs of lines that one missing barrier explains, and where it belongs."""

import numpy as np
import pytest

from kda_learn.machines import emulator
from kda_learn.machines.block_trace import merged

THREADS = 64


@pytest.fixture
def launched(tmp_path):
    """Launches the statements of a kernel with 64 threads and 4,096 bytes of shared memory."""

    def launch(body, *, seed=0, blocks=1, trace=False):
        source = tmp_path / "mine.cu"
        head = (
            '#include "gpu.cuh"\n__global__ void k(const u32* in, u32* out) {\n'
            "  const u32 t = threadIdx.x, lane = t % 32, s = smem_base();\n"
        )
        source.write_text(head + body + "}\n")
        args = [np.arange(256, dtype=np.uint32), np.zeros(THREADS, np.uint32)]
        return emulator.build(source, "k").launch(args, blocks, THREADS, 4096, seed=seed, trace=trace)

    return launch


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shift", [1, 5, 32, 33])
def test_bytes_and_threads_are_those_of_a_count_by_hand(launched, shift, seed):
    words = int(np.random.default_rng().integers(shift + 1, THREADS + 1))  # that are stored
    (fault,) = launched(
        f"  sts<u32>(s + t * 4, 0);\n  __syncthreads();\n  if (t < {words}) sts<u32>(s + t * 4, t);\n"
        f"  stg(out + t, lds<u32>(s + (t + {shift}) % 64 * 4));\n",
        seed=seed,
        blocks=3,
    ).faults
    racing = [(word, (word - shift) % THREADS) for word in range(words)]  # who writes it, who reads it
    assert fault.bytes == 4 * len(racing)
    assert fault.threads == len({thread for pair in racing for thread in pair})
    assert fault.blocks == 3
    across = any(writer // 32 != reader // 32 for writer, reader in racing)
    assert fault.cure == ("__syncthreads()" if across else "__syncwarp()")
    assert (fault.after[1], fault.before[1]) == (6, 7)


def test_one_barrier_that_the_loop_lacks_belongs_before_it_comes_round(launched):
    (fault,) = launched(
        "  for (u32 i = 0; i < 4; i++) {\n    sts<u32>(s + t * 4, i);\n    __syncthreads();\n"
        "    stg(out + t, lds<u32>(s + (t ^ 32) * 4));\n  }\n"
    ).faults
    assert (fault.cure, fault.after[1], fault.before[1]) == ("__syncthreads()", 7, 5)
    assert "before mine.cu:5 comes round again" in fault.message


def test_two_missing_barriers_are_two_faults(launched):
    faults = launched(
        "  sts<u32>(s + t * 4, t);\n  const u32 x = lds<u32>(s + (t ^ 32) * 4);\n  __syncthreads();\n"
        "  sts<u32>(s + 1024 + t * 4, x);\n  stg(out + t, lds<u32>(s + 1024 + (t ^ 1) * 4));\n"
    ).faults
    cures = {(fault.cure, fault.after[1], fault.before[1]) for fault in faults}
    assert cures == {("__syncthreads()", 4, 5), ("__syncwarp()", 7, 8)}


@pytest.mark.parametrize("seed", range(4))
def test_lanes_of_one_instruction_are_told_that_no_barrier_helps(launched, seed):
    (fault,) = launched("  if (t < 2) sts<u32>(s, t);\n", seed=seed).faults
    assert fault.kind == "race within a warp" and fault.cure == "no barrier"
    assert "by one instruction, mine.cu:4 (sts), lanes of one warp store" in fault.message
    assert "no barrier helps" in fault.message and "__sync" not in fault.message


def test_lines_of_a_helper_are_told_apart_by_their_calls(launched):
    (fault,) = launched(
        "  auto put = [&](u32 at, u32 x) { sts<u32>(at, x); };\n  put(s + t * 4, t);\n"
        "  stg(out + t, lds<u32>(s + (t ^ 32) * 4));\n"
    ).faults
    assert (fault.after[1], fault.before[1]) == (5, 6)


def test_rows_of_different_warps_are_merged_in_their_order():
    assert merged(["ac", "bc", "abd"]) == ["a", "b", "d", "c"] or merged(["ac", "bc"]) == ["b", "a", "c"]


# ---- events ----
def happened(launch, operation, kind):
    op, number = launch.operations.index(operation), emulator_kinds().index(kind)
    return launch.events[(launch.events["op"] == op) & (launch.events["kind"] == number)]


def emulator_kinds():
    from kda_learn.machines.emulator_launch import EVENT_KINDS

    return EVENT_KINDS


def test_every_barrier_has_an_arrival_and_a_release_of_each_warp(launched):
    launch = launched(
        "  for (u32 i = 0; i < 5; i++) {\n    __syncwarp();\n    __syncthreads();\n  }\n", trace=True
    )
    arrived, released = (happened(launch, "syncthreads", kind) for kind in ("arrive", "release"))
    counted = sum(count for (_, _, op), count in launch.counts.items() if op == "syncthreads")
    assert len(arrived) == len(released) == counted == 10
    assert len(happened(launch, "syncwarp", "release")) == 10
    for turn in range(5):  # nobody goes on before all have come
        assert (
            arrived["order"][2 * turn : 2 * turn + 2].max() < released["order"][2 * turn : 2 * turn + 2].min()
        )
    assert (arrived["mask"] == 0xFFFFFFFF).all()


def test_a_copy_is_issued_committed_and_lands(launched):
    launch = launched(
        "  cp_async_ca<4>(s + t * 4, in + t);\n  cp_async_commit();\n  cp_async_wait<0>();\n", trace=True
    )
    steps = [
        happened(launch, "cp.async.ca", "issue"),
        happened(launch, "cp.async.commit", "commit"),
        happened(launch, "cp.async.wait", "wait"),
        happened(launch, "cp.async.wait", "land"),
    ]
    for warp in range(2):
        orders = [int(step["order"][step["warp"] == warp][0]) for step in steps]
        assert orders == sorted(set(orders))
    assert steps[0]["bytes"].tolist() == steps[3]["bytes"].tolist() == [128, 128]


def test_phases_of_an_mbarrier_come_in_order(launched):
    launch = launched(
        "  if (t == 0) mbar_init(s, 64);\n  __syncthreads();\n"
        "  for (u32 i = 0; i < 3; i++) {\n    mbar_arrive(s);\n    mbar_wait(s, i % 2);\n  }\n",
        trace=True,
    )
    assert launch.faults == []
    complete = happened(launch, "mbarrier.arrive", "complete")
    assert complete["phase"].tolist() == [0, 1, 2]
    waits, goes_on = (happened(launch, "mbarrier.wait", kind) for kind in ("wait", "release"))
    for phase in range(3):
        ended = complete["order"][phase]
        assert (goes_on["order"][goes_on["phase"] == phase] > ended).all()
        assert np.bitwise_or.reduce(goes_on["mask"][goes_on["phase"] == phase]) == 0xFFFFFFFF
        assert waits["order"][waits["phase"] == phase].min() < ended
    assert (launch.events["order"][1:] > launch.events["order"][:-1]).all()


def test_without_a_trace_there_are_no_events(launched):
    assert len(launched("  __syncthreads();\n").events) == 0
