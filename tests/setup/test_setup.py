"""`make setup` and `make learn`: what is chosen, what stops it, and what it never overwrites."""

import dataclasses
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from paths import REPOSITORY

from kda_learn.machines.computer import Facts, GpuFacts, cpp_compiler, free_disk_bytes, look, output_of
from kda_learn.setup import install, learn, plan

GPU = GpuFacts("NVIDIA H20", (9, 0), 78, 227 * 1024, 96 * 10**9)
LAPTOP = Facts(
    python=(3, 12, 1),
    system="Linux",
    processor="x86_64",
    cores=8,
    memory=16 * 10**9,
    free_disk=50 * 10**9,
    compiler="/usr/bin/g++",
)


def server(driver: str) -> Facts:
    return dataclasses.replace(LAPTOP, driver=driver, gpus=(GPU,))


@pytest.mark.parametrize(
    ("facts", "set_name", "torch"),
    [
        (LAPTOP, "cpu", "cpu"),
        (server("535.183.01"), "cuda12", "cuda"),
        (server("550.54"), "cuda12", "cuda"),
        (server("580.65.06"), "cuda13", "cuda"),
        (server("595.1"), "cuda13", "cuda"),
        (dataclasses.replace(LAPTOP, driver="580.65.06"), "cpu", "cpu"),
    ],
)
def test_the_driver_chooses_the_set(facts, set_name, torch):
    chosen = plan.make_plan(facts, "auto", "auto", ["learn"])
    assert (chosen.set_name, chosen.torch) == (set_name, torch)


def test_set_and_torch_can_be_given():
    chosen = plan.make_plan(LAPTOP, "cuda12", "none", ["learn", "test"])
    assert chosen.requirement == ".[learn,test,cuda12]"
    assert "PyTorch" not in chosen.describe()
    chosen = plan.make_plan(server("580.65.06"), "auto", "cpu", ["learn"])
    assert chosen.requirement == ".[learn,cuda13,torch]"
    assert f"torch=={plan.cpu_torch_version()}" in chosen.constraints().splitlines()


def test_what_comes_is_said_with_its_size_and_its_command():
    text = plan.make_plan(LAPTOP, "auto", "auto", ["learn"]).describe()
    assert "JupyterLab" in text and "PyTorch, CPU build" in text and "in all" in text
    assert "pip install -e '.[learn,cuda13,torch]' -c constraints-cpu.txt" in text


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("cuda11", "auto", ["learn"]), "SET=cuda11"),
        (("auto", "gpu", ["learn"]), "TORCH=gpu"),
        (("auto", "auto", ["lern"]), "EXTRAS=lern"),
    ],
)
def test_a_wrong_choice_is_one_sentence(arguments, word):
    with pytest.raises(plan.SetupError, match=word) as error:
        plan.make_plan(LAPTOP, *arguments)
    assert "give" in str(error.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"python": (3, 9, 2)}, "3.9.2 was found and 3.11 is needed"),
        ({"compiler": None}, "No C\\+\\+20 compiler.*apt-get install g\\+\\+"),
        ({"system": "Windows"}, "needs Linux or macOS, and this is Windows: use WSL"),
        ({"system": "Darwin", "compiler": None}, "xcode-select --install"),
        ({"free_disk": 10**8}, "0.1 GB are free and .* TORCH=none"),
    ],
)
def test_what_would_stop_it_half_way_is_said_before(tmp_path, change, words):
    facts = dataclasses.replace(LAPTOP, **change)
    chosen = plan.make_plan(facts, "auto", "auto", ["learn"])
    with pytest.raises(plan.SetupError, match=words) as error:
        install.install(facts, chosen, tmp_path / "venv")
    assert str(error.value).count(".\n") == 0
    assert not (tmp_path / "venv").exists()


def test_a_missing_compiler_is_only_a_warning_beside_a_gpu():
    facts = dataclasses.replace(server("580.65.06"), compiler=None)
    (warning,) = plan.preflight(facts, plan.make_plan(facts, "auto", "auto", ["learn"]), 10**9)
    assert "GPU alone" in warning


