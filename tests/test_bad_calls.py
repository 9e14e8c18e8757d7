"""A table of calls that do not fit, over all public functions: each is one sentence, and never a traceback.

A row: the function, its arguments, and what the sentence must show of what was given. NumPy's, Python's and
argparse's own errors, and answers to something else than was asked, are what it guards against.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paths import REPOSITORY

import kda_learn
from kda_learn.checking.check import check as check_once
from kda_learn.checking.check import small_problem
from kda_learn.checking.random_set import check_random
from kda_learn.checking.standard_set import check_stages
from kda_learn.cli.main import main
from kda_learn.ground.errors import BadInput, MachineUnavailable
from kda_learn.hardware import banks, bf16, fragments, layouts, occupancy
from kda_learn.kernel_a.batch import Config
from kda_learn.kernel_a.prepare import prepare
from kda_learn.kernel_a.problem import problem_from_layer, random_problem
from kda_learn.kernel_a.run import run as run_once
from kda_learn.kernel_a.tiling import Tiling, ds_owner
from kda_learn.machines import emulator
from kda_learn.performance.blocks import measure_blocks
from kda_learn.performance.explained import ladder
from kda_learn.performance.profile import recorded as recorded_profile
from kda_learn.performance.profile_measure import profile as profile_once
from kda_learn.performance.split_v import split_v
from kda_learn.reports.reproduce import reproduce
from kda_learn.sources.stages import diff as diff_once
from kda_learn.tracing.patterns import access

NAN = float("nan")
LANES = np.arange(32) * 4
TOKENS = np.zeros((1, 16, 1, 128), np.uint16)
GATES = np.zeros((1, 16, 1, 128), np.float32)
BETA = np.zeros((1, 16, 1), np.float32)
SEMANTICS = REPOSITORY / "tests" / "kernels" / "semantics.cu"


def run_small(stage: Any, problem: Any = None, **options: Any) -> Any:
    """`kernel_a.run.run`, whose problem is no option."""
    return run_once(stage, small_problem() if problem is None else problem, **options)


PROBLEMS = [
    ({"lengths": 48}, "48"),
    ({"lengths": "48"}, "'48'"),
    ({"lengths": None}, "None"),
    ({"lengths": []}, "[]"),
    ({"lengths": [16.7]}, "16.7"),
    ({"lengths": [16.0]}, "16.0"),
    ({"lengths": ["16"]}, "'16'"),
    ({"lengths": [-1]}, "-1"),
    ({"lengths": [True]}, "True"),
    ({"lengths": [NAN]}, "nan"),
    ({"lengths": np.array([[16]])}, "[16]"),
    ({"lengths": np.array([16.5])}, "16.5"),
    ({"lengths": {16: 1}.keys}, "lengths"),
    ({"lengths": [16, 32]}, "[16, 32]"),
    ({"lengths": [16], "heads": "2"}, "'2'"),
    ({"lengths": [16], "heads": 0}, "0"),
    ({"lengths": [16], "heads": 1.5}, "1.5"),
    ({"lengths": [16], "heads": None}, "None"),
    ({"lengths": [16], "seed": -1}, "-1"),
    ({"lengths": [16], "seed": "x"}, "'x'"),
    ({"lengths": [16], "seed": 0.5}, "0.5"),
    ({"lengths": [16], "gate": "weak"}, "'weak'"),
    ({"lengths": [16], "gate": 0.1}, "0.1"),
    ({"lengths": [16], "gate": NAN}, "nan"),
    ({"lengths": [16], "gate": None}, "None"),
    ({"lengths": [16], "beta_scale": 2}, "2"),
    ({"lengths": [16], "beta_scale": "1"}, "'1'"),
    ({"lengths": [16], "varlen": "no"}, "'no'"),
    ({"lengths": [16], "final_gradient": "no"}, "'no'"),
    ({"lengths": [16], "name": 7}, "7"),
    ({"lengths": [1 << 62]}, str(1 << 62)),
]

RUNS = [
    (("s99",), {}, "'s99'"),
    ((None,), {}, "None"),
    ((12,), {}, "12"),
    (("",), {}, "''"),
    ((["s12"],), {}, "s12"),
    (("no.cu",), {}, "no.cu"),
    ((Path("s12"),), {}, "s12"),
    (("s12", "48"), {}, "str"),
    (("s12", [48]), {}, "list"),
    (("s12",), {"machine": "cpu"}, "'cpu'"),
    (("s12",), {"machine": None}, "None"),
    (("s12",), {"machine": ["gpu"]}, "gpu"),
    (("s12",), {"v_split": 3}, "3"),
    (("s12",), {"v_split": "1"}, "'1'"),
    (("s12",), {"v_split": 1.0}, "1.0"),
    (("s12",), {"v_split": None}, "None"),
    (("s12",), {"snapshot_dtype": "float16"}, "'float16'"),
    (("s12",), {"snapshot_dtype": np.float32}, "float32"),
    (("s12",), {"snapshot_dtype": ["float32"]}, "float32"),
]

TABLE: list[tuple[Callable[..., Any], tuple, dict[str, Any], str]] = [
    *((random_problem, (), options, word) for options, word in PROBLEMS),
    *((function, *row) for function in (kda_learn.run, check_once, run_small) for row in RUNS),
    (kda_learn.run, ("s12",), {"seed": "0"}, "'0'"),
    (kda_learn.run, ("s12",), {"seed": -1}, "-1"),
    (kda_learn.run, ("s12",), {"seed": 1 << 32}, str(1 << 32)),
    (kda_learn.run, ("s12",), {"extra_smem": 0.5}, "0.5"),
    (kda_learn.run, ("s12",), {"extra_smem": 1 << 30}, str(1 << 30)),
    (check_once, ("s12",), {"seeds": ()}, "seeds"),
    (check_once, ("s12",), {"seeds": 1}, "1"),
    (check_once, ("s12",), {"seeds": "01"}, "'01'"),
    (check_once, ("s12",), {"seeds": [0.5]}, "0.5"),
    (check_once, ("s12",), {"like": "s99"}, "'s99'"),
    (check_once, ("s12",), {"like": 5}, "5"),
    (kda_learn.check, ("s12",), {"problem": "small"}, "str"),
    (kda_learn.check, ("s99",), {}, "'s99'"),
    (kda_learn.check, ("s12",), {"machine": "tpu"}, "'tpu'"),
    (kda_learn.check, (None,), {}, "None"),
    (check_stages, ("s12",), {}, "'s12'"),
    (check_stages, (None,), {}, "None"),
    (check_stages, ([],), {}, "[]"),
    (check_stages, (["s12"],), {"machine": 5}, "5"),
    (check_random, (0,), {}, "0"),
    (check_random, (1.5,), {}, "1.5"),
    (check_random, ("3",), {}, "'3'"),
    (check_random, (1,), {"first_seed": -1}, "-1"),
    (check_random, (1,), {"first_seed": "x"}, "'x'"),
    (check_random, (1,), {"stages": "s12"}, "'s12'"),
    (check_random, (1,), {"stages": []}, "[]"),
    (kda_learn.trace, ("s99",), {}, "'s99'"),
    (kda_learn.trace, (3.5,), {}, "3.5"),
    (kda_learn.trace, ("s12", "s99"), {}, "'s99'"),
    (kda_learn.trace, ("s12", 4), {}, "4"),
    (kda_learn.trace, ("s12",), {"v_split": 5}, "5"),
    (kda_learn.trace, ("s12",), {"v_split": "4"}, "'4'"),
    (kda_learn.compile, ("s99",), {}, "'s99'"),
    (kda_learn.compile, (None,), {}, "None"),
    (kda_learn.compile, ("s12",), {"v_split": 7}, "7"),
    (kda_learn.compile, ("s12",), {"snapshot_dtype": "half"}, "'half'"),
    (kda_learn.compile, ("s12",), {"varlen": "yes"}, "'yes'"),
    (kda_learn.dstate_scan, (None,) * 7, {"scale": 1.0}, "NoneType"),
    (kda_learn.dstate_scan, ([[1.0]],) * 7, {"scale": 1.0}, "list"),
    (kda_learn.diff, ("s99",), {}, "'s99'"),
    (kda_learn.diff, ("s00",), {}, "s00"),
    (kda_learn.diff, (None,), {}, "None"),
    (kda_learn.diff, (12,), {}, "12"),
    (kda_learn.diff, ("s12", 4), {}, "4"),
    (diff_once, (["s12"],), {}, "s12"),
    (diff_once, ("s12", "s99"), {}, "'s99'"),
    (kda_learn.stage, ("s99",), {}, "'s99'"),
    (kda_learn.stage, (None,), {}, "None"),
    (kda_learn.card, ("s99",), {}, "'s99'"),
    (kda_learn.card, (5,), {}, "5"),
    (kda_learn.measure, ("s99",), {}, "'s99'"),
    (kda_learn.measure, (None,), {}, "None"),
    (kda_learn.measure, ("s12", "s99"), {}, "'s99'"),
    (kda_learn.measure, ("s12",), {"configs": ["B8"]}, "'B8'"),
    (kda_learn.measure, ("s12",), {"configs": 5}, "5"),
    (kda_learn.measure, ("s12",), {"configs": []}, "[]"),
    (kda_learn.measure, ("s12",), {"heads": 0}, "0"),
    (kda_learn.measure, ("s12",), {"sms": 0}, "0"),
    (kda_learn.measure, ("s12",), {"sms": "many"}, "'many'"),
    (kda_learn.profile, ("s99",), {}, "'s99'"),
    (kda_learn.profile, (None,), {}, "None"),
    (kda_learn.profile, ("s12",), {"v_split": 3}, "3"),
    (kda_learn.profile, ("s12",), {"config": "B8"}, "'B8'"),
    (kda_learn.profile, ("s12",), {"heads": "2"}, "'2'"),
    (profile_once, ("s12",), {"config": None}, "None"),
    (profile_once, ("s12",), {"heads": 0}, "0"),
    (recorded_profile, ("s12",), {"v_split": "x"}, "'x'"),
    (ladder, (), {"stages": ["s99"]}, "'s99'"),
    (ladder, (), {"stages": "s12"}, "'s12'"),
    (ladder, (), {"stages": []}, "[]"),
    (ladder, (), {"configs": ["T8"]}, "'T8'"),
    (ladder, (), {"configs": "B32/T8192"}, "'B32/T8192'"),
    (ladder, (), {"configs": []}, "[]"),
    (ladder, (), {"sms": 0}, "0"),
    (ladder, (), {"sms": "20"}, "'20'"),
    (ladder, (), {"heads": -1}, "-1"),
    (split_v, (), {"sms": 5}, "5"),
    (split_v, (), {"sms": ["x"]}, "'x'"),
    (split_v, (), {"sms": []}, "[]"),
    (reproduce, (5,), {}, "5"),
    (reproduce, (Path("x"),), {"stages": ["s99"]}, "'s99'"),
    (reproduce, (Path("x"),), {"stages": "s12"}, "'s12'"),
    (reproduce, (Path("x"),), {"configs": ["B"]}, "'B'"),
    (reproduce, (Path("x"),), {"heads": 0}, "0"),
    (reproduce, (Path("x"),), {"minutes": "long"}, "'long'"),
    (reproduce, (Path(__file__),), {}, "test_bad_calls.py"),
    (measure_blocks, ("s99",), {}, "'s99'"),
    (measure_blocks, ("s12",), {"blocks": [0]}, "0"),
    (measure_blocks, ("s12",), {"blocks": 2}, "2"),
    (kda_learn.ladder_chart, ("B8",), {}, "'B8'"),
    (kda_learn.ladder_chart, (5,), {}, "5"),
    (kda_learn.ladder_chart, (), {"sms": "x"}, "'x'"),
    (kda_learn.occupancy_chart, ("s99",), {}, "'s99'"),
    (kda_learn.tiles, ("D",), {}, "'D'"),
    (kda_learn.tiles, ("A", 3), {}, "3"),
    (kda_learn.tiles, (None,), {}, "None"),
    (kda_learn.bank_map, ("s99",), {}, "'s99'"),
    (kda_learn.bank_map, (), {"width": 3}, "3"),
    (kda_learn.bank_map, (), {"lanes": 33}, "33"),
    (kda_learn.bank_map, (), {"stride": "x"}, "'x'"),
    (kda_learn.bank_map, (5,), {}, "5"),
    (kda_learn.bank_map, ([],), {}, "[]"),
    (kda_learn.bank_map, ("s12", "nonsense"), {}, "nonsense"),
    (kda_learn.grade, ("nonsense",), {}, "nonsense"),
    (kda_learn.grade, (5,), {}, "5"),
    (kda_learn.hint, (99, "banks.layout"), {}, "99"),
    (kda_learn.hint, ("x", "banks.layout"), {}, "'x'"),
    (kda_learn.predict, ("key", ""), {}, "question"),
    (kda_learn.predict, ("no key!", "How many?"), {}, "no key!"),
    (kda_learn.predict, ("s02.key", 5), {}, "5"),
    (kda_learn.predict, ("s02.key", "Which?"), {"choices": "ab"}, "'ab'"),
    (kda_learn.predict, ("s02.key", "Which?"), {"choices": 5}, "5"),
    (kda_learn.run_file, ("nowhere.cu",), {}, "nowhere.cu"),
    (kda_learn.run_file, (None,), {}, "None"),
    (access, ("lds", 3, LANES), {}, "3"),
    (access, ("lds", 4, LANES + 0.5), {}, "0.5"),
    (banks.service, ("ldx", 4), {}, "'ldx'"),
    (banks.service, ("lds", 3), {}, "3"),
    (banks.service, ("lds", "4"), {}, "'4'"),
    (banks.service, (["lds"], 4), {}, "lds"),
    (banks.wavefronts, ([LANES], [-(1 << 32)], 4), {}, str(-(1 << 32))),
    (banks.wavefronts, ([LANES], [1 << 32], 4), {}, str(1 << 32)),
    (banks.wavefronts, ([LANES], [0.5], 4), {}, "0.5"),
    (banks.wavefronts, ([LANES], ["x"], 4), {}, "x"),
    (banks.wavefronts, ("x", [1], 4), {}, "x"),
    (banks.wavefronts, (None, [1], 4), {}, "None"),
    (banks.wavefronts, ([LANES[:4]], [1], 4), {}, "[1, 4]"),
    (banks.wavefronts, ([LANES + 0.5], [1], 4), {}, "0.5"),
    (banks.wavefronts, ([LANES, LANES[:3]], [1, 1], 4), {}, "addresses"),
    (banks.wavefronts, ([LANES], [1], 4, 3), {}, "3"),
    (banks.least, ([LANES], [1], NAN), {}, "nan"),
    (banks.phases, (LANES, [1, 2], "lds", 4), {}, "mask"),
    (banks.phases, (LANES, None, "lds", 4), {}, "None"),
    (bf16.round_to, (np.zeros(1), "half"), {}, "'half'"),
    (bf16.to_bf16, ("x",), {}, "'x'"),
    (bf16.to_bf16, (None,), {}, "None"),
    (bf16.from_bf16, ([0.5],), {}, "0.5"),
    (bf16.from_bf16, ([-1],), {}, "-1"),
    (bf16.from_bf16, ([1 << 16],), {}, str(1 << 16)),
    (layouts.plain, (0, 8), {}, "0"),
    (layouts.plain, (8, "8"), {}, "'8'"),
    (layouts.plain, (8.5, 8), {}, "8.5"),
    (layouts.plain, (8, 8, 3), {}, "3"),
    (layouts.padded, (8, 8, 4), {}, "4"),
    (layouts.padded, (8, 8, 8.5), {}, "8.5"),
    (layouts.interleaved, (7, 8), {}, "7"),
    (layouts.interleaved, (8, 8), {"major": "M"}, "'M'"),
    (layouts.interleaved, (8, 8), {"major": ["K"]}, "K"),
    (layouts.interleaved, (8, 8), {"atoms_first": "up"}, "'up'"),
    (layouts.interleaved, (None, 8), {}, "None"),
    (layouts.swizzled, (8, 64, 48), {}, "48"),
    (layouts.swizzled, (8, 64, "32"), {}, "'32'"),
    (layouts.plain(8, 8).offset, (8, 0), {}, "8"),
    (layouts.plain(8, 8).offset, (0.5, 0), {}, "0.5"),
    (layouts.plain(8, 8).offset, ("x", 0), {}, "x"),
    (layouts.plain(8, 8).bank, (0, -1), {}, "-1"),
    (layouts.plain(8, 8).bank, (0, None), {}, "None"),
    (fragments.owner, ("D", 0, 0), {}, "'D'"),
    (fragments.owner, (["A"], 0, 0), {}, "A"),
    (fragments.owner, ("A", 16, 0), {}, "16"),
    (fragments.owner, ("A", 0.5, 0), {}, "0.5"),
    (fragments.owner, ("A", "0", 0), {}, "'0'"),
    (fragments.element, ("A", 32, 0), {}, "32"),
    (fragments.element, ("A", 0, 4), {}, "4"),
    (fragments.element, ("A", 0, None), {}, "None"),
    (fragments.matrix_row, ("A", 0, 1.5), {}, "1.5"),
    (occupancy.blocks_per_sm, (0, 0, 256), {}, "0"),
    (occupancy.blocks_per_sm, (32.5, 0, 256), {}, "32.5"),
    (occupancy.blocks_per_sm, ("32", 0, 256), {}, "'32'"),
    (occupancy.blocks_per_sm, (32, -1, 256), {}, "-1"),
    (occupancy.blocks_per_sm, (32, 0, 2048), {}, "2048"),
    (occupancy.blocks_per_sm, (32, 0, 256), {"architecture": "sm_70"}, "'sm_70'"),
    (occupancy.blocks_per_sm, (32, 0, 256), {"architecture": 90}, "90"),
    (occupancy.room_for_blocks, (0, 0), {}, "0"),
    (occupancy.room_for_blocks, (2, "x"), {}, "'x'"),
    (ds_owner, (128,), {}, "128"),
    (ds_owner, (0.5,), {}, "0.5"),
    (ds_owner, (0, 3), {}, "3"),
    (Config.parse, ("B8",), {}, "'B8'"),
    (Config.parse, (8,), {}, "8"),
    (Config.parse, ("B8/T17",), {}, "'B8/T17'"),
    (Tiling.of, ([16.7],), {}, "16.7"),
    (Tiling.of, (16,), {}, "16"),
    (Tiling.of, ([-3],), {}, "-3"),
    (Tiling.from_cu_seqlens, ([0, 16],), {"tokens": 16}, "list"),
    (Tiling.from_cu_seqlens, (np.array([1, 16]),), {"tokens": 16}, "1"),
    (prepare, (None, None, None, None), {}, "NoneType"),
    (prepare, (TOKENS, TOKENS, GATES, None), {}, "NoneType"),
    (prepare, (TOKENS, TOKENS, GATES, BETA[0]), {}, "beta"),
    (prepare, (TOKENS, TOKENS, GATES + 1, BETA), {}, "g"),
    (prepare, (TOKENS, TOKENS, GATES, BETA), {"scale": "x"}, "'x'"),
    (prepare, (TOKENS, TOKENS, GATES, BETA), {"scale": NAN}, "nan"),
    (prepare, (TOKENS[0], TOKENS[0], GATES[0], BETA[0]), {"cu_seqlens": [0, 16]}, "list"),
    (prepare, (TOKENS.astype(np.float32), TOKENS, GATES, BETA), {}, "float32"),
    (problem_from_layer, (TOKENS, TOKENS, GATES, BETA, None), {}, "NoneType"),
    (problem_from_layer, (TOKENS, TOKENS, GATES, BETA, TOKENS[:, :8]), {}, "[1, 8, 1, 128]"),
    (emulator.build, ("nowhere.cu", "k"), {}, "nowhere.cu"),
    (emulator.build, (None, "k"), {}, "None"),
    (emulator.build, (SEMANTICS, 5), {}, "5"),
    (emulator.build, (SEMANTICS, "order"), {"defines": "A"}, "'A'"),
    (emulator.build, (SEMANTICS, "order"), {"defines": [5]}, "5"),
]


def named(row: tuple) -> str:
    function, args, options, _ = row
    text = f"{getattr(function, '__qualname__', function)} {args} {options}"
    return re.sub(r" at 0x[0-9a-f]+", "", text)[:100]  # each process has its own addresses


@pytest.mark.parametrize(("function", "args", "options", "word"), TABLE, ids=map(named, TABLE))
def test_a_bad_call_is_one_sentence(function, args, options, word, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((BadInput, MachineUnavailable)) as error:
        function(*args, **options)
    assert_sentence(str(error.value), word)
    assert list(tmp_path.iterdir()) == []


def assert_sentence(said: str, word: str) -> None:
    assert word in said
    assert "\n" not in said.strip() and ("give " in said or ":" in said)


LAUNCHES = [
    ({"grid": 0}, "0"),
    ({"grid": "1"}, "'1'"),
    ({"grid": 1.5}, "1.5"),
    ({"grid": (1, 1, 1, 1)}, "(1, 1, 1, 1)"),
    ({"grid": None}, "None"),
    ({"block": 0}, "0"),
    ({"block": 2048}, "2048"),
    ({"block": (32, "1")}, "'1'"),
    ({"shared_bytes": -1}, "-1"),
    ({"shared_bytes": "x"}, "'x'"),
    ({"shared_bytes": 0.5}, "0.5"),
    ({"seed": -1}, "-1"),
    ({"seed": 1.5}, "1.5"),
    ({"patience": 0}, "0"),
    ({"patience": "long"}, "'long'"),
    ({"threads": 0}, "0"),
    ({"threads": "x"}, "'x'"),
    ({"args": None}, "None"),
    ({"args": 5}, "5"),
    ({"args": []}, "0"),
    ({"args": [[1, 2]]}, "list"),
    ({"args": [np.zeros(129)]}, "float64"),
]


@pytest.mark.parametrize(("options", "word"), LAUNCHES, ids=str)
def test_a_bad_launch_is_one_sentence(options, word):
    library = emulator.build(SEMANTICS, "order")
    given = {"args": [np.zeros(129, np.uint32)], "grid": 1, "block": 128, "shared_bytes": 0} | options
    with pytest.raises(BadInput) as error:
        library.launch(**given)
    assert_sentence(str(error.value), word)


COMMANDS = [
    ("check s99", "s99"),
    ("check s12 --seed 5", "--seed"),
    ("check --random 1.5", "1.5"),
    ("check --random 0", "'0'"),
    ("check --random 1 --seed x", "'x'"),
    ("check s12 --machine tpu", "tpu"),
    ("check s12 --like s99", "s99"),
    ("check --nonsense", "--nonsense"),
    ("trace", "STAGE"),
    ("trace s12 --v-split 1.5", "1.5"),
    ("trace s12 --v-split 16", "16"),
    ("trace s12 s11", "s11"),
    ("diff", "STAGE"),
    ("diff s00", "s00"),
    ("diff s98", "s98"),
    ("run", "FILE"),
    ("run nowhere.cu", "nowhere.cu"),
    ("run nowhere.cu --seed -1", "-1"),
    ("ladder --stages s97", "s97"),
    ("ladder --stages", "--stages"),
    ("ladder --config T8", "T8"),
    ("ladder --config B8/T17", "B8/T17"),
    ("ladder --sms 0", "'0'"),
    ("ladder --heads x", "'x'"),
    ("ladder --heads \u00b2", "no whole number"),
    ("ladder --chart x.pdf", "x.pdf"),
    ("split-v --sms x", "'x'"),
    ("split-v --chart x", ".svg"),
    ("reproduce --stages s97", "s97"),
    ("reproduce --minutes 0", "'0'"),
    ("reproduce --config B", "'B'"),
    ("profile s97", "s97"),
    ("profile s12 --config 8", "'8'"),
    ("profile s12 --v-split 5", "5"),
    ("profile", "STAGE"),
    ("doctor s12", "s12"),
    ("stages --all", "--all"),
    ("nonsense", "'nonsense'"),
]


@pytest.mark.parametrize(("line", "word"), COMMANDS, ids=[line for line, _ in COMMANDS])
def test_a_bad_command_is_one_sentence_and_exit_code_2(line, word, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(line.split()) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1
    assert_sentence(printed.err, word)
    assert list(tmp_path.iterdir()) == []


def test_the_table_names_every_public_function():
    called = {getattr(row[0], "__name__", "") for row in TABLE}
    assert len(TABLE) > 100
    assert set(kda_learn.__all__) - called == {"progress"}  # it takes nothing
