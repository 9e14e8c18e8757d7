"""A kernel of one's own, run as its header says: inputs, outputs and what is found wrong with it."""

import numpy as np
import pytest
from own_kernels import AXPY, SUMS, written

import kda_learn
from kda_learn.compilers.host import compiler
from kda_learn.ground.errors import BadInput, MachineUnavailable
from kda_learn.ground.files import KERNELS
from kda_learn.hardware.bf16 import from_bf16, to_bf16
from kda_learn.lab.own_kernel import RANDOM_WHOLE, run_own, runnable
from kda_learn.machines import gpu
from kda_learn.sources.launch_header import read_header

CPU = {"machine": "emulator"}


@pytest.fixture(autouse=True)
def emulator():
    """Skips where there is no C++ compiler."""
    try:
        compiler()
    except MachineUnavailable as missing:
        pytest.skip(str(missing))


def fresh_seed() -> int:
    return int(np.random.default_rng().integers(1 << 31))


def inputs(path, seed):
    """The arguments of a run before it, by name."""
    header = read_header(path)
    values = runnable(kda_learn.lab.own_kernel._with_seed(header, seed)).arguments
    return {one.name: value for one, value in zip(header.arguments, values, strict=True)}


# ---- what is written ----


def test_numbers_arrays_and_what_is_changed_in_place(tmp_path):
    path, seed = written(tmp_path, AXPY), fresh_seed()
    given = inputs(path, seed)
    run = run_own(path, seed=seed, **CPU)
    assert run.ok, run.faults
    sums = given["a"] * given["x"] + given["y"]
    assert np.array_equal(run.output("y"), sums)
    assert np.array_equal(run.output("half"), from_bf16(to_bf16(sums)))
    assert run.output("index").tolist() == list(range(-1, 3 * 64 - 1))
    assert [one.name for one in run.outputs] == ["y", "half", "index"]
    assert (run.machine, run.header.seed, run.launch.counts) == ("emulator", seed, {})


def test_blocks_of_two_dimensions_shared_memory_and_null(tmp_path):
    path, seed = written(tmp_path, SUMS), fresh_seed()
    given = inputs(path, seed)["from"]
    assert given.min() >= 0 and given.max() < RANDOM_WHOLE and given.std() > 20
    run = run_own(path, seed=seed, **CPU)
    assert run.ok, run.faults
    assert np.array_equal(run.output("to"), given.sum(axis=1))


def test_the_seed_is_the_headers_or_the_given_one(tmp_path):
    path = written(tmp_path, AXPY, ("block 64", "block 64 seed 11"))
    digests = [run_own(path, seed=seed, **CPU).outputs[0].digest for seed in (None, 11, 12)]
    assert digests[0] == digests[1] != digests[2]
    with pytest.raises(BadInput, match=r"seed is 1\.5"):
        run_own(path, seed=1.5, **CPU)


@pytest.mark.parametrize("type", ["float32", "float64", "bf16", "uint8", "int16", "int64"])
@pytest.mark.parametrize("fill", ["random", "arange", "zeros", "ones", "3"])
def test_every_filling_of_every_type(tmp_path, type, fill):
    declared = {"float32": "float", "float64": "double", "uint8": "unsigned char", "int16": "short"}
    path = tmp_path / "mine.cu"
    path.write_text(
        f"// kda-learn: launch k grid 1 block 32\n// kda-learn: in x {type}[5][3] {fill}\n"
        f"__global__ void k(const {declared.get(type, {'int64': 'long long'}.get(type, type))}* x) {{}}\n"
    )
    (array,) = runnable(read_header(path)).arguments
    values = from_bf16(array) if type == "bf16" else array
    assert array.dtype == (np.uint16 if type == "bf16" else type) and array.shape == (5, 3)
    if fill == "random":
        assert len(np.unique(values)) > 5
    else:
        wanted = {"arange": np.arange(15).reshape(5, 3), "zeros": 0, "ones": 1, "3": 3}[fill]
        assert np.array_equal(values, np.broadcast_to(wanted, (5, 3)))


def test_the_example_of_the_readme():
    path = KERNELS / "lab" / "transpose.cu"
    given = inputs(path, fresh := fresh_seed())["from"]
    run = run_own(path, seed=fresh, trace=True, **CPU)
    assert run.ok and np.array_equal(run.output("to"), given.T)
    assert [(row.op, row.wavefronts, row.least) for row in run.rows] == [("sts", 32, 32), ("lds", 1024, 32)]


# ---- what is wrong ----


def test_a_missing_barrier_is_a_race(tmp_path):
    run = run_own(written(tmp_path, SUMS, ("  __syncthreads();\n", "")), **CPU)
    assert any(fault.startswith("race") and "mine.cu" in fault for fault in run.faults)


