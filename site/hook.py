"""What MkDocs calls while it builds the site: adds the pages of notebooks and kernels to those of site/.

A new notebook or kernel appears by itself, in the navigation too.
"""

from __future__ import annotations

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
if str(REPOSITORY) not in sys.path:
    sys.path.insert(0, str(REPOSITORY))  # this checkout's package, installed or not

from kda_site.build import Build  # noqa: E402
from kda_site.contents import Contents  # noqa: E402
from kda_site.links import KERNELS, NOTEBOOKS, page_address  # noqa: E402
from kda_site.markers import expand  # noqa: E402
from mkdocs.config.defaults import MkDocsConfig  # noqa: E402
from mkdocs.structure.files import Files  # noqa: E402
from mkdocs.structure.pages import Page  # noqa: E402
from mkdocs.structure.toc import get_toc  # noqa: E402

_build: Build


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Runs the notebooks, adds the pages, fills the sections Chapters and Kernels of the navigation."""
    global _build
    _build = Build(config)
    for file in _build.files():
        files.append(file)
    for entry in config.nav:
        entries = next(iter(entry.values()))
        if "Chapters" in entry:
            entries += _navigation(_build.sections(NOTEBOOKS), _build.titles)
        if "Kernels" in entry:
            entries += _navigation(_build.sections(KERNELS), {path: path.name for path in _build.kernels})
    return files


def _navigation(sections: dict[str, list[Path]], titles: dict[Path, str]) -> list[dict[str, list]]:
    """Sections of the navigation, in the form of mkdocs.yml."""
    return [
        {heading: [{titles[path]: page_address(path)} for path in paths]}
        for heading, paths in sections.items()
    ]


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Writes the pages of notebooks and kernels, and the marked parts of the pages of site/."""
    source = _build.source(page.file)
    if source is None:
        html = expand(html, page.file, _build)
    else:
        contents = Contents()
        html = _build.page_html(source, contents)
        page.meta["title"] = _build.titles[source]
        page.toc = get_toc(contents.tokens)
        page.present_anchor_ids = contents.anchors
    for script in _build.script_files():
        if files.get_file_from_path(script.src_uri) is None:
            files.append(script)
    return html
