"""Every word in a real notebook, run by a real kernel as where there is no GPU."""

import nbformat
import pytest
from lesson_pages import fixed_colours, words
from nbclient import NotebookClient
from paths import REPOSITORY

WIDGET = "application/vnd.jupyter.widget-view+json"
CELLS = {
    "run": "run('s12')",
    "check": "check('s12')",
    "diff": "diff('s12')",
    "compile": "compile('s12', 's11')",
    "histogram": "compile('s12').sass_histogram()",
    "trace": "trace('s12', 's11')",
    "lines": "trace('s12').by_line(top=5)",
    "measure": "measure('s12')",
    "blocks": "measure('s02', blocks=[1, 2, 3, 4])",
    "profile": "profile('s02', 's01')",
    "card": "card('s12')",
    "ladder chart": "ladder_chart()",
    "occupancy chart": "occupancy_chart('s01', 's02')",
    "progress": "progress()",
    "bank map": "bank_map('s02', 'store kr')",
    "pattern": "bank_map(stride=256, width=2)",
    "tiles": "tiles('B')",
    "predict": "asked = predict('s02.blocks', 'How many blocks fit?', unit='blocks')\nasked",
    "compare": "asked.compare(4)",
    "choice": "predict('s02.stall', 'What binds?', choices=['MIO throttle', 'barrier'], answer='barrier')",
}
IN_HTML = [
    name for name in CELLS if name not in ("bank map", "pattern", "tiles", "predict", "compare", "choice")
]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """Name of a cell -> its outputs, all run one after the other."""
    for package in ("anywidget", "matplotlib", "ipykernel"):
        pytest.importorskip(package, reason=f"notebooks need {package}, which is not installed")
    folder = tmp_path_factory.mktemp("notebook")
    sources = ["from kda_learn import *", *CELLS.values(), "compile('s99')"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KDA_LEARN_MACHINE", "emulator")
        patch.setenv("KDA_LEARN_PROGRESS", str(folder / "progress.json"))
        patch.setenv("IPYTHONDIR", str(folder))
        patch.setenv("PYTHONPATH", str(REPOSITORY))
        client = NotebookClient(
            notebook, timeout=300, allow_errors=True, resources={"metadata": {"path": str(folder)}}
        )
        client.execute()
    return {
        name: cell.outputs for name, cell in zip(["import", *CELLS, "error"], notebook.cells, strict=True)
    }


@pytest.mark.parametrize("name", CELLS)
def test_it_shows_something_and_warns_of_nothing(outputs, name):
    kinds = [output.output_type for output in outputs[name]]
    assert kinds[-1] == "execute_result" and set(kinds) <= {"display_data", "execute_result"}, outputs[name]
    assert outputs[name][-1].data["text/plain"].strip()


@pytest.mark.parametrize("name", IN_HTML)
def test_its_html_is_well_formed_and_takes_the_pages_colours(outputs, name):
    html = outputs[name][-1].data["text/html"]
    assert words(html) and fixed_colours(html) == []


def test_nothing_stays_of_a_progress_bar(outputs):
    assert [output.data["text/html"] for output in outputs["check"][:-1]] == [""]


@pytest.mark.parametrize("name", [name for name in CELLS if name not in IN_HTML])
def test_explorers_and_predictions_are_widgets(outputs, name):
    assert WIDGET in outputs[name][-1].data


def test_an_error_is_one_sentence(outputs):
    (error,) = outputs["error"]
    assert (error.ename, len(error.traceback)) == ("BadInput", 1)
    assert error.traceback[0].startswith("BadInput: stage 's99' was given")
