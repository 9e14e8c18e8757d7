"""What a cell of a notebook put out, as HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from markdown_it import MarkdownIt

from .widgets import STATE, Scripts, saved_widget

WIDGET = "application/vnd.jupyter.widget-view+json"
TERMINAL_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def cell_outputs(cell: Mapping[str, Any], notebook: Mapping[str, Any], scripts: Scripts) -> str:
    """All outputs of a cell, in order; empty if there are none."""
    models = notebook["metadata"].get("widgets", {}).get(STATE, {}).get("state", {})
    output_html = partial(_output_html, models=models, scripts=scripts)
    drawn = "".join(output_html(output) for output in cell.get("outputs", []))
    return f'<div class="cell-output">{drawn}</div>\n' if drawn else ""


def _output_html(
    output: Mapping[str, Any], *, models: Mapping[str, Mapping[str, Any]], scripts: Scripts
) -> str:
    """One output: the richest form that a page can show."""
    if output["output_type"] == "stream":
        return _text(output["text"])
    if output["output_type"] == "error":
        return _text("\n".join(output["traceback"]))
    data = output["data"]
    if WIDGET in data:
        again = partial(_output_html, models=models, scripts=scripts)
        return saved_widget(data[WIDGET]["model_id"], models, scripts, again)
    if "text/html" in data:
        return f'<div class="output-html">{data["text/html"]}</div>'
    if "image/svg+xml" in data:
        return f'<div class="output-picture">{data["image/svg+xml"]}</div>'
    if "image/png" in data:
        return _picture(data["image/png"], output.get("metadata", {}).get("image/png", {}))
    if "text/markdown" in data:
        return MarkdownIt("commonmark").enable("table").render(data["text/markdown"])
    return _text(data.get("text/plain", ""))


def _picture(base64: str, metadata: Mapping[str, Any]) -> str:
    """A picture in the page itself; `alt` in its metadata is its text for those who cannot see it."""
    alt = html.escape(metadata.get("alt", "The picture that the code above draws"))
    width = f' width="{metadata["width"]}"' if "width" in metadata else ""
    source = f"data:image/png;base64,{''.join(base64.split())}"
    return f'<div class="output-picture"><img alt="{alt}"{width} src="{source}"></div>'


def _text(text: str) -> str:
    """Printed text; without the colours that are meant for a terminal."""
    return f'<pre class="output-text">{html.escape(TERMINAL_COLOURS.sub("", text))}</pre>'
