"""The emulator computes what the PTX manual says, counts what a kernel does, refuses what it cannot run."""

import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from paths import TESTS

from kda_learn.compilers import host as host_compiler
from kda_learn.compilers.host import compiler
from kda_learn.ground.errors import BadInput, MachineUnavailable
from kda_learn.ground.files import cache_folder
from kda_learn.hardware.bf16 import from_bf16, to_bf16
from kda_learn.machines import emulator

SOURCE = TESTS / "kernels" / "semantics.cu"
LANE = np.arange(32)
ROW, COL = LANE // 4, LANE % 4 * 2  # of an 8x8 matrix, the first of the two elements in a lane's register


def pairs(low, high):
    return low.astype(np.uint32) | high.astype(np.uint32) << 16


def run(kernel, args, *, block=32, shared_bytes=4096, grid=1, seeds=(0, 1, 2), **options):
    """Launches with several seeds: no faults, and the same results."""
    outputs = [arg for arg in args if isinstance(arg, np.ndarray) and arg.flags.writeable]
    before = [output.copy() for output in outputs]
    library = emulator.build(SOURCE, kernel)
    results = []
    for seed in seeds:
        for output, start in zip(outputs, before, strict=True):
            output[:] = start
        launch = library.launch(args, grid, block, shared_bytes, seed=seed, **options)
        assert launch.faults == []
        results.append([output.tobytes() for output in outputs])
    assert all(result == results[0] for result in results)
    return launch


def constant(array):
    array.flags.writeable = False
    return array


