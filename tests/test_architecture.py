"""The house: which room may know which is import-linter's (`make lint`); what it cannot see is here."""

import ast
import importlib
import importlib.util
import re
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest
from paths import REPOSITORY

import kda_learn

PACKAGE = REPOSITORY / "kda_learn"
BELOW_THE_FAMILIES = (
    *("ground", "hardware", "sources", "compilers", "machines"),
    *("records", "tracing", "timing", "profiling"),
)
KERNEL_NAMES = re.compile(r"kernel_a|traffic_twin|mma_ceiling")
MOST_LINES = 300

SOURCES = sorted(path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".js"))


def test_no_modules_import_each_other_in_a_circle():
    """Imports inside of functions and those for type checkers count."""
    graph = grimp.build_graph("kda_learn", cache_dir=None)
    assert len(graph.modules) > 100
    imported = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    assert list(TopologicalSorter(imported).static_order())  # a CycleError names the circle


def test_below_the_families_no_module_names_a_kernel():
    """But the list of stages, which says where their files are."""
    named = [
        path.relative_to(PACKAGE).as_posix()
        for path in SOURCES
        if path.parent.name in BELOW_THE_FAMILIES and KERNEL_NAMES.search(path.read_text(encoding="utf-8"))
    ]
    assert named == ["sources/stages.py"]


def test_every_room_says_what_it_is_and_what_it_imports():
    rooms = [path for path in PACKAGE.iterdir() if (path / "__init__.py").exists()]
    assert len(rooms) > 20
    for room in rooms:
        (said,) = ast.parse((room / "__init__.py").read_text(encoding="utf-8")).body  # and nothing else
        assert re.search(r"Imports|imports no other", said.value.value), room.name


def test_no_room_is_called_what_a_notebook_says():
    """`from kda_learn import check` would be the room once someone had imported a module in it."""
    at_the_top = {path.stem for path in PACKAGE.iterdir()}
    assert at_the_top & set(kda_learn.__all__) == set()


def test_every_word_of_a_notebook_is_there():
    for word in kda_learn.__all__:
        assert callable(getattr(kda_learn, word)), word


def test_one_name_has_one_home():
    """No module passes on the names of others."""
    passed_on = [
        path
        for path in PACKAGE.rglob("*.py")
        if re.search(r"^__all__\b", path.read_text("utf-8"), re.MULTILINE)
    ]
    assert passed_on == [PACKAGE / "__init__.py"]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_module_is_short(path: Path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


# ---- names in strings: programs that a child process runs, commands, references in docstrings ----

NAMED = re.compile(r"\bkda_learn(?:\.\w+)+(?::\w+)?")
EXAMPLE = "kda_learn.room.module:function"


def there_is(name: str) -> bool:
    """Whether a module, or something in one, has this name."""
    dotted, _, function = name.partition(":")
    words = dotted.split(".")
    for end in range(len(words), 0, -1):
        try:
            here = importlib.import_module(".".join(words[:end]))
        except ModuleNotFoundError as missing:
            if not missing.name.startswith("kda_learn"):
                return True  # a package that this computer lacks
            continue
        rest = [*words[end:], *([function] if function else [])]
        for word in rest:
            if not hasattr(here, word):
                return False
            here = getattr(here, word)
        return True
    return False


def test_every_module_that_a_string_names_is_there():
    texts = [*PACKAGE.rglob("*.py"), *(REPOSITORY / "notebooks").rglob("*.ipynb")]
    texts += [REPOSITORY / name for name in ("Makefile", "README.md", "CONTRIBUTING.md")]
    named = {name for path in texts for name in NAMED.findall(path.read_text(encoding="utf-8"))} - {EXAMPLE}
    assert len(named) > 10
    assert [name for name in sorted(named) if not there_is(name)] == []


def test_a_name_that_is_not_there_is_seen():
    assert there_is("kda_learn.kernel_a.device_data:to_profile") and there_is("kda_learn.run")
    assert not there_is("kda_learn.kernel_a.device_data:nothing")
    assert not there_is("kda_learn.bench") and not there_is("kda_learn.nothing.at_all")
