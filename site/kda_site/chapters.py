"""A chapter's page from its notebook: text, code and outputs in the order of the notebook.

The text is CommonMark, as in JupyterLab, and not the dialect of MkDocs' own pages, in which lists and folded
parts follow other rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from .contents import Contents
from .links import Links
from .outputs import cell_outputs
from .widgets import Scripts

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
UNRENDERED_MATHS = re.compile(r"\$\$|\\begin\{|\\\(")


def chapter_title(notebook: Mapping[str, Any]) -> str:
    """The first heading of a notebook, as text."""
    for cell in notebook["cells"]:
        found = re.match(r"# (.+)", cell["source"]) if cell["cell_type"] == "markdown" else None
        if found:
            return found[1].replace("`", "").strip()
    raise PluginError("a notebook has no title: let its first cell start with '# '")


def links_of(notebook: Mapping[str, Any]) -> list[str]:
    """Where the links in the text of a notebook lead, as they are written there."""
    texts = [cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
    inline = [child for text in texts for token in READER.parse(text) for child in token.children or []]
    return [str(child.attrs["href"]) for child in inline if child.type == "link_open"]


def chapter_html(
    notebook: Mapping[str, Any], source: Path, page: File, links: Links, scripts: Scripts, contents: Contents
) -> str:
    """The cells of an executed notebook. `source` is the notebook's file, `page` the page it becomes."""
    parts = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            if UNRENDERED_MATHS.search(cell["source"]):
                raise PluginError(f"{source.name} has TeX in cell {cell['id']}, which the site cannot draw")
            parts.append(_text_html(cell["source"], source, page, links, contents))
        elif cell["cell_type"] == "code":
            language = "cuda" if cell["source"].startswith("%%kernel") else "python"
            parts.append(f'<div class="cell-input">{code_html(cell["source"], language)}</div>\n')
            parts.append(cell_outputs(cell, notebook, scripts))
    return "".join(parts)


def code_html(code: str, language: str) -> str:
    """Coloured code, with the classes that the theme knows."""
    try:
        lexer = get_lexer_by_name(language)
    except ClassNotFound:
        lexer = get_lexer_by_name("text")
    return highlight(code, lexer, HtmlFormatter(cssclass="highlight", wrapcode=True))


def _text_html(text: str, source: Path, page: File, links: Links, contents: Contents) -> str:
    """A text cell: headings get anchors, links lead to pages, code its colours."""
    tokens = READER.parse(text)
    for index, token in enumerate(tokens):
        if token.type == "heading_open":
            inline = tokens[index + 1]
            title = READER.renderer.render(inline.children or [], READER.options, {})
            anchor = contents.add(int(token.tag[1]), title)
            token.attrSet("id", anchor)
            mark = f'<a class="headerlink" href="#{anchor}" title="Permanent link">&para;</a>'
            inline.children = [*(inline.children or []), Token("html_inline", "", 0, content=mark)]
        elif token.type == "fence":
            tokens[index] = Token("html_block", "", 0, content=code_html(token.content, token.info or "text"))
        for child in token.children or []:
            if child.type == "link_open":
                address = str(child.attrs["href"])
                child.attrSet("href", links.from_notebook(address, source, page))
    return READER.renderer.render(tokens, READER.options, {})
