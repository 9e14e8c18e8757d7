"""What the explorers share on the Python side: one script out of several modules, and state for pages.

The JavaScript is plain ES modules: a web page imports `<name>.js` as it is. Jupyter hands a widget's script
over as one text with no address, where `import "./common.js"` finds nothing; `bundle` makes that text.
"""

import re
from pathlib import Path
from typing import Any

import anywidget

SCRIPTS = Path(__file__).resolve().parent
IMPORT = re.compile(r'^import \{[^}]*\} from "\./(?P<module>\w+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=const|function|async)", re.MULTILINE)


def bundle(name: str) -> str:
    """The script `<name>.js` with the modules it imports put in front, each once: one ES module, as text."""
    modules: dict[str, str] = {}

    def visit(module: str) -> None:
        """Takes in a module after the ones that it imports."""
        if module in modules:
            return
        text = (SCRIPTS / f"{module}.js").read_text(encoding="utf-8")
        for found in IMPORT.finditer(text):
            visit(found["module"])
        own = IMPORT.sub("", text)
        modules[module] = own if module == name else EXPORT.sub("", own)

    visit(name)
    return "\n".join(modules.values())


class Explorer(anywidget.AnyWidget):
    """An anywidget whose controls and drawing are all in its script; `script` names that."""

    script = ""
    state_names: tuple[str, ...] = ()


def state(widget: Explorer) -> dict[str, Any]:
    """The widget's state as a dict for JSON, for a page without Python.

    There `<div data-widget="NAME" data-state="JSON">`, with NAME = widget.script and the JSON escaped for
    HTML, comes alive through `mountAll` of mount.js.
    """
    return {name: getattr(widget, name) for name in widget.state_names}