# ---- operations ----
def test_matrices():
    rng = np.random.default_rng(0)
    halves = rng.integers(0, 1 << 16, 1024, dtype=np.uint16)
    rows = rng.permutation(128)[:32] * 16
    loaded, stored = np.zeros((14, 32), np.uint32), np.zeros((6, 512), np.uint32)
    turned = np.zeros(32, np.uint32)
    words = constant(halves.view(np.uint32))
    run("matrices", [words, constant(rows.astype(np.uint32)), loaded, stored, turned])

    matrices = np.stack([halves[row // 2 : row // 2 + 8] for row in rows]).reshape(4, 8, 8)
    plain = np.stack([pairs(m[ROW, COL], m[ROW, COL + 1]) for m in matrices])
    trans = np.stack([pairs(m[COL, ROW], m[COL + 1, ROW]) for m in matrices])
    for first, expected in ((0, plain), (7, trans)):
        np.testing.assert_array_equal(loaded[first], expected[0])
        np.testing.assert_array_equal(loaded[first + 1 : first + 3], expected[:2])
        np.testing.assert_array_equal(loaded[first + 3 : first + 7], expected)
    np.testing.assert_array_equal(turned, trans[0])

    for variant, count in enumerate((1, 2, 4, 1, 2, 4)):
        expected = np.zeros(1024, np.uint16)
        for i in range(count):
            matrix = matrices[i] if variant < 3 else matrices[i].T
            for row in range(8):
                start = rows[i * 8 + row] // 2
                expected[start : start + 8] = matrix[row]
        np.testing.assert_array_equal(stored[variant].view(np.uint16), expected)


def test_product_is_exact_for_small_integers():
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-9, 10, shape).astype(np.float32) for shape in ((16, 16), (16, 8)))
    c = rng.integers(-100, 100, (16, 8)).astype(np.float32)
    expected = c + a @ b
    run("product", [constant(to_bf16(a)), constant(to_bf16(b)), c])
    np.testing.assert_array_equal(c, expected)


def test_product_is_as_good_as_float32():
    rng = np.random.default_rng(2)
    a, b = (to_bf16(rng.standard_normal(shape)) for shape in ((16, 16), (16, 8)))
    c = rng.standard_normal((16, 8)).astype(np.float32)
    wide_a, wide_b = from_bf16(a).astype(np.float64), from_bf16(b).astype(np.float64)
    expected = c + wide_a @ wide_b
    bound = 16 * 2.0**-24 * (np.abs(c) + np.abs(wide_a) @ np.abs(wide_b))
    run("product", [constant(a), constant(b), c])
    assert (np.abs(c - expected) <= bound).all()


def test_shuffles():
    out = np.zeros((6, 32), np.uint32)
    run("shuffles", [out])
    np.testing.assert_array_equal(out[0], 5)
    np.testing.assert_array_equal(out[1], LANE // 16 * 16 + 3)
    np.testing.assert_array_equal(out[2], np.where(LANE < 3, LANE, LANE - 3))
    np.testing.assert_array_equal(out[3], np.where(LANE % 8 > 4, LANE, LANE + 3))
    np.testing.assert_array_equal(out[4], LANE ^ 17)
    np.testing.assert_array_equal(out[5].view(np.float32), (LANE ^ 1) * 0.5)


def test_conversions():
    rng = np.random.default_rng(3)
    values = (rng.standard_normal(32) * 10).astype(np.float32)
    values[:8] = [0.0, -0.0, 1.00390625, 1.01171875, np.inf, -np.inf, np.nan, -200.0]
    functions, rounded = np.zeros((2, 32), np.float32), np.zeros(32, np.uint16)
    packed, widened = np.zeros(32, np.uint32), np.zeros((3, 32), np.float32)
    run("conversions", [constant(values), functions, rounded, packed, widened])
    np.testing.assert_array_equal(rounded, np.where(np.isnan(values), 0x7FFF, to_bf16(values)))
    np.testing.assert_array_equal(packed & 0xFFFF, rounded)
    np.testing.assert_array_equal(packed >> 16, np.where(np.isnan(values), 0x7FFF, rounded ^ 0x8000))
    np.testing.assert_array_equal(widened, [from_bf16(rounded), from_bf16(packed >> 16), from_bf16(rounded)])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(functions[0], np.exp2(values), rtol=2e-7, atol=1.2e-38)
        np.testing.assert_allclose(functions[1], 1 / np.sqrt(values), rtol=2e-7)
    assert functions[0][7] == 0  # 2^-200 is flushed to zero


def test_copies_land_in_order():
    source = np.arange(3 * 32 * 4, dtype=np.uint32)
    out = np.zeros((4, 32), np.uint32)
    run("copies", [constant(source), out])
    np.testing.assert_array_equal(out[:3], source.reshape(3, 32, 4)[:, :, 0])
    np.testing.assert_array_equal(out[3], 0)


def test_a_ring_of_bulk_copies():
    source = np.arange(7 * 64, dtype=np.uint32)
    sums = np.zeros(32, np.uint32)
    run("ring", [constant(source), sums, 7], block=64)
    expected = source.reshape(7, 32, 2).sum(axis=(0, 2))
    np.testing.assert_array_equal(sums, np.roll(expected, -1))


def test_widths():
    out = np.zeros(32, np.uint32)
    run("widths", [out])
    word = np.where(LANE % 2, 100, LANE + 1)
    np.testing.assert_array_equal(out, (LANE + 2) * 1_000_000 + 70_000 + word)


def test_ucontext_switches_threads_as_well(monkeypatch):
    monkeypatch.setattr(host_compiler, "_RUNTIME_DEFINES", ("EMULATOR_UCONTEXT",))
    test_a_ring_of_bulk_copies()
    test_matrices()
    faults = SOURCE.with_name("faults.cu")
    crash = next(
        i for i, line in enumerate(faults.read_text().splitlines(), 1) if "CASE(stack_overflow)" in line
    )
    words, out = np.zeros(256, np.uint32), np.zeros(64, np.uint32)
    launch = emulator.build(faults, "planted").launch([words, out, crash, 1], 1, 64, 4096)
    assert [fault.kind for fault in launch.faults] == ["stack overflow"]


# ---- order ----
def test_seeds_permute_warps_and_lanes():
    library = emulator.build(SOURCE, "order")

    def tickets(seed):
        ticket = np.zeros(1 + 128, np.uint32)
        library.launch([ticket], 1, 128, 0, seed=seed)
        return ticket[1:]

    np.testing.assert_array_equal(tickets(0), np.arange(128))
    orders = {tickets(seed).tobytes() for seed in range(8)}
    assert len(orders) == 8
    for seed in range(8):
        assert sorted(tickets(seed)) == list(range(128))
        np.testing.assert_array_equal(tickets(seed), tickets(seed))


# ---- traces ----
def test_accesses():
    out = np.zeros(32, np.uint32)
    launch = run("widths", [out], trace=True, seeds=(0, 5))
    lines = SOURCE.read_text().splitlines()
    seen = [
        (launch.operations[x["op"]], int(x["bytes"]), hex(x["mask"]), x["address"].tolist())
        for x in launch.accesses
    ]
    row = LANE * 16
    assert seen == [
        ("sts", 16, "0xffffffff", row.tolist()),
        ("lds", 8, "0xffffffff", (row + 8).tolist()),
        ("sts", 2, "0xffffffff", row.tolist()),
        ("lds", 2, "0xffffffff", row.tolist()),
        ("sts", 4, "0xaaaaaaaa", np.where(LANE % 2, row + 4, -1).tolist()),
        ("lds", 4, "0xffffffff", (row + 4).tolist()),
    ]
    assert launch.files == [str(SOURCE)]
    assert all("lds" in lines[x["line"] - 1] or "sts" in lines[x["line"] - 1] for x in launch.accesses)
    assert launch.accesses["order"].tolist() == list(range(6))


def test_counts_and_traffic():
    rng = np.random.default_rng(0)
    words = constant(rng.integers(0, 9, 512, dtype=np.uint32))
    rows = constant((np.arange(32) * 16).astype(np.uint32))
    outputs = [np.zeros(shape, np.uint32) for shape in ((14, 32), (6, 512), 32)]
    launch = run("matrices", [words, rows, *outputs], grid=2, trace=True)
    totals = {}
    for (file, _, operation), count in launch.counts.items():
        assert file == str(SOURCE)
        totals[operation] = totals.get(operation, 0) + count
    assert totals["ldmatrix.x4"] == totals["stmatrix.x2.trans"] == totals["movmatrix"] == 2
    assert totals["syncwarp"] == 2 * (1 + 6 * 3)
    assert totals["ldg"] == 2 * (1 + 16)
    moved = {operation: (0, 0) for operation in ("ldg", "stg")}
    for (_, _, operation), traffic in launch.traffic.items():
        bytes, sectors = moved[operation]
        moved[operation] = (bytes + traffic.bytes, sectors + traffic.sectors)
    assert moved["ldg"] == (2 * 17 * 128, 2 * 17 * 4)
    matrix_rows = launch.accesses[launch.accesses["op"] == launch.operations.index("ldmatrix.x2")]
    assert len(matrix_rows) == 2
    assert matrix_rows[0]["mask"] == 0xFFFF
    assert matrix_rows[0]["address"].tolist() == [*range(0, 256, 16), *[-1] * 16]
    assert matrix_rows["block"].tolist() == [0, 1]


def test_nothing_depends_on_the_number_of_os_threads():
    words = constant(np.zeros(512, np.uint32))
    rows = constant((np.arange(32) * 16).astype(np.uint32))
    library = emulator.build(SOURCE, "matrices")
    launches = []
    for threads in (1, 3):
        outputs = [np.zeros(shape, np.uint32) for shape in ((14, 32), (6, 512), 32)]
        arguments = [words, rows, *outputs]
        launches.append(library.launch(arguments, (2, 2, 2), 32, 2048, seed=4, trace=True, threads=threads))
    one, three = launches
    np.testing.assert_array_equal(one.accesses, three.accesses)
    assert (one.faults, one.counts, one.traffic) == (three.faults, three.counts, three.traffic)


def test_without_trace_nothing_is_kept():
    launch = run("widths", [np.zeros(32, np.uint32)])
    assert len(launch.accesses) == len(launch.counts) == len(launch.traffic) == 0


# ---- refusals ----
@pytest.mark.parametrize(
    ("args", "grid", "block", "shared_bytes", "words"),
    [
        ([], 1, 32, 0, "takes 1 arguments and was given 0"),
        ([3], 1, 32, 0, "argument 0 is a int"),
        ([np.zeros(32, np.float64)], 1, 32, 0, "array of float64: the kernel wants elements of 4 bytes"),
        ([np.zeros((4, 32), np.uint32)[:, ::2]], 1, 32, 0, "not contiguous"),
        ([constant(np.zeros(32, np.uint32))], 1, 32, 0, "read-only"),
        ([np.zeros(32, np.uint32)], 1, 2048, 0, r"block\.x is 2048: CUDA takes at most 1024"),
        ([np.zeros(32, np.uint32)], 0, 32, 0, "grid is 0"),
        ([np.zeros(32, np.uint32)], 1, 32, 300_000, "from 0 to 232448"),
    ],
)
def test_bad_launches(args, grid, block, shared_bytes, words):
    library = emulator.build(SOURCE, "widths")
    with pytest.raises(BadInput, match=words):
        library.launch(args, grid, block, shared_bytes)


def test_patience_is_a_number_of_seconds():
    library = emulator.build(SOURCE, "widths")
    with pytest.raises(BadInput, match=r"patience \(in seconds\) is 0"):
        library.launch([np.zeros(32, np.uint32)], 1, 32, 4096, patience=0)


def test_a_number_must_fit():
    library = emulator.build(SOURCE, "ring")
    arrays = [np.zeros(64, np.uint32), np.zeros(32, np.uint32)]
    for number in (1 << 31, 0.5, "7", np.zeros(1)):
        with pytest.raises(BadInput, match="argument 2"):
            library.launch([*arrays, number], 1, 64, 1024)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("__shared__ float x[32];", "bad.cu:2:.*error: the emulator cannot see __shared__ variables"),
        ('asm volatile("bar.sync 0;");', "bad.cu:2:.*error: the emulator cannot run inline assembly"),
        ("lds<u32>(smem_base(), 1, 2, 3);", "bad.cu:2:.*error"),
        ("struct X { char c[3]; }; lds<X>(0);", "one lane loads or stores 2, 4, 8 or 16 bytes"),
    ],
)
def test_a_kernel_that_does_not_compile(tmp_path, body, words):
    source = tmp_path / "bad.cu"
    source.write_text(f'#include "gpu.cuh"\n__global__ void bad() {{ {body} }}\n')
    with pytest.raises(BadInput, match=words):
        emulator.build(source, "bad")


