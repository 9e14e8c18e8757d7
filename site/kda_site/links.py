"""Which source becomes which page of the site, and links from one page to another."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

REPOSITORY = Path(__file__).resolve().parents[2]
NOTEBOOKS = REPOSITORY / "notebooks"
KERNELS = REPOSITORY / "kernels"
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|#|//", re.IGNORECASE)


def page_address(source: Path) -> str:
    """The page of a file of the repository, as MkDocs names pages: "chapters/1-foundations/04_banks.md"."""
    if source.suffix == ".ipynb":
        return f"chapters/{source.relative_to(NOTEBOOKS).with_suffix('.md').as_posix()}"
    # The suffix stays in the name: a .cu and a .cuh may share the rest of theirs.
    if source.is_relative_to(KERNELS):
        return f"kernels/{source.relative_to(KERNELS).as_posix()}.md"
    return f"sources/{source.relative_to(REPOSITORY).as_posix()}.md"


def target_of(address: str, notebook: Path) -> Path | None:
    """The file that a link of a notebook leads to; None for a link out of the repository or within the page.

    In a notebook a link is a path from the notebook's folder, so that it works in JupyterLab and where the
    repository is shown.
    """
    if ELSEWHERE.match(address):
        return None
    path = unquote(address.partition("#")[0])
    return Path(posixpath.normpath((notebook.parent / path).as_posix()))


@dataclass(frozen=True)
class Links:
    """The pages made from sources of the repository."""

    pages: Mapping[Path, File]

    def to(self, source: Path, page: File, anchor: str = "") -> str:
        """The address of a source's page, as written on another page."""
        return self.pages[source].url_relative_to(page) + anchor

    def from_notebook(self, address: str, notebook: Path, page: File) -> str:
        """What a link of a notebook becomes on its page. Raises PluginError for a path that leads nowhere."""
        target = target_of(address, notebook)
        if target is None:
            return address
        if target not in self.pages:
            raise PluginError(
                f"{notebook.relative_to(REPOSITORY)} links to {address}, which is not there: give the path "
                "of a file of the repository, from the notebook's folder."
            )
        return self.to(target, page, "".join(address.partition("#")[1:]))