def test_elements_that_are_left_out_are_counted(tmp_path):
    path = written(tmp_path, AXPY, ("  stg(half + i,", "  if (threadIdx.x % 8) stg(half + i,"))
    assert run_own(path, **CPU).faults == ["24 of 192 elements of half were never written"]
    path = written(tmp_path, AXPY, ("  stg(index + i,", "  if (threadIdx.x % 8) stg(index + i,"))
    assert run_own(path, **CPU).faults == ["24 of 192 elements of index were never written"]


def test_whole_numbers_may_have_all_bits_set(tmp_path):
    """-1 is an answer like any other, though it looks like what was there before."""
    path = written(tmp_path, AXPY, ("(int)i - 1", "-1"))
    run = run_own(path, **CPU)
    assert run.ok and (run.output("index") == -1).all()


def test_what_hangs_on_the_order_of_the_warps_is_found(tmp_path):
    """Blocks or warps that write one place in global memory, which no shadow watches."""
    path = written(tmp_path, AXPY, ("index + i,", "index + i % 2,"), ("index int32[3*64]", "index int32[2]"))
    (fault,) = run_own(path, **CPU).faults
    assert fault.startswith("2 of 2 elements of index differ when the warps run in another order")


def test_what_the_kernel_and_the_header_disagree_on(tmp_path):
    with pytest.raises(BadInput, match=r"mine.cu:3: x is of type int32, and axpy takes const float\* x"):
        run_own(written(tmp_path, AXPY, ("x float32[3*64]", "x int32[3*64]")), **CPU)
    with pytest.raises(BadInput, match=r"mine\.cu has no kernel axpy<float>"):
        run_own(written(tmp_path, AXPY, ("axpy<64>", "axpy<float>")), **CPU)
    with pytest.raises(BadInput, match=r"block\.x is 2048"):
        run_own(written(tmp_path, AXPY, ("block 64", "block 2048")), **CPU)


def test_reads_beyond_the_end_are_faults(tmp_path):
    run = run_own(written(tmp_path, AXPY, ("x float32[3*64]", "x float32[3*64-1]")), **CPU)
    assert "out of bounds" in run.faults[0] and not run.ok


@pytest.mark.parametrize("given", [5, None, b"mine.cu", "", ".", "nowhere.cu", "a\0b.cu", "x" * 5000 + ".cu"])
def test_what_is_no_file(given):
    with pytest.raises(BadInput, match=r"give the path of a \.cu file"):
        run_own(given, **CPU)


def test_a_relative_path_means_the_folder_of_now(tmp_path, monkeypatch):
    """What was compiled for a file of this name elsewhere is not taken for it."""
    for name, change in (("one", "(int)i - 1"), ("other", "(int)i + 5")):
        (tmp_path / name).mkdir()
        written(tmp_path / name, AXPY, ("(int)i - 1", change))
        monkeypatch.chdir(tmp_path / name)
        assert run_own("mine.cu", **CPU).output("index")[0] == (-1 if name == "one" else 5)


def test_an_output_that_there_is_not(tmp_path):
    with pytest.raises(BadInput, match="'x' was asked for: the kernel has y, half, index"):
        run_own(written(tmp_path, AXPY), **CPU).output("x")


# ---- on a GPU ----


def test_a_gpu_is_given_the_same_launch(tmp_path, monkeypatch):
    launched = []

    def pretended(one):
        launched.append(one)
        one.written["to"][...] = 5
        return 1e-5

    monkeypatch.setattr(gpu, "launch_from_host", pretended)
    run = run_own(written(tmp_path, SUMS), machine="gpu")
    assert (run.machine, run.seconds, run.launch, run.ok) == ("gpu", 1e-5, None, True)
    (one,) = launched
    assert (one.entry, one.grid, one.block, one.dynamic_smem_bytes) == ("sums", (2, 1, 1), (32, 4, 1), 512)
    assert one.arguments[2] is None
    with pytest.raises(BadInput, match="only the CPU machine traces"):
        run_own(written(tmp_path, SUMS), machine="gpu", trace=True)


# ---- how it is shown ----


def test_the_word_shows_what_was_written_and_what_is_wrong(tmp_path):
    run = kda_learn.run_file(written(tmp_path, AXPY), trace=True, **CPU)
    text = str(run)
    assert text.startswith("[CPU machine]") and "axpy<64> ran without a fault" in text
    for words in ("3", "64", "bf16[192]", "-1  0  1  2  3  4  ...", run.outputs[0].digest):
        assert words in text
    assert "<table" in run._repr_html_()
    text = str(kda_learn.run_file(written(tmp_path, AXPY, ("stg(half + i,", "if (i) stg(half + i,")), **CPU))
    assert "1 of 192 elements of half were never written" in text and "without a fault" not in text
