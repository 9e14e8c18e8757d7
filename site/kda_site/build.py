"""What one build of the site gathers: pages of notebooks and source files, and the explorers on them."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, InclusionLevel

from kda_learn.widgets.explorer import SCRIPTS as EXPLORERS

from .chapters import chapter_html, chapter_title, links_of
from .contents import Contents
from .execution import run_all
from .links import NOTEBOOKS, REPOSITORY, Links, page_address, target_of
from .source_pages import kernel_sources, source_html, source_title
from .surroundings import stages_named, with_surroundings
from .widgets import SCRIPTS, Scripts


class Build:
    """Runs the notebooks when it is made.

    Notebooks and kernels have a page, and so has every other file of the repository that a notebook links to.
    """

    def __init__(self, config: MkDocsConfig) -> None:
        self.config = config
        self.notebooks = sorted(NOTEBOOKS.rglob("*.ipynb"))
        self.kernels = kernel_sources()
        self.scripts = Scripts()
        self.scripts.files["mount.js"] = (EXPLORERS / "mount.js").read_text(encoding="utf-8")
        self._executed = run_all(self.notebooks)
        self._sources = {path: self._sources_of(path) for path in self.notebooks}
        in_navigation = [*self.notebooks, *self.kernels]
        others = {source for sources in self._sources.values() for source in sources} - set(in_navigation)
        files = {path: self._file(page_address(path), "") for path in in_navigation}
        files |= {
            path: self._file(page_address(path), "", InclusionLevel.NOT_IN_NAV) for path in sorted(others)
        }
        self.links = Links(files)
        self.titles = {
            path: chapter_title(self._executed[path]) if path in self._executed else source_title(path)
            for path in files
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
        """The file that a page is made from; None for a page of site/."""
        return next((path for path, file in self.links.pages.items() if file is page), None)

    def page_html(self, source: Path, contents: Contents) -> str:
        """The page of a notebook or source file."""
        page = self.links.pages[source]
        if source not in self._executed:
            chapters = [path for path in self.notebooks if source in self._sources[path]]
            titles = {path: self.titles[path] for path in chapters}
            return source_html(source, page, self.links, titles, contents)
        chapter = chapter_html(self._executed[source], source, page, self.links, self.scripts, contents)
        return with_surroundings(chapter, source, page, self.links, self._sources[source], contents)

    def sections(self, folder: Path) -> dict[str, list[Path]]:
        """The sources in a folder, in order, by the heading of their section."""
        found: dict[str, list[Path]] = {}
        for path in self.notebooks if folder == NOTEBOOKS else self.kernels:
            below = path.relative_to(folder).parts
            found.setdefault(_heading(below[0] if len(below) > 1 else "shared"), []).append(path)
        return found

    def _sources_of(self, notebook: Path) -> list[Path]:
        """The source files that a notebook is about: stages that it names, and files that it links to."""
        executed = self._executed[notebook]
        linked = (target_of(address, notebook) for address in links_of(executed))
        files = [path for path in linked if path and path.is_relative_to(REPOSITORY) and path.is_file()]
        sources = [*stages_named(executed), *(path for path in files if path.suffix != ".ipynb")]
        return list(dict.fromkeys(sources))

    def _file(self, address: str, content: str, inclusion: InclusionLevel = InclusionLevel.INCLUDED) -> File:
        return File.generated(self.config, address, content=content, inclusion=inclusion)


def _heading(folder: str) -> str:
    """A heading from the name of a folder: "2-kernel-a" is "2 Kernel A"."""
    return re.sub(r"[-_]", " ", folder).title()