def test_an_environment_of_someone_else_is_left_alone(tmp_path):
    (tmp_path / "bin").mkdir()
    with pytest.raises(plan.SetupError, match="was not made by `make setup`"):
        install.install(LAPTOP, plan.make_plan(LAPTOP, "auto", "auto", ["learn"]), tmp_path)
    assert (tmp_path / "bin").exists()


class FakePip:
    """Stands in for pip: notes what it was asked for, and fails where a test wants it to."""

    def __init__(self, monkeypatch, fails_on: str = "nothing"):
        self.calls: list[tuple[str, ...]] = []
        self.npm_venvs: list[Path] = []
        self.fails_on = fails_on
        monkeypatch.setattr(install, "run_pip", self)
        monkeypatch.setattr(install, "install_npm_packages", self.npm_venvs.append)
        monkeypatch.setattr(install, "make_environment", self.make_environment)

    def __call__(self, venv: Path, *arguments: str, silent: bool = False) -> bool:
        self.calls.append(arguments)
        return self.fails_on not in arguments

    def make_environment(self, venv: Path, identity: dict) -> None:
        venv.mkdir(exist_ok=True)
        install.write(venv / install.MARK, identity)


def test_a_finished_set_up_is_not_done_again_and_a_failed_one_is(tmp_path, monkeypatch):
    venv = tmp_path / "venv"
    chosen = plan.make_plan(LAPTOP, "auto", "auto", ["learn"])
    FakePip(monkeypatch, fails_on="-e")
    with pytest.raises(plan.SetupError, match="run the same command again"):
        install.install(LAPTOP, chosen, venv)
    assert install.read(venv / install.STAMP) == {}
    pip = FakePip(monkeypatch)
    install.install(LAPTOP, chosen, venv)
    assert len(pip.calls) == 2
    install.install(LAPTOP, chosen, venv)
    assert len(pip.calls) == 2
    monkeypatch.setattr(install, "digest_of", lambda plan: "the constraints have changed")
    install.install(LAPTOP, chosen, venv)
    assert len(pip.calls) == 4


def test_more_extras_are_added_and_another_set_starts_afresh(tmp_path, monkeypatch):
    venv = tmp_path / "venv"
    pip = FakePip(monkeypatch)
    install.install(LAPTOP, plan.make_plan(LAPTOP, "cpu", "none", ["learn"]), venv)
    (venv / "installed").touch()
    assert pip.npm_venvs == []
    install.install(LAPTOP, plan.make_plan(LAPTOP, "cpu", "none", ["test"]), venv)
    assert ".[learn,test,cuda13]" in pip.calls[-1]
    assert pip.npm_venvs == [venv]
    assert (venv / "installed").exists()
    install.install(LAPTOP, plan.make_plan(LAPTOP, "cuda12", "none", ["learn"]), venv)
    assert ".[learn,cuda12]" in pip.calls[-1]
    assert not (venv / "installed").exists()


def test_without_a_cpu_build_of_pytorch_set_up_goes_on_unless_it_was_asked_for(tmp_path, monkeypatch, capsys):
    chosen = plan.make_plan(LAPTOP, "auto", "auto", ["learn"])
    pip = FakePip(monkeypatch, fails_on="--dry-run")
    install.install(LAPTOP, chosen, tmp_path / "venv")
    assert "going on without PyTorch" in capsys.readouterr().out
    assert ".[learn,cuda13]" in pip.calls[-1]
    with pytest.raises(plan.SetupError, match="PIP_FIND_LINKS"):
        install.install(LAPTOP, chosen, tmp_path / "other", torch_asked_for=True)


def test_the_installer_needs_the_standard_library_only():
    script = REPOSITORY / "kda_learn" / "setup" / "install.py"
    command = [sys.executable, "-I", "-S", str(script), "--set", "wrong"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "SET=wrong was given" in run.stderr


def test_each_set_pins_every_package_once_and_names_no_host():
    for name in plan.SETS:
        text = (REPOSITORY / f"constraints-{name}.txt").read_text()
        pins = [line for line in text.splitlines() if not line.startswith("#")]
        assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][\w.]*", pin) for pin in pins)
        names = [pin.split("==")[0] for pin in pins]
        assert len(names) == len(set(names))
        assert "://" not in text


