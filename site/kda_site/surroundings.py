"""What the site puts around a chapter: which source files it is about, and how to run it."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

from kda_learn.sources.stages import STAGES

from .contents import Contents
from .links import NOTEBOOKS, Links

STAGE_NAME = re.compile(r"(?<![\w.])s\d\d[a-z]?(?!\w)")


def stages_named(notebook: Mapping[str, Any]) -> list[Path]:
    """The stages that a notebook's own text and code name, in the order of the ladder."""
    named = {name for cell in notebook["cells"] for name in STAGE_NAME.findall(cell["source"])}
    return [stage.path for stage in STAGES if stage.id in named]


def with_surroundings(
    chapter: str, source: Path, page: File, links: Links, sources: Sequence[Path], contents: Contents
) -> str:
    """The chapter with a line below its title and a part "Run it yourself" at its end."""
    anchor = contents.add(2, "Run it yourself")
    named = [f'<a href="{links.to(path, page)}">{path.name}</a>' for path in sources]
    about = f" Sources in this chapter: {', '.join(named)}." if named else ""
    line = (
        '<p class="how-made">The results on this page were computed on the CPU machine when the page was '
        f'built. <a href="#{anchor}">Run it yourself</a>.{about}</p>'
    )
    title, end, rest = chapter.partition("</h1>")
    return f"{title}{end}{line}{rest}{_run_it_yourself(source, page, anchor)}"


def _run_it_yourself(source: Path, page: File, anchor: str) -> str:
    name = html.escape(source.relative_to(NOTEBOOKS).as_posix())
    up = page.url.count("/") * "../"
    return f"""
<section class="run-it-yourself">
<h2 id="{anchor}">Run it yourself<a class="headerlink" href="#{anchor}" title="Permanent link">&para;</a></h2>
<p>In a clone of the repository, with Python 3.11 or newer and a C++ compiler:</p>
<div class="highlight"><pre><code>make learn</code></pre></div>
<p>JupyterLab opens; this chapter is <code>work/{name}</code> there. No GPU is needed. With a Hopper GPU the
same cells run and measure on it. <a href="{up}run/">What runs where</a> ·
<a href="../{source.name}" download>Download this notebook</a></p>
</section>
"""
