"""A built site as files: its pages, their links, and the anchors that links may lead to."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

ORIGIN = "http://site.invalid/"  # links are resolved against it; nothing is asked for
LINKS = {"a": "href", "link": "href", "script": "src", "img": "src"}


@dataclass
class Page(HTMLParser):
    """One HTML file. `address` is its path on the site, without index.html."""

    address: str
    links: list[tuple[str, str]] = field(default_factory=list)  # (tag, address as it resolves)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        if values.get("id"):
            self.anchors.add(values["id"])
        link = values.get(LINKS.get(tag, ""))
        if link is not None and not link.startswith("data:"):
            self.links.append((tag, urljoin(ORIGIN + self.address, link)))


def read_pages(folder: Path) -> dict[str, Page]:
    """Address to page. The page of errors is left out: its links start from the root of the host."""
    pages = {}
    for path in sorted(folder.rglob("*.html")):
        if path.name == "404.html":
            continue
        address = path.relative_to(folder).as_posix().removesuffix("index.html")
        page = Page(address)
        page.feed(path.read_text(encoding="utf-8"))
        pages[address] = page
    return pages


def broken_links(folder: Path, pages: dict[str, Page]) -> list[str]:
    """Every link within the site that leads to no file, or to an anchor that its page has not."""
    broken = []
    for page in pages.values():
        for _, link in page.links:
            parts = urlsplit(link)
            if parts.netloc != urlsplit(ORIGIN).netloc:
                continue
            target = unquote(parts.path).removeprefix("/")
            is_there = (folder / target).is_file() or (folder / target / "index.html").is_file()
            known = pages.get(target)
            if not is_there or (parts.fragment and known and unquote(parts.fragment) not in known.anchors):
                broken.append(f"{page.address}: {link}")
    return broken


def parts_from_elsewhere(pages: dict[str, Page]) -> list[str]:
    """Scripts, styles and pictures that a page would load from another host."""
    return [
        f"{page.address}: {link}"
        for page in pages.values()
        for tag, link in page.links
        if tag != "a" and urlsplit(link).scheme.startswith("http") and not link.startswith(ORIGIN)
    ]
