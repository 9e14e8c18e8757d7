"""Every notebook: canonical on disk, short cells, and it runs from top to bottom on the CPU machine."""

import json
import re
import sys

import nbformat
import pytest
from paths import NOTEBOOKS, REPOSITORY

sys.path.insert(0, str(REPOSITORY / "site"))

from kda_site.execution import run

WIDGETS = REPOSITORY / "kda_learn" / "widgets"
ALL = sorted(NOTEBOOKS.rglob("*.ipynb"))
LONGEST_CELL = 6
"""Lines; cells that hold a kernel (%%kernel) excepted."""

every_notebook = pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)


def test_there_is_a_start():
    assert (NOTEBOOKS / "1-foundations" / "00_start_here.ipynb") in ALL


@every_notebook
def test_it_is_canonical(path):
    text = path.read_text(encoding="utf-8")
    notebook = json.loads(text)
    assert text == json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    nbformat.validate(notebook)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(ids) == len(set(ids))


@every_notebook
def test_its_code_is_short_and_its_outputs_are_cleared(path):
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        assert cell["outputs"] == [] and cell["execution_count"] is None, cell["id"]
        if not cell["source"][0].startswith("%%kernel"):
            assert 1 <= len(cell["source"]) <= LONGEST_CELL, cell["id"]


def test_the_controls_that_a_chapter_names_are_those_of_a_widget():
    scripts = "\n".join(path.read_text(encoding="utf-8") for path in WIDGETS.glob("*.js"))
    chapter = json.loads((NOTEBOOKS / "1-foundations" / "04_banks.ipynb").read_text(encoding="utf-8"))
    text = "\n".join("".join(cell["source"]) for cell in chapter["cells"])
    named = set(re.findall(r"(?:Set|under|[Cc]hoose) \*([^*]+)\*", text))
    assert {"Row, bytes", "Swizzle", "Lane map"} <= named
    assert [label for label in sorted(named) if f'"{label}"' not in scripts] == []


@every_notebook
def test_it_runs_without_a_gpu(path):
    """As the site runs it, which then shows what came out here."""
    assert not any("execution_count" in cell and cell.execution_count is None for cell in run(path).cells)
