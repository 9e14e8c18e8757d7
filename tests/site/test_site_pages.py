"""How notebooks become pages of the site: text, code, links, every kind of output."""

import json
import os
import sys

import nbformat
import pytest

if not os.environ.get("CI"):
    pytest.importorskip("material", reason="MkDocs is not installed: pip install -e '.[site]'")

from paths import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "site"))

from kda_site import execution
from kda_site.chapters import chapter_html, chapter_title
from kda_site.contents import Contents
from kda_site.links import KERNELS, NOTEBOOKS, Links, page_address
from kda_site.widgets import Scripts
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

from kda_learn.widgets.bank_map import bank_map

CHAPTER = NOTEBOOKS / "2-kernel-a" / "s02_no_t1.ipynb"
OTHER = NOTEBOOKS / "1-foundations" / "04_banks.ipynb"
KERNEL = KERNELS / "kernel_a" / "s02_no_t1.cu"


def page_of(*cells, models=None):
    """A chapter of these cells: its HTML, its contents, its scripts."""
    notebook = nbformat.v4.new_notebook(cells=list(cells))
    if models:
        state = {"state": models, "version_major": 2, "version_minor": 0}
        notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": state}
    pages = {path: File(page_address(path), None, "/nowhere", True) for path in (CHAPTER, OTHER, KERNEL)}
    contents, scripts = Contents(), Scripts()
    html = chapter_html(notebook, CHAPTER, pages[CHAPTER], Links(pages), scripts, contents)
    return html, contents, scripts


def text(source):
    return nbformat.v4.new_markdown_cell(source)


def code(source, *outputs):
    return nbformat.v4.new_code_cell(source, outputs=list(outputs))


def shown(**data):
    """An output of a cell's last line; a key "image__png" stands for "image/png"."""
    named = {name.replace("__", "/"): value for name, value in data.items()}
    return nbformat.v4.new_output("execute_result", data={"text/plain": "<object>"} | named)


def widget(model_id):
    view = {"model_id": model_id, "version_major": 2, "version_minor": 0}
    data = {"text/plain": "Box()", "application/vnd.jupyter.widget-view+json": view}
    return nbformat.v4.new_output("display_data", data=data)


def test_text_is_read_as_jupyter_reads_it():
    html, _, _ = page_of(
        text("A list:\n- one\n  - two"), text("<details><summary>Hint</summary>\n\nA *hint*\n\n</details>")
    )
    assert "<li>one\n<ul>\n<li>two</li>" in html
    assert "<p>A <em>hint</em></p>" in html


def test_headings_become_the_contents():
    html, contents, _ = page_of(text("# Title\n## What `s02` does\n### Why\n#### Small\n## Why"))
    assert contents.anchors == {"title", "what-s02-does", "why", "small", "why-2"}
    assert '<h2 id="what-s02-does">' in html and '<h4 id="small">' in html
    (top,) = contents.tokens
    assert [one["name"] for one in top["children"]] == ["What <code>s02</code> does", "Why"]
    assert [one["id"] for one in top["children"][0]["children"]] == ["why"]


def test_links_lead_to_pages():
    html, _, _ = page_of(
        text("[banks](../1-foundations/04_banks.ipynb#phases), [s02](../../kernels/kernel_a/s02_no_t1.cu#L7)")
    )
    assert 'href="../../1-foundations/04_banks/#phases"' in html
    assert 'href="../../../kernels/kernel_a/s02_no_t1.cu/#L7"' in html
    html, _, _ = page_of(text("[out](https://example.org/x.ipynb), [below](#why)"))
    assert 'href="https://example.org/x.ipynb"' in html and 'href="#why"' in html


def test_a_link_to_nowhere_stops_the_build():
    with pytest.raises(PluginError, match=r"s02_no_t1.ipynb links to 05_gone.ipynb, which is not there"):
        page_of(text("[gone](05_gone.ipynb)"))


def test_tex_stops_the_build():
    with pytest.raises(PluginError, match="TeX"):
        page_of(text("$$x$$"))


def test_code_is_coloured_in_its_language():
    kernel = code("%%kernel s03b region=store\nsts<bf16>(at, x);")
    html, _, _ = page_of(code("x = 1"), kernel, text("```\nplain\n```"))
    assert html.count('<div class="highlight">') == 3
    assert '<span class="o">=</span>' in html


