"""What one build of the site gathers: the pages of notebooks and kernels, and the explorers on them."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, InclusionLevel

from kda_learn.widgets.explorer import SCRIPTS as EXPLORERS

from .chapters import chapter_html, chapter_title
from .contents import Contents
from .execution import run_all
from .kernel_pages import kernel_html, kernel_sources, kernel_title
from .links import NOTEBOOKS, Links, page_address
from .surroundings import kernels_named, with_surroundings
from .widgets import SCRIPTS, Scripts


class Build:
    """Runs the notebooks when it is made. Sources are paths of notebooks and of kernel files."""

    def __init__(self, config: MkDocsConfig) -> None:
        self.config = config
        self.notebooks = sorted(NOTEBOOKS.rglob("*.ipynb"))
        self.kernels = kernel_sources()
        self.scripts = Scripts()
        self.scripts.files["mount.js"] = (EXPLORERS / "mount.js").read_text(encoding="utf-8")
        sources = [*self.notebooks, *self.kernels]
        self.links = Links({path: self._file(page_address(path), "") for path in sources})
        self._executed = run_all(self.notebooks)
        self.titles = {path: chapter_title(self._executed[path]) for path in self.notebooks} | {
            path: kernel_title(path) for path in self.kernels
        }

    def files(self) -> list[File]:
        """The pages, still empty, and each notebook as it is, to be downloaded."""
        notebooks = [
            self._file(page_address(path).removesuffix(".md") + ".ipynb", path.read_text(encoding="utf-8"))
            for path in self.notebooks
        ]
        return [*self.links.pages.values(), *notebooks]

    def script_files(self) -> list[File]:
        """The scripts of the explorers that pages have used so far."""
        return [self._file(f"{SCRIPTS}/{name}", text) for name, text in self.scripts.files.items()]

    def source(self, page: File) -> Path | None:
        """The notebook or kernel that a page is made from; None for a page of site/."""
        return next((path for path, file in self.links.pages.items() if file is page), None)

    def page_html(self, source: Path, contents: Contents) -> str:
        """The page of a notebook or kernel."""
        page = self.links.pages[source]
        if source in self.kernels:
            chapters = [path for path in self.notebooks if source in self._kernels_of(path)]
            titles = {path: self.titles[path] for path in chapters}
            return kernel_html(source, page, self.links, titles, contents)
        chapter = chapter_html(self._executed[source], source, page, self.links, self.scripts, contents)
        return with_surroundings(chapter, source, page, self.links, self._kernels_of(source), contents)

    def sections(self, folder: Path) -> dict[str, list[Path]]:
        """The sources in a folder, in order, by the heading of their section."""
        found: dict[str, list[Path]] = {}
        for path in self.notebooks if folder == NOTEBOOKS else self.kernels:
            below = path.relative_to(folder).parts
            found.setdefault(_heading(below[0] if len(below) > 1 else "shared"), []).append(path)
        return found

    def _kernels_of(self, notebook: Path) -> list[Path]:
        return kernels_named(self._executed[notebook])

    def _file(self, address: str, content: str) -> File:
        return File.generated(self.config, address, content=content, inclusion=InclusionLevel.INCLUDED)


def _heading(folder: str) -> str:
    """A heading from the name of a folder: "2-kernel-a" is "2 Kernel A"."""
    return re.sub(r"[-_]", " ", folder).title()