def test_an_unknown_entry():
    with pytest.raises(BadInput, match="widhts"):
        emulator.build(SOURCE, "widhts")


# ---- building ----
def test_a_library_is_rebuilt_when_what_it_includes_changes(tmp_path, monkeypatch):
    runtime = host_compiler.build_runtime()
    monkeypatch.setenv("KDA_LEARN_CACHE", str(tmp_path / "cache"))
    folder = cache_folder("emulator")
    folder.mkdir(parents=True)
    (tmp_path / "value.h").write_text("constexpr u32 VALUE = 1;\n")
    source = tmp_path / "k.cu"
    source.write_text(
        '#include "gpu.cuh"\n#include "value.h"\n__global__ void k(u32* x) { stg(x, VALUE + MORE); }\n'
    )
    for part in (runtime, runtime.with_suffix(".sha256")):
        shutil.copy(part, folder)

    def result(more):
        out = np.zeros(1, np.uint32)
        emulator.build(source, "k", defines=[f"MORE={more}"]).launch([out], 1, 32, 0)
        return out[0]

    assert result(0) == 1
    assert result(5) == 6
    (tmp_path / "value.h").write_text("constexpr u32 VALUE = 2;\n")
    assert result(0) == 2
    built = sorted(path.name for path in folder.iterdir())
    assert result(0) == 2
    assert sorted(path.name for path in folder.iterdir()) == built
    assert len(built) == 2 * 4  # each beside its checksum


def test_builds_may_meet(tmp_path):
    source = tmp_path / "k.cu"
    source.write_text('#include "gpu.cuh"\n__global__ void k(u32* x) { stg(x, 3u); }\n')
    with ThreadPoolExecutor(4) as pool:
        libraries = list(pool.map(lambda _: emulator.build(source, "k"), range(4)))
    for library in libraries:
        out = np.zeros(1, np.uint32)
        library.launch([out], 1, 32, 0)
        assert out[0] == 3


def test_no_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(MachineUnavailable, match=r"there is no C\+\+ compiler here.*install g\+\+"):
        compiler()
    monkeypatch.setenv("CXX", "missing-compiler -O1")
    with pytest.raises(MachineUnavailable, match=r"\$CXX is 'missing-compiler -O1', which is not here"):
        compiler()