def test_every_kind_of_output_is_shown():
    html, _, _ = page_of(
        code(
            "x",
            nbformat.v4.new_output("stream", name="stdout", text="a < b\x1b[31m red\x1b[0m\n"),
            shown(text__html="<table><tr><td>1</td></tr></table>"),
            shown(**{"image/svg+xml": "<svg></svg>"}),
            shown(image__png="aGVs\nbG8="),
            shown(text__markdown="*soft*"),
            shown(),
        )
    )
    for part in (
        "a &lt; b red\n",
        "<td>1</td>",
        '<div class="output-picture"><svg></svg></div>',
        'src="data:image/png;base64,aGVsbG8="',
        "<em>soft</em>",
        "&lt;object&gt;",
    ):
        assert part in html


def test_a_picture_has_a_text():
    png = nbformat.v4.new_output("display_data", data={"image/png": "aGVsbG8="})
    assert 'alt="The picture that the code above draws"' in page_of(code("x", png))[0]
    png.metadata["image/png"] = {"alt": "A <bar>", "width": 300}
    assert 'alt="A &lt;bar&gt;" width="300"' in page_of(code("x", png))[0]


def explorer_model():
    return {"model_name": "AnyModel", "model_module": "anywidget", "state": bank_map(width=16).get_state()}


def test_an_explorer_keeps_its_state_and_its_script():
    html, _, scripts = page_of(code("bank_map()", widget("a")), models={"a": explorer_model()})
    name = html.partition('data-widget="')[2].partition('"')[0]
    assert "export default" in scripts.files[f"{name}.js"]
    state = json.loads(html.partition("data-state='")[2].partition("'>")[0])
    assert state["pattern"]["width"] == 16
    assert not any(key.startswith("_") for key in state) and "layout" not in state


def test_a_control_that_needs_python_leaves_a_note_and_its_last_picture():
    output = {"output_type": "stream", "name": "stdout", "text": "3 blocks"}
    models = {
        "box": {"model_name": "VBoxModel", "state": {"children": ["IPY_MODEL_slider", "IPY_MODEL_out"]}},
        "slider": {"model_name": "IntSliderModel", "state": {"value": 3}},
        "out": {"model_name": "OutputModel", "state": {"outputs": [output]}},
    }
    html, _, _ = page_of(code("interact(...)", widget("box")), models=models)
    assert html.count("needs-python") == 1
    assert "3 blocks" in html
    html, _, _ = page_of(
        code("VBox(...)", widget("box")),
        models={
            "box": {"model_name": "VBoxModel", "state": {"children": ["IPY_MODEL_a", "IPY_MODEL_b"]}},
            "a": explorer_model(),
            "b": {"model_name": "HTMLModel", "state": {"value": "<b>bold</b>"}},
        },
    )
    assert "needs-python" not in html and "data-widget" in html and "<b>bold</b>" in html


def test_a_notebook_without_title_stops_the_build():
    notebook = nbformat.v4.new_notebook(cells=[text("# The `s02` chapter\nx")])
    assert chapter_title(notebook) == "The s02 chapter"
    with pytest.raises(PluginError, match="no title"):
        chapter_title(nbformat.v4.new_notebook(cells=[text("x")]))


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with a package of one file and one notebook, which prints what the package says."""
    monkeypatch.setattr(execution, "REPOSITORY", tmp_path)
    monkeypatch.setattr(execution, "EXECUTED", tmp_path / "build" / "executed")
    for name, content in {"kda_learn/__init__.py": "", "kda_learn/word.py": "WORD = 'one'\n"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


def run(checkout, source):
    """What a notebook with one cell prints."""
    path = checkout / "chapter.ipynb"
    notebook = nbformat.v4.new_notebook(cells=[code(source)])
    notebook.cells[0]["id"] = "only"
    nbformat.write(notebook, path)
    cell = execution.run_all([path])[path].cells[0]
    return cell.outputs[0].text.strip()


def test_a_notebook_is_run_again_when_our_code_has_changed(checkout):
    source = "import random, kda_learn.word\nprint(kda_learn.word.WORD, random.random())"
    first = run(checkout, source)
    assert first.startswith("one") and run(checkout, source) == first
    (checkout / "kda_learn" / "word.py").write_text("WORD = 'two'\n")
    assert run(checkout, source).startswith("two")
    assert len(list((checkout / "build" / "executed").iterdir())) == 1


def test_a_notebook_runs_on_the_cpu_machine_without_a_gpu(checkout):
    source = "import os\nprint(os.environ['KDA_LEARN_MACHINE'], repr(os.environ['CUDA_VISIBLE_DEVICES']))"
    assert run(checkout, source) == "emulator ''"


def test_a_cell_that_fails_stops_the_build(checkout):
    with pytest.raises(PluginError, match=r"chapter.ipynb fails.*\n.*[\s\S]*ZeroDivisionError"):
        run(checkout, "1 / 0")
