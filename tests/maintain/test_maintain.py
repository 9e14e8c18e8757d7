"""What only the maintainers run: the command line, and what each WHAT writes into a folder."""

import json

import lesson_samples
import pytest

from kda_learn import measure
from kda_learn.checking import budget
from kda_learn.checking.check import CheckRow
from kda_learn.ground.errors import MachineUnavailable
from kda_learn.ground.say import PREFIX, say
from kda_learn.kernel_a import builds
from kda_learn.kernel_a.batch import CONFIGS
from kda_learn.kernel_a.variants import compile_stage
from kda_learn.machines.device import Gpu
from kda_learn.maintain import pins, readme, recordings
from kda_learn.maintain.__main__ import WHAT, main
from kda_learn.performance import blocks, ladder
from kda_learn.performance.bench import Variant
from kda_learn.records import fingerprints
from kda_learn.records import store as records
from kda_learn.records.article import H20_SMS
from kda_learn.sources.stages import STAGES, stage

H200 = Gpu(0, "NVIDIA H200", 132, (9, 0), "580.65", "13.0", 150 * 10**9, 232_448, "0000:00:00.0")
NEED_A_GPU = ("ladder", "blocks", "ceilings", "split-v", "check", "sanitizers", "profiles")
FEW = (stage("s02"), stage("s12"))


@pytest.fixture
def compiler():
    """Skips where there is no NVRTC."""
    try:
        compile_stage(stage("s02"))
    except MachineUnavailable as missing:
        pytest.skip(str(missing))


def written(capsys, folder, what):
    """The names of the files that one WHAT writes, which it prints."""
    assert main([what, "--folder", str(folder)]) == 0
    paths = capsys.readouterr().out.splitlines()
    assert all(path.startswith(str(folder)) for path in paths)
    return [path.removeprefix(f"{folder}/") for path in paths]


# ---- the command line ----


