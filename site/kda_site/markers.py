"""Parts of the pages in site/ that are made at every build, where a page says `<!-- kda: NAME ... -->`."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

from kda_learn.display.ladder_charts import ladder_chart
from kda_learn.maintain.readme import record_shown
from kda_learn.performance.ladder_text import readme_table
from kda_learn.sources.stages import STAGES
from kda_learn.widgets.bank_map import bank_map

from .links import KERNELS, NOTEBOOKS, REPOSITORY
from .widgets import explorer

if TYPE_CHECKING:
    from .build import Build

MARKER = re.compile(r"<!-- kda: (?P<name>[\w-]+)(?P<arguments>(?: \w+=\w+)*) -->")

NO_RECORD = (
    "<p>We have not recorded our own times yet. Until a Hopper GPU has measured the ladder, only the "
    "article's figures can be drawn.</p>"
)


def expand(page_html: str, page: File, build: Build) -> str:
    """The page with every marker replaced by what it names. Raises PluginError for an unknown one."""

    def replace(found: re.Match[str]) -> str:
        arguments = dict(word.split("=") for word in found["arguments"].split())
        if found["name"] not in PARTS:
            known = ", ".join(PARTS)
            raise PluginError(f"{page.src_uri} has a marker {found['name']!r}: choose one of {known}")
        return PARTS[found["name"]](page, build, **arguments)

    return MARKER.sub(replace, page_html)


def _bank_map(page: File, build: Build, **pattern: str) -> str:
    """The bank map on a pattern of its own; arguments as `bank_map` takes them."""
    numbers = {name: int(value) if value.isdigit() else value for name, value in pattern.items()}
    return explorer(bank_map(**numbers).get_state(), build.scripts)


def _chapters(page: File, build: Build) -> str:
    """All chapters, by section."""
    return _list_of_pages(build.sections(NOTEBOOKS), page, build)


def _kernels(page: File, build: Build) -> str:
    """All kernels, by section."""
    return _list_of_pages(build.sections(KERNELS), page, build)


def _list_of_pages(sections: dict, page: File, build: Build) -> str:
    parts = []
    for name, paths in sections.items():
        rows = [
            f'<li><a href="{build.links.to(path, page)}">{html.escape(build.titles[path])}</a></li>'
            for path in paths
        ]
        parts.append(f"<h2>{html.escape(name)}</h2><ul>{''.join(rows)}</ul>")
    return "".join(parts)


def _ladder(page: File, build: Build) -> str:
    """The ladder's chart and a table of its stages, with our times if they are recorded.

    Each name in the table leads to the stage's source.
    """
    record = record_shown()
    table = MarkdownIt("commonmark").enable("table").render(readme_table(record))
    for stage in STAGES:
        link = f'<a href="{build.links.to(stage.path, page)}">{stage.id}</a>'
        table = table.replace(f"<td>{stage.id}</td>\n<td>", f"<td>{link}</td>\n<td>")
    chart = ladder_chart(sms=record.provenance.sms if record else None)
    if record:
        chart.caption = ""  # the table says where the times come from
    start = "" if record else NO_RECORD
    return f'{start}{chart._repr_html_()}<div class="ladder">{table}</div>'


def _licence(page: File, build: Build) -> str:
    """The text of the licence."""
    text = html.escape((REPOSITORY / "LICENSE").read_text(encoding="utf-8"))
    return "".join(f"<p>{paragraph}</p>" for paragraph in text.strip().split("\n\n"))


PARTS = {
    "bank-map": _bank_map,
    "chapters": _chapters,
    "kernels": _kernels,
    "ladder": _ladder,
    "licence": _licence,
}
