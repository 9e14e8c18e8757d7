"""Explorers on a page with no Python behind it: a place in the page with the saved state, and a script.

The scripts that drew a widget in a notebook draw it here too (kda_learn/widgets/mount.js starts them). Other
controls of Jupyter's call Python at every move; a page shows what they showed last, and says so.
"""

from __future__ import annotations

import hashlib
import html
import json
from collections.abc import Callable, Mapping
from typing import Any

SCRIPTS = "assets/widgets"  # the folder of the site where the explorers' scripts lie
STATE = "application/vnd.jupyter.widget-state+json"
NEEDS_PYTHON = (
    '<p class="needs-python">A control stands here in the notebook. It calls Python, which a web page does '
    'not have: <a href="#run-it-yourself">run the chapter yourself</a> to move it.</p>'
)
NO_SCRIPTS = "<p>This picture needs JavaScript.</p>"


class Scripts:
    """The scripts of all explorers that the site shows, each once: file name to text."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}

    def add(self, widget: str, script: str) -> str:
        """Takes in the script of a kind of widget and gives its name, which changes with the text."""
        kind = widget.rsplit(".", 1)[-1]
        name = f"{kind}-{hashlib.sha256(script.encode()).hexdigest()[:8]}"
        self.files[f"{name}.js"] = script
        return name


def explorer(saved: Mapping[str, Any], scripts: Scripts) -> str:
    """The HTML of an anywidget with the state `saved`, as `widget.get_state()` gives it."""
    name = scripts.add(saved["_anywidget_id"], saved["_esm"])
    layout = {"layout", "tabbable", "tooltip"}
    values = {key: value for key, value in saved.items() if not key.startswith("_") and key not in layout}
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    # In single quotes JSON needs next to no escapes; a tile's state is long.
    state = text.replace("&", "&amp;").replace("<", "&lt;").replace("'", "&#39;")
    style = f"<style>{saved['_css']}</style>" if saved.get("_css") else ""
    return f'{style}<div class="explorer" data-widget="{name}" data-state=\'{state}\'>{NO_SCRIPTS}</div>'


def saved_widget(
    model_id: str,
    models: Mapping[str, Mapping[str, Any]],
    scripts: Scripts,
    output_html: Callable[[Mapping[str, Any]], str],
) -> str:
    """The HTML of a widget of a notebook, from the states that the notebook keeps (its metadata).

    Boxes are opened, texts and captured outputs shown as they are, explorers come alive, and what needs
    Python is named once for each box.
    """
    needs_python = False

    def draw(identifier: str) -> str:
        nonlocal needs_python
        model = models[identifier.removeprefix("IPY_MODEL_")]
        state, name = model["state"], model["model_name"]
        if name == "AnyModel":
            return explorer(state, scripts)
        if name in ("HTMLModel", "HTMLMathModel"):
            return f"<div>{state['value']}</div>"
        if name == "LabelModel":
            return f"<div>{html.escape(state['value'])}</div>"
        if name == "OutputModel":
            return "".join(output_html(output) for output in state.get("outputs", []))
        if "children" in state:
            return "".join(draw(child) for child in state["children"])
        needs_python = True
        return ""

    drawn = draw(model_id)
    return (NEEDS_PYTHON if needs_python else "") + drawn