def test_the_help_names_everything(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    for name, (words, _) in WHAT.items():
        assert f"  {name} " in text and words in text


@pytest.mark.parametrize("arguments", [["lader"], [], ["builds", "s12"]])
def test_a_request_that_does_not_fit(capsys, arguments):
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1
    assert "`python -m kda_learn.maintain --help` shows what it takes" in printed.err


def one_sentence(capsys):
    """What was printed, which is one line for people."""
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(PREFIX) and printed.err.count("\n") == 1
    return printed.err


@pytest.mark.parametrize("what", NEED_A_GPU)
def test_without_a_gpu_it_is_one_sentence(capsys, monkeypatch, tmp_path, what):
    monkeypatch.setenv("KDA_LEARN_MACHINE", "emulator")
    assert main([what, "--folder", str(tmp_path)]) == 2
    assert "so no GPU is used" in one_sentence(capsys)
    assert list(tmp_path.iterdir()) == []


def test_pages_that_were_not_kept_are_one_sentence(capsys, tmp_path):
    assert main(["profiles-again", "--folder", str(tmp_path)]) == 2
    assert "There are no pages of ncu" in one_sentence(capsys)


def test_what_is_said_goes_to_standard_error(capsys, monkeypatch, tmp_path):
    def work(folder):
        say("checking s02")
        return [folder / "one.json", folder / "two.json"]

    monkeypatch.setitem(WHAT, "check", ("", work))
    assert main(["check", "--folder", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert printed.err == "kda-learn: checking s02\n"
    assert printed.out == f"{tmp_path}/one.json\n{tmp_path}/two.json\n"


# ---- measured on a GPU (pretended) ----


def part(sms, runs):
    return {"sms": sms or 132, "runs": runs, "notes": [f"Part of {sms}."]}


def measured(parts, heads):
    """As `bench.measure` gives it."""
    return {"provenance": vars(lesson_samples.WHERE), "heads": heads, "notes": [], "parts": parts}


def test_ladder(capsys, monkeypatch, tmp_path):
    asked = []

    def pretend(stages, configs, sms, heads):
        asked.append((stages, configs, sms, heads))
        runs = [lesson_samples.run(config, lesson_samples.MS) for config in configs]
        return measured([part(number, runs) for number in sms], heads)

    monkeypatch.setattr(ladder, "measure", pretend)
    assert written(capsys, tmp_path, "ladder") == [
        "ladder-nvidia-h200-132sms.json",
        f"ladder-nvidia-h200-{H20_SMS}sms.json",
    ]
    assert asked == [([one.id for one in STAGES], CONFIGS, (None, H20_SMS), 32)]
    found = records.find("ladder", sms=H20_SMS, folder=tmp_path)
    assert (found.provenance.sms, found.content["sms"]) == (H20_SMS, H20_SMS)
    assert found.content["banner"].endswith("Part of 78.") and "provenance" not in found.content
    assert len(found.content["rows"]) == len(STAGES) * len(CONFIGS)
    assert all(row["reason"].endswith(".") for row in found.content["rows"])
    assert found.outdated() == []


def test_blocks(capsys, compiler, monkeypatch, tmp_path):
    def pretend(names, configs, sms, heads):
        runs = [lesson_samples.blocks_run([Variant.parse(name) for name in names])]
        return measured([part(number, runs) for number in sms], heads)

    monkeypatch.setattr(blocks, "measure", pretend)
    monkeypatch.setattr(blocks, "hopper", lambda: H200)
    assert written(capsys, tmp_path, "blocks") == [
        "blocks-s02-nvidia-h200-132sms.json",
        "blocks-s02-nvidia-h200-78sms.json",
    ]
    monkeypatch.setenv("KDA_LEARN_MACHINE", "emulator")
    monkeypatch.setattr(records, "DATA", tmp_path)
    shown = measure("s02", blocks=[1, 2, 3, 4], sms=78)
    assert shown.recorded and "Part of 78." in shown.banner.words
    assert [row.blocks for row in shown.rows] == [4, 3, 2, 1]


@pytest.mark.parametrize(
    ("what", "module", "function"),
    [("ceilings", recordings.limits, "measure"), ("split-v", recordings.splits, "sweep")],
)
def test_a_record_is_named_after_its_gpu(capsys, monkeypatch, tmp_path, what, module, function):
    record = records.Record(module.KIND, lesson_samples.WHERE, {"rows": [1]})
    monkeypatch.setattr(module, function, lambda: record)
    assert written(capsys, tmp_path, what) == [f"{what}-nvidia-h200.json"]
    assert records.find(what, folder=tmp_path) == record


def test_check(capsys, monkeypatch, tmp_path):
    rows = [CheckRow("s12", "48 tokens", "gpu", 1, "float32", 0.0035, 0.0034, 0.01, [], True)]

    def check_stages(stages, *, machine):
        assert (stages, machine) == (STAGES, "gpu")
        return rows

    def record_check(checked, path):
        records.save(records.Record("check", lesson_samples.WHERE, {"rows": len(checked)}), path)

    monkeypatch.setattr(recordings, "hopper", lambda: H200)
    monkeypatch.setattr(recordings, "check_stages", check_stages)
    monkeypatch.setattr(recordings, "record_check", record_check)
    assert written(capsys, tmp_path, "check") == ["check-nvidia-h200.json"]
    assert records.find("check", folder=tmp_path).content == {"rows": 1}


def test_sanitizers(capsys, compiler, monkeypatch, tmp_path):
    monkeypatch.setattr(recordings, "hopper", lambda: H200)
    monkeypatch.setattr(recordings, "sanitize", lambda names: [{"tool": "memcheck", "stages": names}])
    assert written(capsys, tmp_path, "sanitizers") == ["sanitizers-nvidia-h200.json"]
    found = records.find("sanitizers", folder=tmp_path)
    assert found.content["rows"] == [{"tool": "memcheck", "stages": [one.id for one in STAGES]}]
    assert (found.provenance.gpu, found.outdated()) == ("NVIDIA H200", [])


# ---- without a GPU ----


def test_builds(capsys, compiler, monkeypatch, tmp_path):
    monkeypatch.setattr(builds, "STAGES", FEW)
    assert written(capsys, tmp_path, "builds") == ["builds.json"]
    found = records.find("builds", folder=tmp_path)
    assert (found.provenance.gpu, found.outdated()) == (builds.NOBODY, [])
    s02, s12 = found.content["rows"]
    assert (s02["stage"], s12["stage"], s02["entry"]) == ("s02", "s12", "kernel_a<1, false, float>")
    assert (s02["registers"], s02["spill_bytes"], s02["shared_memory"]) == (64, 0, 50_752)
    assert s02["opcodes"]["HMMA"] >= 40 and "recorded" not in s02
    monkeypatch.setattr(records, "DATA", tmp_path)
    facts = builds.recorded("s02", s02["entry"], "There is no NVRTC here.")
    assert (facts.registers, facts.opcodes) == (64, s02["opcodes"])
    assert facts.recorded.startswith("There is no NVRTC here. Compiled elsewhere on 20")


def test_budget_keeps_what_was_predicted(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(recordings, "STAGES", FEW)
    assert written(capsys, tmp_path / "new", "budget") == ["wavefront_budget.json"]
    found = json.loads((tmp_path / "new" / "wavefront_budget.json").read_text())
    known = budget.load()
    assert found["per_tile"] == {one.id: known["per_tile"][one.id] for one in FEW}
    assert {**found, "per_tile": None} == {**known, "per_tile": None}


def test_fingerprints_keep_the_texts_that_give_the_same_kernel(capsys, compiler, monkeypatch, tmp_path):
    monkeypatch.setattr(fingerprints, "STAGES", FEW)
    monkeypatch.setattr(recordings, "ENTRIES", recordings.ENTRIES[:1])
    nvrtc, ptx = fingerprints.ptx_digest(FEW[0].path, recordings.ENTRIES)
    known = {
        "nvrtc": nvrtc,
        "entries": recordings.ENTRIES,
        "stages": {
            "s02": {"ptx": ptx, "texts": ["an older text"]},
            "s12": {"ptx": "of another kernel", "texts": ["an older text"]},
        },
    }
    monkeypatch.setattr(fingerprints, "table", lambda: known)
    assert written(capsys, tmp_path, "fingerprints") == ["fingerprints.json"]
    found = json.loads((tmp_path / "fingerprints.json").read_text())
    now = records.digests(["s02", "s12"])
    assert found["nvrtc"] == nvrtc and found["entries"] == recordings.ENTRIES
    assert found["stages"]["s02"] == {"ptx": ptx, "texts": ["an older text", now["s02"]]}
    assert found["stages"]["s12"]["texts"] == [now["s12"]]


def test_the_package_has_fingerprints_of_every_stage_as_it_is():
    known = fingerprints.table()
    assert known["entries"] == recordings.ENTRIES
    assert all(
        text in known["stages"][name]["texts"] for name, text in records.digests(known["stages"]).items()
    )
    assert list(known["stages"]) == [one.id for one in STAGES]


def test_readme(capsys, monkeypatch, tmp_path):
    page = tmp_path / "README.md"
    page.write_text(f"Before\n{readme.BEGIN}\nold\n{readme.END}\nafter\n")
    monkeypatch.setattr(readme, "README", page)
    assert written(capsys, tmp_path, "readme") == ["README.md"]
    text = page.read_text()
    assert text.startswith(f"Before\n{readme.BEGIN}\n") and text.endswith(f"\n{readme.END}\nafter\n")
    assert "old" not in text and "| s12 |" in text


def test_pins(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(pins, "REPOSITORY", tmp_path)
    monkeypatch.setattr(pins, "resolve", lambda name: [f"of-{name}==1.0"])
    names = written(capsys, tmp_path, "pins")
    assert names == [f"constraints-{name}.txt" for name in ("cpu", "cuda12", "cuda13")]
    assert (tmp_path / names[1]).read_text().splitlines()[-1] == "of-cuda12==1.0"