def test_the_pins_cover_all_that_is_asked_for():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for name in plan.SETS:
        pins = (REPOSITORY / f"constraints-{name}.txt").read_text()
        compiler = "cuda12" if name == "cuda12" else "cuda13"
        wanted = [*project["dependencies"]]
        for extra in ("learn", "test", "mutate", "site", "torch", compiler):
            wanted += extras[extra]
        for requirement in wanted:
            package = re.match(r"[\w-]+", requirement)[0]
            assert f"\n{package}==" in pins, (name, package)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_working_copy_never_loses_what_a_reader_wrote(tmp_path):
    originals, work = tmp_path / "notebooks", tmp_path / "work"
    for name in ("1/a.ipynb", "1/b.ipynb"):
        write(originals / name, "first")
    assert learn.update_working_copy(originals, work).added == ["1/a.ipynb", "1/b.ipynb"]

    write(work / "1/a.ipynb", "mine")
    changes = learn.update_working_copy(originals, work)
    assert (changes.added, changes.updated, changes.kept) == ([], [], ["1/a.ipynb"])

    for name in ("1/a.ipynb", "1/b.ipynb", "2/c.ipynb"):
        write(originals / name, "second")
    changes = learn.update_working_copy(originals, work)
    assert (changes.added, changes.updated, changes.outdated) == (["2/c.ipynb"], ["1/b.ipynb"], ["1/a.ipynb"])
    assert (work / "1/a.ipynb").read_text() == "mine"
    assert (work / "1/b.ipynb").read_text() == "second"
    assert any("rename or delete" in sentence for sentence in changes.sentences(work))


def test_a_working_copy_from_before_without_a_record_is_kept(tmp_path):
    originals, work = tmp_path / "notebooks", tmp_path / "work"
    write(originals / "a.ipynb", "ours")
    write(work / "a.ipynb", "someone's")
    learn.update_working_copy(originals, work)
    assert (work / "a.ipynb").read_text() == "someone's"


def test_jupyterlab_gets_the_working_copy_and_the_readers_arguments(tmp_path):
    write(tmp_path / learn.START, json.dumps({}))
    command = learn.lab_command(tmp_path, ["--no-browser"])
    assert f"--ServerApp.root_dir={tmp_path}" in command
    assert command[-1] == "--no-browser"
    assert f"--LabApp.default_url=/lab/tree/{learn.START}" in command


def test_the_facts_of_this_computer():
    facts = look()
    assert facts.python == sys.version_info[:3]
    assert facts.free_disk > 0
    assert facts.packages["pytest"]
    assert free_disk_bytes(Path("/not/there/at/all")) > 0
    assert output_of(["a-program-that-is-not-there"]) is None


def test_cxx_names_the_compiler(monkeypatch, tmp_path):
    found = cpp_compiler()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert cpp_compiler() is None
    monkeypatch.setenv("CXX", found)
    assert cpp_compiler() == found


def test_make_prints_its_targets():
    run = subprocess.run(["make", "-s"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    for target in ("learn", "test", "setup", "check", "lint", "format"):
        assert f"make {target}" in run.stdout


def test_npm_that_fails_is_one_sentence(tmp_path, monkeypatch):
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(plan.SetupError, match=r"npm could not install .* NPM_CONFIG_REGISTRY=address"):
        install.install_npm_packages(tmp_path)


def test_the_npm_packages_are_pinned_and_name_no_host():
    lock = json.loads((install.NPM_FOLDER / "package-lock.json").read_text())
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert all(package["version"] and package["integrity"] for package in packages.values())
    assert not any("resolved" in package for package in packages.values())
    wanted = json.loads((install.NPM_FOLDER / "package.json").read_text())["devDependencies"]
    assert wanted == {name: packages[f"node_modules/{name}"]["version"] for name in wanted}


def test_importing_the_package_needs_nothing_else():
    program = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); import kda_learn"
    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True)


def test_the_first_check_says_how_it_went():
    sentence = learn.first_check()
    assert sentence.startswith("Stage s12 on the ") and sentence.endswith(" Passed.")
