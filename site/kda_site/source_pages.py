"""The page of a source file: its first comment as prose, and the code with an anchor for each line."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from pathlib import Path

from mkdocs.structure.files import File
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import CudaLexer, TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound

from kda_learn.sources.stages import STAGES, Stage

from .contents import Contents
from .links import KERNELS, REPOSITORY, Links

LINE = re.compile(r'<span id="L-(\d+)">')
INCLUDE = re.compile(r'(?<=<span class="cpf">)"([\w./]+\.cuh?)"')
BANNER = re.compile(r"\s*// ---- (.+?) ----\s*")
ADDRESS = re.compile(r"https?://[^\s<]+")


def kernel_sources() -> list[Path]:
    """All .cu and .cuh files: Kernel A's stages in the order of the ladder, then the others by name."""
    stages = [stage.path for stage in STAGES]
    others = {path for pattern in ("*.cu", "*.cuh") for path in KERNELS.rglob(pattern)} - set(stages)
    return [*stages, *sorted(others)]


def stage_of(source: Path) -> Stage | None:
    """The stage whose file this is."""
    return next((stage for stage in STAGES if stage.path == source), None)


def source_title(source: Path) -> str:
    """The heading of a source's page."""
    stage = stage_of(source)
    if stage:
        return f"{stage.id}: {stage.title}"
    return source.relative_to(KERNELS if source.is_relative_to(KERNELS) else REPOSITORY).as_posix()


def source_html(
    source: Path, page: File, links: Links, chapters: Mapping[Path, str], contents: Contents
) -> str:
    """The page of one source. `chapters`: the notebooks that name it, with their titles."""
    text = source.read_text(encoding="utf-8")
    title = html.escape(source_title(source))
    name = html.escape(source.relative_to(REPOSITORY).as_posix())
    anchor = contents.add(1, title)
    parts = [f'<h1 id="{anchor}">{title}</h1>', f"<p><code>{name}</code></p>"]
    stage = stage_of(source)
    parts.append(_stage_header(stage, page, links) if stage else _header(text))
    named = [f'<a href="{links.to(path, page)}">{html.escape(name)}</a>' for path, name in chapters.items()]
    if named:
        parts.append(f"<p>In the chapters {', '.join(named)}.</p>")
    anchor = contents.add(2, "Source")
    parts.append(f'<h2 id="{anchor}">Source</h2>')
    for number, line in enumerate(text.splitlines(), start=1):
        banner = BANNER.fullmatch(line)
        if banner:
            contents.add_line(3, html.escape(banner[1]), f"L{number}")
    parts.append(_code(source, text, page, links))
    return "\n".join(parts)


def _stage_header(stage: Stage, page: File, links: Links) -> str:
    """What a stage's file says of itself, and the stages around it."""
    header = stage.source.header
    said = {"Was slow": header.was_slow, "Now": header.now, "Remains": header.remains}
    rows = [f"<dt>{name}</dt><dd>{html.escape(text)}</dd>" for name, text in said.items() if text]
    present = {other.id: other for other in STAGES}
    if stage.base in present:
        base = present[stage.base]
        rows.append(f"<dt>Changes</dt><dd>{_stage_link(base, page, links)}</dd>")
    children = [_stage_link(other, page, links) for other in STAGES if other.base == stage.id]
    if children:
        rows.append(f"<dt>Changed by</dt><dd>{', '.join(children)}</dd>")
    note = "<p><strong>A dead end:</strong> no later stage builds on it.</p>" if stage.dead_end else ""
    return f'{note}<dl class="header">{"".join(rows)}</dl>'


def _stage_link(stage: Stage, page: File, links: Links) -> str:
    return f'<a href="{links.to(stage.path, page)}">{stage.id}</a> ({html.escape(stage.title)})'


def _header(text: str) -> str:
    """The C++ comment that opens a file, as paragraphs; what is set in stays as it stands."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line.removeprefix("//").removeprefix(" "))
    parts = []
    for paragraph in filter(None, "\n".join(lines).split("\n\n")):
        escaped = ADDRESS.sub(r'<a href="\g<0>">\g<0></a>', html.escape(paragraph))
        is_set_in = all(line.startswith("  ") for line in paragraph.splitlines())
        parts.append(f"<pre>{escaped}</pre>" if is_set_in else f"<p>{escaped}</p>")
    return "".join(parts)


def _code(source: Path, text: str, page: File, links: Links) -> str:
    """The coloured code. Line 12 has the anchor L12; files that it includes are links."""
    formatter = HtmlFormatter(cssclass="highlight source", wrapcode=True, linespans="L")
    coloured = highlight(text, _lexer(source), formatter)
    # A style sheet draws the number, so that it is neither copied nor searched with the code.
    number = r'<a href="#L\1" data-line="\1" aria-label="Line \1" tabindex="-1"></a>'
    coloured = LINE.sub(rf'<span id="L\1">{number}', coloured)

    def link(found: re.Match[str]) -> str:
        for folder in (source.parent, KERNELS):
            if folder / found[1] in links.pages:
                return f'<a href="{links.to(folder / found[1], page)}">{found[0]}</a>'
        return found[0]

    return INCLUDE.sub(link, coloured)


def _lexer(source: Path) -> Lexer:
    """What colours a file, by its name; it keeps blank lines, or the numbers would not fit."""
    if source.suffix in (".cu", ".cuh"):
        return CudaLexer(stripnl=False)
    try:
        return get_lexer_for_filename(source.name, stripnl=False)
    except ClassNotFound:
        return TextLexer(stripnl=False)
